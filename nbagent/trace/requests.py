"""Reconstructs a model request from the tables alone.

`calls` shows which messages each request added to an earlier one. `messages` contains the messages, with non-text parts
in `data`. `prompts` contains the texts that requests share (system prompts and tool definitions), by hash.
"""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from nbagent.checks import invalid
from nbagent.core.messages import LLMMessage
from nbagent.core.model_request import ModelRequest
from nbagent.errors import ConfigurationError
from nbagent.trace.rows import Row, as_json


def digest(text: str) -> str:
    """Return the hash by which `prompts` identifies a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def message_data(message: LLMMessage) -> str | None:
    """Return a message's data other than its role, text and cell, as JSON, or None if there is no other data."""
    data = message.to_dict()
    del data["role"]
    data.pop("cell_id", None)
    if isinstance(data["content"], str):
        del data["content"]
    return as_json(data) if data else None


def messages_in(after: str | None, kept: int, added: Sequence[str]) -> str:
    """Return the JSON for the column `messages_in`: how many messages of an earlier call are kept, and which are added.

    >>> messages_in("call_1", 2, ["msg_3"])
    '{"after": "call_1", "kept": 2, "added": ["msg_3"]}'
    """
    # faster than `as_json`; ids need no escaping
    before = f'"{after}"' if kept else "null"
    ids = ", ".join([f'"{message_id}"' for message_id in added])
    return f'{{"after": {before}, "kept": {kept}, "added": [{ids}]}}'


def shared_start(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Count the leading objects that are identical. Equality is not enough, since the same prompt may be sent twice.

    >>> shared_start([1, 2, 3], [1, 2, 4, 5])
    2
    """
    same = list(map(operator.is_, a, b))
    return len(same) if all(same) else same.index(False)


class Requests:
    """The requests in the tables `calls`, `messages` and `prompts`: see `Trace.request`."""

    def __init__(self, tables: Mapping[str, Iterable[Row]]) -> None:
        self.calls = {row["call_id"]: row for row in tables["calls"]}
        self._messages = {row["message_id"]: row for row in tables["messages"]}
        self._texts = {row["hash"]: row["text"] for row in tables["prompts"]}

    def get(self, call_id: str) -> ModelRequest:
        """Return a call's request. Raises ConfigurationError if the call is unknown or the tables are incomplete."""
        if (call := self.calls.get(call_id)) is None:
            raise invalid("call_id", call_id, "the id of a call in this trace", "trace.calls['call_id'] lists them.")
        with missing_rows_reported(call_id):
            return self._request(call)

    def _request(self, call: Row) -> ModelRequest:
        system = [LLMMessage("system", self._texts[call["system_hash"]])] if call["system_hash"] else []
        params = json.loads(call["params"] or "{}")
        effective = {name: call.get(name) for name in ("thinking_level", "tool_choice", "stream")} | {
            "params": params,
            "refused": json.loads(call.get("refused") or "{}"),
        }
        messages = [*system, *messages_of([self._messages[message_id] for message_id in self._messages_in(call)])]
        tools = json.loads(self._texts[call["tools_hash"]]) if call["tools_hash"] else None
        return ModelRequest(messages, tools, params, effective, reminder=call.get("reminder") or "")

    def _messages_in(self, call: Row) -> list[str]:
        """The `message_id`s of a request: those kept from earlier requests, followed by its own."""
        steps: list[list[str]] = []
        step = json.loads(call["messages_in"])
        steps.append(step["added"])
        while kept := step["kept"]:
            step = json.loads(self.calls[step["after"]]["messages_in"])
            steps.append(step["added"][: max(0, kept - step["kept"])])
            step["kept"] = min(kept, step["kept"])
        return [message_id for added in reversed(steps) for message_id in added]


@contextmanager
def missing_rows_reported(call_id: str) -> Iterator[None]:
    """Turn the exceptions that missing rows cause into a ConfigurationError."""
    try:
        yield
    except (LookupError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"can't reconstruct the request of call {call_id!r}, because part of it is missing: "
            f"{type(error).__name__}: {error}. Load a trace that contains the whole session."
        ) from None


def messages_of(rows: Iterable[Row]) -> list[LLMMessage]:
    """Return the messages in rows of `messages`."""
    known = ({"role": row["role"], "content": row["text"] or "", **json.loads(row.get("data") or "{}")} for row in rows)
    return list(map(LLMMessage.from_dict, known))
