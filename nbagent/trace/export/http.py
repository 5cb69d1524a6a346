"""A row of the table `http` as a `curl` command."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence

from nbagent.trace.rows import Row

#: Headers that `curl` sets itself, or that identify an SDK.
_OMITTED = re.compile(r"(host|connection|content-length|accept-encoding|transfer-encoding|user-agent|x-stainless-.*)$")


def curl(row: Row) -> str:
    """Return the request as a command for a POSIX shell, with environment variables instead of keys."""
    body, secrets = row["request_body"], json.loads(row["secrets"])
    headers = [f"{name}: {text}" for name, text in json.loads(row["request_headers"]).items()]
    parts = [f"curl -gsSN -X {row['method']} {_quoted(row['url'], secrets)}"]
    parts += [f"-H {_quoted(header, secrets)}" for header in headers if not _OMITTED.match(header.partition(":")[0])]
    if not body:
        return " \\\n  ".join(parts)
    end = max(re.findall("BODY_*", body), key=len, default="") + "_" if "BODY" in body else "BODY"
    # on standard input, since an image is too long for a command-line argument
    return " \\\n  ".join([*parts, f"--data-binary @- <<'{end}'"]) + f"\n{body}\n{end}"


def _quoted(text: str, secrets: Sequence[str]) -> str:
    """Quote a shell word so that the shell expands only the variables of secrets."""
    named = [name for name in secrets if f"${name}" in text]
    if not named:
        return shlex.quote(text)
    escaped = re.sub(r'([\\"$`])', r"\\\1", text)
    return '"' + re.sub(rf"\\(\$(?:{'|'.join(named)})\b)", r"\1", escaped) + '"'
