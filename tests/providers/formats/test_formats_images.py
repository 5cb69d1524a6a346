"""Images in requests and answers: each provider's form of them, and what another provider receives instead."""

import asyncio
import base64
import json

import pytest
from support.decoding import decode, text_of
from support.loopback import sse

from nbagent.core.messages import FunctionCall, LLMMessage, LLMResponse
from nbagent.errors import ConfigurationError
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats.anthropic import MessagesCodec
from nbagent.providers.formats.gemini import GeminiCodec
from nbagent.providers.formats.openai_chat import ChatCodec
from nbagent.providers.formats.openai_responses import ResponsesCodec
from nbagent.providers.options.resolved import ResolvedOptions

GIF = base64.b64encode(b"GIF89a\3\0\2\0\0\0\0,\0\0\0\0\3\0\2\0\0\2").decode()  # 3x2
IMAGE = {"type": "image", "media_type": "image/gif", "data": GIF}
OTHER = {**IMAGE, "data": base64.b64encode(b"GIF89a\t\0\t\0\0\0\0,\0\0\0\0\t\0\t\0\0\2").decode()}
DATA_URL = f"data:image/gif;base64,{GIF}"
CAT = "https://example.org/cat.png"
TEXT = {"type": "text", "text": "What is this?"}

CODECS = {
    "openai": ChatCodec(CATALOG["openai"]),
    "responses": ResponsesCodec(CATALOG["openai"]),
    "claude": MessagesCodec(CATALOG["claude"]),
    "minimax": MessagesCodec(CATALOG["minimax"]),
    "gemini": GeminiCodec(CATALOG["gemini"]),
    **{name: ChatCodec(CATALOG[name]) for name in str.split("qwen zhipu deepseek openrouter ollama open_source")},
}
#: How each format writes an image, and where its conversation is.
FORMS = {
    "openai_chat": {"type": "image_url", "image_url": {"url": DATA_URL}},
    "openai_responses": {"type": "input_image", "image_url": DATA_URL, "detail": "auto"},
    "anthropic_messages": {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": GIF}},
    "gemini": {"inlineData": {"mimeType": "image/gif", "data": GIF}},
}
ADDRESSES = {
    "openai_chat": {"type": "image_url", "image_url": {"url": CAT}},
    "openai_responses": {"type": "input_image", "image_url": CAT, "detail": "auto"},
    "anthropic_messages": {"type": "image", "source": {"type": "url", "url": CAT}},
}


def sent(name, messages, model="m1", changes=None):
    """The conversation in a request's body."""
    codec = CODECS[name]
    return json.loads(codec.encode_request(messages, ResolvedOptions(), model, changes))[codec.conversation]


def said(name, text):
    """A text part, as the format writes it."""
    kind = {"openai_responses": "input_text"}.get(CODECS[name].format, "text")
    return {"text": text} if name == "gemini" else {"type": kind, "text": text}


def content_of(message):
    return message["parts"] if "parts" in message else message["content"]


# -- in ---------------------------------------------------------------------------------------------------------------


def asked(name, image):
    """The parts of a prompt with an image."""
    (message,) = sent(name, [LLMMessage("user", [TEXT, image])])
    assert message["role"] == "user"
    parts = content_of(message)
    parts[-1].pop("cache_control", None)
    return parts


@pytest.mark.parametrize("name", CODECS)
def test_a_prompt_with_an_image(name):
    assert asked(name, IMAGE) == [said(name, "What is this?"), FORMS[CODECS[name].format]]
    if name not in ("gemini", "ollama"):  # all others fetch it themselves
        assert asked(name, {"type": "image", "url": CAT})[1] == ADDRESSES[CODECS[name].format]


@pytest.mark.parametrize("name", ["gemini", "ollama"])
def test_an_address_that_the_provider_does_not_fetch(name):
    question = LLMMessage("user", [TEXT, {"type": "image", "url": CAT}])
    with pytest.raises(ConfigurationError, match=rf"{name} does not fetch images from '{CAT}'. Download the image"):
        sent(name, [question])
    later = [question, LLMMessage("assistant", "A cat."), LLMMessage("user", "Sure?")]
    shown = json.dumps(sent(name, later))
    assert f"[image: {CAT}, not shown: this provider does not fetch images from there]" in shown
    assert "What is this?" in shown


# -- out --------------------------------------------------------------------------------------------------------------

GEMINI_PARTS = [
    {"text": "Here "},
    {"text": "it is:"},
    {"inlineData": {"mimeType": "image/png", "data": GIF}, "thoughtSignature": "c2ln"},
    {"inlineData": {"mimeType": "image/png", "data": OTHER["data"]}, "thought": True},
    {"text": "Nice?"},
]
GEMINI_ANSWER = [
    {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]} for part in GEMINI_PARTS
] + [{"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]}]
CALL_ITEM = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": GIF}
ITEMS = [
    {"type": "message", "id": "m1", "role": "assistant", "content": [{"type": "output_text", "text": "Here it is:"}]},
    CALL_ITEM,
    {"type": "message", "id": "m2", "role": "assistant", "content": [{"type": "output_text", "text": "Nice?"}]},
    {**CALL_ITEM, "id": "ig_2", "status": "failed", "result": None},
]
RESPONSES_ANSWER = [
    {"type": "response.image_generation_call.partial_image", "output_index": 1, "partial_image_b64": GIF},
    *({"type": "response.output_item.done", "output_index": i, "item": item} for i, item in enumerate(ITEMS)),
    {"type": "response.completed", "response": {"id": "r1", "status": "completed", "output": []}},
]
CHAT_IMAGE = {"type": "image_url", "image_url": {"url": DATA_URL}}
CHAT_ANSWER = [
    {"choices": [{"index": 0, "delta": {"content": "Here it is:"}}]},
    {"choices": [{"index": 0, "delta": {"content": "", "images": [CHAT_IMAGE]}}]},
    {"choices": [{"index": 0, "delta": {"content": "Nice?", "images": [CHAT_IMAGE]}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]
STREAMS = {"gemini": GEMINI_ANSWER, "responses": RESPONSES_ANSWER, "openrouter": CHAT_ANSWER}
PARTS = [{"type": "text", "text": "Here it is:"}, IMAGE, {"type": "text", "text": "Nice?"}]


def streamed(name):
    return asyncio.run(decode(CODECS[name], [sse(*STREAMS[name], done=name == "openrouter")]))


@pytest.mark.parametrize("name", STREAMS)
def test_images_in_an_answer(name):
    response, shown = streamed(name)
    assert response.content == text_of(shown) == "Here it is:Nice?"
    assert response.message_content == response.metadata["parts"] == PARTS
    assert response.finish_reason == "stop"


def test_data_that_is_not_an_image_is_not_shown():
    urls = [
        "data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+", "data:text/html,<script>", "javascript:alert(1)", "",
        "data:image/png;base64,!", 5, None,
    ]  # fmt: skip
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    message = {"content": "Here.", "images": [*images, {"image_url": None}]}
    response = CODECS["openrouter"].decode_body({"choices": [{"message": message, "finish_reason": "stop"}]})
    assert response.message_content == "Here."


# -- back, and to other providers -------------------------------------------------------------------------------------

CALLS = [FunctionCall("plot", {}, "c1"), FunctionCall("plot", {}, "c2")]


def answered(response: LLMResponse) -> LLMMessage:
    return LLMMessage("assistant", response.message_content, provider_extras=response.raw_response)


@pytest.mark.parametrize("name", STREAMS)
def test_an_answer_with_an_image_is_sent_back_unchanged(name):
    response, _ = streamed(name)
    messages = [LLMMessage("user", "Draw."), answered(response), LLMMessage("user", "Bluer.")]
    got = sent(name, messages)
    if name == "gemini":
        parts = [{"text": "Here it is:"}, GEMINI_PARTS[2], {"text": "Nice?"}]
        assert [message["role"] for message in got] == ["user", "model", "user"]
        assert got[1]["parts"] == parts
    elif name == "responses":
        assert got[1:-1] == ITEMS
    else:
        assert got[1] == {"role": "assistant", "content": "Here it is:Nice?", "images": [CHAT_IMAGE]}
        assert len(got) == 3


def conversation(source):
    """A prompt with an image, results with images, and an answer with one, as `source` sent it."""
    response, _ = streamed(source)
    return [
        LLMMessage("user", [TEXT, IMAGE]),
        LLMMessage("assistant", "I'll plot it.", tool_calls=CALLS),
        LLMMessage("tool", [IMAGE], "plot", tool_call_id="c1"),
        LLMMessage("tool", [{"type": "text", "text": "second"}, OTHER], "plot", tool_call_id="c2"),
        answered(response),
        LLMMessage("user", "Thanks."),
    ]


@pytest.mark.parametrize(
    ("source", "target"),
    [*(("gemini", name) for name in CODECS), ("responses", "openrouter"), ("openrouter", "responses")],
)
def test_every_pair_of_providers_with_images_everywhere(source, target):
    messages = conversation(source)
    got = sent(target, messages)
    replayed = CODECS[source].facts.name == CODECS[target].facts.name and CODECS[source].format == CODECS[target].format
    shown = json.dumps(got)
    assert shown.count(GIF) == 3, "the question's, the first result's, the answer's"
    assert shown.count(OTHER["data"]) == 1
    assert "not shown" not in shown
    if not replayed:
        in_results = CODECS[target].format != "openai_chat"
        assert shown.count("[image: 3x2 gif, shown in the next message]") == (1 if in_results else 2)
        assert shown.count("The images of the answer above:") == 1
    reloaded = [LLMMessage.from_dict(json.loads(json.dumps(message.to_dict()))) for message in messages]
    assert sent(target, reloaded) == got, "nothing depends on what is kept with the messages"


# -- text-only models -------------------------------------------------------------------------------------------------

BLIND = {
    "openai": "o3-mini", "minimax": "MiniMax-M2.5-highspeed", "qwen": "qwen3-max", "zhipu": "glm-4.7-flash",
    "deepseek": "deepseek-v4-pro",
}  # fmt: skip


@pytest.mark.parametrize(("name", "model"), BLIND.items())
def test_text_only_models_get_descriptions_of_images(name, model):
    shown = json.dumps(sent(name, conversation("gemini"), model))
    assert GIF not in shown
    assert OTHER["data"] not in shown
    assert shown.count("[image: 3x2 gif, not shown: this model does not accept images]") == 3
    assert shown.count("[image: 9x9 gif, not shown: this model does not accept images]") == 1
    assert "second" in shown
    assert "What is this?" in shown
