"""Text-only models: an image in the prompt is a clear error, and earlier images do not stop a conversation."""

import base64
import json

import pytest
from support.loopback import Answer, said, sse

from nbagent import Agent, ScriptedProvider
from nbagent.core.events import Retry
from nbagent.errors import BadRequestError, ImageInputError, ServerError
from nbagent.providers.formats.errors import error_class

GIF = b"GIF89a\3\0\2\0\0\0\0,\0\0\0\0\3\0\2\0\0\2"
ENCODED = base64.b64encode(GIF).decode()
TOOL_CALL = {"index": 0, "id": "c1", "function": {"name": "snapshot", "arguments": "{}"}}
CALL = {"choices": [{"index": 0, "delta": {"tool_calls": [TOOL_CALL]}, "finish_reason": "tool_calls"}]}


def refused(message, status=400, **more):
    return Answer(json.dumps({"error": {"message": message, **more}}).encode(), status, {"content-type": "text/json"})


def snapshot() -> list:
    """Take a snapshot."""
    return [{"type": "image", "media_type": "image/gif", "data": ENCODED}, {"type": "text", "text": "taken"}]


TEXT_ONLY = [
    ("Invalid content type. image_url is only supported by certain models.", 400),
    ("Failed to deserialize the JSON body: messages[0]: unknown variant `image_url`, expected `text` at line 1", 400),
    ("messages.content.type 参数非法，取值范围 ['text']", 400),
    ("No endpoints found that support image input", 404),
    ("image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", 500),
    ("At most 0 image(s) may be provided in one prompt.", 400),
]
OTHER = [
    ("You uploaded an unsupported image. Please make sure your image is valid.", 400, BadRequestError),
    ("image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes", 400, BadRequestError),
    ("image media type is not supported: image/tiff", 400, BadRequestError),
    ("Internal server error", 500, ServerError),
]


def test_errors_about_text_only_models_differ_from_other_image_errors():
    expected = [*((*each, ImageInputError) for each in TEXT_ONLY), *OTHER]
    assert [(message, status, error_class(message, (), status)) for message, status, _ in expected] == expected


async def test_a_refused_image_prompt_is_an_error_and_the_conversation_continues(loopback, connect):
    loopback.answers = [
        refused("Invalid content type. image_url is only supported by certain models."),
        refused("Invalid content type. image_url is only supported by certain models."),
        Answer(sse(said("Fine."))),
        Answer(sse(said("Still fine."))),
    ]
    agent = Agent(ScriptedProvider(["A dot."]))
    await agent.chat(["What is this?", GIF])
    agent.provider = connect()
    with pytest.raises(ImageInputError, match=r"m1: Invalid content type.*status 400.*a model that accepts images"):
        await agent.chat(["And this?", GIF])
    assert [message.role for message in agent.conversation_history] == ["user", "assistant"]
    assert len(loopback.requests) == 1, "trying again would change what was asked"
    events = [event async for event in agent.chat_stream("Never mind, say hello.")]
    assert events[-1].result.content == "Fine."
    (retry,) = [event for event in events if isinstance(event, Retry)]
    assert "images" in retry.content
    first, *messages = loopback.requests[2].json["messages"]
    note = "What is this?\n[image: 3x2 gif, not shown: this model does not accept images]"
    assert first == {"role": "user", "content": note}
    assert messages[1:] == [{"role": "user", "content": "Never mind, say hello."}]
    assert (await agent.chat("And now?")).content == "Still fine."
    assert len(loopback.requests) == 4, "what was refused is remembered"
    with pytest.raises(ImageInputError, match=r"open_source m1: .*does not accept images.*\[image: 3x2 gif\]"):
        await agent.chat(["And this?", GIF])
    assert len(loopback.requests) == 4
    agent.provider = ScriptedProvider(["A dot."])
    assert (await agent.chat("You see it, don't you?")).content == "A dot."
    assert agent.provider.requests[0][0][0].content[1]["data"] == ENCODED, "nothing is lost"


async def test_a_tool_image_does_not_stop_a_model_that_refuses_images(loopback, connect):
    loopback.answers = [
        Answer(sse(CALL)),
        refused("image input is not supported - hint: you may need to provide the mmproj", 500, type="server_error"),
        Answer(sse(said("Taken."))),
    ]
    agent = Agent(connect(), tools=[snapshot])
    result = await agent.chat("Take a snapshot.")
    assert (result.content, result.status) == ("Taken.", "ok")
    assert [call["result"] for call in result.function_calls] == ["[image: 3x2 gif]\ntaken"]
    tool = loopback.requests[2].json["messages"][-1]
    note = "[image: 3x2 gif, not shown: this model does not accept images]\ntaken"
    assert tool == {"role": "tool", "tool_call_id": "c1", "content": note}
    assert agent.trace.tool_calls["result_text"].tolist() == ["[image: 3x2 gif]\ntaken"]
