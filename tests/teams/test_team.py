"""Several agents in one conversation: `Team`."""

import asyncio

import pytest
from support.small_agent import add, call

from nbagent import Agent, Budget, FunctionCall, ScriptedProvider, Team, tool
from nbagent.core.history.repair import repair
from nbagent.errors import ConfigurationError


def speaking(prompt, *turns, **options):
    return Agent(ScriptedProvider(turns), system_prompt=prompt, **options)


def over(to, message="", id="h1"):
    return FunctionCall("hand_over", {"to": to, "message": message}, id)


def read_by(agent, number=-1):
    """Return what the agent's model read."""
    return [(message.role, message.text) for message in agent.provider.requests[number][0]]


def offered(agent):
    return [each["name"] for each in agent.provider.requests[0][1]]


def team_of_two(*of_desk, billing=("Paid back.",)):
    desk = speaking("You are the desk.", *of_desk)
    return Team({"desk": desk, "billing": speaking("You know bills.", *billing, tools=[add])})


async def test_the_first_member_hands_the_conversation_over_and_the_other_answers():
    team = team_of_two(over("billing", "He paid twice."))
    result = await team.chat("I paid twice.")
    desk, billing = team.members.values()
    assert result.content == "Paid back."
    assert offered(desk) == ["hand_over"]
    assert "billing: You know bills." in desk.provider.requests[0][1][0]["description"]
    assert offered(billing) == ["add", "hand_over"]
    system, question, handing, handed_over = read_by(billing)
    assert system[1].startswith("You know bills.\n\nYou are billing. desk may also speak here")
    assert (question, handing[0]) == (("user", "I paid twice."), "assistant")
    assert handed_over == ("tool", "billing speaks now. He paid twice.")
    assert team.trace.calls["speaker"].tolist() == ["desk", "billing"]
    assert desk.conversation_history[1:] == billing.conversation_history[1:] == []


async def test_the_first_member_receives_the_next_prompt_and_reads_the_others_answer():
    team = team_of_two(over("billing"), "Bye.")
    await team.chat("I paid twice.")
    await team.chat("Thanks.")
    assert read_by(team.members["desk"])[-2:] == [("user", "[billing] Paid back."), ("user", "Thanks.")]


async def test_handing_over_to_two_members_or_to_an_unknown_one_is_an_error():
    team = team_of_two([over("nobody", id="1"), over("billing", id="2"), over("billing", id="3")])
    result = await team.chat("Go")
    assert [each["is_error"] for each in result.function_calls] == [True, False, True]
    assert "billing is already the next speaker" in result.function_calls[2]["result"]
    assert result.content == "Paid back."


async def test_endless_handovers_end_at_the_limit():
    def back(messages, functions):
        (tool,) = [each for each in functions if each["name"] == "hand_over"]
        return over(tool["parameters"]["properties"]["to"]["enum"][0])

    team = Team({"a": Agent(ScriptedProvider(back)), "b": Agent(ScriptedProvider(back))})
    result = await team.chat("Go")
    assert (result.status, result.limit_reason, result.iterations) == ("limit", "iterations", 10)


async def test_members_speak_in_turn_and_read_each_other():
    writer, critic = speaking("Write.", "Draft 1.", "Draft 2."), speaking("Criticise.", "Too long.", "Good.")
    team = Team({"writer": writer, "critic": critic}, "round_robin", rounds=2)
    result = await team.chat("A poem.")
    assert (result.content, result.iterations, result.status) == ("Good.", 4, "ok")
    assert read_by(critic, 0)[1:] == [("user", "A poem."), ("user", "[writer] Draft 1.")]
    assert read_by(writer)[1:] == [("user", "A poem."), ("assistant", "Draft 1."), ("user", "[critic] Too long.")]
    assert offered(critic) == []
    assert team.trace.calls["speaker"].tolist() == ["writer", "critic"] * 2
    said = [message.text for message in team.conversation_history]
    assert said == ["A poem.", "Draft 1.", "Too long.", "Draft 2.", "Good."]


