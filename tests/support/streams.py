"""Recorded streams and their expected results: `chat_acme.sse` and `chat_acme.json`.

A file's name begins with its wire format; if the provider's name follows, that provider's codec reads it. To add one,
save the stream, run `PYTHONPATH=tests python -m support.streams`, and read the JSON that it writes: it is what the
tests expect from then on. With the names of streams, it writes theirs anew.
"""

import asyncio
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from nbagent.core.events import Event, ToolCallDelta
from nbagent.core.messages import LLMResponse
from nbagent.errors import ProviderError
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats.anthropic import MessagesCodec
from nbagent.providers.formats.codec import Codec
from nbagent.providers.formats.gemini import GeminiCodec
from nbagent.providers.formats.openai_chat import ChatCodec
from nbagent.providers.formats.openai_responses import ResponsesCodec
from support.decoding import SAMPLES, as_message, decode, text_of, thinking_of

COMMAND = "PYTHONPATH=tests python -m support.streams"
#: Wire format -> its codec, and the default provider.
FORMATS: dict[str, tuple[Any, str]] = {
    "chat": (ChatCodec, "open_source"),
    "messages": (MessagesCodec, "claude"),
    "responses": (ResponsesCodec, "openai"),
    "gemini": (GeminiCodec, "gemini"),
}
STREAMS = {path.stem: path for path in sorted(SAMPLES.iterdir()) if path.suffix == ".sse"}
#: Our own ids, where the provider gave none: new ones each time.
_MADE = re.compile(r'"(gemini_)?call_[0-9a-f]{24}"')


def codec_of(name: str) -> Codec:
    kind, provider, *_ = [*name.split("_"), ""]
    codec, usual = FORMATS[kind]
    return codec(CATALOG[provider if provider in CATALOG else usual])


async def outcome(codec: Codec, pieces: Iterable[Any]) -> dict[str, Any]:
    """The result of decoding a stream's pieces, as JSON data: an answer, or an error instead."""
    try:
        response, shown = await decode(codec, pieces)
    except ProviderError as error:
        if not error.retryable:
            raise
        return {"error": type(error).__name__, "message": error.message}
    assert text_of(shown) == response.content, "what is shown is the answer"
    assert thinking_of(shown) == response.metadata.get("thinking", "")
    return json.loads(_MADE.sub('"made here"', json.dumps(_data(codec, response, shown))))


def _data(codec: Codec, response: LLMResponse, shown: list[Event]) -> dict[str, Any]:
    """The answer without what is empty; `goes_back` is what the provider gets of it with the next question.

    `arguments_shown`: by the call's index and its tool's name, what was shown of its arguments while they came.
    """
    calls = [
        {"id": call.id, "name": call.name, "arguments": call.arguments} | ({"cut": call.raw} if call.raw else {})
        for call in response.function_calls or []
    ]
    assert len({call["id"] for call in calls}) == len(calls), "ids tell calls apart"
    pieces: defaultdict[tuple[int, Any], str] = defaultdict(str)
    for event in shown:
        if isinstance(event, ToolCallDelta):
            pieces[event.metadata["index"], event.tool_name] += event.content
    metadata = response.metadata or {}
    data = {
        "text": response.content,
        "thinking": metadata.get("thinking"),
        "calls": calls,
        "arguments_shown": [[*key, text] for key, text in pieces.items()],
        "finish_reason": response.finish_reason,
        "finish_reason_raw": metadata.get("finish_reason_raw"),
        "usage": {key: count for key, count in response.usage.to_dict().items() if count},
        "model": metadata.get("model"),
        "response_id": metadata.get("response_id"),
        "goes_back": json.loads(b"[" + codec.encode_message(as_message(response)) + b"]"),
    }
    return {key: value for key, value in data.items() if value not in (None, [], {})}


def path_of(name: str) -> Path:
    return SAMPLES / f"{name}.json"


def expected(name: str) -> dict[str, Any]:
    assert path_of(name).exists(), f"there is no {name}.json: run `{COMMAND}`, and read what it writes"
    return json.loads(path_of(name).read_text("utf-8"))


def _written(data: dict[str, Any]) -> str:
    """JSON that is easy to read and compare, with a line for each field and list item."""
    as_text = partial(json.dumps, ensure_ascii=False)
    fields = []
    for key, value in data.items():
        lines = "[\n    " + ",\n    ".join(map(as_text, value)) + "\n  ]"
        fields.append(f'  "{key}": {lines if isinstance(value, list) else as_text(value)}')
    return "{\n" + ",\n".join(fields) + "\n}\n"


if __name__ == "__main__":
    for name in sys.argv[1:] or [name for name in STREAMS if not path_of(name).exists()]:
        data = asyncio.run(outcome(codec_of(name), [STREAMS[name].read_bytes()]))
        path_of(name).write_text(_written(data), "utf-8")
        print(path_of(name))
