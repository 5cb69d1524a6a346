"""Answers that quote what the tools returned: readable sentences made by rule, the same on every machine.

A model too small to copy values reliably does not word these answers. What a tool returned reaches us as text: JSON for
dicts and lists, `str()` for numbers and texts, a frame's shape, dtypes and head.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from nbagent.core.messages import FunctionCall, LLMMessage

#: Longer results are quoted up to here.
MOST_ITEMS = 12
MOST_CHARS = 600
#: Fewer words than these are no sentence.
LEAST_WORDS = 3
#: An answer that says the same words this often in a row, so many words at most, goes on like that for ever.
MOST_REPEATS = 5
LONGEST_REPEATED = 20


def quote(call: FunctionCall | None, message: LLMMessage) -> str:
    """One result as a sentence that names the call and holds the result's values.

    >>> call = FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"})
    >>> quote(call, LLMMessage("tool", '{"Adelie": 3700.7, "Chinstrap": 3733.1}', name="mean_by"))
    '`mean_by(column="body_mass_g", group="species")` gives **Adelie** 3700.7 and **Chinstrap** 3733.1.'
    """
    shown = f"`{spell(call)}`" if call else f"`{message.name or 'the function'}`"
    text = message.text.strip()
    if message.is_error:
        return f"{shown} failed: {_shorten(text)}"
    value = parse(text)
    if isinstance(value, dict) and value and all(_is_scalar(item) for item in value.values()):
        return f"{shown} gives {_join([f'**{key}** {_spell(item)}' for key, item in value.items()])}."
    if isinstance(value, list) and value and all(_is_scalar(item) for item in value):
        return f"{shown} gives {_join([_spell(item) for item in value])}."
    if isinstance(value, (dict, list)):
        if not value:
            return f"{shown} found nothing."
        return f"{shown} gives:\n\n{_bullets(value)}"
    if "\n" in text:
        return f"{shown} gives:\n\n```\n{_shorten(text)}\n```"
    if _is_sentence(text):
        return f"{shown} says: {_shorten(text)}"
    return f"{shown} gives {_shorten(text)}."


def without_call(answer: str) -> str:
    """A quoted answer without the call before it, for a model that would copy the form.

    >>> without_call('`count()` gives 344.')
    '344.'
    """
    return re.sub(r"^`[^`\n]+` (?:gives|says):?\s+", "", answer, flags=re.MULTILINE)


def spell(call: FunctionCall) -> str:
    """A call as Python: `mean_by(column="body_mass_g", group="species")`."""
    arguments = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items())
    return f"{call.name}({arguments})"


def parse(text: str) -> Any:
    """A result's text as the JSON data it holds, or as it is. Only objects and arrays are read as JSON."""
    if not text.startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def is_short(message: LLMMessage) -> bool:
    """Whether a result is one short value and no sentence yet, which a model may put into its own words."""
    text = message.text.strip()
    plain = isinstance(parse(text), str) and "\n" not in text and not _is_sentence(text)
    return plain and not message.is_error and 0 < len(text) <= 60


def faithful(draft: str, text: str, request: str) -> bool:
    """Whether a model's answer is a sentence, has the value word for word and no number besides those it was given."""
    given = set(_numbers(text)) | set(_numbers(request))
    whole = re.search(rf"(?<![\w.]){re.escape(text)}(?!\w|\.\d)", draft)
    is_sentence = len(draft.split()) >= LEAST_WORDS and draft.rstrip().endswith((".", "!"))
    return is_sentence and whole is not None and set(_numbers(draft)) <= given


def is_stuck(answer: str) -> bool:
    """Whether an answer has begun to repeat itself; numbers do not count, since lists go on counting.

    >>> is_stuck("1. Fish 2. Bird 3. Fish"), is_stuck("1. Fish 2. Fish 3. Fish 4. Fish 5. Fish")
    (False, True)
    """
    said = re.findall(r"[^\W\d_]+", answer)
    return any(
        said[-length * MOST_REPEATS :] == said[-length:] * MOST_REPEATS
        for length in range(1, min(LONGEST_REPEATED, len(said) // MOST_REPEATS) + 1)
    )


def _is_sentence(text: str) -> bool:
    return text.endswith((".", "!", "?"))


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d+(?:[.,]\d+)*", text)


def _is_scalar(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, (int, float, bool))
        or (isinstance(value, str) and len(value) <= 80 and "\n" not in value)
    )


def _spell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _join(items: Sequence[str]) -> str:
    if len(items) > MOST_ITEMS:
        return ", ".join(items[:MOST_ITEMS]) + f", … ({len(items)} in all)"
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def _bullets(value: dict[str, Any] | list[Any]) -> str:
    """A Markdown list of what is nested, one level deep."""
    items = list(value.items()) if isinstance(value, dict) else [(None, item) for item in value]
    lines = []
    for key, item in items[:MOST_ITEMS]:
        if isinstance(item, dict):
            text = ", ".join(f"{name}: {_spell(one)}" for name, one in item.items())
        else:
            text = _spell(item)
        lines.append(f"- **{key}**: {_shorten(text)}" if key is not None else f"- {_shorten(text)}")
    if len(items) > MOST_ITEMS:
        lines.append(f"- … ({len(items)} in all)")
    return "\n".join(lines)


def _shorten(text: str) -> str:
    return text if len(text) <= MOST_CHARS else text[:MOST_CHARS].rstrip() + " …"
