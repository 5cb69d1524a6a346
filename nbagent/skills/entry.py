"""Calls the Python entry of an executable skill. This file also runs as a script, in a separate process.

So it imports only the standard library and pydantic, not nbagent. The script reads `{"file", "function", "arguments"}`
as JSON from standard input and prints `{"value": …}`, `{"invalid": …}` with pydantic's errors for the arguments, or
`{"error": …}`. The skill's own output goes to standard error.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import types
import typing
from functools import lru_cache
from pathlib import Path
from typing import Any


def answer(file: str, function: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a function and return its outcome as JSON data."""
    from pydantic import BaseModel, TypeAdapter, ValidationError, validate_call

    try:
        call = getattr(_module(file, os.stat(file).st_mtime_ns), function)
        hints = typing.get_type_hints(call, include_extras=True)
        names = list(inspect.signature(call).parameters)
        model = hints.get(names[0]) if len(names) == 1 else None
        try:
            if isinstance(model, type) and issubclass(model, BaseModel):
                value = call(model.model_validate(arguments))
            else:
                value = validate_call(call)(**arguments)
        except ValidationError as error:
            return {"invalid": error.errors(include_url=False, include_context=False)}
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        output = TypeAdapter(hints.get("return", Any))
        return {"value": output.dump_python(output.validate_python(value), mode="json")}
    except (Exception, SystemExit) as error:  # noqa: BLE001  a skill may raise anything
        return {"error": f"{type(error).__name__}: {error}" if str(error) else type(error).__name__}


@lru_cache(64)
def _module(file: str, changed_ns: int) -> Any:
    """The module of a file, under a unique name. It can import the other files of its folder, as a package can."""
    module: Any = types.ModuleType(f"nbagent_skill_{abs(hash((file, changed_ns))):x}")
    module.__file__, module.__path__ = file, [str(Path(file).parent)]
    sys.modules[module.__name__] = module  # where pydantic resolves the names in annotations
    exec(compile(Path(file).read_bytes(), file, "exec"), module.__dict__)  # noqa: S102  the approved skill
    return module


if __name__ == "__main__":
    _out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with _out:
        _out.write(json.dumps(answer(**json.load(sys.stdin)), default=repr))
