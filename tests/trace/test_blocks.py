"""The blocks of messages of each provider, in order and with signatures, and of users and tools."""

import base64
import hashlib
import json
from pathlib import Path

from support.decoding import decode

from nbagent import Agent, FunctionCall, LLMMessage, LLMResponse, ScriptedProvider
from nbagent.core.content.images import Image
from nbagent.errors import ProviderError
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats.anthropic import MessagesCodec
from nbagent.providers.formats.gemini import GeminiCodec
from nbagent.providers.formats.openai_chat import ChatCodec
from nbagent.providers.formats.openai_responses import ResponsesCodec
from nbagent.trace.blocks import blocks_of

SAMPLES = Path(__file__).parents[1] / "providers" / "formats" / "streams"
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


async def test_claudes_blocks_keep_their_order_and_join_messages_calls_and_tool_calls():
    response = await sample("messages_claude_thinking_tools")
    agent = Agent(ScriptedProvider([response, "Done."]), tools=[look])
    await agent.chat("Look around.")
    blocks, calls = agent.trace.blocks, agent.trace.tool_calls
    assert blocks["type"].tolist() == [
        *("text", "thinking", "redacted", "text", "tool_call", "tool_call", "tool_result", "tool_result", "text")
    ]
    assert blocks["signature"].tolist()[:4] == [False, True, True, False]
    thinking, redacted = blocks.iloc[1], blocks.iloc[2]
    assert (thinking["text"], thinking["chars"]) == ("I need two.", 11)
    assert json.loads(thinking["provider_data"])["signature"] == "c2ln"
    assert json.loads(redacted["provider_data"]) == {"type": "redacted_thinking", "data": "b3BhcXVl"}
    assert (blocks.groupby("message_id", sort=False).size().tolist()) == agent.trace.messages["n_blocks"].tolist()
    for kind in ("tool_call", "tool_result"):
        assert blocks.loc[blocks["type"] == kind, "tool_call_id"].tolist() == calls["tool_call_id"].tolist()


async def test_blocks_contain_the_whole_answer():
    checked, refusals = 0, set()
    for path in sorted(SAMPLES.glob("*.sse")):
        try:
            response = await sample(path.stem)
        except ProviderError:  # this stream has no complete answer
            continue
        blocks = blocks_of(answer(response), response)
        said = [block["text"] for block in blocks if block["type"] in ("text", "refusal")]
        assert "".join(said) == response.content, path.stem
        thought = "".join(block["text"] for block in blocks if block["type"] == "thinking")
        assert thought.replace("\n", "") == (response.metadata.get("thinking") or "").replace("\n", ""), path.stem
        called = [block["name"] for block in blocks if block["type"] == "tool_call"]
        ours = [call.name for call in response.function_calls or []]
        assert [name for name in called if name in ours] == ours, path.stem
        refusals |= {path.stem for block in blocks if block["type"] == "refusal"}
        checked += 1
    assert checked > 30
    assert refusals >= {"chat_refusal", "responses_refusal"}


async def test_images_have_their_hash_and_addresses_are_kept():
    def plot() -> Image:
        """A plot."""
        return Image(PNG, "image/png")

    agent = Agent(ScriptedProvider(["Nice.", FunctionCall("plot", {}, "1"), "Seen."]), tools=[plot])
    await agent.chat(["What is this?", PNG])
    await agent.chat(["Plot this.", {"type": "image", "url": "https://example.org/cat.png"}])
    images = agent.trace.blocks[agent.trace.blocks["type"] == "image"]
    sent, linked, plotted = (image for _, image in images.iterrows())
    assert (sent["media_type"], sent["sha256"]) == ("image/png", hashlib.sha256(PNG).hexdigest())
    assert json.loads(linked["provider_data"]) == {"url": "https://example.org/cat.png"}
    assert plotted["tool_call_id"] == agent.trace.tool_calls["tool_call_id"][0]
