"""Sentences that quote tool results."""

import json

import pytest

from nbagent.core.messages import FunctionCall, LLMMessage
from nbagent.providers.prompting.result_sentences import result_sentence


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ("[1, 2.5, null]", "`f()` gives 1, 2.5 and null."),
        ("[]", "`f()` found nothing."),
        ("", "`f()` found nothing."),
        ('["a"]', "`f()` gives a."),
        (json.dumps(list(range(20))), f"`f()` gives {', '.join(map(str, range(12)))}, … (20 in all)."),
        ('[{"name": "x", "n": 1}]', '`f()` gives:\n\n```\n[{"name": "x", "n": 1}]\n```'),
        ('{"a": {"b": 1}, "c": [1]}', '`f()` gives:\n\n```\n{"a": {"b": 1}, "c": [1]}\n```'),
        ("2 rows\na  b", "`f()` gives:\n\n```\n2 rows\na  b\n```"),
        ("Done.", "`f()` says: Done."),
        ("{not JSON", "`f()` gives {not JSON."),
        ("A sentence. " * 60, f"`f()` says: {('A sentence. ' * 50)[:599].rstrip()}…"),
        ("x" * 700, f"`f()` gives {'x' * 599}…."),
    ],
)
def test_quoted_results(content, answer):
    assert result_sentence(FunctionCall("f"), LLMMessage("tool", content, name="f")) == answer
