"""What a cell or a panel shows of a run, read from its page."""

import html
import json
import re

from doors.cases import NO_RESULT, Call, Seen

_CALL = re.compile(
    r"<summary><code>(?P<name>\w+)\(.*?<small>arguments</small><pre>(?P<arguments>.*?)</pre>"
    r".*?<small>(?P<kind>result|error)</small><pre>(?P<result>.*?)</pre>",
    re.S,
)
#: Words of the page, and how a run that they tell of has ended.
_STATUSES = {"Interrupted.": "interrupted", "The limit of": "limit", "nbagent-error": "error", ">denied<": "denied"}


def seen_in(page):
    """What a user sees of the only answer in this page."""
    page = re.sub(r"<style>.*?</style>", "", page, flags=re.S)
    status = next((status for words, status in _STATUSES.items() if words in page), "ok")
    images = re.findall(r'<img src="data:image/gif;base64,([^"]*)"', page)
    texts = [html.unescape(text) for text in re.findall(r"<p>([^<]*)</p>", page)]
    return Seen("\n".join(texts), tuple(map(_call, _CALL.finditer(page))), status, tuple(images))


def _call(found):
    name, arguments, kind, result = map(html.unescape, found.groups())
    return Call(name, json.loads(arguments), result if kind == "result" else NO_RESULT)
