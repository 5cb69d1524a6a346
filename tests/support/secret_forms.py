"""Keys that no text contains by chance, servers that repeat them, and a search for them."""

import hashlib
import json
from urllib.parse import parse_qsl, quote, urlsplit

from nbagent.providers.catalog import CATALOG
from nbagent.trace.columns import COLUMNS
from support.loopback import Answer, Loopback, claude_said, gemini_said, responses_said, said, sse

ANSWERS = {
    "openai_chat": sse(said("Good.")),
    "openai_responses": responses_said("Good."),
    "anthropic_messages": claude_said("Good."),
    "gemini": gemini_said("Good."),
}
#: Each provider over HTTP, by name: its format and options.
PROVIDERS = {name: (name, facts.format, {}) for name, facts in CATALOG.items() if facts.format and name != "local"} | {
    "openai responses": ("openai", "openai_responses", {"api": "responses"})
}


def marker(name):
    """A key that no text contains by chance, with characters that URLs and JSON escape."""
    return f"sk-MARKER+/=&%<\"'{hashlib.sha256(name.encode()).hexdigest()[:16]}"


#: Every key variable has a marker of its own; a key is given as an argument too, and one in a header.
KEYS = {variable: marker(variable) for row in CATALOG.values() for variable in row.key_vars}
ARGUMENT, HEADER = marker("argument"), marker("header")


def forms(key):
    """A key in plain form, and as escaped in JSON and URLs."""
    return {key, json.dumps(key)[1:-1], quote(key, safe="")}


def everything(trace):
    """All tables as one text, with whole values, and their exports."""
    frames = [getattr(trace, name) for name in COLUMNS]
    rows = [str(value) for name in COLUMNS if name != "usage" for row in trace.rows(name) for value in row.values()]
    shown = [frame.to_csv() + repr(frame) + frame._repr_html_() for frame in frames]
    return "\n".join([*rows, *shown, *(trace.curl(index) for index in range(len(trace.http)))])


def assert_clean(text, key):
    """Assert that a text contains no key, plain or escaped."""
    assert [text[max(0, text.find(each) - 60) :][:120] for each in forms(key) if each in text] == []


class Echo(Loopback):
    """A server that repeats everything it was sent: as errors, a page, a broken stream, then as scripted."""

    def answer_to(self, request):
        queried = [value for _, value in parse_qsl(urlsplit(request.path).query)]
        sent = {word for value in (*queried, *request.headers.values()) for word in value.split()}
        told = [word for word in sent if "MARKER" in word or "=" in word]
        text = f"I saw {request.path} {' '.join(each for word in told for each in (word, quote(word, safe='')))}"
        error = json.dumps({"type": "error", "error": {"type": "x", "message": text, "status": "x"}}).encode()
        page = f"<html><title>{text}</title>{text}</html>".encode()
        troubles = [
            *(Answer(error, status) for status in (500, 401, 400, 404, 429)),
            Answer(page, 200, {"content-type": "text/html"}),
            Answer(page, 502),
            Answer(f"data: {text[:3000]}".encode(), end="drop"),
            Answer(f": {text}\n\ndata: {json.dumps({'error': {'message': text}})}\n\n".encode()),
        ]
        asked = len(self.requests) - 1
        return troubles[asked % len(troubles)] if asked < len(troubles) or not self.answers else self.answers[0]


def address(provider, url):
    return url + {"gemini": "/v1beta", "claude": "", "minimax": ""}.get(provider, "/v1")
