"""Sentences that quote the results of tools, and checks of the sentences that a small model writes."""

import json

import pytest

from nbagent.core.messages import FunctionCall, LLMMessage
from nbagent.providers.prompting.result_sentences import is_faithful, result_sentence


def test_faithful_lets_the_numbers_of_the_request_pass():
    assert is_faithful("100 USD are 92.5 EUR.", "92.5", "Convert 100 USD to EUR")
    assert not is_faithful("100 USD are 92.55 EUR.", "92.5", "Convert 100 USD to EUR")


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ("[1, 2.5, null]", "`f()` gives 1, 2.5 and null."),
        ("[]", "`f()` found nothing."),
        ("", "`f()` found nothing."),
        ('["a"]', "`f()` gives a."),
        (json.dumps(list(range(20))), f"`f()` gives {', '.join(map(str, range(12)))}, … (20 in all)."),
        ('[{"name": "x", "n": 1}]', "`f()` gives:\n\n- name: x, n: 1"),
        ('{"a": {"b": 1}, "c": [1]}', "`f()` gives:\n\n- **a**: b: 1\n- **c**: [1]"),
        ("2 rows\na  b", "`f()` gives:\n\n```\n2 rows\na  b\n```"),
        ("Done.", "`f()` says: Done."),
        ("{not JSON", "`f()` gives {not JSON."),
        ("A sentence. " * 60, f"`f()` says: {('A sentence. ' * 50)[:599].rstrip()}…"),
        ("x" * 700, f"`f()` gives {'x' * 599}…."),
    ],
)
def test_how_results_are_quoted(content, answer):
    assert result_sentence(FunctionCall("f"), LLMMessage("tool", content, name="f")) == answer
