"""`Agent(plan=True)`: the model plans, follows the plan and changes it if a step fails. The user may change it."""

import pytest

from nbagent import Agent, ContextManager, FunctionCall, ScriptedProvider
from nbagent.agent.plan import MAX_STEPS, Step, read_plan, revised, write_plan
from nbagent.errors import ConfigurationError

NAMES = ("step", "status", "note")


def update(*steps) -> FunctionCall:
    return FunctionCall("update_plan", {"steps": [dict(zip(NAMES, step, strict=False)) for step in steps]})


def load(path: str) -> str:
    """Load a table."""
    if path == "gone.csv":
        raise FileNotFoundError(path)
    return "120 rows"


#: A plan, a failure, another plan, and its end.
TURNS = (
    update(("Load gone.csv", "doing"), ("Plot it",)),
    FunctionCall("load", {"path": "gone.csv"}),
    update(("Load gone.csv", "dropped", "not there"), ("Load here.csv", "doing"), ("Plot it",)),
    FunctionCall("load", {"path": "here.csv"}),
    update(("Load here.csv", "done", "120 rows"), ("Plot it", "doing")),
    update(("Load here.csv", "done", "120 rows"), ("Plot it", "done")),
    "Here it is.",
)


def planning(*turns, **options) -> Agent:
    return Agent(ScriptedProvider(turns or TURNS), tools=[load], **{"plan": True, **options})


def reminders(agent) -> list[str]:
    """The reminders in the requests."""
    return list(agent.trace.calls["reminder"].fillna(""))


def rows(agent) -> list[tuple[str, ...]]:
    return list(agent.plan.itertuples(index=False, name=None))


async def test_a_plan_is_followed_changed_after_a_failure_and_finished():
    agent = planning(system_prompt="Be brief.")
    result = await agent.chat("Plot the table.")
    assert result.content == "Here it is."
    assert rows(agent) == [
        ("Load gone.csv", "dropped", "not there"),
        ("Load here.csv", "done", "120 rows"),
        ("Plot it", "done", ""),
    ]
    assert agent.plan.index.tolist() == [1, 2, 3]
    plans = [read_plan(text) for text in reminders(agent)]
    assert [[each.status for each in plan] for plan in plans] == [
        [],
        ["doing", "pending"],
        ["doing", "pending"],
        ["dropped", "doing", "pending"],
        ["dropped", "doing", "pending"],
        ["dropped", "done", "doing"],
        [],  # the plan is done, so there is no reminder
    ]
    systems = {messages[0].text for messages, _ in agent.provider.requests}
    assert len(systems) == 1
    assert "reminder" not in str(agent.conversation_history)


async def test_omitted_steps_are_dropped_and_the_first_open_step_becomes_doing():
    agent = planning(update(("a", "done"), ("b",), ("c",)), update(("a", "done"), ("d",)), "So far.")
    await agent.chat("Go")
    assert rows(agent) == [("a", "done", ""), ("b", "dropped", ""), ("c", "dropped", ""), ("d", "doing", "")]


async def test_an_invalid_plan_is_an_error_for_the_model_and_for_the_user():
    for steps, problem in [
        ([("a", "doing"), ("b", "doing")], "expected one step that is 'doing', got 2: a, b"),
        ([("a",), ("a",)], "two steps have the same text: 'a'"),
        ([(" ",)], "has no text"),
        ([(str(n),) for n in range(MAX_STEPS + 1)], "at most 50 steps, got 51"),
    ]:
        agent = planning(update(*steps), "Sorry.")
        result = await agent.chat("Go")
        assert problem in result.function_calls[0]["result"]
        assert rows(agent) == []
        with pytest.raises(ConfigurationError, match=problem):
            agent.plan = [dict(zip(NAMES, step, strict=False)) for step in steps]


