"""Sentences that quote the results of tools, made by rules, and checks of the sentences that a small model writes.

A small model can't be trusted to copy values, so it does not word these answers. A tool's result is text here: JSON for
dicts and lists, `str()` of numbers and texts, the shape, dtypes and head of a DataFrame.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from nbagent.core.messages import FunctionCall, LLMMessage
from nbagent.text import shortened

#: A result is quoted up to this many items and characters.
MAX_ITEMS = 12
MAX_CHARS = 600
#: A text with fewer words is not a sentence.
MIN_SENTENCE_WORDS = 3
#: An answer is stuck when it says the same words this often in a row; so many words are looked at together.
MAX_REPEATS = 5
MAX_REPEATED_WORDS = 20


def result_sentence(call: FunctionCall | None, message: LLMMessage) -> str:
    """A sentence that names the call and quotes its result.

    >>> call = FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"})
    >>> result_sentence(call, LLMMessage("tool", '{"Adelie": 3700.7, "Chinstrap": 3733.1}', name="mean_by"))
    '`mean_by(column="body_mass_g", group="species")` gives **Adelie** 3700.7 and **Chinstrap** 3733.1.'
    """
    name = f"`{call_text(call)}`" if call else f"`{message.name or 'the function'}`"
    text = message.text.strip()
    quoted = shortened(text, MAX_CHARS)
    if message.is_error:
        return f"{name} failed: {quoted}"
    value = _parsed(text)
    if not value:
        return f"{name} found nothing."
    if isinstance(value, (dict, list)):
        items = list(value.values()) if isinstance(value, dict) else value
        if not all(_is_short(item) for item in items):
            return f"{name} gives:\n\n{_bullets(value)}"
        keys = [f"**{key}** " for key in value] if isinstance(value, dict) else [""] * len(items)
        return f"{name} gives {_joined([key + _text(item) for key, item in zip(keys, items, strict=True)])}."
    if "\n" in text:
        return f"{name} gives:\n\n```\n{quoted}\n```"
    if _is_sentence(text):
        return f"{name} says: {quoted}"
    return f"{name} gives {quoted}."


def without_call(answer: str) -> str:
    """An answer of `result_sentence` without the call before it, for a model that would copy the form.

    >>> without_call('`count()` gives 344.')
    '344.'
    """
    return re.sub(r"^`[^`\n]+` (?:gives|says):?\s+", "", answer, flags=re.MULTILINE)


def call_text(call: FunctionCall) -> str:
    """A call as Python: `mean_by(column="body_mass_g", group="species")`."""
    arguments = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items())
    return f"{call.name}({arguments})"


def is_short_value(message: LLMMessage) -> bool:
    """Whether a result is one short value and not yet a sentence, so that a model may put it into its own words."""
    text = message.text.strip()
    is_value = isinstance(_parsed(text), str) and "\n" not in text and not _is_sentence(text)
    return is_value and not message.is_error and 0 < len(text) <= 60


def is_faithful(draft: str, value: str, request: str) -> bool:
    """Whether a model's answer is a sentence that holds the value unchanged, and no number from elsewhere.

    >>> is_faithful("There are 344 rows.", "344", "How many rows?"), is_faithful("It has 7 of 344.", "344", "How many?")
    (True, False)
    """
    given = {*_numbers(value), *_numbers(request)}
    has_value = re.search(rf"(?<![\w.]){re.escape(value)}(?!\w|\.\d)", draft)
    is_sentence = len(draft.split()) >= MIN_SENTENCE_WORDS and draft.rstrip().endswith((".", "!"))
    return is_sentence and has_value is not None and set(_numbers(draft)) <= given


def repeats_itself(answer: str) -> bool:
    """Whether an answer has begun to repeat itself without end. Numbers do not count, since lists go on counting.

    >>> repeats_itself("1. Fish 2. Bird 3. Fish"), repeats_itself("1. Fish 2. Fish 3. Fish 4. Fish 5. Fish")
    (False, True)
    """
    said = re.findall(r"[^\W\d_]+", answer)
    return any(
        said[-length * MAX_REPEATS :] == said[-length:] * MAX_REPEATS
        for length in range(1, min(MAX_REPEATED_WORDS, len(said) // MAX_REPEATS) + 1)
    )


def _parsed(text: str) -> Any:
    """The JSON object or array in a result's text, else the text."""
    if not text.startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _is_sentence(text: str) -> bool:
    return text.endswith((".", "!", "?"))


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d+(?:[.,]\d+)*", text)


def _is_short(value: Any) -> bool:
    """Whether a value is short enough to stand in a sentence."""
    if isinstance(value, str):
        return len(value) <= 80 and "\n" not in value
    return value is None or isinstance(value, (int, float))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _joined(items: Sequence[str]) -> str:
    if len(items) > MAX_ITEMS:
        return ", ".join(items[:MAX_ITEMS]) + f", … ({len(items)} in all)"
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def _bullets(value: dict[str, Any] | list[Any]) -> str:
    """A Markdown list of nested data, one level deep."""
    items = list(value.items()) if isinstance(value, dict) else [(None, item) for item in value]
    lines = []
    for key, item in items[:MAX_ITEMS]:
        if isinstance(item, dict):
            text = ", ".join(f"{name}: {_text(one)}" for name, one in item.items())
        else:
            text = _text(item)
        lines.append(f"- {'' if key is None else f'**{key}**: '}{shortened(text, MAX_CHARS)}")
    if len(items) > MAX_ITEMS:
        lines.append(f"- … ({len(items)} in all)")
    return "\n".join(lines)
