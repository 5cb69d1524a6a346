"""`RunContext`: what a tool knows about its run, and what it can report."""

from support.tool_runs import executor_of, run

from nbagent import Agent, FunctionCall, RunContext, ScriptedProvider


def note(text: str, context: RunContext | None = None) -> str:
    """Write a note."""
    seen.append(context)
    return f"{context.run_id}: {text}"


seen: list[RunContext] = []


async def test_a_tool_knows_its_run_and_the_model_does_not():
    seen.clear()
    agent = Agent(ScriptedProvider([FunctionCall("note", {"text": "a"}), "done"]), tools=[note])
    (offered,) = agent.function_registry.list_functions()
    assert list(offered["parameters"]["properties"]) == ["text"]
    result = await agent.chat("go", origin={"source": "script", "agent": "writer", "cell_id": "c7"})
    assert result.function_calls[0]["arguments"] == {"text": "a"}
    (context,), (row,) = seen, agent.trace.tool_calls.to_dict("records")
    assert (context.run_id, context.call_id) == (result.run_id, row["call_id"])
    assert (context.tool_call_id, context.tool_name) == (row["tool_call_id"], "note")
    assert (context.step, context.attempt) == (1, 1)
    assert (context.source, context.agent_name, context.cell_id) == ("script", "writer", "c7")
    # a model can't send it, and it is empty outside a run
    assert not (await run(executor_of(note), "note", text="a", context={"run_id": "x"})).args_valid
    assert (await run(executor_of(note), "note", text="a")).content == "None: a"


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


async def test_a_tool_gets_the_deps_of_its_run_and_nothing_else_shows_them(tmp_path):
    seen.clear()
    database = Database()
    agent = Agent(ScriptedProvider([FunctionCall("orders", {"customer": "Ada"}), "done"]), tools=[orders])
    stream = agent.chat_stream("What did Ada order?", deps=database)
    events = [event async for event in stream]
    (context,) = seen
    assert context.deps is database
    assert context.agent is agent
    agent.trace.save(tmp_path / "trace.jsonl")
    agent.save(tmp_path / "agent.json")
    texts = [repr(context), repr(events), repr(stream), repr(agent), str(agent.conversation_history)]
    texts += [str(request) for request in agent.provider.requests]
    texts += [agent.trace.events.to_string(), *(path.read_text() for path in tmp_path.iterdir())]
    assert not [text for text in texts if "pw-1234" in text]


async def test_deps_of_the_agent_and_of_tools():
    seen.clear()
    inner = Agent(ScriptedProvider([FunctionCall("orders", {"customer": "Bo"}), "done"]), tools=[orders])

    async def ask_inner() -> str:
        """Ask the other agent."""
        return (await inner.chat("And Bo?")).content

    turns = [FunctionCall("orders", {"customer": "Ada"}), "a", FunctionCall("ask_inner"), "b"]
    agent = Agent(ScriptedProvider(turns), tools=[orders, ask_inner])
    agent.deps, other = Database(), Database("another")
    await agent.chat("Ada?")
    await agent.fork().chat("Bo?", deps=other)
    assert [context.deps for context in seen] == [agent.deps, other]
