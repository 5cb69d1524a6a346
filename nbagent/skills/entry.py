"""Loads and calls the Python entry of an executable skill. It also runs by itself, in a process of its own.

There it may not need nbagent: it imports the standard library and pydantic only. It reads one JSON object from its
standard input, `{"file", "function", "arguments"}`, without arguments to describe the entry, and writes one to the
file that its first argument names: `{"value": …}` or `{"error": …}`.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any


class EntryError(Exception):
    """The entry is not what an entry must be, or its input is invalid. The message says what to change."""


class Entry:
    """A function of one parameter, which is a pydantic model, as is its return annotation."""

    def __init__(self, file: str, function: str) -> None:
        module = _load(file)
        self.function: Callable[..., Any] = getattr(module, function, None)  # type: ignore[assignment]  # checked next
        place = f"{Path(file).name}:{function}"
        if not callable(self.function):
            raise EntryError(f"{place} is not a function")
        hints = typing.get_type_hints(self.function)
        names = list(inspect.signature(self.function).parameters)
        self.input: Any = hints.get(names[0]) if names else None
        self.output: Any = hints.get("return")
        if len(names) != 1 or not _is_model(self.input) or not _is_model(self.output):
            raise EntryError(f"{place} must be `def {function}(input: Input) -> Output` with two pydantic models")

    def describe(self) -> dict[str, Any]:
        """The JSON Schemas of input and output, and the function's docstring."""
        doc = inspect.getdoc(self.function) or ""
        schemas = {"input": self.input.model_json_schema(), "output": self.output.model_json_schema()}
        return {**schemas, "docstring": doc}

    def call(self, arguments: dict[str, Any]) -> Any:
        """The output as JSON data. Raises `EntryError` for invalid input or output, or what the function raises."""
        from pydantic import ValidationError

        try:
            given = self.input.model_validate(arguments)
        except ValidationError as error:
            raise EntryError(f"The input is invalid: {_problems(error)}") from None
        value = self.function(given)
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
        try:
            output = value if isinstance(value, self.output) else self.output.model_validate(value)
        except ValidationError as error:
            raise EntryError(f"The skill's output is invalid: {_problems(error)}") from None
        return output.model_dump(mode="json")


async def _awaited(value: Any) -> Any:
    return await value


def _load(file: str) -> Any:
    """The module of a file, under a name of its own. It can import the other files of its folder as a package's."""
    name = f"nbagent_skill_{Path(file).parent.name.replace('-', '_')}_{abs(hash(file)):x}"
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=[str(Path(file).parent)])
    if spec is None or spec.loader is None:
        raise EntryError(f"{Path(file).name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pydantic looks for the names in annotations there
    spec.loader.exec_module(module)
    return module


def _is_model(kind: Any) -> bool:
    from pydantic import BaseModel

    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _problems(error: Any) -> str:
    found = [(".".join(map(str, each["loc"])), each["msg"]) for each in error.errors(include_url=False)]
    return "; ".join(f"{where or 'input'}: {message}" for where, message in found[:10])


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        entry = Entry(request["file"], request["function"])
        return {"value": entry.describe() if "arguments" not in request else entry.call(request["arguments"])}
    except EntryError as error:
        return {"error": str(error)}
    except BaseException as error:  # noqa: BLE001  whatever the skill raises, exits too, is its answer
        return {"error": f"{type(error).__name__}: {error}" if str(error) else type(error).__name__}


if __name__ == "__main__":
    _text = json.dumps(_answer(json.load(sys.stdin)))
    Path(sys.argv[1]).write_text(_text, encoding="utf-8")
