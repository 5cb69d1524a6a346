"""The blocks of messages: those of each vendor in their order, with signatures, and those of users and tools."""

import base64
import hashlib
import json
from pathlib import Path

from nbagent import Agent, FunctionCall, LLMMessage, LLMResponse, ScriptedProvider
from nbagent.core.content.images import image_media_type
from nbagent.core.events import Text, Thinking
from nbagent.errors import ProviderError
from nbagent.providers.base import LLMProvider
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats.anthropic import MessagesCodec
from nbagent.providers.formats.gemini import GeminiCodec
from nbagent.providers.formats.openai_chat import ChatCodec
from nbagent.providers.formats.openai_responses import ResponsesCodec
from nbagent.trace.blocks import blocks_of

SAMPLES = Path(__file__).parents[1] / "providers" / "formats" / "streams"
from support.decoding import decode  # noqa: E402

CODECS = {
    "chat": ChatCodec(CATALOG["open_source"]),
    "responses": ResponsesCodec(CATALOG["openai"]),
    "messages": MessagesCodec(CATALOG["claude"]),
    "gemini": GeminiCodec(CATALOG["gemini"]),
}
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def look(city: str) -> str:
    """Look at a city."""
    return f"{city} is fine"


async def sample(name: str) -> LLMResponse:
    response, _ = await decode(CODECS[name.split("_")[0]], [(SAMPLES / f"{name}.sse").read_bytes()])
    return response


def answer(response: LLMResponse) -> LLMMessage:
    return LLMMessage("assistant", response.message_content, tool_calls=response.function_calls)


async def test_blocks_from_claude_keep_their_order():
    response = await sample("messages_claude_thinking_tools")
    agent = Agent(ScriptedProvider([response, "Done."]), tools=[look])
    await agent.chat("Look around.")
    blocks = agent.trace.blocks
    assert blocks["type"].tolist() == [
        *("text", "thinking", "redacted", "text", "tool_call", "tool_call", "tool_result", "tool_result", "text")
    ]
    assert blocks["signature"].tolist()[:4] == [False, True, True, False]
    thinking, redacted = blocks.iloc[1], blocks.iloc[2]
    assert (thinking["text"], thinking["chars"]) == ("I need two.", 11)
    assert json.loads(thinking["provider_data"])["signature"] == "c2ln"
    assert json.loads(redacted["provider_data"]) == {"type": "redacted_thinking", "data": "b3BhcXVl"}
    assert agent.trace.thinking["kind"].tolist() == ["visible", "redacted"]


async def test_blocks_join_messages_calls_and_tool_calls():
    response = await sample("messages_claude_thinking_tools")
    agent = Agent(ScriptedProvider([response, "Done."]), tools=[look])
    await agent.chat("Look around.")
    blocks, calls = agent.trace.blocks, agent.trace.tool_calls
    assert (blocks.groupby("message_id", sort=False).size().tolist()) == agent.trace.messages["n_blocks"].tolist()
    assert blocks["block_id"].is_unique
    for kind in ("tool_call", "tool_result"):
        own = blocks[blocks["type"] == kind]
        assert own["tool_call_id"].tolist() == calls["tool_call_id"].tolist()
        assert own["call_id"].tolist() == calls["call_id"].tolist()
    assert json.loads(blocks[blocks["type"] == "tool_call"]["text"].iloc[0]) == calls["args"].iloc[0]


async def test_blocks_hold_the_whole_answer():
    checked = 0
    for path in sorted(SAMPLES.glob("*.sse")):
        try:
            response = await sample(path.stem)
        except ProviderError:  # this one holds no whole answer
            continue
        blocks = blocks_of(answer(response), response)
        said = [block["text"] for block in blocks if block["type"] in ("text", "refusal")]
        assert "".join(said) == response.content, path.stem
        thought = "".join(block["text"] for block in blocks if block["type"] == "thinking")
        assert thought.replace("\n", "") == (response.metadata.get("thinking") or "").replace("\n", ""), path.stem
        called = [block["name"] for block in blocks if block["type"] == "tool_call"]
        ours = [call.name for call in response.function_calls or []]
        assert [name for name in called if name in ours] == ours, path.stem
        native = json.dumps(response.raw_response)
        if "thoughtSignature" in native or "encrypted_content" in native or '"signature"' in native:
            assert any(block["signature"] for block in blocks), path.stem
        checked += 1
    assert checked > 30


async def test_a_refusal_is_a_block_of_its_own():
    for name in ("chat_refusal", "responses_refusal"):
        response = await sample(name)
        assert "refusal" in [block["type"] for block in blocks_of(answer(response), response)]


async def test_images_have_their_hash_and_addresses_stay():
    agent = Agent(ScriptedProvider(["Nice.", "Nice too."]))
    await agent.chat(["What is this?", PNG])
    await agent.chat(["And this?", {"type": "image", "url": "https://example.org/cat.png"}])
    images = agent.trace.blocks[agent.trace.blocks["type"] == "image"]
    assert image_media_type(PNG) == images["media_type"].iloc[0] == "image/png"
    assert images["sha256"].iloc[0] == hashlib.sha256(PNG).hexdigest()
    assert json.loads(images["provider_data"].iloc[1]) == {"url": "https://example.org/cat.png"}


async def test_an_image_returned_by_a_tool_is_a_block():
    from nbagent.core.content.images import Image

    def plot() -> Image:
        """A plot."""
        return Image(PNG, "image/png")

    agent = Agent(ScriptedProvider([FunctionCall("plot", {}, "1"), "Seen."]), tools=[plot])
    await agent.chat("Plot.")
    own = agent.trace.blocks[agent.trace.blocks["tool_call_id"].notna()]
    assert own["type"].tolist() == ["tool_call", "tool_result", "image"]
    assert own["tool_call_id"].nunique() == 1


async def test_streamed_thinking_is_a_block_if_the_answer_does_not_repeat_it():
    class Thinker(LLMProvider):
        vendor, model_name = "scripted", "thinker"

        def supports_function_calling(self):
            return True

        async def chat(self, messages, functions=None, temperature=None, **kwargs):
            raise AssertionError

        async def stream(self, request):
            yield Thinking("first ")
            yield Thinking("think")
            yield Text("then speak")
            yield LLMResponse("then speak", None, "stop")

    agent = Agent(Thinker())
    await agent.chat("x")
    assert agent.trace.blocks["text"].tolist() == ["x", "first think", "then speak"]
    assert agent.trace.thinking["text"].tolist() == ["first think"]
