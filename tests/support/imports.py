"""Who imports whom in the package, read from its syntax trees without importing anything.

Run as a script, it writes the map of the rooms into CONTRIBUTING.md: `make map`. With `--check` it writes nothing, and
fails if the map there is another one.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PROJECT = Path(__file__).parents[2]
ROOT = PROJECT / "nbagent"
CONTRIBUTING = PROJECT / "CONTRIBUTING.md"
#: The ground floor: everything may import it.
GROUND = {"checks", "config", "errors", "other_names", "text", "version"}
BEGIN, END = "<!-- map: made by `make map` -->\n", "<!-- end of the map -->\n"


@dataclass(frozen=True)
class Import:
    """One import statement's target. `top`: loaded together with the importing module."""

    source: str
    target: str
    line: int
    top: bool

    @property
    def is_ours(self) -> bool:
        """Whether it stays within the package."""
        return self.target.split(".")[0] == "nbagent"

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.target}"


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def trees() -> dict[str, ast.Module]:
    return {_module_name(path): ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}


def _statements(node: ast.AST, top: bool = True) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """All imports, also those in functions and under `if TYPE_CHECKING:`, and whether they are done at once."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, top
        else:
            deferred = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            deferred |= isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING")
            yield from _statements(child, top and not deferred)


def _imports_of(module: str) -> Iterator[Import]:
    for node, top in _statements(trees()[module]):
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: use absolute imports"
            names = [full if (full := f"{node.module}.{name}") in trees() else node.module for name in names]
        for name in dict.fromkeys(names):
            yield Import(module, name, node.lineno, top)


@cache
def all_imports() -> list[Import]:
    """Those of all modules but the lazy `nbagent/__init__.py`, which names everything and loads nothing."""
    return [found for module in trees() if module != "nbagent" for found in _imports_of(module)]


def _room_of(module: str) -> str:
    """Its folder below `nbagent/`, or the module itself at the top level: "core/history", "agent"."""
    parts = module.split(".")[1:]
    is_folder = (ROOT.parent / module.replace(".", "/")).is_dir()
    return "/".join(parts if is_folder or len(parts) == 1 else parts[:-1])


def room_graph() -> dict[str, set[str]]:
    """The rooms that each room imports from; arrows between a folder and its own sub-folders are left out."""
    graph: dict[str, set[str]] = {}
    for found in all_imports():
        if found.is_ours:
            source, target = _room_of(found.source), _room_of(found.target)
            graph.setdefault(target, set())
            if not f"{source}/".startswith(f"{target}/") and not f"{target}/".startswith(f"{source}/"):
                graph.setdefault(source, set()).add(target)
    return graph


def cycle_in(graph: dict[str, set[str]]) -> str:
    """A cycle, as `a -> b -> a`; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " -> ".join(reversed(error.args[1]))
    return ""


def room_map() -> str:
    """The map for CONTRIBUTING, in Mermaid: the layers, the rooms in each, and an arrow to whatever they import.

    The ground floor (errors, checks, text, config) is left out, since everything may import it.
    """
    graph = {room: targets for room, targets in room_graph().items() if room not in GROUND}
    lines = ["flowchart TD"]
    for layer in sorted({room.split("/")[0] for room in graph}):
        rooms = sorted(room for room in graph if room.startswith(f"{layer}/"))
        if not rooms:
            lines.append(f'    {layer}["{layer}{"/" if (ROOT / layer).is_dir() else ".py"}"]')
            continue
        inside = {(room, target) for room in rooms for target in graph[room] if target.startswith(f"{layer}/")}
        lines += [
            f'    subgraph {layer}["{layer}/"]',
            *(f'        {room}["{room.partition("/")[2]}/"]' for room in rooms),
        ]
        lines += [*(f"        {source} --> {target}" for source, target in _shortest(inside)), "    end"]
    arrows = {(room.split("/")[0], target.split("/")[0]) for room, targets in graph.items() for target in targets}
    between = {(source, target) for source, target in arrows if source != target and target not in GROUND}
    lines += [f"    {source} --> {target}" for source, target in _shortest(between)]
    # Mermaid's names have no slash; the labels in quotes keep theirs
    text = re.sub(r'(\w)/(?=\w)(?=[^"]*("[^"]*"[^"]*)*$)', r"\1_", "\n".join(lines), flags=re.MULTILINE)
    return f"```mermaid\n{text}\n```\n"


def _shortest(arrows: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """The arrows without those that follow from others."""

    @cache
    def below(layer: str) -> set[str]:
        targets = {end for start, end in arrows if start == layer}
        return targets.union(*map(below, targets))

    follow = {(source, end) for source, other in arrows for end in below(other)}
    return sorted(arrows - follow)


def main(check: bool) -> str:
    """Write the map into CONTRIBUTING, or only compare it. Returns what is wrong."""
    page = CONTRIBUTING.read_text("utf-8")
    before, _, rest = page.partition(BEGIN)
    saved, _, after = rest.partition(END)
    if not check:
        CONTRIBUTING.write_text(before + BEGIN + room_map() + END + after, "utf-8")
    elif saved != room_map():
        return "the map in CONTRIBUTING.md does not match the imports: run `make map`"
    return ""


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv) or None)
