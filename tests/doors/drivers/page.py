"""Reads what a cell or panel shows from its HTML."""

import html
import json
import re

from doors.cases import NO_RESULT, Call, Seen

_CALL = re.compile(
    r"<summary><code>(?P<name>\w+)\(.*?<small>arguments</small><pre>(?P<arguments>.*?)</pre>"
    r".*?<small>(?P<kind>result|error)</small><pre>(?P<result>.*?)</pre>",
    re.S,
)
#: Words in the HTML, and the status that they stand for.
_STATUSES = {"Interrupted.": "interrupted", "The limit of": "limit", "nbagent-error": "error", ">denied<": "denied"}


def seen_in(page):
    """Return what the user sees of the only answer in the HTML."""
    page = re.sub(r"<style>.*?</style>", "", page, flags=re.S)
    status = next((status for words, status in _STATUSES.items() if words in page), "ok")
    images = re.findall(r'<img src="data:image/gif;base64,([^"]*)"', page)
    texts = [html.unescape(text) for text in re.findall(r"<p>([^<]*)</p>", page)]
    return Seen("\n".join(texts), tuple(map(_call, _CALL.finditer(page))), status, tuple(images))


def _call(found):
    name, arguments, kind, result = map(html.unescape, found.groups())
    return Call(name, json.loads(arguments), result if kind == "result" else NO_RESULT)
