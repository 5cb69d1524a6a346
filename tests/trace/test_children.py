"""The runs of forks, and runs that tools start in other agents, in the trace of the parent agent."""

import gc

from nbagent import Agent, FunctionCall, ScriptedProvider


def answering(answer: str) -> Agent:
    return Agent(ScriptedProvider(lambda messages, functions: answer))


def asking(tool, *answers) -> Agent:
    """An agent whose first turn calls the tool."""
    return Agent(ScriptedProvider([FunctionCall(tool.__name__, {}, "1"), *answers, "Done."]), tools=[tool])


async def test_runs_of_a_sub_agent_that_no_longer_exists():
    async def research() -> str:
        """Call another agent."""
        return (await answering("Gentoo.").chat("Which is heaviest?")).content

    agent = asking(research)
    result = await agent.chat("Find out")
    gc.collect()
    assert agent.trace.runs["prompt"].tolist() == ["Find out"]
    trace = agent.trace.with_children()
    assert trace.runs["prompt"].tolist() == ["Find out", "Which is heaviest?"]
    assert trace.runs["parent_run_id"].tolist()[1] == result.run_id
    assert trace.calls["run_id"].nunique() == 2
    assert "Gentoo." in str(trace.transcript(trace.runs["run_id"][1]))


async def test_only_runs_started_by_this_agents_tools_and_runs_below_them():
    inner, outer = answering("Deep."), []

    async def dig() -> str:
        """Call the innermost agent."""
        return (await inner.chat("Dig")).content

    async def help_() -> str:
        """Call the helper agent."""
        outer.append(helper := asking(dig))
        return (await helper.chat("Help")).content

    agent = asking(help_)
    await inner.chat("From elsewhere")
    await agent.chat("Begin")
    await inner.chat("From elsewhere again")
    assert agent.trace.with_children().runs["prompt"].tolist() == ["Begin", "Help", "Dig"]
    assert outer[0].trace.with_children().runs["prompt"].tolist() == ["Help", "Dig"]
    assert inner.trace.with_children() is inner.trace


async def test_forks_of_forks():
    agent = answering("Yes.")
    await agent.chat("one")
    fork = agent.fork()
    other = fork.fork()
    await other.chat("two")
    trace = agent.trace.with_children()
    assert trace.runs["prompt"].tolist() == ["one", "two"]
    assert trace.messages["message_id"].is_unique


async def test_an_agent_that_shares_the_trace_appears_once_even_below_another_trace():
    async def research() -> str:
        """Call another agent."""
        return (await Agent(ScriptedProvider(["Yes."]), trace=agent.trace).chat("Inside")).content

    async def delegate() -> str:
        """Call the agent that shares its trace."""
        return (await agent.chat("Outside")).content

    agent = asking(research)
    top = asking(delegate)
    await top.chat("Top")
    assert agent.trace.with_children() is agent.trace
    assert top.trace.with_children().runs["prompt"].tolist() == ["Top", "Outside", "Inside"]
    assert agent.trace.runs["prompt"].tolist() == ["Outside", "Inside"]
