"""The answer formats of `--as`: instructions for the model, and the conversion of the answer to a value.

The format is requested only in the system prompt of the run's requests. The conversation therefore does not contain
these instructions, the answer streams as readable text, and the model can call tools first. (A JSON Schema, such as
`Agent.extract` uses, would apply to every request of the run.) Each format is read leniently but checked strictly: part
of an answer is never used as the whole answer.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbagent.core.answer_json import json_in
from nbagent.core.render import markdown as render
from nbagent.core.results import AgentResult
from nbagent.errors import ExtractionError

if TYPE_CHECKING:
    import pandas as pd

#: Cells that mean "no value" in a column of numbers.
MISSING = frozenset(("", "-", "–", "—", "n/a", "na", "nan", "none", "null", "<na>"))
#: Numbers with more digits are identifiers, or would be rounded.
MAX_DIGITS = 15
_NUMBER = re.compile(r"[-+−]?(?:0|[1-9]\d*|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_PYTHON = ("py", "ipython")
_LINE_END = re.compile(r"\r\n|\r|\n")
_PIPE = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """`parse` converts the text of an answer to a value, or raises ValueError. `instructions` are for the model.

    With `is_data`, the cell returns the value and folds the answer's text.
    """

    parse: Callable[[str], Any] = str
    instructions: str = ""
    is_data: bool = False


def convert_answer(form: str, result: AgentResult) -> Any:
    """Convert the answer to a value in this format.

    If the answer quotes a tool's result word for word, as small models sometimes do, the tool's result is used as the
    data. Raises ExtractionError, with the result as `partial`, if the answer does not have the format or is incomplete.
    """
    chosen, answer = FORMS[form], result.content
    if chosen.is_data and result.metadata.get("quoted") and len(result.function_calls) == 1:
        answer = result.function_calls[0]["result"]
    try:
        if chosen.parse is not str:
            _check_complete(result)
        return chosen.parse(answer)
    except ValueError as problem:
        raise _failed(f"--as {form}", problem, answer, result) from None


def shaped_answer(shape: str, result: AgentResult) -> Any:
    """Return the answer as a value of the type given with `--shape`. Raises ExtractionError, with the result as
    `partial`, if the answer is incomplete.
    """
    try:
        _check_complete(result)
    except ValueError as problem:
        raise _failed(f"--shape {shape}", problem, result.content, result) from None
    return result.data


def _failed(option: str, problem: ValueError, answer: str, result: AgentResult) -> ExtractionError:
    remedy = "The answer is in _agent.content; ask again, or let agent.extract() read it."
    error = ExtractionError(f"{option}: {str(problem).rstrip('.')}. {remedy}", answer=answer)
    error.partial = result
    return error


def _check_complete(result: AgentResult) -> None:
    if result.status_reason:
        raise ValueError(f"the answer is incomplete. {result.status_reason}")


def parse_code(text: str) -> str:
    """Return an answer's code: its Python blocks, its other code blocks if there are none, or the whole text if it is
    Python.

    >>> parse_code("Here you are:\\n```python\\nx = 1\\n```")
    'x = 1'
    """
    blocks = _code_blocks(render.markdown_tokens(text))
    python = [content for language, content in blocks if language.startswith(_PYTHON)]
    if chosen := python or [content for _, content in blocks]:
        return "\n\n".join(content.rstrip() for content in chosen)
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: too deeply nested
        text = ""
    if not text.strip():
        raise ValueError("there is no code block in the answer")
    return text.strip()


def last_block(text: str) -> tuple[str, str] | None:
    """Return the Markdown and the code of an answer's last Python block, or else of its last code block. Returns None
    if the answer has no code block.

    >>> last_block("So:\\n```python\\nx = 1\\n```\\nDone.")
    ('```python\\nx = 1\\n```\\n', 'x = 1')
    """
    fences = [token for token in render.markdown_tokens(text) if token.type == "fence" and token.content.strip()]
    python = [token for token in fences if token.info.strip().lower().startswith(_PYTHON)]
    if not fences:
        return None
    chosen = (python or fences)[-1]
    lines = [0, *(end.end() for end in _LINE_END.finditer(text)), len(text)]
    begin, end = chosen.map
    return text[lines[begin] : lines[end]], chosen.content.rstrip()


def _code_blocks(tokens: Sequence[Any]) -> list[tuple[str, str]]:
    """`(language, content)` of the code blocks that have content, from the tokens of Markdown."""
    fences = [token for token in tokens if token.type == "fence" and token.content.strip()]
    return [(token.info.strip().lower(), token.content) for token in fences]


def parse_frame(text: str) -> pd.DataFrame:
    """Return the table of an answer: a Markdown table or JSON, which may be an array of objects, an object of columns,
    or one object.

    A Markdown table in a code block counts only if there is no table outside code blocks. One JSON object becomes one
    row. A column becomes numeric if all of its cells that have a value are numbers. Numbers with leading zeros, or with
    more digits than a float can represent, stay text. Raises ValueError if there is no table or more than one table, or
    if a row and the header differ in length.

    >>> parse_frame("| city | people |\\n|---|--:|\\n| Bonn | 331,885 |").to_dict("records")
    [{'city': 'Bonn', 'people': 331885}]
    """
    import pandas as pd

    tokens = render.markdown_tokens(text)
    in_blocks = [content for language, content in _code_blocks(tokens) if language in ("", "markdown", "md")]
    tables = _tables(text, tokens) or [
        table for content in in_blocks for table in _tables(content, render.markdown_tokens(content))
    ]
    if len(tables) > 1:
        raise ValueError(f"there are {len(tables)} tables in the answer: ask for a single table")
    if tables:
        header, rows = tables[0]
        columns = zip(*rows, strict=True) if rows else ([] for _ in header)
        return pd.DataFrame({name: _typed_column(cells) for name, cells in zip(header, columns, strict=True)})
    try:
        return pd.DataFrame(_records(json_in(text)))
    except ValueError as error:
        problem = f"; read as JSON, {error}" if re.search(r"[\[{]", text) else ""
        raise ValueError(f"there is no table in the answer{problem}") from None


def _records(value: Any) -> list[Any]:
    """JSON as rows: from an array of objects, alone or as an object's only value, from columns, or from one object."""
    columns = list(value.values()) if isinstance(value, dict) else []
    if len(columns) == 1 and isinstance(columns[0], list) and all(isinstance(row, dict) for row in columns[0]):
        value = columns[0]
    elif columns and all(isinstance(column, list) for column in columns):
        if len(set(map(len, columns))) > 1:
            raise ValueError("its columns differ in length")
        value = [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)]
    rows = [value] if isinstance(value, dict) else value
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it is not an array of objects")
    return rows


