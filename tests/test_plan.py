"""`Agent(plan=True)`: the model plans, follows its plan and changes it when a step fails. A person may change it."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbagent import Agent, ContextManager, FunctionCall, Planner, ScriptedProvider, create_provider
from nbagent.errors import ConfigurationError
from nbagent.plan import MAX_STEPS, STATUSES, Step, read_plan, revised, write_plan

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


def told(agent) -> list[str]:
    """The reminder of each request."""
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
    plans = [read_plan(text) for text in told(agent)]
    assert [[each.status for each in plan] for plan in plans] == [
        [],
        ["doing", "pending"],
        ["doing", "pending"],
        ["dropped", "doing", "pending"],
        ["dropped", "doing", "pending"],
        ["dropped", "done", "doing"],
        [],  # the plan is done: there is nothing to be reminded of
    ]
    systems = {messages[0].text for messages, _ in agent.provider.requests}
    assert len(systems) == 1
    assert "reminder" not in str(agent.conversation_history)


async def test_what_is_left_out_is_dropped_and_the_first_open_step_is_begun():
    agent = planning(update(("a", "done"), ("b",), ("c",)), update(("a", "done"), ("d",)), "So far.")
    await agent.chat("Go")
    assert rows(agent) == [("a", "done", ""), ("b", "dropped", ""), ("c", "dropped", ""), ("d", "doing", "")]


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([("a", "doing"), ("b", "doing")], "exactly one step is 'doing', not 2: a, b"),
        ([("a",), ("a",)], "there twice: 'a'"),
        ([(" ",)], "needs a text"),
        ([(str(n),) for n in range(MAX_STEPS + 1)], "at most 50 steps, not 51"),
    ],
)
async def test_a_wrong_plan_goes_back_to_the_model_and_to_the_person(steps, problem):
    agent = planning(update(*steps), "Sorry.")
    result = await agent.chat("Go")
    assert problem in result.function_calls[0]["result"]
    assert rows(agent) == []
    with pytest.raises(ConfigurationError, match=problem.replace("(", r"\(")):
        agent.plan = [dict(zip(NAMES, step, strict=False)) for step in steps]


async def test_a_person_edits_the_plan_and_the_model_sees_it():
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
    assert told(agent)[-1].splitlines()[1:] == [
        "1. [done] a",
        "2. [dropped] b",
        "   note: not needed",
        "3. [doing] c",
        "The user has changed the plan. Follow it as it is now.",
    ]
    await agent.chat("Go on.")
    assert [status for _, status, _ in rows(agent)] == ["done", "dropped", "done"]
    assert told(agent)[-1] == ""
    agent.plan = ["Sleep", "Wake"]
    assert rows(agent) == [("Sleep", "doing", ""), ("Wake", "pending", "")]
    agent.plan = None
    assert rows(agent) == []


async def test_a_tool_sees_an_edit_that_is_made_while_the_agent_works():
    agent = planning(update(("a", "doing"), ("b",)), FunctionCall("change"), "Done.")

    def change() -> None:
        """Stands for a person at the keyboard."""
        agent.plan = ["b only"]

    agent.register_function("change", "", change)
    await agent.chat("Go")
    assert "1. [doing] b only" in told(agent)[-1]


def test_what_is_no_plan_is_refused():
    agent = planning()
    for wrong in (3, [3], {"step": "a"}, [{"step": "a", "status": "later"}], [{"status": "done"}]):
        with pytest.raises(ConfigurationError, match=r"plan: .*columns step, status and note"):
            agent.plan = wrong
    with pytest.raises(ConfigurationError, match="plan=True"):
        Agent(ScriptedProvider([])).plan = ["a"]
    assert Agent(ScriptedProvider([])).plan.empty


@pytest.mark.parametrize("answer", [True, False])
async def test_with_approve_plan_nothing_begins_without_a_yes(answer):
    asked = []

    def approve(call, definition):
        asked.append([step["step"] for step in call.arguments["steps"]])
        return answer

    first = FunctionCall("load", {"path": "here.csv"})
    agent = planning(first, *TURNS, approve_plan=True, approve=approve)
    result = await agent.chat("Plot it.")
    loads = [call["is_error"] for call in result.function_calls if call["name"] == "load"]
    if answer:  # refused without a plan, not there, done
        assert loads == [True, True, False]
        assert asked == [["Load gone.csv", "Plot it"], ["Load gone.csv", "Load here.csv", "Plot it"]]
    else:
        assert loads == [True, True, True]
        assert len(asked) == 4
        assert rows(agent) == []
        assert result.status == "denied"
    assert "Call update_plan first" in result.function_calls[0]["result"]


async def test_a_planner_plans_first():
    agent = Planner(ScriptedProvider([FunctionCall("load", {"path": "here.csv"}), *TURNS]), tools=[load])
    result = await agent.chat("Plot it.")
    loads = [call["is_error"] for call in result.function_calls if call["name"] == "load"]
    assert loads == [True, True, False]
    assert "Work by plan." in agent.provider.requests[0][0][0].text
    fork = agent.fork()
    fork.provider = ScriptedProvider([FunctionCall("load", {"path": "here.csv"}), "No plan."])
    assert (await fork.chat("And now?")).function_calls[0]["is_error"]  # its plan is done


def test_the_settings_are_checked():
    for wrong in ({"plan": "last"}, {"approve_plan": "yes"}):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            Agent(ScriptedProvider([]), **wrong)


async def test_with_nobody_to_ask_the_plan_is_denied():
    agent = planning(update(("a",)), "No.", approve_plan=True)
    assert "needs approval" in (await agent.chat("Go")).function_calls[0]["result"]
    assert rows(agent) == []


async def test_each_conversation_has_its_plan(tmp_path):
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


async def test_a_fork_and_a_dry_run_have_what_a_person_has_changed():
    agent = planning(update(("a",)), "1")
    await agent.chat("Go")
    agent.plan = ["a", "b"]
    fork = agent.fork()
    assert rows(fork) == [("a", "doing", ""), ("b", "pending", "")]
    assert "The user has changed the plan" in fork.chat_stream("Go on.").preview().messages[-1].text
    fork.plan = None
    assert rows(agent) == [("a", "doing", ""), ("b", "pending", "")]


async def test_a_long_conversation_keeps_its_plan_and_only_the_newest():
    turns = [update(("a", "doing"), ("b",)), "1", update(("a", "done"), ("b", "doing")), *"23456789"]
    agent = planning(*turns, context=ContextManager(max_messages=8))
    for _ in range(9):
        await agent.chat("Go")
    assert rows(agent) == [("a", "done", ""), ("b", "doing", "")]
    assert sum(message.role == "tool" for message in agent.conversation_history) == 1


@pytest.mark.parametrize("vendor", ["openai responses", "claude", "gemini"])
async def test_on_the_wire_the_reminder_comes_last_and_the_rest_does_not_move(vendor, llmock):
    families = {"claude": ("anthropic", "claude-sonnet-5"), "gemini": ("gemini", "gemini-2.5-pro")}
    family, model = families.get(vendor, ("openai", "gpt-4.1"))
    name, _, api = vendor.partition(" ")
    options = {"api": api} if api else {}
    provider = create_provider(name, api_key="k", model=model, base_url=llmock.base_url(family), **options)
    for turn in TURNS[:-1]:
        llmock.call_tool(turn.name, turn.arguments)
    llmock.reply(TURNS[-1])
    agent = Agent(provider, tools=[load], plan=True, system_prompt="Be brief.")
    result = await agent.chat("Plot the table.")
    await provider.aclose()
    assert (result.content, rows(agent)[0][1]) == ("Here it is.", "dropped")
    key = {"gemini": "contents", "openai responses": "input"}.get(vendor, "messages")
    bodies = [
        request.body if isinstance(request.body, dict) else json.loads(request.body) for request in llmock.requests
    ]
    heads = {json.dumps({name: value for name, value in body.items() if name != key}) for body in bodies}
    assert len(heads) == 1
    reminders = told(agent)
    assert [bool(text) for text in reminders] == [False, *[True] * 5, False]
    grown = ""
    for body, reminder in zip(bodies, reminders, strict=True):
        kept = without_reminder(body[key], reminder)
        assert json.dumps(kept).startswith(grown)
        grown = json.dumps(kept).rstrip("]}")
        assert json.dumps(body).count("cache_control") <= 4
        if reminder:
            assert "<reminder>" in json.dumps(body[key][-1])
            assert "<reminder>" not in json.dumps(kept)


def without_reminder(items: list, reminder: str) -> list:
    """The conversation of a body without the reminder, and without Anthropic's breakpoints, which move on."""
    data = json.loads(json.dumps(items).replace(', "cache_control": {"type": "ephemeral"}', ""))
    if not reminder:
        return data
    content = data[-1].get("content") or data[-1].get("parts")
    if isinstance(content, list) and len(content) > 1:
        content.pop()
    else:
        data.pop()
    return data


texts = st.text(min_size=1, max_size=20).map(lambda text: " ".join(text.split())).filter(bool)
steps_of_plans = st.lists(
    st.builds(Step, texts, st.sampled_from(STATUSES), st.one_of(st.just(""), texts)), unique_by=lambda each: each.step
)


@given(steps_of_plans, steps_of_plans)
@settings(max_examples=25, deadline=None)
def test_plans_are_read_as_they_were_written_and_no_step_is_lost(old, new):
    assert read_plan(write_plan(old)) == old
    both = revised(old, new)
    assert [each for each in both if each.step in {step.step for step in new}] == new
    assert {each.step for each in both} == {each.step for each in (*old, *new)}
    assert all(each.status in ("done", "dropped") for each in both if each not in new)
