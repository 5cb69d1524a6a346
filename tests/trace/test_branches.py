"""The branch of a run, the parent of a message, and which messages were trimmed later."""

import pandas as pd

from nbagent import Agent, ContextManager, FunctionCall, ScriptedProvider, Trace


def agent_of(context: ContextManager | None = None, trace: Trace | None = None) -> Agent:
    """An agent that answers each prompt with its last word."""
    return Agent(
        ScriptedProvider(lambda messages, functions: messages[-1].text.split()[-1]), context=context, trace=trace
    )


def said(trace: Trace, message_id) -> list[str]:
    """The texts of the conversation up to a message, following `parent_id`."""
    rows = trace.messages.set_index("message_id")
    texts: list[str] = []
    while not pd.isna(message_id):
        texts.insert(0, rows.at[message_id, "text"])
        message_id = rows.at[message_id, "parent_id"]
    return texts


def tips(trace: Trace) -> list[str]:
    """The last message of each run."""
    return trace.messages.groupby("run_id", sort=False)["message_id"].last().tolist()


async def test_a_run_continues_the_branch_until_the_history_changes():
    agent = agent_of()
    for question in ("say one", "say two"):
        await agent.chat(question)
    agent.undo()
    for question in ("say three", "say four"):
        await agent.chat(question)
    agent.context.edit(0, "say won")
    await agent.chat("say five")
    agent.clear_history()
    await agent.chat("say six")
    await agent.chat([{"role": "user", "content": "say seven"}])
    runs, trace = agent.trace.runs, agent.trace
    ids = runs["run_id"].tolist()
    assert runs["branch"].tolist() == [ids[0], ids[0], ids[2], ids[2], ids[4], ids[5], ids[6]]
    answered = ["one", "say three", "three", "say four", "four"]
    assert said(trace, tips(trace)[4]) == ["say won", *answered, "say five", "five"]
    assert said(trace, tips(trace)[3]) == ["say one", *answered], "the old branch is unchanged"
    assert said(trace, tips(trace)[5]) == ["say six", "six"]
    assert said(trace, tips(trace)[6]) == ["say seven", "seven"]


async def test_messages_after_a_repeated_turn_follow_its_new_answer():
    agent = agent_of()
    for question in ("say one", "say two"):
        await agent.chat(question)
    await agent.chat("say won", replaces=agent.conversation_history[0])
    await agent.chat("say three")
    assert said(agent.trace, tips(agent.trace)[-1]) == ["say won", "won", "say two", "two", "say three", "three"]


async def test_a_fork_is_a_branch_whose_messages_follow_the_originals():
    agent = agent_of()
    await agent.chat("say one")
    other = agent.fork()
    await other.chat("say two")
    await agent.chat("say three")
    assert other.trace.runs["branch"].tolist() == other.trace.runs["run_id"].tolist()
    both = Trace.concat([agent.trace, other.trace])
    assert [said(both, tip) for tip in tips(both)][1:] == [
        ["say one", "one", "say three", "three"],
        ["say one", "one", "say two", "two"],
    ]
    assert both.runs.groupby("branch", sort=False).size().tolist() == [2, 1]


async def test_agents_that_share_a_trace_have_separate_branches():
    trace = Trace()
    one, other = agent_of(trace=trace), agent_of(trace=trace)
    for number in range(2):
        await one.chat(f"say one {number}")
        await other.chat(f"say other {number}")
    assert [said(trace, tip)[0] for tip in tips(trace)] == ["say one 0", "say other 0"] * 2
    assert trace.runs["branch"].nunique() == 2


async def test_trimmed_messages_are_those_that_requests_omit(tmp_path):
    requests = []

    def answer(messages, functions):
        requests.append([message.text for message in messages])
        if messages[-1].text == "use it":
            return [FunctionCall("ask", {"n": number}, str(number)) for number in (1, 2)]
        return f"answer {len(requests)}"

    context = ContextManager(max_messages=4)
    agent = Agent(ScriptedProvider(answer), system_prompt="Hi.", context=context)
    agent.register_function("ask", "Ask", lambda n: f"result {n}", {"type": "object", "properties": {"n": {}}})
    agent.trace.stream_to(tmp_path / "streamed.sqlite")
    for question in ("one", "two", "use it", "four"):
        await agent.chat(question)
    messages = agent.trace.messages
    kept = messages[~messages["trimmed"]]
    assert kept["text"].tolist()[:-1] == requests[-1] == ["Hi.", "four"]
    assert messages["trimmed"].sum() == len(messages) - 3 == 9
    for name in ("t.sqlite", "t.parquet", "t.jsonl"):
        agent.trace.save(tmp_path / name)
        assert Trace.load(tmp_path / name).messages["trimmed"].equals(messages["trimmed"])
    assert Trace.load(tmp_path / "streamed.sqlite").messages["trimmed"].equals(messages["trimmed"])
