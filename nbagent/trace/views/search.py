"""Searches a trace by run, tool, type of block, failure and text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbagent.trace.rows import as_json

if TYPE_CHECKING:
    import pandas as pd

#: For each table: the column shared with tool calls, the column shared with blocks, and the text columns.
_LINKS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "runs": ("run_id", "run_id", ("prompt", "output", "error_message", "tags", "user", "session", "metadata")),
    "calls": ("call_id", "call_id", ("provider", "model", "error_message")),
    "tool_calls": ("tool_call_id", "tool_call_id", ("name", "args", "result_text", "error_message")),
    "messages": ("call_id", "message_id", ("text",)),
    "blocks": ("tool_call_id", "block_id", ("name", "text")),
}
TABLES = tuple(_LINKS)


@dataclass(frozen=True, slots=True)
class Search:
    """Search criteria. An empty criterion matches all rows. `kind` is a type of block, and the case of `text` is
    ignored.

    >>> Search(tool="mean_by", errors=True).errors
    True
    """

    run_id: str = ""
    tool: str = ""
    kind: str = ""
    errors: bool = False
    text: str = ""

    def rows(self, tables: Mapping[str, pd.DataFrame], name: str) -> pd.DataFrame:
        """Return the matching rows of a table. A run, call or message also matches `tool`, `kind` or `text` if a tool
        call or block in it matches.
        """
        frame, calls, blocks = tables[name], tables["tool_calls"], tables["blocks"]
        tool_key, block_key, texts = _LINKS[name]
        fits = frame["run_id"].notna()
        if self.run_id:
            fits &= frame["run_id"] == self.run_id
        if self.tool:
            fits &= _linked(frame, tool_key, calls[calls["name"] == self.tool])
        if self.kind:
            fits &= _linked(frame, block_key, blocks[blocks["type"] == self.kind])
        if self.errors:
            fits &= _failed(frame, block_key, calls, blocks)
        if self.text:
            contains = _linked(frame, block_key, blocks[_contains(blocks["text"], self.text)])
            for column in texts:
                contains |= _contains(frame[column], self.text)
            fits &= contains
        return frame[fits.astype(bool)]


def _linked(frame: pd.DataFrame, column: str, others: pd.DataFrame) -> pd.Series[Any]:
    """Which rows share their value of a column with one of the others."""
    return frame[column].isin(others[column].dropna())


def _failed(frame: pd.DataFrame, column: str, calls: pd.DataFrame, blocks: pd.DataFrame) -> pd.Series[Any]:
    """Runs and calls that failed; messages and blocks of tool calls that failed."""
    if "status" in frame:
        return ~frame["status"].isin(["ok", "running"])
    if "error_type" in frame:
        failed = frame["error_type"].notna()
        return failed | frame["is_error"].fillna(False) if "is_error" in frame else failed
    bad = calls[calls["is_error"].fillna(False).astype(bool)]
    return _linked(frame, column, blocks[_linked(blocks, "tool_call_id", bad)])


def _contains(column: pd.Series[Any], text: str) -> pd.Series[Any]:
    if column.dtype == object:  # arguments
        column = column.map(as_json, na_action="ignore")
    return column.fillna("").str.contains(text, case=False, regex=False)
