"""What the cells of a notebook gave, as far as their kernel knows: it forgets what it has sent, but for its history.

IPython keeps what a cell returned, and since version 9 what it printed. What the last cells displayed, plots above all,
and their errors are kept here while the extension is loaded.
"""

from __future__ import annotations

from typing import Any

from nbagent.core.messages import Content
from nbagent.errors import ToolError
from nbagent.functions.formatting import format_error, format_result, truncate_result
from nbagent.notebook.host import request_of

_CELLS = 50
_DISPLAYS = 50  # of one cell
_IMAGE_CHARS = 2_000_000
_TEXT_CHARS = 6_000
_IMAGES = ("image/png", "image/jpeg")

Bundle = dict[str, Any]


class CellOutputs:
    """The outputs of one shell's cells, by their numbers, `In [number]`."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        #: By the request that a cell came with: its displays, by `display_id` where they have one.
        self._displays: dict[str, dict[Any, Bundle]] = {}
        self._requests: dict[int, str] = {}
        self._errors: dict[int, str] = {}

    def watch(self) -> None:
        """Keep what is displayed from now on."""
        if hasattr(self._shell.display_pub, "register_hook"):
            self._shell.display_pub.register_hook(self._published)
            self._shell.events.register("post_run_cell", self._ran)

    def unwatch(self) -> None:
        """Keep nothing any more."""
        publisher = self._shell.display_pub
        if hasattr(publisher, "register_hook") and publisher.unregister_hook(self._published):
            self._shell.events.unregister("post_run_cell", self._ran)

    def _published(self, message: Any) -> Any:
        """A hook of the kernel's: takes note of a display, and lets it go on."""
        content = message.get("content", {})
        data = content.get("data")
        if isinstance(data, dict):
            display_id = (content.get("transient") or {}).get("display_id")
            self._keep(message, display_id, _lean(data))
        return message

    def _keep(self, message: Any, display_id: Any, bundle: Bundle) -> None:
        if message.get("msg_type") == "update_display_data":
            for displays in reversed(self._displays.values()):
                if display_id in displays:
                    displays[display_id] = bundle
            return
        request = message.get("parent_header", {}).get("msg_id", "")
        displays = self._displays.setdefault(request, {})
        displays[display_id or object()] = bundle
        _forget(displays, _DISPLAYS)
        _forget(self._displays, _CELLS)

    def _ran(self, result: Any) -> None:
        """A cell has ended, which had a number unless it was no cell of the history."""
        number = getattr(result, "execution_count", None)
        if number is None:
            return
        if request := request_of(self._shell).get("header", {}).get("msg_id"):
            self._requests[number] = request
        if (error := result.error_in_exec or result.error_before_exec) is not None:
            self._errors[number] = format_error(error)
            _forget(self._errors, _CELLS)

    def read(self, number: int | None = None) -> Content:
        """A cell's source and what it gave; without a number, the last one's that gave something and is no question."""
        sources = self._shell.history_manager.input_hist_raw
        if number is None:
            ran = [n for n in range(len(sources) - 1, 0, -1) if not _asks(sources[n])]
            number = next(filter(self._gave, ran), next(iter(ran), 0))
        if not 0 < number < len(sources):
            raise ToolError(f"there is no cell In [{number}]: the last one is In [{len(sources) - 1}]")
        parts: list[Any] = [_text(f"In [{number}]:", sources[number])]
        for kind, bundle in self._given(number):
            parts += _parts(kind, bundle)
        if number in self._errors:
            parts.append(_text("Raised:", self._errors[number]))
        if len(parts) == 1:
            parts.append(_text("No output is known."))
        if all(part["type"] == "text" for part in parts):
            return "\n".join(part["text"] for part in parts)
        return parts

    def _gave(self, number: int) -> bool:
        return bool(self._given(number)) or number in self._errors

    def _given(self, number: int) -> list[tuple[str, Bundle]]:
        """What it printed, displayed and returned."""
        history = self._shell.history_manager
        kept = getattr(history, "outputs", {}).get(number, ())  # older ones have none
        printed = [(each.output_type, dict(each.bundle)) for each in kept]
        result = [item for item in printed if item[0] == "execute_result"]
        if not result and number in history.output_hist:
            result = [("execute_result", {"text/plain": str(format_result(history.output_hist[number]))})]
        displays = list(self._displays.get(self._requests.get(number, ""), {}).values())
        streams = [item for item in printed if item[0] in ("out_stream", "err_stream")]
        return [*streams, *(("display_data", bundle) for bundle in displays), *result]


def _forget(kept: dict[Any, Any], most: int) -> None:
    """Drop the oldest where there is too much."""
    while len(kept) > most:
        del kept[next(iter(kept))]


def _asks(source: str) -> bool:
    """Whether a cell only talks to an agent."""
    return not source.strip() or source.lstrip().startswith(("%%agent", "%agent"))


def _lean(data: Bundle) -> Bundle:
    """A bundle's text, and its image unless that is very large."""
    text = data.get("text/plain")
    kept = {"text/plain": truncate_result(text, _TEXT_CHARS)[0]} if isinstance(text, str) else {}
    images = {kind: data[kind] for kind in _IMAGES if isinstance(data.get(kind), str)}
    return kept | {kind: image for kind, image in images.items() if len(image) <= _IMAGE_CHARS}


_SAID = {"out_stream": "Printed:", "err_stream": "Printed to stderr:", "display_data": "Displayed:"}


def _parts(kind: str, bundle: Bundle) -> list[dict[str, Any]]:
    stream = bundle.get("stream")
    text = "".join(stream) if isinstance(stream, list) else str(stream or bundle.get("text/plain", ""))
    image = next((name for name in _IMAGES if isinstance(bundle.get(name), str)), None)
    parts = [_text(_SAID.get(kind, "Returned:"), text)]
    if image is not None:
        parts.append({"type": "image", "media_type": image, "data": bundle[image].replace("\n", "")})
    return parts


def _text(head: str, body: str = "") -> dict[str, Any]:
    return {"type": "text", "text": f"{head}\n{truncate_result(body.rstrip(), _TEXT_CHARS)[0]}".rstrip()}
