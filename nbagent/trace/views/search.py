"""Rows of a trace that a reader looks for: of a run, with a tool, with a kind of block, failed, with a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

#: By table: what it shares with the tool calls and with the blocks that belong to its rows, and its own texts.
_LINKS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "runs": ("run_id", "run_id", ("prompt", "output", "error_message")),
    "calls": ("call_id", "call_id", ("provider", "model", "error_message")),
    "tool_calls": ("tool_call_id", "tool_call_id", ("name", "args", "result_text", "error_message")),
    "messages": ("call_id", "message_id", ("text",)),
    "blocks": ("tool_call_id", "block_id", ("name", "text")),
}
TABLES = tuple(_LINKS)


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for; what is empty does not matter. `kind` is a type of block; upper and lower case are one.

    >>> Search(tool="mean_by", errors=True).errors
    True
    """

    run_id: str = ""
    tool: str = ""
    kind: str = ""
    errors: bool = False
    text: str = ""

    def rows(self, tables: Mapping[str, pd.DataFrame], name: str) -> pd.DataFrame:
        """Those rows of the table `name` that fit. A run, call or message has the tools and blocks that are in it."""
        frame, calls, blocks = tables[name], tables["tool_calls"], tables["blocks"]
        of_tools, of_blocks, texts = _LINKS[name]
        fits = frame["run_id"].notna()
        if self.run_id:
            fits &= frame["run_id"] == self.run_id
        if self.tool:
            fits &= _linked(frame, of_tools, calls[calls["name"] == self.tool])
        if self.kind:
            fits &= _linked(frame, of_blocks, blocks[blocks["type"] == self.kind])
        if self.errors:
            fits &= _failed(frame, of_blocks, calls, blocks)
        if self.text:
            says = _linked(frame, of_blocks, blocks[_contains(blocks["text"], self.text)])
            for column in texts:
                says |= _contains(frame[column], self.text)
            fits &= says
        return frame[fits.astype(bool)]


def _linked(frame: pd.DataFrame, column: str, others: pd.DataFrame) -> pd.Series[Any]:
    """Which rows belong to one of the others."""
    return frame[column].isin(others[column].dropna())


def _failed(frame: pd.DataFrame, column: str, calls: pd.DataFrame, blocks: pd.DataFrame) -> pd.Series[Any]:
    """Runs that did not end well, calls that failed; of messages and blocks those about a tool call that failed."""
    if "status" in frame:
        return ~frame["status"].isin(["ok", "running"])
    if "error_type" in frame:
        failed = frame["error_type"].notna()
        return failed | frame["is_error"].fillna(False) if "is_error" in frame else failed
    bad = calls[calls["is_error"].fillna(False).astype(bool)]
    return _linked(frame, column, blocks[_linked(blocks, "tool_call_id", bad)])


def _contains(column: pd.Series[Any], text: str) -> pd.Series[Any]:
    return column.fillna("").str.contains(text, case=False, regex=False)
