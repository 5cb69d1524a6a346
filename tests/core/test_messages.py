"""The provider-neutral message model survives JSON."""

import json

import pytest

from nbagent import FunctionCall, LLMMessage
from nbagent.core.messages import parse_arguments


def test_messages_survive_json():
    for message in (
        LLMMessage("assistant", "", tool_calls=[FunctionCall("f", {"a": [1]}, "c1"), FunctionCall("g", raw="{oops")]),
        LLMMessage("tool", "1", name="f", tool_call_id="c1", is_error=True),
        LLMMessage("assistant", "half", interrupted=True, provider_extras={"provider": "claude", "blocks": []}),
        LLMMessage("user", [{"type": "text", "text": "see"}]),
        LLMMessage("user", "Summary", is_summary=True, pinned=True),
    ):
        assert LLMMessage.from_dict(json.loads(json.dumps(message.to_dict()))) == message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ({}, None)),
        (None, ({}, None)),
        ("null", ({}, None)),
        ('"{\\"a\\": 1}"', ({"a": 1}, None)),
        ({"a": 1}, ({"a": 1}, None)),
        ('{"a": ', ({}, '{"a": ')),
        ("[1]", ({}, "[1]")),
    ],
)
def test_arguments_in_the_forms_that_providers_send(text, expected):
    assert parse_arguments(text) == expected
