"""A server's question to the user, answered by typing. As a form: `tests/notebook/test_mcp_questions.py`."""

import pytest

from nbagent.functions.elicitation import Question
from nbagent.mcp.client.elicitation import _problem
from nbagent.notebook.display.approval import NotebookApprover

SCHEMA = {
    "type": "object",
    "properties": {"size": {"enum": ["S", "M"]}, "n": {"type": "integer"}},
    "required": ["size"],
}


def question(text="Which size?"):
    return Question("shop", {"size": "M", "n": 1}, "c", text=text, problem=lambda answers: _problem(SCHEMA, answers))


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
    assert await approver(question(), None) == answer
    assert prompts[0].startswith("shop asks: Which size?\n")
    assert len(prompts) == len(typed)