def _tables(text: str, tokens: Sequence[Any]) -> list[tuple[list[str], list[list[str]]]]:
    """The header and the rows of each Markdown table, with cells as plain text."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    tables = [token.map for token in tokens if token.type == "table_open" and token.map]
    return [_table(lines[begin:end]) for begin, end in tables]


def _table(lines: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """One table. Rows that are too short or too long are errors: the Markdown parser would fill or cut them."""
    header, rows = _cells(lines[0]), [_cells(line) for line in lines[2:] if _PIPE.search(line)]
    if len(set(header)) < len(header) or "" in header:
        raise ValueError(f"each column of the table needs its own name: {lines[0].strip()}")
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise ValueError(f"row {number} of the table has {len(row)} cells, but the header has {len(header)}: {row}")
    return header, rows


def _cells(line: str) -> list[str]:
    bare = re.sub(r"(?<!\\)\|$", "", line.strip().lstrip("> ").removeprefix("|"))
    return [render.markdown_line_to_text(cell.strip().replace("\\|", "|")) for cell in _PIPE.split(bare)]


def _typed_column(cells: Sequence[str]) -> Any:
    """A column of numbers if all cells are numbers, else of text."""
    import pandas as pd

    values = [None if cell.lower() in MISSING else cell for cell in cells]
    given = [cell for cell in values if cell is not None]
    if not given or not all(map(_is_number, given)):
        return pd.Series([cell or None for cell in cells], dtype="str")
    plain = [cell and cell.replace(",", "").replace("−", "-").replace("+", "") for cell in values]
    return pd.to_numeric(pd.Series(plain, dtype="str"))


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None and sum(map(str.isdigit, cell.partition(".")[0])) <= MAX_DIGITS


FORMS: Mapping[str, AnswerFormat] = {
    "markdown": AnswerFormat(),
    "text": AnswerFormat(instructions="Answer in plain text, without Markdown."),
    "json": AnswerFormat(
        json_in,
        "Your final answer is one JSON value in a ```json code block, with no other text around it.",
        is_data=True,
    ),
    "code": AnswerFormat(
        parse_code,
        "Your final answer is one ```python code block for the next cell of the user's notebook, with no other text "
        "around it.",
    ),
    "df": AnswerFormat(
        parse_frame,
        "Your final answer is one Markdown table with a header, and no other text around it: a row for each record, "
        "numbers as plain digits without units.",
        is_data=True,
    ),
}
