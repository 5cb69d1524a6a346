"""The package's own skills, loaded as modules."""

import importlib.util
from functools import cache
from pathlib import Path

import nbagent

BUILTIN = Path(nbagent.__file__).parent / "skills" / "builtin"


@cache
def builtin_skill(name):
    """The module of a built-in skill: `builtin_skill("file-search").run(...)`."""
    module = name.replace("-", "_")
    spec = importlib.util.spec_from_file_location(f"builtin_{module}", BUILTIN / name / f"{module}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
