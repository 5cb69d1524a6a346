"""Executes the quickstart notebook in a real kernel and prints its story: questions, tool calls, answers, the trace.

python notebooks/demo.py            # the notebook file stays as it is
python notebooks/demo.py --save     # and keep its outputs in the file
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from pathlib import Path
from time import perf_counter
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

NOTEBOOK = Path(__file__).with_name("01_quickstart.ipynb")

#: Asked in the kernel after the last cell, while everything is still there. The first request also loads the model.
AFTERWARDS = """
import json
tools = agent.trace.tool_calls[["name", "args", "result_text", "duration_s"]].round({"duration_s": 3})
calls = agent.trace.calls
timed = calls[calls["output_tokens"] > 0].iloc[1:]
facts = {
    "table": [list(tools.columns), *tools.astype(str).to_numpy().tolist()],
    "requests": len(calls),
    "written": int(timed["output_tokens"].sum()),
    "tokens": int(timed["total_tokens"].sum()),
    "seconds": float(timed["duration_s"].sum()),
}
print(json.dumps(facts))
"""


def text_of(cell: Any) -> str:
    """What a cell has put out, as plain text."""
    parts = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            parts.append(output.text)
        elif output.output_type in ("display_data", "execute_result"):
            parts.append(output.data.get("text/plain", ""))
    return "\n".join(part.rstrip() for part in parts)


def say(text: str = "", indent: str = "") -> None:
    """Print at once, so that one sees how far the kernel is."""
    print(textwrap.indent(text, indent), flush=True)


def tell(client: NotebookClient, index: int) -> None:
    """Run one cell and print what concerns the story: titles, questions, answers."""
    cell = client.nb.cells[index]
    if cell.cell_type == "markdown":
        title = cell.source.splitlines()[0]
        if title.startswith("#"):
            say(f"\n{title.lstrip('# ')}\n{'-' * len(title.lstrip('# '))}")
        return
    asks = cell.source.startswith("%%agent")
    if asks:
        say()
        say(cell.source, "> ")
    client.execute_cell(cell, index)
    if asks:
        say(text_of(cell), "  ")
    elif "def " in cell.source:
        say(cell.source.strip(), "  ")


def as_table(rows: list[list[str]]) -> str:
    """Rows of texts as aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def finish(client: NotebookClient) -> None:
    """Print the table of tool calls and the tokens per second, asked from the kernel."""
    client.nb.cells.append(nbformat.v4.new_code_cell(AFTERWARDS))
    done = client.execute_cell(client.nb.cells[-1], len(client.nb.cells) - 1)
    client.nb.cells.pop()
    facts = json.loads(text_of(done))
    say(f"\nagent.trace.tool_calls\n{'-' * 22}")
    say(as_table(facts["table"]), "  ")
    written, total = (facts[kind] / facts["seconds"] for kind in ("written", "tokens"))
    say(
        f"\n{facts['requests']} model requests; once loaded, the model read and wrote {total:,.0f} tokens per second, "
        f"of which it wrote {written:,.0f}."
    )


def run(save: bool) -> None:
    """The whole story."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        store_widget_state=False,
        record_timing=False,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(NOTEBOOK.parent)}},
    )
    say(f"Running {NOTEBOOK.parent.name}/{NOTEBOOK.name} in a kernel of {sys.prefix} …")
    begin = perf_counter()
    with client.setup_kernel():
        for index in range(len(notebook.cells)):
            tell(client, index)
        finish(client)
    if save:
        nbformat.write(notebook, NOTEBOOK)
    say(f"The notebook ran in {perf_counter() - begin:.1f} s. Open it yourself: make lab")


def main() -> int:
    """0 when every cell ran."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--save", action="store_true", help="keep the outputs in the notebook file")
    try:
        run(parser.parse_args().save)
    except CellExecutionError as error:
        say(f"\nA cell failed: {error.ename}: {error.evalue}\n\n{error.traceback}")
        return 1
    except (CellTimeoutError, DeadKernelError) as error:
        say(f"\nThe kernel gave up: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
