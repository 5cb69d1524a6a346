"""`output=` of `chat`, `chat_sync` and `chat_stream`: the answer as a value of a type, after tool calls."""

import json
from dataclasses import dataclass
from datetime import date
from typing import Literal

import pytest
from pydantic import BaseModel, TypeAdapter

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Usage
from nbagent.errors import ConfigurationError, ExtractionError


class City(BaseModel):
    name: str
    people: int


PARIS = '{"name": "Paris", "people": 2100000}'
WRONG = '{"name": "Paris", "people": "many"}'


def people_of(city: str) -> int:
    """Return how many people live in a city."""
    return 2_100_000


async def test_the_result_has_the_value_and_its_cost():
    agent = Agent(ScriptedProvider([PARIS], price={"input": 1, "output": 1}), system_prompt="Be brief.")
    result = await agent.chat("Which city?", output=City)
    assert result.data == City(name="Paris", people=2_100_000)
    assert (result.status, result.content, result.cost > 0) == ("ok", PARIS, True)
    assert result.to_dict()["data"] == {"name": "Paris", "people": 2_100_000}
    ((system, question),) = [messages for messages, _ in agent.provider.requests]
    assert system.text.startswith("Be brief.\n\nYour final answer must be JSON alone")
    assert '"people"' in system.text
    assert question.text == "Which city?"
    assert [message.text for message in agent.conversation_history] == ["Be brief.", "Which city?", PARIS]
    assert agent.trace.runs["output_type"].tolist() == ["City"]


@dataclass
class Day:
    when: date


async def test_any_type_that_pydantic_supports():
    for output, answer, value in [
        (list[City], f'{{"result": [{PARIS}]}}', [City(name="Paris", people=2_100_000)]),
        (Literal["good", "bad"], '{"result": "bad"}', "bad"),
        (Literal["good", "bad"], "good\n", "good"),  # from a model without constrained output
        (int | None, '{"result": null}', None),
        (date, "2026-11-23", date(2026, 11, 23)),
        (Day, '{"when": "2026-11-23"}', Day(date(2026, 11, 23))),
        (str, '{"result": "yes"}', "yes"),
        (bool, "true", True),
    ]:
        result = await Agent(ScriptedProvider([answer])).chat("?", output=output)
        assert result.data == value
        assert json.loads(json.dumps(result.to_dict()["data"])) == TypeAdapter(output).dump_python(value, mode="json")


async def test_a_wrong_answer_is_corrected_within_the_run():
    agent = Agent(ScriptedProvider([WRONG, PARIS]))
    stream = agent.chat_stream("Which city?", output=City)
    kinds = [event.type async for event in stream]
    result = stream.result()
    assert (result.data.people, result.iterations) == (2_100_000, 2)
    assert kinds.index("validation_error") < len(kinds) - 1
    roles = [message.role for message in agent.conversation_history]
    assert roles == ["user", "assistant", "user", "assistant"]
    correction = agent.conversation_history[2]
    assert "people: Input should be a valid integer" in correction.text
    assert [message.text for message in agent.undo()] == ["Which city?", WRONG, correction.text, PARIS]
    assert agent.conversation_history == []


async def test_an_answer_that_stays_wrong_is_an_error_and_its_prompt_leaves_the_history():
    agent = Agent(ScriptedProvider([WRONG, "no", WRONG]))
    with pytest.raises(
        ExtractionError, match=r"Expected City in the model's answer: - people: Input .* correct it\."
    ) as e:
        await agent.chat("Which city?", output=City)
    assert (e.value.answer, e.value.partial.status, e.value.partial.iterations) == (WRONG, "error", 3)
    assert e.value.partial.data is None
    assert agent.conversation_history == []
    assert agent.trace.runs["status"].tolist() == ["error"]


@pytest.mark.parametrize(
    ("text", "reason", "status", "asked"),
    [('{"name": "Pa', "length", "truncated", 1), ("", "content_filter", "blocked", 1), ("", "stop", "empty", 2)],
)
async def test_an_incomplete_answer_is_not_checked(text, reason, status, asked):
    agent = Agent(ScriptedProvider([LLMResponse(text, None, reason, {"usage": Usage(1, 1)})] * 2 * asked))
    result = await agent.chat("Which city?", output=City)
    assert (result.status, result.data, result.iterations) == (status, None, asked)
    with pytest.raises(ExtractionError, match="got an incomplete answer") as failure:
        await agent.extract("Paris", City)
    assert failure.value.partial.status == status


async def test_tools_work_in_the_same_run():
    turns = [FunctionCall("people_of", {"city": "Paris"}), WRONG, FunctionCall("people_of", {"city": "Paris"}), PARIS]
    agent = Agent(ScriptedProvider(turns), tools=[people_of])
    result = await agent.chat("Which city?", output=City)
    assert result.data.people == 2_100_000
    assert [call["name"] for call in result.function_calls] == ["people_of"] * 2
    roles = [message.role for message in agent.conversation_history]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant", "tool", "assistant"]


def test_an_invalid_output_type_is_named():
    agent = Agent(ScriptedProvider([PARIS]))
    with pytest.raises(ConfigurationError, match=r"output: expected a pydantic model.*got 3"):
        agent.chat_stream("Which city?", output=3)
    assert agent.provider.requests == []
