"""The shape of the package, read from its syntax trees: who may import whom, no cycles, small files and functions.

Imports inside functions count; those under `if TYPE_CHECKING:` and those of the lazy `nbagent/__init__.py` do not.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import nbagent

ROOT = Path(nbagent.__file__).parent
MAX_FILE, MAX_FUNCTION = 600, 60

GROUND = {"checks", "config", "errors", "pricing", "text"}
WIRING = {"agent_summary", "agent", "extract", "comparison"}

#: What each layer may import, besides itself.
BELOW = {
    "ground": set(),
    "core": {"ground"},
    "providers": {"ground", "core"},
    "functions": {"ground", "core"},
    "trace": {"ground", "core"},
    "agent": {"ground", "core", "providers", "functions", "trace"},
    "skills": {"ground", "core", "functions"},
    "notebook": {"ground", "core", "providers", "functions", "trace", "agent", "skills"},
    "server": {"ground", "core", "providers", "functions", "trace", "agent", "skills"},
    "cli": {"ground", "core", "providers", "functions", "trace", "agent", "skills", "server"},
}

#: Where a third-party package may be imported at all.
HOME = {
    **dict.fromkeys(["openai", "anthropic", "xllamacpp"], "providers"),
    **dict.fromkeys(["IPython", "anywidget", "ipywidgets", "ipykernel", "comm", "itables"], "notebook"),
    **dict.fromkeys(["fastapi", "starlette", "uvicorn"], "server"),
    "opentelemetry": "trace",
}
PANDAS_AT_TOP = {"nbagent.trace.columns", "nbagent.comparison"}


@dataclass(frozen=True)
class Import:
    """One imported module; `top` where it is loaded together with the importing module."""

    source: str
    target: str
    line: int
    top: bool

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.target}"


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {_name(path): ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _statements(node: ast.AST, top: bool = True) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, top
        elif _is_type_checking(child):
            assert isinstance(child, ast.If)
            for other in child.orelse:
                yield from _statements(other, top)
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _statements(child, top and not inside)


def _imports(module: str) -> Iterator[Import]:
    for node, top in _statements(TREES[module]):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            assert node.level == 0, f"{module}:{node.lineno}: imports are absolute here"
            base = node.module or ""
            names = [full if (full := f"{base}.{alias.name}") in TREES else base for alias in node.names]
        for name in dict.fromkeys(names):
            yield Import(module, name, node.lineno, top)


IMPORTS = [found for module in TREES if module != "nbagent" for found in _imports(module)]


def _layer(module: str) -> str:
    part = module.split(".")[1]
    if part in GROUND:
        return "ground"
    return "agent" if part in WIRING else part


def _within(found: Import) -> bool:
    return found.target.split(".")[0] == "nbagent"


def test_every_module_has_a_layer():
    assert {_layer(module) for module in TREES if module != "nbagent"} <= BELOW.keys()


def test_layers_import_only_what_lies_below():
    internal = [found for found in IMPORTS if _within(found)]
    assert len(internal) > 50  # the walk sees the package
    assert [str(found) for found in internal if found.target == "nbagent"] == [], "import from where a name lives"
    wrong = [
        str(found)
        for found in internal
        if (target := _layer(found.target)) != (source := _layer(found.source)) and target not in BELOW[source]
    ]
    assert wrong == []


def test_no_cycle_between_modules():
    graph: dict[str, set[str]] = {module: set() for module in TREES}
    for found in IMPORTS:
        if _within(found):
            graph[found.source].add(found.target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"modules import each other: {' -> '.join(reversed(error.args[1]))}")


def test_third_party_packages_stay_at_home():
    layer = {str(found): (found.target.split(".")[0], _layer(found.source)) for found in IMPORTS}
    assert [text for text, (package, home) in layer.items() if HOME.get(package, home) != home] == []


def test_pandas_is_loaded_by_tables_only():
    loading = {found.source for found in IMPORTS if found.top and found.target.split(".")[0] == "pandas"}
    assert "nbagent.trace.columns" in loading
    assert loading <= PANDAS_AT_TOP


def test_the_lazy_init_imports_nothing_of_ours_at_load():
    assert [str(found) for found in _imports("nbagent") if found.top and _within(found)] == []


def test_modules_say_what_they_are_for():
    assert [module for module, tree in TREES.items() if not ast.get_docstring(tree)] == []


@pytest.mark.parametrize("folder", [ROOT, Path(__file__).parent], ids=["nbagent", "tests"])
def test_files_are_small(folder):
    lines = {path: len(path.read_text("utf-8").splitlines()) for path in folder.rglob("*.py")}
    assert len(lines) > 30  # the walk sees the folder
    assert {str(path.relative_to(folder)): count for path, count in lines.items() if count > MAX_FILE} == {}


def test_functions_are_small():
    long = {
        f"{module}:{node.lineno} {node.name}": count
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (count := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION
    }
    assert long == {}
