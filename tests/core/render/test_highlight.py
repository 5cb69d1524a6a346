"""Syntax highlighting uses a few classes, and no class comes from the text of a model."""

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


def test_a_model_can_not_set_classes():
    shown = render.markdown_to_html(
        '<span class="nbagent-keyword evil">x</span>\n\n```python evil" onclick="x\nif x: pass\n```'
    )
    assert "onclick" not in shown
    assert set(re.findall(r'<span class="([^"]+)"', shown)) <= CLASSES
