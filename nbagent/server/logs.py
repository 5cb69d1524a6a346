"""The log of `nbagent serve`: as text or as JSON, each line with its request id."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

#: The id of the current request, which its client gets in `x-request-id`.
request_id: ContextVar[str] = ContextVar("nbagent_request_id", default="-")

#: Attributes of every record, and uvicorn's additions for terminals; other attributes are the record's own.
_COMMON = {*vars(logging.makeLogRecord({})), "request_id", "message", "color_message"}


class WithRequest(logging.Filter):
    """Adds the id of the request."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the record pass."""
        record.request_id = request_id.get()
        return True


class JsonFormatter(logging.Formatter):
    """Writes a record as a line of JSON:

    `time`, `level`, `logger`, `request_id`, `message`, and its other attributes.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
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
    """How nbagent and uvicorn log to standard error, for `logging.config.dictConfig`. Others log warnings."""
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
