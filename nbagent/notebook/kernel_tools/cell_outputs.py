"""Keeps the outputs of a notebook's cells, since a kernel forgets what it has sent, except for its history.

IPython keeps what a cell returned and, since version 9, what it printed. While the extension is loaded, this module
keeps what the last cells displayed, plots above all, and their errors.
"""

from __future__ import annotations

from typing import Any

from nbagent.core.cells import request_of
from nbagent.core.messages import Content
from nbagent.errors import ToolError
from nbagent.functions.formatting import format_error, format_result, truncate_result

#: Cells, and displays of one cell, that are kept.
_KEPT = 50
_IMAGE_CHARS = 2_000_000
_TEXT_CHARS = 6_000
_IMAGE_TYPES = ("image/png", "image/jpeg")
#: The heading of each kind of output.
_HEADINGS = {"out_stream": "Printed:", "err_stream": "Printed to stderr:", "display_data": "Displayed:"}

MimeBundle = dict[str, Any]


class CellOutputs:
    """The outputs of one shell's cells, by their numbers, `In [number]`."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        #: Displays by the id of the request that ran the cell, then by `display_id`.
        self._displays: dict[str, dict[Any, MimeBundle]] = {}
        self._requests: dict[int, str] = {}
        self._errors: dict[int, str] = {}

    def watch(self) -> None:
        """Keep what is displayed from now on."""
        if hasattr(self._shell.display_pub, "register_hook"):
            self._shell.display_pub.register_hook(self._on_message)
            self._shell.events.register("post_run_cell", self._on_cell_end)

    def unwatch(self) -> None:
        """Stop keeping outputs."""
        publisher = self._shell.display_pub
        if hasattr(publisher, "register_hook") and publisher.unregister_hook(self._on_message):
            self._shell.events.unregister("post_run_cell", self._on_cell_end)

    def _on_message(self, message: Any) -> Any:
        """A hook of the kernel: notes a display and passes the message on."""
        content = message.get("content", {})
        if not isinstance(data := content.get("data"), dict):
            return message
        display_id, bundle = (content.get("transient") or {}).get("display_id"), _reduced(data)
        if message.get("msg_type") == "update_display_data":
            for displays in self._displays.values():
                if display_id in displays:
                    displays[display_id] = bundle
            return message
        displays = self._displays.setdefault(message.get("parent_header", {}).get("msg_id", ""), {})
        displays[display_id or object()] = bundle
        _drop_oldest(displays)
        _drop_oldest(self._displays)
        return message

    def _on_cell_end(self, result: Any) -> None:
        number = getattr(result, "execution_count", None)
        if number is None:  # the code is not in the history
            return
        if request := request_of(self._shell).get("header", {}).get("msg_id"):
            self._requests[number] = request
        if (error := result.error_in_exec or result.error_before_exec) is not None:
            self._errors[number] = format_error(error, with_lines=True)
            _drop_oldest(self._errors)

    def read(self, number: int | None = None) -> Content:
        """A cell's source and outputs. By default the last cell that has outputs and is not a question to an agent.

        Raises ToolError if there is no such cell.
        """
        sources = self._shell.history_manager.input_hist_raw
        if number is None:
            ran = [n for n in range(len(sources) - 1, 0, -1) if not _is_for_agent(sources[n])]
            number = next((n for n in ran if self._outputs(n) or n in self._errors), next(iter(ran), 0))
        if not 0 < number < len(sources):
            raise ToolError(f"there is no cell In [{number}]: the last one is In [{len(sources) - 1}]")
        parts: list[Any] = [_text_part(f"In [{number}]:", sources[number])]
        for kind, bundle in self._outputs(number):
            parts += _parts(kind, bundle)
        if number in self._errors:
            parts.append(_text_part("Raised:", self._errors[number]))
        if len(parts) == 1:
            parts.append(_text_part("No output is known."))
        if all(part["type"] == "text" for part in parts):
            return "\n".join(part["text"] for part in parts)
        return parts

    def _outputs(self, number: int) -> list[tuple[str, MimeBundle]]:
        """What the cell printed, displayed and returned."""
        history = self._shell.history_manager
        kept = getattr(history, "outputs", {}).get(number, ())  # new in IPython 9
        printed = [(each.output_type, dict(each.bundle)) for each in kept]
        result = [item for item in printed if item[0] == "execute_result"]
        if not result and number in history.output_hist:
            result = [("execute_result", {"text/plain": str(format_result(history.output_hist[number]))})]
        displays = list(self._displays.get(self._requests.get(number, ""), {}).values())
        streams = [item for item in printed if item[0] in ("out_stream", "err_stream")]
        return [*streams, *(("display_data", bundle) for bundle in displays), *result]


def outputs_of(shell: Any) -> CellOutputs:
    """The outputs that the extension keeps; without it, those that IPython keeps."""
    magics = shell.magics_manager.registry.get("AgentMagics")
    return magics.outputs if magics is not None else CellOutputs(shell)


def _drop_oldest(kept: dict[Any, Any]) -> None:
    while len(kept) > _KEPT:
        del kept[next(iter(kept))]


def _is_for_agent(source: str) -> bool:
    """Whether a cell is empty or only talks to an agent."""
    return not source.strip() or source.lstrip().startswith(("%%agent", "%agent"))


def _reduced(data: MimeBundle) -> MimeBundle:
    """The text of a bundle, and its image unless that is very large."""
    text = data.get("text/plain")
    kept = {"text/plain": truncate_result(text, _TEXT_CHARS)[0]} if isinstance(text, str) else {}
    images = {kind: data[kind] for kind in _IMAGE_TYPES if isinstance(data.get(kind), str)}
    return kept | {kind: image for kind, image in images.items() if len(image) <= _IMAGE_CHARS}


def _parts(kind: str, bundle: MimeBundle) -> list[dict[str, Any]]:
    stream = bundle.get("stream")
    text = "".join(stream) if isinstance(stream, list) else str(stream or bundle.get("text/plain", ""))
    image = next((name for name in _IMAGE_TYPES if isinstance(bundle.get(name), str)), None)
    parts = [_text_part(_HEADINGS.get(kind, "Returned:"), text)]
    if image is not None:
        parts.append({"type": "image", "media_type": image, "data": bundle[image].replace("\n", "")})
    return parts


def _text_part(heading: str, body: str = "") -> dict[str, Any]:
    return {"type": "text", "text": f"{heading}\n{truncate_result(body.rstrip(), _TEXT_CHARS)[0]}".rstrip()}
