"""What an agent does that a tool asks is told to those who watch the agent that called the tool."""

from support.small_agent import call

from nbagent import Agent, ScriptedProvider
from nbagent.core import events


def asking(tool, *answers):
    """An agent whose first turn calls the tool, and what its observers see."""
    agent, seen = Agent(ScriptedProvider([call("ask", question="Go."), *answers, "end"]), tools=[tool]), []
    agent.observers.append(seen.append)
    return agent, seen


def answering(text):
    return Agent(ScriptedProvider([text]))


async def test_every_event_of_a_child_in_order():
    own, child = [], answering("It is so.")
    child.trace.observers.append(lambda trace, event: own.append(event))
    agent, seen = asking(child.as_tool("ask", "Asks."))
    read = [event.type async for event in agent.chat_stream("Start")]
    assert "child" not in {*read, *agent.trace.events["type"]}  # these have the events of the run alone
    told = [event for event in seen if isinstance(event, events.ChildEvent)]
    assert [event.event for event in told] == own
    assert (own[0].type, own[-1].type) == ("run_started", "done")
    ids = agent.trace.tool_calls["tool_call_id"]
    assert {event.metadata["tool_call_id"] for event in told} == set(ids)
    assert child.trace.runs["parent_tool_call_id"].tolist() == ids.tolist()
    places = [seen.index(event) for event in seen if event.type in ("tool_started", "tool_result")]
    assert places[0] < seen.index(told[0]) < seen.index(told[-1]) < places[1]
