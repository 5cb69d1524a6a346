"""What a tool may know of its run: `RunContext`."""

from support.tool_runs import executor_of, run

from nbagent import Agent, FunctionCall, FunctionRegistry, RunContext, ScriptedProvider


def note(text: str, context: RunContext) -> str:
    """Write a note."""
    seen.append(context)
    return f"{context.run_id}: {text}"


async def note_later(text: str, *, context: RunContext | None = None) -> str:
    return note(text, context)


seen: list[RunContext] = []


async def test_a_tool_knows_its_run_and_the_model_is_not_told():
    seen.clear()
    agent = Agent(
        ScriptedProvider([[FunctionCall("note", {"text": "a"}), FunctionCall("note_later", {"text": "b"})], "done"]),
        tools=[note, note_later],
    )
    for definition in agent.function_registry.list_functions():
        assert list(definition["parameters"]["properties"]) == ["text"]
    result = await agent.chat("go", origin={"source": "script", "agent": "writer", "cell_id": "c7"})
    assert [call["arguments"] for call in result.function_calls] == [{"text": "a"}, {"text": "b"}]
    rows = agent.trace.tool_calls
    for context, row in zip(sorted(seen, key=lambda each: each.tool_name), rows.to_dict("records"), strict=True):
        assert (context.run_id, context.call_id, context.tool_call_id) == (
            result.run_id,
            row["call_id"],
            row["tool_call_id"],
        )
        assert (context.tool_name, context.step, context.attempt) == (row["name"], 1, 1)
        assert (context.source, context.agent_name, context.cell_id) == ("script", "writer", "c7")


async def test_a_model_can_not_send_it():
    executor = executor_of(note)
    assert not (await run(executor, "note", text="a", context={"run_id": "x"})).args_valid


async def test_outside_of_a_run_and_with_given_parameters():
    seen.clear()
    registry = FunctionRegistry()
    registry.register("write", "Write.", note, {"properties": {"text": {"type": "string"}}})
    assert (await run(executor_of(registry=registry), "write", text="a")).content == "None: a"
    assert seen == [RunContext(tool_name="write")]


async def test_the_attempts_are_counted(monkeypatch):
    monkeypatch.setattr("nbagent.functions.executor.RETRY_DELAY_S", 0)
    attempts = []

    def flaky(context: RunContext) -> str:
        attempts.append(context.attempt)
        raise ConnectionError("again")

    assert (await run(executor_of(flaky, options={"retries": 2}), "flaky")).is_error
    assert attempts == [1, 2, 3]


class Database:
    """What a question brings for its tools; nobody else may see the password."""

    def __init__(self, password="pw-1234"):
        self.password = password

    def __repr__(self):
        return f"Database({self.password!r})"


def orders(customer: str, context: RunContext) -> str:
    """The orders of a customer."""
    seen.append(context)
    return f"3 of {customer}"


def asking(*calls, **options) -> Agent:
    return Agent(ScriptedProvider([*calls, "done"]), tools=[orders], **options)


async def test_a_tool_gets_what_the_question_brings_and_nobody_else_does(tmp_path):
    seen.clear()
    database = Database()
    agent = asking(FunctionCall("orders", {"customer": "Ada"}))
    stream = agent.chat_stream("What did Ada order?", deps=database)
    events = [event async for event in stream]
    (context,) = seen
    assert context.deps is database
    assert context.agent is agent
    agent.trace.save(tmp_path / "trace.jsonl")
    agent.save(tmp_path / "agent.json")
    told = [repr(context), repr(events), repr(stream), repr(agent), str(agent.conversation_history)]
    told += [str(request) for request in agent.provider.requests]
    told += [agent.trace.events.to_string(), *(path.read_text() for path in tmp_path.iterdir())]
    assert not [text for text in told if "pw-1234" in text]


async def test_questions_without_their_own_get_those_of_the_agent_and_tools_pass_theirs_on():
    seen.clear()
    inner = asking(FunctionCall("orders", {"customer": "Bo"}))

    async def ask_inner() -> str:
        """Ask the other agent."""
        return (await inner.chat("And Bo?")).content

    agent = Agent(ScriptedProvider([FunctionCall("orders", {"customer": "Ada"}), "a", FunctionCall("ask_inner"), "b"]))
    agent.deps, other = Database(), Database("another")
    for function in (orders, ask_inner):
        agent.register_function(function.__name__, "", function)
    await agent.chat("Ada?")
    await agent.fork().chat("Bo?", deps=other)
    assert [context.deps for context in seen] == [agent.deps, other]
