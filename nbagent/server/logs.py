"""The log of `nbagent serve`, as text or JSON. Each line contains the request id."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

#: The id of the current request, which its client receives in `x-request-id`.
request_id: ContextVar[str] = ContextVar("nbagent_request_id", default="-")

#: Attributes that are not specific to a record, including uvicorn's for terminals.
_COMMON = {*vars(logging.makeLogRecord({})), "request_id", "message", "color_message"}


class WithRequest(logging.Filter):
    """Adds the request id to log records."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Set the record's request id, and keep the record."""
        record.request_id = request_id.get()
        return True


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON line: time, level, logger, request id, message, and its other attributes."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "request_id": request_id.get(),
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _COMMON}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_config(level: str, as_json: bool) -> dict[str, Any]:
    """Return the settings for `logging.config.dictConfig`. Loggers other than nbagent's and uvicorn's log only warnings
    and errors.
    """
    lines = {"()": JsonFormatter} if as_json else {"format": "%(asctime)s %(levelname)s %(request_id)s %(message)s"}
    handler = {"class": "logging.StreamHandler", "formatter": "lines", "filters": ["request"]}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"request": {"()": WithRequest}},
        "formatters": {"lines": lines},
        "handlers": {"stderr": handler},
        "loggers": {name: {"level": level.upper()} for name in ("nbagent", "uvicorn")},
        "root": {"handlers": ["stderr"], "level": "WARNING"},
    }
