"""Recorded HTTP exchanges, rows of the table `http`, for other tools: a `curl` command, an HTTP archive (HAR)."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from nbagent.errors import ConfigurationError
from nbagent.trace.table import Row
from nbagent.upgrade import VERSION

#: Headers that `curl` sets itself, and those in which an SDK describes itself.
_LEFT_OUT = re.compile(r"(host|connection|content-length|accept-encoding|transfer-encoding|user-agent|x-stainless-.*)$")
#: `status in HTTPStatus` is an error before Python 3.12.
_STATUSES = frozenset(map(int, HTTPStatus))


def _decoded(row: Row) -> Row:
    """The row with headers and the names of secrets decoded."""
    names = ("request_headers", "response_headers", "secrets")
    return row | {name: json.loads(row[name]) for name in names if isinstance(row[name], str)}


def curl(row: Row) -> str:
    """The request as a command for a POSIX shell, with variables in place of the keys.

    Raises ConfigurationError if the body was too long to be kept whole.
    """
    row = _decoded(row)
    body = row["request_body"]
    if row["truncated"] and row["request_bytes"] > len(body.encode(errors="replace")):
        raise ConfigurationError(f"the body of this request has {row['request_bytes']:,} bytes and was not kept whole.")
    secrets = row["secrets"]
    headers = [f"{name}: {text}" for name, text in row["request_headers"].items()]
    parts = [f"curl -gsSN -X {row['method']} {_quoted(row['url'], secrets)}"]
    parts += [f"-H {_quoted(header, secrets)}" for header in headers if not _LEFT_OUT.match(header.partition(":")[0])]
    if not body:
        return " \\\n  ".join(parts)
    end = max(re.findall("BODY_*", body), key=len, default="") + "_" if "BODY" in body else "BODY"
    # as standard input: an image would be too long for an argument of a command
    return " \\\n  ".join([*parts, f"--data-binary @- <<'{end}'"]) + f"\n{body}\n{end}"


def _quoted(text: str, secrets: Sequence[str]) -> str:
    """One word for the shell. The names of secrets in it are variables; nothing else is expanded."""
    named = [name for name in secrets if f"${name}" in text]
    if not named:
        return shlex.quote(text)
    escaped = re.sub(r'([\\"$`])', r"\\\1", text)
    return '"' + re.sub(rf"\\(\$(?:{'|'.join(named)})\b)", r"\1", escaped) + '"'


def har(rows: Sequence[Row]) -> dict[str, Any]:
    """The exchanges as an HTTP archive: http://www.softwareishard.com/blog/har-12-spec/ (HAR 1.2)."""
    creator = {"name": "nbagent", "version": VERSION}
    return {"log": {"version": "1.2", "creator": creator, "entries": list(map(_entry, rows))}}


def _entry(row: Row) -> dict[str, Any]:
    row = _decoded(row)
    started = datetime.fromtimestamp(row["started"], UTC).isoformat()
    query = parse_qsl(urlsplit(row["url"]).query, keep_blank_values=True)
    waited = row["ttfb_s"] if row["ttfb_s"] is not None else row["duration_s"]
    entry = {
        "startedDateTime": started,
        "time": row["duration_s"] * 1000,
        "request": {**_request(row), "queryString": [{"name": name, "value": text} for name, text in query]},
        "response": _response(row),
        "cache": {},
        "timings": {"send": 0, "wait": waited * 1000, "receive": (row["duration_s"] - waited) * 1000},
    }
    return entry if row["error_type"] is None else {**entry, "_error": f"{row['error_type']}: {row['error_message']}"}


def _request(row: Row) -> dict[str, Any]:
    headers = row["request_headers"]
    request = {"method": row["method"], "url": row["url"], **_message(row, headers, row["request_bytes"])}
    if row["request_body"]:
        request["postData"] = {"mimeType": headers.get("content-type", ""), "text": row["request_body"]}
    return request


def _response(row: Row) -> dict[str, Any]:
    """Status 0 means that no response arrived."""
    headers = row["response_headers"] or {}
    status, size = row["status"] or 0, row["response_bytes"] or 0
    phrase = HTTPStatus(status).phrase if status in _STATUSES else ""
    content = {"size": size, "mimeType": headers.get("content-type", ""), "text": row["response_body"] or ""}
    response = {"status": status, "statusText": phrase, "redirectURL": headers.get("location", ""), "content": content}
    return {**response, **_message(row, headers, size)}


def _message(row: Row, headers: Mapping[str, str], size: int) -> dict[str, Any]:
    """The fields that requests and responses share. -1 means unknown."""
    pairs = [{"name": name, "value": text} for name, text in headers.items()]
    version = row["http_version"] or "HTTP/1.1"
    return {"httpVersion": version, "headers": pairs, "cookies": [], "headersSize": -1, "bodySize": size}
