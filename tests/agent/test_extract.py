"""`Agent.extract` and `Agent.parse_message`: from text to objects and records."""

import json
from typing import Literal

import pytest
from pydantic import BaseModel, Field

from nbagent import Agent, ContextManager, LLMMessage, ScriptedProvider
from nbagent.core.answer_json import json_in
from nbagent.errors import ConfigurationError


class Person(BaseModel):
    name: str
    age: int = Field(ge=0)
    role: Literal["author", "reader"] = "reader"


ADA, BEN = {"name": "Ada", "age": 36}, {"name": "Ben", "age": 4}


def scripted(*turns, **options):
    return Agent(ScriptedProvider([turn if isinstance(turn, str) else json.dumps(turn) for turn in turns]), **options)


async def test_extracting_an_object():
    agent = scripted(ADA)
    assert await agent.extract("Ada is 36.", Person) == Person(name="Ada", age=36)
    (messages, functions) = agent.provider.requests[0]
    assert [message.role for message in messages] == ["system", "user"]
    assert '"minimum": 0' in messages[0].text  # the schema
    assert messages[1].text == "Ada is 36."
    assert not functions


async def test_extracting_a_list_and_its_frame():
    people = await scripted({"result": [ADA, BEN]}).extract("Ada is 36, Ben is 4.", list[Person])
    assert people == [Person(**ADA), Person(**BEN)]
    frame = people.to_frame()
    assert list(frame.columns) == ["name", "age", "role"]
    assert frame["age"].tolist() == [36, 4]


async def test_extracting_an_unwrapped_list_and_an_empty_one():
    assert await scripted([ADA]).extract("Ada is 36.", list[Person]) == [Person(**ADA)]
    nobody = await scripted([]).extract("Nobody came.", list[Person])
    assert nobody == []
    assert list(nobody.to_frame().columns) == ["name", "age", "role"]


async def test_extract_leaves_the_conversation_alone_and_is_traced():
    agent = scripted("Hello.", ADA, system_prompt="You are brief.", context=ContextManager(max_messages=10))
    await agent.chat("Hi")
    history = list(agent.conversation_history)
    await agent.extract("Ada is 36.", Person)
    assert agent.conversation_history == history
    assert agent.system_prompt == "You are brief."
    assert agent.trace.runs["source"].tolist() == ["python", "extract"]
    assert agent.trace.runs["output_type"].tolist()[1] == "Person"


async def test_invalid_types_and_messages_are_named():
    for text, shape, named in (("", Person, "message"), ("a text", "Person", "output")):
        with pytest.raises(ConfigurationError, match=f"{named}: expected"):
            await scripted(ADA).extract(text, shape)


async def test_messages_become_records():
    agent = scripted('```json\n[{"item": "milk", "n": 2}]\n```', system_prompt="Record purchases.")
    records = await agent.parse_message("Ada", "2026-01-02 09:30", "two bottles of milk, please")
    assert records == [{"item": "milk", "n": 2}]
    system, message = agent.provider.requests[0][0]
    assert system.text.startswith("Record purchases.\n\n")
    assert message == LLMMessage("user", "Sender: Ada\nTime: 2026-01-02 09:30\n\ntwo bottles of milk, please")


async def test_records_in_other_json_forms():
    for answer in ({"item": "milk"}, {"records": [{"item": "milk"}]}, 'Here: [{"item": "milk"}] [1]'):
        assert await scripted(answer).parse_message("Ada", "now", "milk") == [{"item": "milk"}]
    assert await scripted("[]").parse_message("Ada", "now", "hello") == []
    lines = scripted('{"item": "milk"}\n{"item": "tea"}')
    assert await lines.parse_message("Ada", "now", "milk and tea") == [{"item": "milk"}, {"item": "tea"}]


async def test_broken_records_are_an_error_and_not_partly_accepted():
    records = [{"item": "milk"}, {"item": "tea"}]
    agent = scripted('[{"item": "milk"}, {"item": "te', records)
    assert await agent.parse_message("Ada", "now", "milk and tea") == records
    assert '"milk"}' in agent.provider.requests[1][0][-1].text


def test_json_is_found_in_answers():
    for text, value in [
        ('```\n{"a": 1}\n```', {"a": 1}),
        ('Sure! {"a": {"b": []}} I hope it helps. [2]', {"a": {"b": []}}),
        ('see [1]: `{"a": 1}`', {"a": 1}),
        ("see [1]: [10, 20], not [2]", [10, 20]),
        ('{"a": 1}\n{"a": 2}', [{"a": 1}, {"a": 2}]),
        ('```\n[{"a": 1}]\n```\nAgain:\n```\n[{"a": 1}]\n```', [{"a": 1}]),
    ]:
        assert json_in(text) == value, text
    for text in ("", "no", '{"a": 1', '[{"a": 1}, {"a"', '[{"a": 1} {"a": 2}]'):
        with pytest.raises(ValueError, match="JSON|empty"):
            json_in(text)
    with pytest.raises(ValueError, match="expected one JSON value, found 2"):
        json_in('Ada: {"a": 1}, and Ben: {"a": 2}')
