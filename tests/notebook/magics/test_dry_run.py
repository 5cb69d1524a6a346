"""A dry run shows everything, shortens what is long, and escapes all of it."""

import re

import pytest

from nbagent import FunctionCall, LLMMessage
from nbagent.core.history.preview import Preview
from nbagent.notebook.magics.dry_run import dry_run_bundle

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'>"


def shown(messages, functions=(), options=None, tokens=10, notes=(), vendor="scripted", model="m"):
    return dry_run_bundle(Preview(vendor, model, messages, functions, options or {}, tokens, notes))


def test_nothing_is_raw_html():
    function = {"name": EVIL, "description": EVIL, "parameters": {"properties": {EVIL: {"type": EVIL}}}}
    messages = [
        LLMMessage("system", EVIL),
        LLMMessage("assistant", EVIL, tool_calls=[FunctionCall(EVIL, {EVIL: EVIL}, EVIL)]),
        LLMMessage("tool", EVIL, name=EVIL, tool_call_id=EVIL),
    ]
    page = shown(messages, [function], {EVIL: EVIL, "more": {EVIL: EVIL}}, notes=[EVIL], model=EVIL)["text/html"]
    tags = set(re.findall(r"<\s*/?\s*(\w+)", page))
    assert tags == {"style", "div", "details", "summary", "span", "code", "small", "pre"}
    assert not re.search(r"<[^>]*\son\w+=", page)


def test_long_messages_are_cut_and_images_described():
    picture = {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}
    pages = shown([LLMMessage("user", [{"type": "text", "text": "y" * 9_000}, picture])])
    for page in pages.values():
        assert "7,0" in page.partition("more characters")[0][-10:]
        assert len(page) < 9_000


@pytest.mark.parametrize(
    ("vendor", "model", "tokens", "says"),
    [
        ("claude", "claude-sonnet-5", 1_000_000, "≈ $2.0000 to read them"),
        ("claude", "claude-sonnet-5", 1, "≈ 1 tokens]"),
        ("claude", "nobody-knows", 1_000_000, "≈ 1,000,000 tokens]"),
        ("local", "small", 1_000_000, "≈ 1,000,000 tokens]"),
    ],
)
def test_the_footer_shows_the_cost_if_it_is_known(vendor, model, tokens, says):
    assert says in shown([LLMMessage("user", "x")], tokens=tokens, vendor=vendor, model=model)["text/plain"]
