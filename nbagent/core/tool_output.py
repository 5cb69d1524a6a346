"""Collects the printed output, displays and progress of a running tool call, up to limits, and announces new output."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from nbagent.text import shortened

#: Limits of one call: characters of text, characters of Base64 images, and displays.
MAX_TEXT, MAX_IMAGES, MAX_DISPLAYS = 20_000, 3_000_000, 50
#: Characters of a progress report.
MAX_PROGRESS = 200
#: Seconds between two announcements.
INTERVAL_S = 0.1
IMAGE_TYPES = ("image/png", "image/jpeg")
#: The MIME type of a widget: `{"model_id": …}`.
WIDGET_TYPE = "application/vnd.jupyter.widget-view+json"

#: `{"stream": "stdout", "text": …}`, or a display: `{"text/plain": …, "text/html": …, "image/png": …}`. A widget's
#: display has its id as `"widget"`.
Part = dict[str, str]


class ToolOutput:
    """The output of one call. Tools write to it from any thread, and `announce()` is called on `loop` shortly
    afterwards.
    """

    def __init__(self, announce: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        self.parts: list[Part] = []
        #: Whether there is output that `shown()` has not returned yet.
        self.has_new_parts = False
        self._progress: float | str | None = None
        self._announce, self._loop = announce, loop
        self._lock = threading.Lock()
        self._text_chars = self._image_chars = 0
        self._displays: dict[str, Part] = {}
        self._is_scheduled = self._is_over = False

    def write(self, text: str, stream: str = "stdout") -> None:
        """Add printed output."""
        with self._lock:
            self._text_chars += len(text)
            kept = text[: max(0, MAX_TEXT - self._text_chars + len(text))]
            if not self.parts or self.parts[-1].get("stream") != stream:
                if not kept or len(self.parts) >= 2 * MAX_DISPLAYS:
                    return
                self.parts.append({"stream": stream, "text": ""})
            self.parts[-1]["text"] = as_on_terminal(self.parts[-1]["text"] + kept)
            self.has_new_parts = True
            self._schedule()

    def display(self, bundle: dict[str, Any], display_id: str | None = None, *, update: bool = False) -> None:
        """Add a display, or update the display with this id."""
        with self._lock:
            part = self._bounded(bundle)
            if update:
                if (known := self._displays.get(display_id or "")) is not None:
                    known.clear()
                    known.update(part)
            elif len(self.parts) < MAX_DISPLAYS:
                self.parts.append(part)
                if display_id:
                    self._displays[display_id] = part
            self.has_new_parts = True
            self._schedule()

    def clear(self) -> None:
        """Remove all output, as `clear_output` does."""
        with self._lock:
            self.parts.clear()
            self.has_new_parts = True
            self._schedule()

    def report(self, progress: float | str) -> None:
        """Report the call's progress, as a number from 0 to 1 or as text."""
        with self._lock:
            is_text = isinstance(progress, str)
            self._progress = shortened(" ".join(str(progress).split()), MAX_PROGRESS) if is_text else float(progress)
            self._schedule()

    def new_progress(self) -> float | str | None:
        """Return the latest progress report, or None if there is no new report."""
        with self._lock:
            progress, self._progress = self._progress, None
            return progress

    def shown(self) -> list[Part]:
        """Return a copy of the output so far."""
        with self._lock:
            self.has_new_parts = False
            return [dict(part) for part in self.parts]

    def end(self) -> list[Part]:
        """End the output when the call is over, and return a copy. Nothing more is announced."""
        self._is_over = True
        return self.shown()

    def images(self) -> list[dict[str, Any]]:
        """Return the images so far, as content parts."""
        shown = [(kind, part[kind]) for part in self.shown() for kind in IMAGE_TYPES if kind in part]
        return [{"type": "image", "media_type": kind, "data": data} for kind, data in shown]

    def _bounded(self, bundle: dict[str, Any]) -> Part:
        part = {kind: bundle[kind] for kind in ("text/plain", "text/html") if isinstance(bundle.get(kind), str)}
        size = sum(map(len, part.values()))
        if self._text_chars + size > MAX_TEXT and "text/html" in part:
            size -= len(part.pop("text/html"))
        self._text_chars += size
        if isinstance(widget := bundle.get(WIDGET_TYPE), dict):
            part["widget"] = str(widget.get("model_id"))
        if "text/plain" in part:
            part["text/plain"] = part["text/plain"][:MAX_TEXT]
        for kind in IMAGE_TYPES:
            data = bundle.get(kind)
            if isinstance(data, str) and self._image_chars + len(data) <= MAX_IMAGES:
                self._image_chars += len(data)
                part[kind] = data.replace("\n", "")
                break
        return part

    def _schedule(self) -> None:
        if self._is_scheduled or self._is_over:
            return
        self._is_scheduled = True
        with suppress(RuntimeError):  # the loop was closed: no reader is left
            self._loop.call_soon_threadsafe(self._loop.call_later, INTERVAL_S, self._announce_now)

    def _announce_now(self) -> None:
        self._is_scheduled = False
        if not self._is_over:
            self._announce()


def as_on_terminal(text: str) -> str:
    r"""Return the text as a terminal shows it. Text after `\r` replaces the line, as in progress bars.

    >>> as_on_terminal("10 %\r20 %\r\ndone")
    '20 %\ndone'
    """
    if "\r" not in text:
        return text
    *lines, last = text.split("\n")
    shown = [line.rstrip("\r").rpartition("\r")[2] for line in lines]
    head, _, tail = last.rpartition("\r")
    shown.append(tail or (f"{head.rpartition(chr(13))[2]}\r" if head else ""))
    return "\n".join(shown)