async def test_the_user_edits_the_plan_and_the_model_sees_it():
    agent = planning(
        update(("a", "done"), ("b", "doing"), ("c",)), "Shall I?", "I will.", update(("c", "done")), "Yes."
    )
    await agent.chat("Go")
    plan = agent.plan
    plan.loc[2, ["status", "note"]] = "dropped", "not needed"
    assert rows(agent)[1] == ("b", "doing", "")  # a copy, until it is assigned
    agent.plan = plan
    assert rows(agent) == [("a", "done", ""), ("b", "dropped", "not needed"), ("c", "doing", "")]
    await agent.chat("Go on.")
    assert "2. [dropped] b\n   note: not needed\n3. [doing] c\nThe user has changed the plan." in reminders(agent)[-1]
    await agent.chat("Go on.")
    assert [status for _, status, _ in rows(agent)] == ["done", "dropped", "done"]
    agent.plan = ["Sleep", "Wake"]
    assert rows(agent) == [("Sleep", "doing", ""), ("Wake", "pending", "")]
    agent.plan = None
    assert rows(agent) == []


def test_anything_but_a_plan_is_refused():
    agent = planning()
    for wrong in (3, [3], {"step": "a"}, [{"step": "a", "status": "later"}]):
        with pytest.raises(ConfigurationError, match=r"plan: .*columns of agent.plan: step, status and note"):
            agent.plan = wrong
    with pytest.raises(ConfigurationError, match="plan=True"):
        Agent(ScriptedProvider([])).plan = ["a"]
    for wrong in ({"plan": "last"}, {"approve_plan": "yes"}):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            Agent(ScriptedProvider([]), **wrong)


@pytest.mark.parametrize("answer", [True, False])
async def test_with_approve_plan_nothing_starts_without_approval(answer):
    asked = []

    def approve(call, definition):
        asked.append([step["step"] for step in call.arguments["steps"]])
        return answer

    agent = planning(FunctionCall("load", {"path": "here.csv"}), *TURNS, approve_plan=True, approve=approve)
    result = await agent.chat("Plot it.")
    loads = [call["is_error"] for call in result.function_calls if call["name"] == "load"]
    assert loads == [True, True, not answer]  # refused without a plan, refused because it is unknown, done
    assert "Call update_plan first" in result.function_calls[0]["result"]
    if answer:
        assert asked == [["Load gone.csv", "Plot it"], ["Load gone.csv", "Load here.csv", "Plot it"]]
    else:
        assert (rows(agent), result.status) == ([], "denied")


async def test_with_plan_first_tools_wait_for_a_plan():
    agent = Agent(ScriptedProvider([FunctionCall("load", {"path": "here.csv"}), *TURNS]), tools=[load], plan="first")
    result = await agent.chat("Plot it.")
    loads = [call["is_error"] for call in result.function_calls if call["name"] == "load"]
    assert loads == [True, True, False]
    assert "Follow a plan." in agent.provider.requests[0][0][0].text


async def test_each_conversation_has_its_own_plan(tmp_path):
    agent = planning(update(("a",)), "1", "2", "3", "4")
    await agent.chat("Go")
    fork = agent.fork()
    fork.plan = ["of the fork"]
    assert rows(agent) == [("a", "doing", "")]
    agent.save(tmp_path / "agent.json")
    assert rows(Agent.load(tmp_path / "agent.json", ScriptedProvider([]), plan=True)) == rows(agent)
    old = agent.context.here
    agent.context.new_conversation()
    assert rows(agent) == []
    agent.context.switch(old)
    assert rows(agent) == [("a", "doing", "")]
    agent.undo()
    assert rows(agent) == []


async def test_a_long_conversation_keeps_only_its_newest_plan():
    turns = [update(("a", "doing"), ("b",)), "1", update(("a", "done"), ("b", "doing")), *"23456789"]
    agent = planning(*turns, context=ContextManager(max_messages=8))
    for _ in range(9):
        await agent.chat("Go")
    assert rows(agent) == [("a", "done", ""), ("b", "doing", "")]
    assert sum(message.role == "tool" for message in agent.conversation_history) == 1


def test_plans_survive_a_round_trip_and_no_step_is_lost():
    load, odd, note = Step("Load it", "done", "120 rows: a"), Step("1. [doing] x", "doing"), Step("note: y", "pending")
    assert read_plan(write_plan([load, odd, note])) == [load, odd, note]
    new = [Step("note: y", "doing"), Step("Ünïcode 東", "pending", "why: not")]
    both = revised([load, odd, note], new)
    assert [each for each in both if each in new] == new
    assert [each for each in both if each not in new] == [load, Step("1. [doing] x", "dropped")]