async def test_a_member_spends_from_its_own_budget_and_the_teams():
    own, desks, shared = Budget(max_cost=10.0), Budget(), Budget()
    helper = Agent(ScriptedProvider(["one two three"], price={"input": 0, "output": 1e6})).as_tool("ask", "Facts.")
    calls = [over("billing"), FunctionCall("ask", {"question": "?"}, "a1")]
    desk = Agent(ScriptedProvider([calls], price={"input": 0, "output": 1e6}), tools=[helper], budget=desks)
    billing = Agent(ScriptedProvider(["one two"], price={"input": 0, "output": 1}), budget=own)
    result = await Team({"desk": desk, "billing": billing}, budget=shared).chat("I paid twice.")
    assert shared.spent > 1000 * own.spent > 0, "each has its model's price, and pays for its own calls"
    assert shared.spent == pytest.approx(result.cost) == desks.spent + own.spent


async def test_a_member_whose_budget_is_spent_stops_speaking():
    per_word = {"input": 0, "output": 1e6}
    talking = ScriptedProvider(lambda messages, functions: "one two three", price=per_word)
    talker = Agent(talking, budget=Budget(max_cost=2))
    team = Team({"talker": talker, "other": Agent(ScriptedProvider(["Yes."]))}, "round_robin", rounds=2)
    result = await team.chat("Go")
    assert team.trace.calls["speaker"].tolist() == ["talker", "other"]
    assert (result.status, result.limit_reason) == ("limit", "cost")


async def test_the_teams_approver_decides_on_members_calls():
    @tool(approve=True)
    def wipe() -> str:
        """Wipe."""
        return "wiped"

    seen = []
    one = Agent(ScriptedProvider([call("wipe"), "Done."]), tools=[wipe])
    team = Team({"one": one, "two": speaking("")}, approve=lambda call, definition: seen.append(call.name) or True)
    result = await team.chat("Go")
    assert (seen, result.function_calls[0]["result"]) == (["wipe"], "wiped")


async def test_an_interrupted_speaker_keeps_its_name_and_the_history_is_valid():
    started = asyncio.Event()

    async def turn(messages, functions):
        started.set()
        await asyncio.Event().wait()

    team = Team({"desk": speaking("", over("billing")), "billing": Agent(ScriptedProvider(turn))})
    task = asyncio.create_task(team.chat("Go"))
    await started.wait()
    task.cancel()
    await asyncio.wait([task])
    assert repair(team.conversation_history) == team.conversation_history
    assert team.trace.runs["status"].tolist() == ["interrupted"]


async def test_a_team_is_a_tool_and_can_be_forked_like_any_agent():
    team = Team({"writer": speaking("", "Draft.", "Draft."), "critic": speaking("", "Good.", "Good.")}, "round_robin")
    chief = Agent(
        ScriptedProvider([call("write", question="A poem."), "end"]), tools=[team.as_tool("write", "Writes.")]
    )
    result = await chief.chat("Go")
    assert result.function_calls[0]["result"] == "Good."
    assert (await team.fork().chat("Another.")).content == "Good."
    assert team.conversation_history == []


def test_a_team_offers_its_members_tools():
    team = Team({"a": Agent("local", tools=[add]), "b": Agent("local", tools=[add])})
    assert team.offered_tools() == ["add"]


def test_invalid_teams():
    one, two = Agent("local"), Agent("local")
    for members, order, options, wrong in [
        ({"one": one}, "supervisor", {}, "at least two"),
        ([one, two], "supervisor", {}, "by name"),
        ({"a": one, "b": 3}, "supervisor", {}, "members\\['b'\\]"),
        ({"a": one, "b": two}, "vote", {}, "order"),
        ({"a": one, "b": two}, "round_robin", {"rounds": 0}, "rounds"),
        ({"a": one, "b": two}, "round_robin", {"tools": [add]}, "tools"),
    ]:
        with pytest.raises(ConfigurationError, match=wrong):
            Team(members, order, **options)
    with pytest.raises(ConfigurationError, match="members"):
        team_of_two().provider = "local"
