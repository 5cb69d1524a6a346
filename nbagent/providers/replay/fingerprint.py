"""Identifies requests by their fingerprints. `difference` shows how two requests differ.

A fingerprint covers the messages, the tools on offer and the options that can change the answer, but nothing that
changes between runs. Tool calls have numbers instead of ids, images are replaced by their hashes, and data that only
the provider can read is omitted. A request therefore has the same fingerprint in every run, with every provider, with
or without a key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbagent.core.json_text import json_text
from nbagent.core.messages import Content, LLMMessage

#: The request options that can change an answer. Others are omitted, since they may contain anything, even a key.
OPTIONS = ("temperature", "max_tokens", "thinking", "tool_choice", "top_p", "seed", "stop")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A request as JSON data."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    functions: list[dict[str, Any]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    #: For each message, the hash of the conversation up to and including it.
    hashes: list[str] = field(default_factory=list)
    #: A short text, the same for equal requests.
    hash: str = ""


class Fingerprints:
    """Computes fingerprints. A message that appears in many requests is read and hashed only once.

    >>> Fingerprints().of([LLMMessage("user", "Hi")], None, {"temperature": None}).messages
    [{'role': 'user', 'content': 'Hi'}]
    """

    def __init__(self) -> None:
        #: The messages, by the hash of the conversation up to and including them.
        self._data: dict[str, dict[str, Any]] = {}
        #: By the hash before it and its `id()`: the message, which keeps the `id()` unique, and the hash after it.
        self._seen: dict[tuple[str, int], tuple[LLMMessage, str]] = {}

    def forget(self) -> None:
        """Read all messages again, because the secrets to remove have changed."""
        self._seen.clear()

    def of(
        self,
        messages: Sequence[LLMMessage],
        functions: Iterable[Mapping[str, Any]] | None,
        options: Mapping[str, Any],
        redact: Callable[[Any], Any] = lambda data: data,
    ) -> Fingerprint:
        """The fingerprint of a request. `redact` removes secrets from JSON data."""

        def plain(data: Any) -> Any:
            return redact(json.loads(json_text(data))) if data else data

        hashes, at = [], ""
        numbers: dict[str | None, int] = {}  # the latest answer's calls, by id
        for message in messages:
            if message.tool_calls:
                numbers = {call.id: number for number, call in enumerate(message.tool_calls, 1)}
            key = (at, id(message))
            if key not in self._seen:
                self._seen[key] = (message, self.add(at, plain(_message(message, numbers))))
            at = self._seen[key][1]
            hashes.append(at)
        offered = [{name: each.get(name) for name in ("name", "description", "parameters")} for each in functions or ()]
        chosen = {name: options[name] for name in OPTIONS if options.get(name) is not None}
        return self.from_hashes(hashes, plain(offered), plain(chosen))

    def add(self, after: str, message: dict[str, Any]) -> str:
        """Keep a message, and return the hash of the conversation up to and including it. `after` is the hash that this
        method returned for the previous message.
        """
        key = _hash(after, message)
        self._data.setdefault(key, message)
        return key

    def from_hashes(self, hashes: list[str], functions: list[dict[str, Any]], options: dict[str, Any]) -> Fingerprint:
        """The fingerprint of a request whose messages have already been added. `hashes` identifies them."""
        key = _hash(hashes[-1] if hashes else "", [functions, options])
        return Fingerprint([self._data[each] for each in hashes], functions, options, hashes, key)


#: `json.dumps` would create an encoder for each value.
_ENCODER = json.JSONEncoder(sort_keys=True)


def _hash(after: str, data: Any) -> str:
    text = after + _ENCODER.encode(data)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _message(message: LLMMessage, numbers: Mapping[str | None, int]) -> dict[str, Any]:
    data: dict[str, Any] = {"role": message.role, "content": _content(message.content)}
    if message.name:
        data["name"] = message.name
    if message.tool_calls:
        data["tool_calls"] = [{**call.to_dict(), "id": numbers[call.id]} for call in message.tool_calls]
    if message.tool_call_id:
        data["tool_call_id"] = numbers.get(message.tool_call_id)
    return {**data, "is_error": True} if message.is_error else data


def _content(content: Content) -> Any:
    """The content, with hashes instead of image data."""
    if isinstance(content, str):
        return content
    return [
        {**part, "data": f"sha256:{hashlib.sha256(data.encode()).hexdigest()}"}
        if isinstance(data := part.get("data"), str)
        else dict(part)
        for part in content
    ]
