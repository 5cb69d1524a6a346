"""Checks of answers (`validators`) and of prompts (`guards`)."""

import asyncio
import threading

import pytest
from pydantic import BaseModel

from nbagent import Agent, Limits, RunContext, ScriptedProvider
from nbagent.errors import AgentBusyError, AnswerRejectedError, ConfigurationError


def is_short(answer: str) -> bool:
    return len(answer) < 20


def names_a_source(answer: str) -> None:
    assert "[1]" in answer, "Name your source as [1]."


async def is_for(answer: str, run: RunContext) -> None:
    await asyncio.sleep(0)
    if run.deps not in answer:
        raise ValueError(f"Address {run.deps}.")


def agent_with(*turns, **options):
    return Agent(ScriptedProvider(turns), **options)


async def test_a_failed_answer_goes_back_with_the_reason_and_is_corrected():
    agent = agent_with("Warm.", "Warm, Ada.", "Warm, Ada [1].", validators=[is_short, is_for, names_a_source])
    stream = agent.chat_stream("How is it?", deps="Ada")
    feedback = [event.content async for event in stream if event.type == "validation_error"]
    assert stream.result().content == "Warm, Ada [1]."
    assert [text.splitlines()[1] for text in feedback] == ["Address Ada.", "Name your source as [1]."]
    asked_again = [messages[-1].text for messages, _ in agent.provider.requests[1:]]
    assert asked_again == feedback
    assert len(agent.undo()) == 6  # answers and corrections belong to the prompt's turn
    assert list(agent.trace.events.query("type == 'validation_error'")["content"]) == feedback


async def test_an_answer_that_stays_wrong_is_an_error_and_other_limits_still_apply():
    long = "x" * 30
    agent = agent_with(*[long] * 4, validators=[is_short])
    with pytest.raises(AnswerRejectedError, match="is_short fails") as raised:
        await agent.chat("Go")
    assert raised.value.answer == long
    assert raised.value.partial.iterations == 3
    agent = agent_with(*[long] * 4, validators=[is_short], limits=Limits(max_iterations=2))
    result = await agent.chat("Go")
    assert (result.status, result.iterations, result.content) == ("limit", 2, long)


class City(BaseModel):
    name: str
    people: int


async def test_with_output_validators_receive_the_value_once_its_type_is_right():
    seen = []

    def is_inhabited(city: City, limit: int = 0) -> bool:
        seen.append(city)
        return city.people > limit

    answers = ['{"name": "Rome"}', '{"name": "Rome", "people": 0}', '{"name": "Rome", "people": 9}']
    result = await agent_with(*answers, validators=[is_inhabited]).chat("Which?", output=City)
    assert result.data == City(name="Rome", people=9)
    assert seen == [City(name="Rome", people=0), result.data]


async def test_a_judge_is_a_child_run_and_the_agent_itself_cannot_judge():
    judge = agent_with("false", "true")

    async def is_polite(answer: str, run: RunContext) -> bool:
        return (await judge.chat(f"Is this polite? {answer}", output=bool)).data

    agent = agent_with("Go away.", "Please, go.", validators=[is_polite])
    result = await agent.chat("Say it.")
    assert result.content == "Please, go."
    assert set(judge.trace.runs["parent_run_id"]) == {result.run_id}
    assert (
        result.usage.total_tokens > agent.trace.calls["input_tokens"].sum() + agent.trace.calls["output_tokens"].sum()
    )

    async def asks_itself(answer: str, run: RunContext) -> bool:
        return (await run.agent.chat("Is it?")).content == "yes"

    with pytest.raises(AgentBusyError):
        await agent_with("a", "b", validators=[asks_itself]).chat("Go")


async def test_sync_checks_may_block_and_a_check_that_raises_is_an_error():
    threads = []
    agent = agent_with("a", "b", "c", validators=[lambda answer: threads.append(threading.current_thread())])
    assert (await agent.chat("Go")).content == "a"
    assert threads[0] is not threading.main_thread()
    agent.validators = [lambda answer: 1 / 0]
    with pytest.raises(ZeroDivisionError):
        await agent.chat("Go")
    agent.validators = [lambda answer: "too long"]
    with pytest.raises(ConfigurationError, match="too long.*raise ValueError"):
        await agent.chat("Go")


def no_cards(question: str) -> None:
    """Card numbers stay here."""
    if any(word.isdigit() and len(word) == 16 for word in question.split()):
        raise ValueError("It contains a card number.")


async def test_a_guard_refuses_a_prompt_before_anything_is_sent():
    agent = agent_with("Hello.", "And again.", guards=[no_cards])
    await agent.chat("Hi")
    result = await agent.chat("Pay with 1234567812345678 now")
    assert (result.status, result.content, result.iterations) == ("blocked", "", 0)
    assert str(result) == result.status_reason == "The prompt was not sent: It contains a card number."
    assert len(agent.provider.requests) == 1
    assert [message.text for message in agent.conversation_history] == ["Hi", "Hello."]
    await agent.chat("Again")
    assert list(agent.trace.runs["status"]) == ["ok", "blocked", "ok"]
    assert agent.trace.runs["status_reason"].iloc[1] == result.status_reason
    messages = agent.trace.messages.set_index("text")
    assert messages["parent_id"].iloc[2] == messages.loc["Hello.", "message_id"], "a refused prompt has its place"


async def test_a_guard_sees_the_whole_prompt_and_also_guards_forks_and_maps():
    agent = agent_with("never sent", guards=[no_cards])
    parts = ["Look:", {"type": "text", "text": "1234567812345678"}]
    messages = [{"role": "user", "content": "1234567812345678 is mine."}, {"role": "user", "content": "Go on."}]
    for question in (parts, messages):
        assert (await agent.chat(question)).status == "blocked"
    assert (await agent.fork().chat("1234567812345678")).status == "blocked"
    pd = pytest.importorskip("pandas")
    rows = await agent.map(pd.Series(["1234567812345678"]), progress=False)
    assert list(rows["status"]) == ["blocked"]
    assert agent.provider.requests == []


@pytest.mark.parametrize("name", ["validators", "guards"])
def test_invalid_lists_of_checks_are_refused(name):
    for wrong in (is_short, [None], [lambda: True]):
        with pytest.raises(ConfigurationError, match=rf"{name}.*\(text\)"):
            Agent(ScriptedProvider([]), **{name: wrong})
