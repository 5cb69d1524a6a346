"""Pages of the documentation as notebooks: their blocks are cells, run from top to bottom in one kernel.

- A block of `python` runs. So does a block without a language that begins with `%`: a cell with a magic.
- A block of `text` right after it is what the cell shows, where `…` stands for anything.
- `<!-- run … -->` is a cell that readers don't see. It plays what the reader has: `llmock` is a server that answers for
  all providers.
- `<!-- not run: why -->` stands before a block that can't run here.
- The lines of a block of `bash` that begin with `nbagent` are commands that the command line takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Hidden cells, marks, and blocks of code with their language.
_PARTS = re.compile(
    r"^<!-- run\n(?P<hidden>.*?)^-->|^<!-- not run:(?P<reason>.*?)-->|^```(?P<language>[^\n]*)\n(?P<block>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)

#: Starts the server that answers for the providers, and points all of them there.
LLMOCK = """
import nbagent.core.json_schema  # quickly, before llmock imports jsonschema
import os
from llmock.pytest_plugin import LLMock
from llmock.testing import LLMockServer
llmock = LLMock(LLMockServer().start())
os.environ.update(llmock.env())
for name in ("DASHSCOPE", "DEEPSEEK", "MOONSHOT", "SILICONFLOW", "ZHIPUAI"):
    os.environ.update({f"{name}_API_KEY": "k", f"{name}_BASE_URL": os.environ["OPENAI_BASE_URL"]})
"""


@dataclass
class Step:
    """A cell of a page: its code, the line where it begins, and what it should show; None if the page does not say."""

    code: str
    line: int
    shows: str | None = None


def steps(page: str) -> list[Step]:
    found: list[Step] = []
    last: Step | None = None
    skipped = False
    for part in _PARTS.finditer(page):
        line = page.count("\n", 0, part.start()) + 1
        language, block = part["language"], part["block"] or ""
        before, last = last, None
        if part["reason"] is not None:
            assert part["reason"].strip(), f"line {line} does not say why"
            skipped = True
        elif skipped:
            skipped = False
        elif part["hidden"] is not None:
            found.append(Step(part["hidden"], line))
        elif language == "python" or (language == "" and block.startswith("%")):
            found.append(last := Step(block, line))
        elif language == "text" and before is not None:
            before.shows = block
    return found


def commands(page: str) -> Iterator[str]:
    for part in _PARTS.finditer(page):
        if part["language"] == "bash":
            lines = part["block"].replace("\\\n", " ").splitlines()
            yield from (line.split("  #")[0].strip() for line in lines if line.startswith("nbagent "))


def is_shown(expected: str, shown: str) -> bool:
    """Whether the text is as expected, where `…` stands for anything, and space at the ends of lines does not count."""
    expected, shown = (re.sub(r"[^\S\n]+$", "", text.strip("\n"), flags=re.MULTILINE) for text in (expected, shown))
    return re.fullmatch(re.escape(expected).replace("…", ".*?"), shown, re.DOTALL) is not None


def pages(root: Path) -> list[Path]:
    built = root / "docs" / "_build"
    written = sorted(each for each in (root / "docs").rglob("*.md") if built not in each.parents)
    return [*sorted(root.glob("README*.md")), *written]
