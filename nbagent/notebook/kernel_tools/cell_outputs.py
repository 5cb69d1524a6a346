"""Keeps the outputs of a notebook's cells, because a kernel forgets most of them.

IPython keeps a cell's value and, since version 9, its printed text. While the extension is loaded, this module also
keeps the errors of recent cells, and their displays, such as plots.
"""

from __future__ import annotations

from typing import Any

from nbagent.core.cells import request_of
from nbagent.core.messages import Content
from nbagent.core.tool_output import IMAGE_TYPES
from nbagent.errors import ToolError
from nbagent.functions.formatting import format_error, format_result
from nbagent.notebook.kernel_tools.reading import joined, read_output, source_part

#: Cells that are kept, and displays of one cell.
_KEPT = 50
#: The most characters of a text or image that is kept.
_KEPT_CHARS = 2_000_000

MimeBundle = dict[str, Any]


class CellOutputs:
    """The outputs of a shell's cells, by the cells' numbers, as in `In [7]`."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        #: Displays by the id of the request that ran the cell, then by `display_id`.
        self._displays: dict[str, dict[Any, MimeBundle]] = {}
        self._requests: dict[int, str] = {}
        self._errors: dict[int, str] = {}

    def watch(self) -> None:
        """From now on, keep displays and errors."""
        if hasattr(self._shell.display_pub, "register_hook"):
            self._shell.display_pub.register_hook(self._on_message)
            self._shell.events.register("post_run_cell", self._on_cell_end)

    def unwatch(self) -> None:
        """Stop keeping displays and errors."""
        publisher = self._shell.display_pub
        if hasattr(publisher, "register_hook") and publisher.unregister_hook(self._on_message):
            self._shell.events.unregister("post_run_cell", self._on_cell_end)

    def _on_message(self, message: Any) -> Any:
        """The kernel's hook: record a display, and pass the message on."""
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
        """A cell's source and outputs. By default, the cell is the last one that has outputs and is not a prompt to an
        agent.

        Raises ToolError if there is no such cell.
        """
        sources = self._shell.history_manager.input_hist_raw
        if number is None:
            ran = [n for n in range(len(sources) - 1, 0, -1) if not _is_for_agent(sources[n])]
            number = next((n for n in ran if self._outputs(n) or n in self._errors), next(iter(ran), 0))
        if not 0 < number < len(sources):
            raise ToolError(f"there is no cell In [{number}]: the last one is In [{len(sources) - 1}]")
        parts = [source_part(f"In [{number}]:", sources[number])]
        for output in self._outputs(number):
            parts += read_output(output)
        if number in self._errors:
            parts.append({"type": "text", "text": f"Raised:\n{self._errors[number]}"})
        if len(parts) == 1:
            parts.append({"type": "text", "text": "No output is known."})
        return joined(parts)

    def _outputs(self, number: int) -> list[dict[str, Any]]:
        """The cell's printed text, displays and value, in nbformat's form."""
        history = self._shell.history_manager
        kept = getattr(history, "outputs", {}).get(number, ())  # new in IPython 9
        outputs: list[dict[str, Any]] = [
            {"output_type": "stream", "name": f"std{each.output_type[:3]}", "text": "".join(each.bundle["stream"])}
            for each in kept
            if "stream" in each.bundle
        ]
        displays = self._displays.get(self._requests.get(number, ""), {}).values()
        outputs += [{"output_type": "display_data", "data": data} for data in displays]
        results = [dict(each.bundle) for each in kept if each.output_type == "execute_result"]
        if not results and number in history.output_hist:
            results = [{"text/plain": str(format_result(history.output_hist[number]))}]
        return outputs + [{"output_type": "execute_result", "data": data} for data in results]


def outputs_of(shell: Any) -> CellOutputs:
    """The outputs that the extension keeps or, without it, the outputs that IPython keeps."""
    magics = shell.magics_manager.registry.get("AgentMagics")
    return magics.outputs if magics is not None else CellOutputs(shell)


def _drop_oldest(kept: dict[Any, Any]) -> None:
    while len(kept) > _KEPT:
        del kept[next(iter(kept))]


def _is_for_agent(source: str) -> bool:
    """Whether a cell is empty or only talks to an agent."""
    return not source.strip() or source.lstrip().startswith(("%%agent", "%agent"))


def _reduced(data: MimeBundle) -> MimeBundle:
    """The text and the images of a bundle, unless they are very large."""
    kept = {kind: data[kind] for kind in ("text/plain", *IMAGE_TYPES) if 0 < len(data.get(kind, "")) <= _KEPT_CHARS}
    return kept or {"text/plain": f"({', '.join(data)})"}
