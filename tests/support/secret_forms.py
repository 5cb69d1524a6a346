"""Keys that no text holds by chance, servers that repeat them in every way to write them, and how to find them."""

import base64
import hashlib
import html
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
#: Each vendor that is reached over HTTP, by name: the format and further options.
VENDORS = {name: (name, vendor.format, {}) for name, vendor in CATALOG.items() if vendor.format and name != "local"} | {
    "openai responses": ("openai", "openai_responses", {"api": "responses"})
}


def marker(name):
    """A key that no text holds by chance, with what URLs, JSON, HTML and base64 write differently."""
    return f"sk-MARKER+/=&%<\"'{hashlib.sha256(name.encode()).hexdigest()[:16]}"


#: Every key variable has a marker of its own; a key is given as an argument too, and one in a header.
KEYS = {variable: marker(variable) for row in CATALOG.values() for variable in row.key_vars}
ARGUMENT, HEADER, PASSWORD = marker("argument"), marker("header"), "hunter2-" + marker("password")[-16:]


def forms(key):
    """The ways to write a key."""
    escaped = json.dumps(key)[1:-1]
    return {
        "plain": key,
        "JSON": escaped,
        "JSON with slashes": escaped.replace("/", "\\/"),
        "JSON in JSON": json.dumps(escaped)[1:-1],
        "JSON, all escaped": "".join(f"\\u{ord(char):04x}" for char in key),
        "URL": quote(key, safe=""),
        "URL, path": quote(key),
        "URL in URL": quote(quote(key, safe=""), safe=""),
        "HTML": html.escape(key),
        "HTML, all escaped": "".join(f"&#{ord(char)};" for char in key),
    }


def everything(trace):
    """All tables as one text, each value whole, and what is made of them."""
    frames = [getattr(trace, name) for name in COLUMNS]
    rows = [str(value) for name in COLUMNS if name != "usage" for row in trace.rows(name) for value in row.values()]
    shown = [frame.to_csv() + repr(frame) + frame._repr_html_() for frame in frames]
    return "\n".join([*rows, *shown, *(trace.curl(index) for index in range(len(trace.http)))])


def in_base64(key):
    """What a text in base64 holds where the key is a part of it, at each of the places where it can begin."""
    whole = [base64.b64encode(b"x" * before + key.encode()).decode() for before in range(3)]
    cores = {text[4:-4] for text in whole}
    return cores | {core.replace("+", "-").replace("/", "_") for core in cores}


def assert_clean(text, key):
    """No trace of a key that is long enough to be one: its forms, and the forms of its parts of eight characters."""
    parts = [key, *(key[start : start + 8] for start in range(len(key) - 7))]
    traces = {form for part in parts for form in forms(part).values()} | in_base64(key)
    assert [text[max(0, text.find(each) - 60) :][:120] for each in traces if each in text][:3] == []


class Echo(Loopback):
    """Answers with all that it was sent, in all forms: as errors, as a page, as a stream that breaks, then as told."""

    def answer_to(self, request):
        queried = [value for _, value in parse_qsl(urlsplit(request.path).query)]
        sent = {word for value in (*queried, *request.headers.values()) for word in value.split()}
        told = [word for word in sent if "MARKER" in word or "hunter2" in word or "=" in word]
        text = f"I saw {request.path} {' '.join(form for word in told for form in forms(word).values())}"
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


def address(vendor, url):
    return url + {"gemini": "/v1beta", "claude": "", "minimax": ""}.get(vendor, "/v1")
