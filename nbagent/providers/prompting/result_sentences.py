"""Writes sentences that quote tool results. They are built by rules, since a small model can't be trusted to copy
values.

Here, a tool's result is text: JSON for dicts and lists, `str()` for numbers and strings, and the shape and first rows
of a DataFrame.
"""

from __future__ import annotations

import json
import re
from typing import Any

from nbagent.core.messages import FunctionCall, LLMMessage
from nbagent.text import shortened

#: A result is quoted up to this many items and characters.
MAX_ITEMS = 12
MAX_CHARS = 600
#: An answer is stuck if it says the same words this often in a row, and how many words at most are compared.
MAX_REPEATS = 5
MAX_REPEATED_WORDS = 20


def result_sentence(call: FunctionCall | None, message: LLMMessage) -> str:
    """A sentence that names the call and quotes its result.

    >>> call = FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"})
    >>> result_sentence(call, LLMMessage("tool", '{"Adelie": 3700.7, "Chinstrap": 3733.1}', name="mean_by"))
    '`mean_by(column="body_mass_g", group="species")` gives **Adelie** 3700.7 and **Chinstrap** 3733.1.'
    """
    name = f"`{_call_text(call)}`" if call else f"`{message.name or 'the function'}`"
    text = message.text.strip()
    quoted, value = shortened(text, MAX_CHARS), _parsed(text)
    if message.is_error:
        return f"{name} failed: {quoted}"
    if not value:
        return f"{name} found nothing."
    if isinstance(value, (dict, list)):
        values = list(value.values()) if isinstance(value, dict) else value
        keys = [f"**{key}** " for key in value] if isinstance(value, dict) else [""] * len(values)
        if not any(isinstance(item, (dict, list)) or "\n" in str(item) for item in values):
            return f"{name} gives {_joined([key + _text(item) for key, item in zip(keys, values, strict=True)])}."
    if isinstance(value, (dict, list)) or "\n" in text:
        return f"{name} gives:\n\n```\n{quoted}\n```"
    if text.endswith((".", "!", "?")):
        return f"{name} says: {quoted}"
    return f"{name} gives {quoted}."


def repeats_itself(answer: str) -> bool:
    """Whether an answer keeps repeating itself. Numbers are ignored, since the items of a list may be numbered.

    >>> repeats_itself("1. Fish 2. Bird 3. Fish"), repeats_itself("1. Fish 2. Fish 3. Fish 4. Fish 5. Fish")
    (False, True)
    """
    said = re.findall(r"[^\W\d_]+", answer)
    return any(
        said[-length * MAX_REPEATS :] == said[-length:] * MAX_REPEATS
        for length in range(1, min(MAX_REPEATED_WORDS, len(said) // MAX_REPEATS) + 1)
    )


def _call_text(call: FunctionCall) -> str:
    """A call as Python: `mean_by(column="body_mass_g", group="species")`."""
    arguments = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items())
    return f"{call.name}({arguments})"


def _parsed(text: str) -> Any:
    """The JSON object or array in a result's text, else the text."""
    if not text.startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _joined(items: list[str]) -> str:
    if len(items) > MAX_ITEMS:
        return ", ".join(items[:MAX_ITEMS]) + f", … ({len(items)} in all)"
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
