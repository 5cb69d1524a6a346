"""Everything that a person approves is shown, and can be edited: a single text as text, everything else as JSON."""

import asyncio
import html
import re
from typing import Annotated

import ipywidgets
import pytest
from pydantic import BeforeValidator

from nbagent import FunctionCall
from nbagent.chat.approval import asks_html, where_asked
from nbagent.errors import ToolDeniedError
from nbagent.functions.allowances import Allow
from nbagent.functions.live import as_registry
from nbagent.functions.preview import Preview, PreviewedCall, TextChange
from nbagent.functions.registry import FunctionDefinition
from nbagent.notebook.display.approval import ApprovalForm, _typed_question

CODE = 'if x:\n    y = "a"'


def edited(arguments, change):
    """The label of the text box, and the answer after `change(text)`."""

    async def ask():
        question = ApprovalForm(FunctionCall("run", arguments, "c"))
        (box,) = [child for child in question.box.children if isinstance(child, ipywidgets.Textarea)]
        (approve,) = [each for each in question.box.children[-1].children if each.description == "Approve"]
        box.value = change(box.value)
        approve.click()
        return box.description, await question.answer()

    return asyncio.run(ask())


def test_a_single_text_is_edited_as_text_and_everything_else_as_json():
    assert edited({"code": CODE}, str) == ("code", True)
    assert edited({"code": CODE}, lambda text: text.replace('"a"', '"b"')) == ("code", {"code": CODE.replace("a", "b")})
    for arguments in ({"code": CODE, "n": 1}, {"n": 1}, {"code": "x = 1 \u202e# safe"}):
        assert edited(arguments, str) == ("Arguments, as JSON", True)
        _, answer = edited(arguments, lambda text: text.replace("1", "2"))
        assert answer == {name: 2 if value == 1 else str(value).replace("1", "2") for name, value in arguments.items()}


def question(arguments, name="run"):
    """`(shown text, form, {description: button})`."""

    async def make():
        return ApprovalForm(FunctionCall(name, arguments, "c"))

    form = asyncio.run(make())
    shown = html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", "", form.box.children[0].value, flags=re.DOTALL))
    return shown, form, {each.description: each for each in form.box.children[-1].children}


def test_a_plan_is_approved_as_a_checklist_unless_that_would_hide_something():
    steps = [{"step": "Load"}, {"step": "Plot", "status": "pending", "note": "in <b>"}]
    shown, _, _ = question({"steps": steps}, "update_plan")
    assert "Work by this plan?Plan: 0 of 2 done" in shown
    assert "Plot in <b>" in shown
    hiding = [{"steps": [*steps, {"step": "Send", "to": "all"}]}, {"steps": [{"step": "x" * 999}]}, {"steps": 3}]
    for odd in [*hiding, {"steps": steps, "path": "~"}]:
        assert "update_plan asks to run" in question(odd, "update_plan")[0]


def test_blank_lines_and_spaces_push_nothing_out_of_sight():
    for blank in ("\n", " \t\n", "\u00a0\n", "\u2800\n"):
        code = "x = 1\n" + blank * 60 + "import os; os.system('rm')"
        shown, _, buttons = question({"code": code})
        assert "[60 blank lines]\nimport os; os.system('rm')" in shown
        assert not buttons["Approve"].disabled
        assert "[60 blank lines]\nimport os; os.system('rm')\n" in _typed_question(FunctionCall("run", {"code": code}))
    assert "y = 2 [5000 spaces] ; evil()" in question({"code": "x = 1\ny = 2" + " " * 5_000 + "; evil()"})[0]


@pytest.mark.parametrize("code", ["x = 1\n" * 61 + "evil()", "x" * 6_100 + "\nevil()"])
def test_a_long_text_must_be_shown_before_it_can_be_approved(code):
    shown, form, buttons = question({"code": code})
    assert "evil()" not in shown
    assert "below]" in shown
    assert buttons["Approve"].disabled
    (more,) = [button for name, button in buttons.items() if name.startswith("Show ")]
    more.click()
    assert "evil()" in form.box.children[0].value
    assert not buttons["Approve"].disabled


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("", "in your kernel"),
        ("mcp:play", "on the MCP server play"),
        ("skill:rss", "as the skill rss, with your permissions"),
        ("skills:http://x.example", 'on the server "http://x.example"'),
        (lambda n: f"skill:s{n}", "as the skill s2, with your permissions"),
        ("mcp:<b>\u202e play\n", 'on the MCP server "<b>\\u202e play\\n"'),
    ],
)
def test_the_question_says_where_the_call_runs(source, where):
    call = FunctionCall("wipe", {"n": 2}, "c")
    assert where_asked(call, FunctionDefinition("wipe", "Wipe.", {}, print, source=source)) == where

    async def title():
        return ApprovalForm(call, None, where).box.children[0].value

    page = asyncio.run(title())
    assert f"wipe asks to run {where}" in html.unescape(re.sub("<[^>]*>", "", page))
    assert "<b>" not in page
    said = f" {where}" if source else ""
    assert _typed_question(call, where) == f"Run wipe(n=2){said}? [y/N, always, or why not] "


