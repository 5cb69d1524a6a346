"""The arguments of a call can be edited before it runs: a single text as it is, everything else as JSON."""

import asyncio

import ipywidgets
import pytest

from nbagent import FunctionCall
from nbagent.notebook.display.approval import ApprovalForm

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


def test_a_single_text_argument_is_edited_as_it_is():
    assert edited({"code": CODE}, lambda text: text.replace('"a"', '"b"')) == ("code", {"code": CODE.replace("a", "b")})
    assert edited({"code": CODE}, str) == ("code", True)


@pytest.mark.parametrize("arguments", [{"code": CODE, "n": 1}, {"n": 1}, {"code": "x = 1 \u202e# safe"}])
def test_other_arguments_are_edited_as_json(arguments):
    label, answer = edited(arguments, str)
    assert (label, answer) == ("Arguments, as JSON", True)
    label, answer = edited(arguments, lambda text: text.replace("1", "2"))
    assert answer == {name: 2 if value == 1 else str(value).replace("1", "2") for name, value in arguments.items()}
