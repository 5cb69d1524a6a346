"""Keeps the secrets of a request out of the answer to it, though a server may repeat them.

It may be text, a tool's argument or an id, in any spelling, and in pieces as small as a character. Nearly all pieces
cost one search of a regular expression. Only what may be the beginning of a secret waits for the next piece.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import lru_cache
from typing import Any

from nbagent.core.events import Event, Text, Thinking, ToolCallDelta
from nbagent.core.messages import LLMResponse
from nbagent.providers.http.redaction import Redactor, is_telling
from nbagent.providers.http.spellings import may_be_words, spellings_of, starts_of


class AnswerMask:
    """Masks secrets in answers. `secrets` holds the name that replaces each, long ones first."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._spellings = [(spellings_of(secret), f"${name}") for secret, name in secrets.items()]
        #: Finds where a secret may begin.
        self.search = starts_of([literal for each, _ in self._spellings for literal in each.literals]).search

    def text(self, text: str, is_whole: bool = True) -> str:
        """The text with a name for each secret; in one that goes on, its end is left alone."""
        for spellings, name in self._spellings:
            if spellings.may_be_in(text):
                text = spellings.replaced(text, name)
                text = spellings.cut(text, name) if is_whole else text
        return text

    def begun_at(self, text: str) -> int:
        """Where the text ends in the beginning of a secret; its length if it does not."""
        return min([spellings.begun_at(text) for spellings, _ in self._spellings])

    def response(self, response: LLMResponse) -> LLMResponse:
        """The complete answer without secrets. Its lists and dicts are changed in place."""
        calls = response.function_calls
        for at, call in enumerate(calls or ()):
            self._change([call.arguments])
            name, call_id, raw = self.text(call.name), self._optional(call.id), self._optional(call.raw)
            if calls and (name, call_id, raw) != (call.name, call.id, call.raw):
                calls[at] = replace(call, name=name, id=call_id, raw=raw)
        self._change([response.metadata, response.raw_response])
        content, reason = self.text(response.content), self._optional(response.finish_reason)
        if content == response.content and reason == response.finish_reason:
            return response
        return replace(response, content=content, finish_reason=reason)

    def _optional(self, text: str | None) -> str | None:
        return text and self.text(text)

    def _change(self, values: list[Any]) -> None:
        """Mask the texts in lists and dicts, as deep as they are."""
        pending: list[Any] = [values]
        while pending:
            holder = pending.pop()
            for key, value in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
                if isinstance(value, str):
                    masked = self.text(value)
                    if masked is not value:
                        holder[key] = masked
                elif isinstance(value, dict | list):
                    pending.append(value)
                if isinstance(key, str) and (name := self.text(key)) != key:
                    holder[name] = holder.pop(key)


async def masked(items: AsyncGenerator[Event | LLMResponse], mask: AnswerMask) -> AsyncGenerator[Event | LLMResponse]:
    """The items of an answer without secrets."""
    held: Event | None = None
    search = mask.search
    async with aclosing(items):
        try:
            async for item in items:
                if held is None and type(item) is Text and not search(item.content):
                    yield item
                    continue
                if held is not None and not _goes_on(held, item):
                    yield _let_go(held, mask)
                    held = None
                if isinstance(item, LLMResponse):
                    yield mask.response(item)
                elif not isinstance(item, Text | Thinking | ToolCallDelta):
                    yield item
                else:
                    held = _hold(item, held, mask)
                    if item.content or item.tool_name:
                        yield item
        except Exception:
            if held is not None:
                yield _let_go(held, mask)
            raise


def _goes_on(held: Event, item: Event | LLMResponse) -> bool:
    """Whether an item is the next piece of what was held."""
    return type(item) is type(held) and held.metadata.get("index") == item.metadata.get("index")


def _hold(piece: Event, held: Event | None, mask: AnswerMask) -> Event | None:
    """Mask a piece, which follows what was held. Returns its end if that may begin a secret."""
    text = mask.text(held.content + piece.content if held else piece.content, is_whole=False)
    end = mask.begun_at(text)
    piece.content = text[:end]
    piece.tool_name = piece.tool_name and mask.text(piece.tool_name)
    return type(piece)(text[end:], piece.tool_name, metadata=piece.metadata) if end < len(text) else None


def _let_go(held: Event, mask: AnswerMask) -> Event:
    """What was held, since nothing follows it: no secret, or the long beginning of one."""
    held.content = mask.text(held.content)
    return held


def mask_for(request: Any, variable: str) -> AnswerMask | None:
    """The mask for the answer to a request of httpx or httpx2; None if it sent no secret that could be told from words.

    `variable` is the name that replaces the vendor's own key.
    """
    names = [name.decode("ascii", "replace").lower() for name, _ in request.headers.raw]
    telling = tuple((name, request.headers[name]) for name in names if is_telling(name))
    return _mask_for(str(request.url), telling, variable)


@lru_cache(maxsize=32)
def _mask_for(url: str, headers: tuple[tuple[str, str], ...], variable: str) -> AnswerMask | None:
    secrets = Redactor(url, dict(headers), None, variable).secrets
    findable = {secret: name for secret, name in secrets.items() if not may_be_words(secret)}
    return AnswerMask(findable) if findable else None
