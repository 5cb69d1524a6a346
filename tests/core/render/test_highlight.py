"""Syntax highlighting uses a few classes, and no class comes from a model's text."""

import html
import re

import pytest

from nbagent.core.render import markdown as render
from nbagent.core.render.highlight import CLASSES, MAX_CHARS, highlight_code

CODE = '@dec\ndef f(x: int) -> str:\n    # c < d\n    return "a & b" if x > 1 else None\n'


def test_python_is_highlighted_and_keeps_its_text():
    shown = highlight_code(CODE, "python")
    assert html.unescape(re.sub(r"<[^>]+>", "", shown)) == CODE
    assert set(re.findall(r'class="([^"]+)"', shown)) == CLASSES
    assert shown in render.markdown_to_html(f"```python\n{CODE}```")


@pytest.mark.parametrize(("code", "language"), [(CODE, "brainfuck"), (CODE, ""), ("x" * (MAX_CHARS + 1), "python")])
def test_other_languages_and_long_code_stay_plain(code, language):
    assert highlight_code(code, language) == ""
    assert html.escape(code[:20], quote=False) in render.markdown_to_html(f"```{language}\n{code}\n```")


def test_a_model_cannot_set_classes():
    shown = render.markdown_to_html(
        '<span class="nbagent-keyword evil">x</span>\n\n```python evil" onclick="x\nif x: pass\n```'
    )
    assert "onclick" not in shown
    assert set(re.findall(r'<span class="([^"]+)"', shown)) <= CLASSES


def test_diagrams_that_could_load_something_or_take_long_stay_code():
    drawn = "```mermaid\n{}\n```".format
    safe = ["flowchart LR\n  a[Q & A<br/>x] <--> b --- c", 'pie\n  "a": 1', "sequenceDiagram\n  A->>B: hi"]
    risky = [
        "a[<img src=x>] --> b", "a@{ img: 'x.png' }", "click a 'https://x.org'", "style a fill:url(x)", "a\\b",
        "%%{init: {}}%%\npie", "---\nconfig: {}\n---\npie", "a[//x.org]",
        "&".join("abcdefghijklmnopqrstuvw"), "a" * 5_000,
    ]  # fmt: skip
    assert [text for text in safe if render.MERMAID not in render.markdown_to_html(drawn(text))] == []
    assert [text for text in risky if render.MERMAID in render.markdown_to_html(drawn(text))] == []
    assert render.MERMAID not in render.markdown_to_html("```sql\nselect 1\n```")
