"""Columns of the trace's rows from the values that they are about."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from nbagent.core.content.images import content_as_text
from nbagent.core.http_exchange import Exchange
from nbagent.core.results import ToolOutcome
from nbagent.errors import ToolError

Row = dict[str, Any]
#: Rows by column: of each its values, oldest first.
Columns = dict[str, list[Any]]


def about_exchange(exchange: Exchange) -> Row:
    """The columns of `http` that come from the exchange; what is not a plain value as JSON."""
    row = {each.name: getattr(exchange, each.name) for each in fields(exchange)}
    for name in ("request_headers", "response_headers", "secrets"):
        row[name] = None if row[name] is None else as_json(row[name])
    return row


def about_outcome(outcome: ToolOutcome) -> Row:
    """The columns of `tool_calls` that come from the call's outcome."""
    error = outcome.error
    return {
        "args_valid": outcome.args_valid,
        "validation_error": outcome.validation_error,
        "repaired": outcome.repaired,
        "approval": outcome.approval,
        "result_text": content_as_text(outcome.content),
        "result_type": None if outcome.is_error else type(outcome.value).__name__,
        "result_repr": outcome.value_repr or None,
        "truncated": outcome.truncated,
        "result_chars": outcome.result_chars,
        "is_error": outcome.is_error,
        "error_type": type(error).__name__ if error else None,
        "error_message": str(error) if error else None,
        "traceback": _traceback(error) if error else None,
        "started": outcome.started,
        "ended": outcome.started + outcome.duration_s,
        "duration_s": outcome.duration_s,
        "function_version": outcome.function_version,
        "cell_id_of_definition": outcome.cell_id_of_definition,
    }


def _traceback(error: BaseException) -> str | None:
    """All of it, library code included: the model reads a short form. An error of our own has nothing to trace."""
    return None if isinstance(error, ToolError) else "".join(traceback.format_exception(error))


#: JSON text; what JSON does not know becomes its `str()`. Made once: `json.dumps` would make an encoder for each value.
as_json: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False, default=str).encode
