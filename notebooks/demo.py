"""Runs the quickstart notebook in a real kernel and prints its code, questions, tool calls, answers and tables.

The notebook's file stays as it is: `save.py` saves outputs.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from itertools import zip_longest
from pathlib import Path
from time import perf_counter
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from save import client_for

NOTEBOOK = Path(__file__).with_name("01_quickstart.ipynb")
WIDTH = 100
MARKUP = re.compile(r"\*\*(.+?)\*\*|`([^`]+)`")
NUMBER = re.compile(r"-?\d+(\.\d+)?|nan|<NA>")
COLOURS = re.compile(r"\x1b\[[\d;]*m")

#: Runs in the kernel after a cell with a result: prints it as rows of text, or as text.
RESULT = """
import json
print(json.dumps(_.astype(str).T.reset_index().T.values.tolist() if hasattr(_, "columns") else str(_)))
"""

#: Runs in the kernel after the last cell. An answer without output tokens is a quote; the first request also loads the
#: model.
FACTS = """
import json
tools = agent.trace.tool_calls[["name", "args", "result_text", "duration_s"]].round({"duration_s": 3})
calls = agent.trace.calls
answers = calls[calls["finish_reason"] == "stop"]
asked = calls[calls["output_tokens"] > 0]
loaded = asked.iloc[1:]
print(json.dumps({
    "table": [list(tools.columns), *tools.astype(str).values.tolist()],
    "requests": len(asked),
    "answers": len(answers),
    "quotes": int((answers["output_tokens"] == 0).sum()),
    "read": float(loaded["input_tokens"].mean()),
    "seconds": float(loaded["duration_s"].mean()),
    "speed": float(loaded["output_tokens"].sum() / loaded["duration_s"].sum()),
}))
"""


def text_of(cell: Any) -> str:
    """The outputs of a cell as plain text."""
    parts = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            parts.append(output.text)
        elif output.output_type in ("display_data", "execute_result"):
            parts.append(output.data.get("text/plain", ""))
    return "\n".join(part.rstrip() for part in parts)


def plain(text: str) -> str:
    """Markdown without the marks of code and bold, for a terminal."""
    return MARKUP.sub(lambda found: found[1] or found[2], text)


def folded(text: str) -> str:
    """The text with long lines wrapped at their own indentation."""
    lines = []
    for line in text.splitlines():
        margin = " " * (len(line) - len(line.lstrip()))
        lines += textwrap.wrap(line, WIDTH - 2, subsequent_indent=margin, break_on_hyphens=False) or [""]
    return "\n".join(lines)


def in_cell(text: str, width: int) -> list[str]:
    """The lines of a cell in a table. JSON is not broken between a key and its value."""
    return [
        line.replace("\N{NO-BREAK SPACE}", " ")
        for line in textwrap.wrap(text.replace('": ', '":\N{NO-BREAK SPACE}'), width)
    ]


def as_table(rows: list[list[str]]) -> str:
    """Rows of text as aligned columns, numbers to the right. Wide text continues in the line below."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    while sum(widths) + 2 * len(widths) > WIDTH:
        widest = widths.index(max(widths))
        lines = [line for text in columns[widest] for line in in_cell(text, widths[widest] - 1)]
        widths[widest] = max(map(len, lines))
    aligns = [str.rjust if all(map(NUMBER.fullmatch, column[1:])) else str.ljust for column in columns]
    table = []
    for row in rows:
        cells = [in_cell(text, width) for text, width in zip(row, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            texts = (align(part, width) for align, part, width in zip(aligns, parts, widths, strict=True))
            table.append("  ".join(texts).rstrip())
    return "\n".join(table)


class Story:
    """Runs the notebook's cells in the kernel of `client` and prints each one when it is done."""

    def __init__(self, client: NotebookClient) -> None:
        self.client = client
        self.title = ""

    def say(self, text: str, margin: str = "  ") -> None:
        """Print a block, and before the first one its heading."""
        if self.title:
            print(f"\n\n{self.title}\n{'─' * len(self.title)}", end="")
            self.title = ""
        lines = ((margin + line).rstrip() for line in text.splitlines())
        print("", *lines, sep="\n", flush=True)

    def ask(self, code: str) -> Any:
        """The JSON that `code` prints in the kernel, parsed. The notebook does not keep the code."""
        cells = self.client.nb.cells
        cells.append(nbformat.v4.new_code_cell(code))
        try:
            return json.loads(text_of(self.client.execute_cell(cells[-1], len(cells) - 1, store_history=False)))
        finally:
            cells.pop()

    def tell(self, index: int) -> None:
        """Run one cell and print it. Of Markdown only the heading is printed, and only if something follows."""
        cell = self.client.nb.cells[index]
        if cell.cell_type == "markdown":
            self.title = cell.source.splitlines()[0].lstrip("# ")
            return
        setup = cell.source.startswith("%load_ext")
        if not setup:
            self.say(folded(cell.source), "│ ")
        self.client.execute_cell(cell, index)
        if any(output.output_type == "execute_result" for output in cell.outputs):
            result = self.ask(RESULT)
            self.say(as_table(result) if isinstance(result, list) else folded(plain(result)))
        elif text_of(cell) and not setup:
            self.say(folded(plain(text_of(cell))))

    def finish(self) -> None:
        """Print all tool calls, and how many requests and seconds the model needed."""
        facts = self.ask(FACTS)
        self.title = "All tool calls of this notebook: agent.trace.tool_calls"
        self.say(as_table(facts["table"]))
        lines = [f"The model was asked {facts['requests']} times."]
        if facts["requests"] > 1:
            lines.append(
                f"Once loaded, it took {facts['seconds']:.2f} s for a prompt of {facts['read']:,.0f} tokens "
                f"on average, and wrote {facts['speed']:,.0f} tokens per second."
            )
        if facts["quotes"]:
            lines.append(
                f"{facts['quotes']} of the {facts['answers']} answers quote the tool's result word for word: "
                "the model did not write them."
            )
        self.say("\n".join(lines), "")


def run() -> None:
    """Run and print the whole notebook."""
    begin = perf_counter()
    client = client_for(NOTEBOOK)
    cells = client.nb.cells
    title = cells[0].source.splitlines()[0].lstrip("# ")
    print(
        f"\n{title}\n{'═' * len(title)}\n{NOTEBOOK.parent.name}/{NOTEBOOK.name}, cell by cell in a real kernel",
        flush=True,
    )
    with client.setup_kernel():
        story = Story(client)
        for index in range(len(cells)):
            story.tell(index)
        story.finish()
    print(f"The notebook ran in {perf_counter() - begin:.1f} s. Open it yourself: make lab")


def main() -> int:
    """The exit status: 0 if every cell ran."""
    try:
        run()
    except CellExecutionError as error:
        print(f"\nA cell failed.\n\n{COLOURS.sub('', error.traceback).strip()}")
        return 1
    except (CellTimeoutError, DeadKernelError) as error:
        print(f"\nThe kernel gave up: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
