"""Rows of a Series or DataFrame as questions. Equal questions have equal keys, whatever the index says."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from nbagent.checks import invalid
from nbagent.core.inputs import as_messages
from nbagent.core.json_text import json_text
from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError
from nbagent.providers.replay.fingerprint import Fingerprints


@dataclass(frozen=True, slots=True)
class Row:
    """One question: the messages, and the hash of all that decides its answer."""

    key: str
    messages: Sequence[LLMMessage]


def rows_of(data: pd.Series[Any] | pd.DataFrame, prompt: str | None, settings: Mapping[str, Any]) -> list[Row]:
    """A row for each row of the data. `settings` are what else decides the answers: model, options, schema.

    Raises `ConfigurationError` for a prompt that names no column of the data.
    """
    shared = json_text(settings)
    fingerprints = Fingerprints()
    rows = []
    for values in _records(data, prompt):
        messages = as_messages(_filled(prompt, values))
        said = fingerprints.of(messages, None, {}).hash
        key = hashlib.sha256(f"{said}\n{shared}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        rows.append(Row(key, messages))
    return rows


def _records(data: pd.Series[Any] | pd.DataFrame, prompt: str | None) -> list[dict[str, Any]]:
    """The values of each row by the names that the prompt uses."""
    if not isinstance(data, pd.Series | pd.DataFrame):
        raise invalid("data", data, "a Series or a DataFrame", "Pass df['question'], or df with prompt='… {column} …'.")
    names = _names(prompt)
    if isinstance(data, pd.Series):
        name = names[0] if names else "value"
        return [{name: value} for value in data]
    if prompt is None and len(data.columns) != 1:
        raise ConfigurationError("prompt: a DataFrame needs one that names its columns, such as 'Classify: {text}'.")
    for name in names:
        if name not in data.columns:
            raise invalid("prompt", prompt, f"columns of the data ({', '.join(map(str, data.columns))}), not {name!r}")
    used = data[names] if names else data
    return [{str(name): value for name, value in record.items()} for record in used.to_dict("records")]


def _names(prompt: str | None) -> list[str]:
    """The names in the braces of a prompt, in order."""
    return list(dict.fromkeys(name for _, name, _, _ in string.Formatter().parse(prompt or "") if name is not None))


def _filled(prompt: str | None, values: Mapping[str, Any]) -> Any:
    if prompt is None:
        (value,) = values.values()
        return value
    return prompt.format(**values)
