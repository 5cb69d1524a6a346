"""The page to try the agent: who gets it, what it may do, and how it has text rendered."""

import base64
import hashlib
import re

from support.serving import served

from nbagent import Agent, ScriptedProvider


def page_agent():
    return Agent(ScriptedProvider(["x"]))


def test_only_the_page_is_there_without_the_token():
    with served(page_agent()) as server:
        assert server.client(token=None).get("/").status_code == 200
        assert server.client(token=None).post("/page/render", json={"items": []}).status_code == 401
        assert "/page/render" not in server.client().get("/openapi.json").json()["paths"]


def test_only_the_pages_own_script_and_style_run():
    with served(page_agent()) as server:
        page = server.client().get("/")
    rules = dict(rule.split(" ", 1) for rule in page.headers["content-security-policy"].split("; "))
    for tag in ("script", "style"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page.text, re.DOTALL)
        assert rules[f"{tag}-src"] == f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
    assert rules["default-src"] == rules["frame-ancestors"] == "'none'"
    assert rules["connect-src"] == "'self'"
    assert "unsafe" not in page.headers["content-security-policy"]
    assert not re.search(r"https?://", page.text)
    assert not re.search(r"\son\w+=|\sstyle=", page.text)


def test_what_the_page_shows_is_rendered_as_in_a_notebook():
    items = [
        {"kind": "markdown", "text": "| a |\n|--:|\n| **1** <b onclick=x> |" + "\n| 2 |" * 300},
        {"kind": "call", "name": "evil name\u202e", "arguments": {"x": 1}},
        {"kind": "arguments", "arguments": {"code": "a\n" + "\n" * 60 + "b\u200b"}},
    ]
    with served(page_agent()) as server:
        answer = server.client().post("/page/render", json={"items": items})
        refused = server.client().post("/page/render", json={"items": [items[0]] * 201})
    table, call, arguments = answer.json()["html"]
    assert '<td class="right"><strong>1</strong> ' in table
    assert "<b " not in table
    assert "… 101 more rows" in table
    assert call == "&quot;evil name\\u202e&quot;(x=1)"
    assert arguments == "code =\na\n[60 blank lines]\nb⟨U+200B⟩"
    assert refused.status_code == 422
