"""OpenAI's two APIs: which one is used, the requests to Responses, and what goes back unchanged."""

import json

import pytest

from nbagent.core.messages import FunctionCall, LLMMessage
from nbagent.errors import ConfigurationError, InvalidResponseError, ServerError
from nbagent.providers import OpenAIProvider, create_provider
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats.openai_responses import ResponsesCodec
from nbagent.providers.options.resolved import ResolvedOptions

CODEC = ResponsesCodec(CATALOG["openai"])
CALLS = [FunctionCall("add", {"a": 1}, "c1"), FunctionCall("add", {}, "c2")]
USER = LLMMessage("user", "hi")


def body(conversation, codec=CODEC, **options):
    return json.loads(codec.encode_request(conversation, ResolvedOptions(**options), "gpt-5.6-terra"))


def assistant(text="", calls=None, items=None):
    extras = None if items is None else {"provider": "openai", "items": items}
    return LLMMessage("assistant", text, tool_calls=calls, provider_extras=extras)


def result(call_id, content):
    return LLMMessage("tool", content, tool_call_id=call_id, name="add")


# ------------------------------------------------------------------ which API


@pytest.mark.parametrize("base_url", [None, "https://api.openai.com/v1", "https://eu.api.openai.com/v1"])
def test_reasoning_models_at_openai_use_responses(base_url, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    reason = [None, "gpt-5", "gpt-5.6-luna", "o3-mini", "o4-mini-2025-04-16", "codex-mini-latest"]
    others = ["gpt-4o-mini", "gpt-4.1", "gpt-5-chat-latest"]
    paths = dict.fromkeys(reason, "/responses") | dict.fromkeys(others, "/chat/completions")
    made = {model: create_provider("openai", model=model, base_url=base_url) for model in paths}
    assert {model: provider.codec.path("m", True) for model, provider in made.items()} == paths


@pytest.mark.parametrize(
    "base_url", ["http://localhost:1234/v1", "https://api.openai.com.example/v1", "http://localhost"]
)
def test_elsewhere_chat_is_the_default(base_url, monkeypatch):
    assert OpenAIProvider(model="gpt-5", base_url=base_url).codec.path("m", True) == "/chat/completions"
    assert OpenAIProvider(model="gpt-5", base_url=base_url, api="responses").codec.path("m", True) == "/responses"
    monkeypatch.setenv("OPENAI_BASE_URL", base_url)
    assert OpenAIProvider(model="gpt-5").codec.path("m", True) == "/chat/completions"


def test_the_users_own_client_decides_the_address():
    import openai

    home = openai.AsyncOpenAI(api_key="k", base_url="https://api.openai.com/v1")
    azure = openai.AsyncAzureOpenAI(api_key="k", azure_endpoint="https://x.openai.azure.com", api_version="v1")
    assert OpenAIProvider(model="gpt-5", client=home).codec.path("m", True) == "/responses"
    assert OpenAIProvider(model="gpt-5", client=azure).codec.path("m", True) == "/chat/completions"


def test_the_api_is_a_choice_of_two():
    assert OpenAIProvider(model="gpt-5", api="chat").codec.path("m", True) == "/chat/completions"
    assert OpenAIProvider(model="gpt-4.1", api="responses").codec.path("m", True) == "/responses"
    with pytest.raises(ConfigurationError, match="api: .*'responses', 'chat'.*'completions'"):
        OpenAIProvider(api="completions")


# ------------------------------------------------------------------ requests


def test_options_with_chat_names_are_converted():
    got = body(
        [USER],
        extra={
            "max_completion_tokens": 9,
            "reasoning": {"summary": "auto"},
            "reasoning_effort": "low",
            "tool_choice": {"type": "function", "function": {"name": "add"}},
            "store": True,
        },
    )
    assert got["max_output_tokens"] == 9
    assert got["reasoning"] == {"summary": "auto", "effort": "low"}
    assert got["tool_choice"] == {"type": "function", "name": "add"}
    assert got["store"] is True
    assert not {"max_completion_tokens", "reasoning_effort"} & set(got)


# ------------------------------------------------------------------ what goes back

THOUGHT = {"id": "rs_1", "type": "reasoning", "encrypted_content": "b3BhcXVl", "summary": []}
ITEMS = [
    THOUGHT,
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "phase": "commentary",
        "content": [{"type": "output_text", "text": "Ja – 東京", "annotations": [], "logprobs": []}],
    },
    {**THOUGHT, "id": "rs_2", "encrypted_content": "bWVocg=="},
    {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "add", "arguments": '{ "a": 1 }'},
]
MESSAGE = assistant("Ja – 東京", CALLS[:1], ITEMS)
REBUILT = [
    {"type": "message", "role": "assistant", "content": "Ja – 東京"},
    {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a":1}'},
]


def test_edited_messages_are_not_replaced_by_their_old_items():
    assert b"b3BhcXVl" in CODEC.encode_message(MESSAGE)
    for change in ({"content": "edited"}, {"tool_calls": [FunctionCall("add", {"a": 9}, "c1")]}):
        assert b"b3BhcXVl" not in CODEC.encode_message(MESSAGE.replace(**change))


def test_reasoning_that_the_server_cannot_look_up_is_not_sent():
    by_id_alone = [{"id": "rs_1", "type": "reasoning", "summary": []}, *ITEMS[1:]]
    assert body([assistant("Ja – 東京", CALLS[:1], by_id_alone)])["input"] == REBUILT
    in_full = [
        {**THOUGHT, "encrypted_content": None, "content": [{"type": "reasoning_text", "text": "Hm."}]},
        *ITEMS[1:],
    ]
    assert body([assistant("Ja – 東京", CALLS[:1], in_full)])["input"] == in_full


def test_reasoning_without_a_following_item_is_omitted():
    assert body([USER, assistant("", None, [THOUGHT]), USER])["input"] == body([USER, USER])["input"]
    assert body([assistant("Ja – 東京", None, [*ITEMS[:2], THOUGHT])])["input"] == ITEMS[:2]


# ------------------------------------------------------------------ answers


def whole(*output, status="completed", **more):
    return {"id": "resp_1", "object": "response", "model": "m1", "status": status, "output": list(output), **more}


@pytest.mark.parametrize(
    ("sent", "error", "retryable"),
    [
        (whole(status="failed", error={"code": "server_error", "message": "boom"}), ServerError, True),
        (whole(status="cancelled"), ServerError, True),
        (whole(status="queued"), InvalidResponseError, False),
    ],
)
def test_bodies_without_an_answer(sent, error, retryable):
    with pytest.raises(error) as caught:
        CODEC.decode_body(sent)
    assert caught.value.retryable is retryable


def test_a_repeated_answer_does_not_repeat_items():
    sent = body([USER, MESSAGE, USER, MESSAGE.replace(tool_calls=None), USER])["input"]
    ids = [item["id"] for item in sent if "id" in item]
    assert ids
    assert len(set(ids)) == len(ids)
