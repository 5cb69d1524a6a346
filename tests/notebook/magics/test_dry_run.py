"""A dry run shows everything, shortens long texts, and escapes all of it."""

import re

import pytest

from nbagent import Agent, FunctionCall, LLMMessage, LLMResponse, Usage
from nbagent.core.history.preview import Preview
from nbagent.notebook.magics.dry_run import dry_run_bundle
from nbagent.pricing import price
from nbagent.providers import ScriptedProvider

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'>"


def shown(messages, functions=(), options=None, tokens=10, notes=(), provider="scripted", model="m"):
    cost = price(Usage(tokens), model, provider)
    return dry_run_bundle(Preview(provider, model, messages, functions, options or {}, tokens, cost, notes))


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


@pytest.mark.parametrize(
    ("provider", "model", "tokens", "says"),
    [
        ("claude", "claude-sonnet-5", 1_000_000, "≈ $2.0000 to read them"),
        ("claude", "nobody-knows", 1_000_000, "≈ 1,000,000 tokens]"),
        ("local", "small", 1_000_000, "≈ 1,000,000 tokens]"),
    ],
)
def test_the_footer_shows_the_cost_if_it_is_known(provider, model, tokens, says):
    assert says in shown([LLMMessage("user", "x")], tokens=tokens, provider=provider, model=model)["text/plain"]


def test_its_rows_add_up_to_its_total():
    agent = Agent(ScriptedProvider([LLMResponse("Ten.", None, "stop", {"usage": Usage(1_000, 10)})]))
    agent.register_tool("area", "Area.", {"properties": {}}, lambda: 10)
    first = dry_run_bundle(agent.chat_stream("How large?").preview())
    agent.chat_sync("How large?")
    second = dry_run_bundle(agent.chat_stream("And now?").preview())
    assert "count so far" not in first["text/html"]
    assert "count so far" in second["text/html"]
    for page in (first, second):
        rows, _, footer = page["text/html"].partition('<div class="nbagent-foot')
        counts = [
            int(f"{sign}{number}".replace(",", "")) for sign, number in re.findall(r"([+-]?) ?([\d,]+) tokens", rows)
        ]
        assert sum(counts) == int(re.search(r"([\d,]+) tokens", footer)[1].replace(",", ""))
