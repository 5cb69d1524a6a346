"""The rows of a Series or DataFrame as prompts. Equal prompts have equal keys, regardless of their index."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from nbagent.checks import check_type, invalid
from nbagent.core.content.images import is_image
from nbagent.core.inputs import as_messages
from nbagent.core.json_text import json_text
from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError
from nbagent.functions.formatting import format_result
from nbagent.providers.replay.fingerprint import Fingerprints
from nbagent.text import did_you_mean


@dataclass(frozen=True, slots=True)
class Row:
    """One prompt.

    - `key`: a hash of everything that determines the answer
    - `content`: the message for `Agent.chat`. Files are read only when the row is sent.
    - `status`: "left"; for rows that are never sent, "skipped" (a value is missing) or "error" (a value is invalid)
    - `problem`: the reason the row is never sent, as a sentence
    """

    key: str
    content: Any = ""
    status: str = "left"
    problem: str | None = None

    @property
    def messages(self) -> Sequence[LLMMessage]:
        """The prompt as messages."""
        return as_messages(self.content)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the files' bytes, because another process may not have the files that the content names."""
        return Row, (self.key, self.content if self.problem else self.messages, self.status, self.problem)


def rows_of(data: pd.Series[Any] | pd.DataFrame, prompt: str | None, settings: Mapping[str, Any]) -> list[Row]:
    """Return a prompt for each row of the data.

    The keys also depend on `settings`, such as the model, the options and the schema. Raises `ConfigurationError` if
    the prompt names no column, or names a column that the data does not have.
    """
    check_data(data)
    shared = json_text(settings)
    template = _template(prompt)
    return [_row(template, values, shared) for values in _records(data, template)]


def check_data(data: Any) -> None:
    """Raise `ConfigurationError` unless the data is a Series or a DataFrame."""
    if not isinstance(data, pd.Series | pd.DataFrame):
        fix = "Pass df['question'], df with prompt='… {column} …', or pd.Series(a_list)."
        if hasattr(data, "to_pandas"):  # Polars and PyArrow
            fix = "Pass data.to_pandas()."
        raise invalid("data", data, "a pandas Series or DataFrame", fix)


#: The pieces of a prompt: text, or a column's name, conversion and format.
Template = list[str | tuple[str, str | None, str]]


def _template(prompt: str | None) -> Template:
    """Return the pieces of a prompt, which is a format string with column names in braces."""
    check_type("prompt", prompt, str, optional=True)
    pieces: Template = []
    try:
        for text, name, form, conversion in string.Formatter().parse(prompt or ""):
            pieces += [text] if text else []
            pieces += [] if name is None else [(name, conversion, form or "")]
    except ValueError as error:
        fix = "Write {{ and }} for braces that name no column."
        raise ConfigurationError(f"prompt: {error}. {fix}") from None
    if prompt is not None and not _names(pieces):
        fix = "Name a column, as in 'Classify: {text}'. Without a prompt, the values are the prompts."
        raise invalid("prompt", prompt, "a column name in braces", fix)
    return pieces


def _names(template: Template) -> list[str]:
    return list(dict.fromkeys(piece[0] for piece in template if not isinstance(piece, str)))


def _records(data: pd.Series[Any] | pd.DataFrame, template: Template) -> Iterator[dict[str, Any]]:
    """Return each row's values by name: the columns that the prompt names or, without a prompt, the only column."""
    names = _names(template)
    if isinstance(data, pd.Series):
        if len(names) > 1:
            raise ConfigurationError(
                f"prompt: a Series has one value per row, but the prompt names {', '.join(names)}. Pass the DataFrame."
            )
        return ({(names or ["value"])[0]: value} for value in data)
    if not names and len(data.columns) != 1:
        raise ConfigurationError("prompt: a DataFrame needs a prompt with column names, such as 'Classify: {text}'.")
    known = [str(column) for column in data.columns]
    columns = []
    for name in names or known:
        if known.count(name) != 1:
            problem = f"{known.count(name) or 'no'} columns named {name!r}{did_you_mean(name, known) or '.'}"
            raise ConfigurationError(f"prompt: there are {problem} The data has {', '.join(known) or 'no columns'}.")
        columns.append(data.iloc[:, known.index(name)])
    return (dict(zip(names or known, values, strict=True)) for values in zip(*columns, strict=True))


def _row(template: Template, values: Mapping[str, Any], shared: str) -> Row:
    if missing := [name for name, value in values.items() if is_missing(value)]:
        return Row(f"skipped {missing}", None, "skipped", f"The value of {' and '.join(missing)} is missing.")
    try:
        content = _filled(template, values)
        messages = as_messages(content)
        fingerprint = Fingerprints().of(messages, None, {}).hash
    except (ConfigurationError, OSError, ValueError, TypeError) as error:  # the last two come from a format field
        problem = f"{type(error).__name__}: {error}"
        return Row(f"error {hashlib.sha256(problem.encode('utf-8', 'replace')).hexdigest()}", None, "error", problem)
    key = hashlib.sha256(f"{fingerprint}\n{shared}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return Row(key, content)


def is_missing(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, NaT, NA, blank text, an empty list."""
    if isinstance(value, str | list | tuple):
        return not (value.strip() if isinstance(value, str) else value)
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


def _filled(template: Template, values: Mapping[str, Any]) -> Any:
    """Return the prompt: text, parts if a value is an image or file, or the messages in the data."""
    if not template:
        (value,) = values.values()
        return (
            value
            if isinstance(value, str | list | tuple | Mapping | LLMMessage) or is_image(value)
            else format_result(value, whole=True)
        )
    parts: list[Any] = []
    for piece in template:
        part = piece if isinstance(piece, str) else _inserted(values, *piece)
        if parts and isinstance(part, str) and isinstance(parts[-1], str):
            parts[-1] += part
        else:
            parts += part if isinstance(part, list) else [part]
    return parts[0] if len(parts) == 1 else parts


def _inserted(values: Mapping[str, Any], name: str, conversion: str | None, form: str) -> Any:
    """Return a value for a prompt. Images and files are unchanged; other values are formatted in full, as in cells."""
    value = values[name]
    if is_image(value):
        return value
    if conversion or form:
        return format(string.Formatter().convert_field(value, conversion), form)
    return format_result(value, whole=True)
