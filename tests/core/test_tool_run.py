"""A run that is one tool call, which no model made."""

from contextlib import aclosing

from support.traces import use

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.core.tool_run import run_tool


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


async def run(agent, name, **arguments):
    observers = (agent.trace.record, *(lambda event, see=see: see(agent.trace, event) for see in agent.trace.observers))
    steps = run_tool(FunctionCall(name, arguments), agent.tool_executor, observers, {"source": "test"})
    async with aclosing(steps):
        return [event async for event in steps]


async def test_events_and_rows(tmp_path):
    agent = Agent(ScriptedProvider(["Hello."]), tools=[double])
    events = await run(agent, "double", x=4)
    await agent.chat("Hi")
    assert [event.type for event in events] == ["run_started", "tool_call", "tool_started", "tool_result", "done"]
    assert events[-1].result.function_calls[0]["result"] == "8"
    runs = agent.trace.runs
    assert runs[["source", "n_tool_calls", "n_calls"]].values.tolist() == [["test", 1, 0], ["python", 0, 1]]
    (call,) = agent.trace.rows("tool_calls")
    assert (call["run_id"], call["call_id"], call["result_text"]) == (runs["run_id"].iloc[0], None, "8")
    assert [message.role for message in agent.conversation_history] == ["user", "assistant"]
    use(agent.trace, tmp_path)


async def test_it_leaves_the_conversation_whole():
    """Sixteen conversations are remembered; these are none."""
    agent = Agent(ScriptedProvider(["a", "b"]), tools=[double])
    await agent.chat("one")
    for _ in range(20):
        await run(agent, "double", x=1)
    await agent.chat("two")
    assert len(agent.trace.messages.query("role != 'tool'")) == 4
