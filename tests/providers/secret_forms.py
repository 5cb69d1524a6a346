"""The ways in which a key can be written, and where to look for them."""

import base64
import html
import json
from urllib.parse import quote

from nbagent.trace.frames import COLUMNS


def forms(key):
    """The ways to write a key."""
    escaped = json.dumps(key)[1:-1]
    return {
        "plain": key,
        "JSON": escaped,
        "JSON with slashes": escaped.replace("/", "\\/"),
        "JSON in JSON": json.dumps(escaped)[1:-1],
        "JSON, all escaped": "".join(f"\\u{ord(char):04x}" for char in key),
        "JSON, all escaped in capitals": "".join(f"\\u{ord(char):04X}" for char in key),
        "URL": quote(key, safe=""),
        "URL, path": quote(key),
        "URL in URL": quote(quote(key, safe=""), safe=""),
        "HTML": html.escape(key),
        "HTML, all escaped": "".join(f"&#{ord(char)};" for char in key),
        "HTML, in hexadecimal": "".join(f"&#x{ord(char):X};" for char in key),
    }


def everything(trace):
    """All tables as one text, each value whole, and what is made of them."""
    texts = [getattr(trace, name).to_csv() for name in COLUMNS]
    rows = [str(value) for name in COLUMNS if name != "usage" for row in trace.rows(name) for value in row.values()]
    shown = [repr(getattr(trace, name)) + getattr(trace, name)._repr_html_() for name in COLUMNS]
    return "\n".join([*texts, *rows, *shown, *(trace.curl(index) for index in range(len(trace.http)))])


def tell_tales(key):
    """Any trace of a key that is long enough to be one: its forms, and the forms of its parts of eight characters."""
    parts = [key[start : start + 8] for start in range(len(key) - 7)]
    return {form for part in [key, *parts] for form in forms(part).values()} | in_base64(key)


def in_base64(key):
    """What a text in base64 holds where the key is a part of it, at each of the places where it can begin."""
    whole = [base64.b64encode(b"x" * before + key.encode()).decode() for before in range(3)]
    cores = {text[4:-4] for text in whole}
    return cores | {core.replace("+", "-").replace("/", "_") for core in cores}


def assert_clean(text, key):
    found = [text[max(0, text.find(form) - 60) :][:120] for form in tell_tales(key) if form in text]
    assert found[:3] == []
