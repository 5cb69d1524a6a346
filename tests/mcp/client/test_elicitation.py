"""What a server asks the person, as a form in cell and panel, and as a typed question."""

import asyncio
import html
import re

import ipywidgets
import pytest

from nbagent.functions.asking import Question
from nbagent.mcp.client.elicitation import _problem
from nbagent.notebook.display.approval import ApprovalForm, NotebookApprover

SCHEMA = {
    "type": "object",
    "properties": {"size": {"enum": ["S", "M"]}, "n": {"type": "integer"}},
    "required": ["size"],
}


def question(text="Which size?"):
    return Question("shop", {"size": "M", "n": 1}, "c", text=text, problem=lambda answers: _problem(SCHEMA, answers))


def answered(click, typed=None):
    """`(answer, what the form says, what it complains of)` after a click."""

    async def ask():
        form = ApprovalForm(question("<b>Which</b> size?\u202e"))
        (box,) = [child for child in form.box.children if isinstance(child, ipywidgets.Textarea)]
        buttons = {each.description: each for each in form.box.children[-1].children}
        box.value = typed or box.value
        buttons[click].click()
        done, _ = await asyncio.wait({asyncio.ensure_future(form.answer())}, timeout=0.1)
        return done.pop().result() if done else None, form.box.children[0].value, form.box.children[2].value

    return asyncio.run(ask())


def test_a_form_shows_who_asks_and_what_and_takes_answers_that_fit():
    answer, said, _ = answered("Answer")
    assert answer is True
    text = html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", "", said, flags=re.DOTALL))
    assert text.startswith("shop asks you")
    assert "<b>Which</b> size?" in text
    assert "\u202e" not in said
    assert answered("Deny")[0] is False
    answer, _, complaint = answered("Answer", '{"size": "XXL"}')
    assert answer is None
    assert "'XXL' is not one of" in html.unescape(complaint)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [(["y"], {"size": "M", "n": 1}), ([""], False), (["XXL", '{"size": "XXL"}', '{"size": "S"}'], {"size": "S"})],
)
async def test_without_buttons_the_answers_are_typed(monkeypatch, typed, answer):
    prompts = []

    def type_next(prompt):
        prompts.append(prompt)
        return typed[len(prompts) - 1]

    monkeypatch.setattr("builtins.input", type_next)
    approver = NotebookApprover(lambda: True)
    approver._has_buttons = False
    assert await approver(question(), None) == answer
    assert prompts[0].startswith("shop asks: Which size?\n")
    assert len(prompts) == len(typed)