def answered(act, call=None):
    """A form's answer after `act(children by description)`."""

    async def ask():
        form = ApprovalForm(call or FunctionCall("run", {"code": CODE}, "c"))
        children = {each.description: each for each in (*form.box.children[-1].children, *form.box.children[1:2])}
        act(children)
        return await form.answer()

    return asyncio.run(ask())


@pytest.mark.parametrize(("place", "answer"), [(0, True), (1, Allow.TOOL), (2, Allow.CALL)])
def test_an_approval_may_last_for_the_session_unless_arguments_were_edited(place, answer):
    def approve(children):
        children["Approve for"].index = place
        children["Approve"].click()

    def edit(children):
        children["Edit"].click()
        children["code"].value = "y = 2"
        approve(children)

    def cancel(children):
        children["Edit"].click()
        children["code"].value = "y = 2"
        children["Cancel"].click()
        approve(children)

    assert [answered(act) for act in (approve, edit, cancel)] == [answer, {"code": "y = 2"}, answer]


def test_edited_arguments_that_the_tool_would_reject_are_reported_and_not_approved():
    wipe = FunctionDefinition("wipe", "", {"properties": {"n": {"type": "integer"}}, "required": ["n"]}, dict)

    async def ask():
        form = ApprovalForm(FunctionCall("wipe", {"n": 1}, "c"), wipe)
        _, text, problem, buttons = form.box.children
        text.value = '{"m": 1}'
        buttons.children[0].click()
        assert "n: required field is missing" in problem.value
        text.value = '{"n": 2}'
        buttons.children[0].click()
        return await form.answer()

    assert asyncio.run(ask()) == {"n": 2}


def test_validated_arguments_are_approved_as_they_are_and_a_validator_s_error_is_shown():
    def count(names: Annotated[list[str], BeforeValidator(lambda text: text.split(","))]) -> int:
        return len(names)

    async def ask(edited=None):
        form = ApprovalForm(FunctionCall("count", {"names": ["a", "b"]}, "c"), as_registry(count).get_function("count"))
        _, text, problem, buttons = form.box.children
        if edited:
            text.value = edited
            buttons.children[0].click()
            assert "AttributeError" in problem.value
            text.value = '{"names": "a,c"}'
        buttons.children[0].click()
        return await form.answer()

    assert asyncio.run(ask()) is True
    assert asyncio.run(ask('{"names": 3}')) == {"names": "a,c"}


def test_a_denial_may_have_a_reason():
    def act(children):
        children["Reason"].value = "use the copy."
        children["Deny"].click()

    with pytest.raises(ToolDeniedError, match=r"denied this call: use the copy\. Do not repeat it as it is\.$"):
        answered(act)
    assert answered(lambda children: children["Deny"].click()) is False


def previewed(before, after):
    preview = Preview("edit cell 2", (TextChange("", before, after, "python"),), edits="source")
    return PreviewedCall("edit_cell", {"cell": "a1", "source": after}, "c", preview=preview)


def test_a_change_is_shown_as_a_diff_and_edited_as_text():
    def edit(children):
        children["Edit"].click()
        assert children["source"].value == "x = 2\n"
        children["source"].value = "x = 3"
        children["Approve"].click()

    assert answered(edit, previewed("x = 1\n", "x = 2\n")) == {"cell": "a1", "source": "x = 3"}
    call = previewed("x = 1\n", "x = '<b>\u202e'\n")
    page, left = asks_html(call, where_asked(call, None))
    assert "<strong>edit_cell</strong> asks to edit cell 2<pre" in page
    assert "<del>x = 1\n</del><ins>x = '&lt;b&gt;" in page.replace("&#x27;", "'")
    assert "\u202e" not in page
    assert left == 0
    page, left = asks_html(previewed(None, "x = 1\n" * 50), "add a code cell", 40)
    assert (page.count("nbagent-number"), left) == (40, 10)
    assert _typed_question(call, where_asked(call, None)).endswith(
        "edit_cell asks to edit cell 2. Approve? [y/N, always, or why not] "
    )
