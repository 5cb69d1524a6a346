"""The columns of `tool_calls` for the outcome of a call."""

from __future__ import annotations

import traceback

from nbagent.core.content.images import content_as_text
from nbagent.core.results import ToolOutcome
from nbagent.errors import ToolError
from nbagent.trace.rows import Row, as_json

#: The columns of `tool_calls` that are fields of the outcome.
_OUTCOME_KEYS = (
    "args_valid", "validation_error", "validation_kind", "validation_field", "repaired", "approval",
    "approval_wait_s", "truncated", "result_chars", "is_error", "started",
    "duration_s", "source", "function_version", "cell_id_of_definition", "python",
)  # fmt: skip


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failed:  # noqa: BLE001  the tool's own exception class
        return f"<its text can't be shown: {type(failed).__name__}>"


def outcome_columns(outcome: ToolOutcome) -> Row:
    """Return the columns of `tool_calls` that are known once the tool has run."""
    error = outcome.error
    whole = error if error is not None and not isinstance(error, ToolError) else None  # our own need no traceback
    return {name: getattr(outcome, name) for name in _OUTCOME_KEYS} | {
        "args_repaired": None if outcome.args_repaired is None else as_json(outcome.args_repaired),
        "args_raw": outcome.call.raw,
        "result_text": content_as_text(outcome.content),
        "result_type": None if outcome.is_error else type(outcome.value).__name__,
        "result_repr": outcome.value_repr or None,
        "error_type": "interrupted" if outcome.interrupted else type(error).__name__ if error else None,
        "error_message": _text_of(error) if error else None,
        # complete, including library code; the model reads a short form
        "traceback": "".join(traceback.format_exception(whole)) if whole else None,
        "ended": None if outcome.duration_s is None else outcome.started + outcome.duration_s,
    }
