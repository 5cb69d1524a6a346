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
GROUND = {"checks", "config", "errors", "other_names", "text", "upgrade"}
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
    """The syntax tree of each module."""
    return {_module_name(path): ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _statements(node: ast.AST, top: bool = True) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, top
        else:
            deferred = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _statements(child, top and not deferred and not _is_type_checking(child))


def imports_of(module: str) -> Iterator[Import]:
    """All imports of a module, also those in functions and under `if TYPE_CHECKING:`."""
    for node, top in _statements(trees()[module]):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            assert node.level == 0, f"{module}:{node.lineno}: use absolute imports"
            base = node.module or ""
            names = [full if (full := f"{base}.{alias.name}") in trees() else base for alias in node.names]
        for name in dict.fromkeys(names):
            yield Import(module, name, node.lineno, top)


@cache
def all_imports() -> list[Import]:
    """Those of all modules but the lazy `nbagent/__init__.py`, which names everything and loads nothing."""
    return [found for module in trees() if module != "nbagent" for found in imports_of(module)]


def room_of(module: str) -> str:
    """The room of a module: its folder below `nbagent/`, or the module itself at the top level.

    >>> room_of("nbagent.core.history.context"), room_of("nbagent.agent"), room_of("nbagent.providers")
    ('core/history', 'agent', 'providers')
    """
    path = ROOT.parent / module.replace(".", "/")
    parts = module.split(".")[1:]
    return "/".join(parts if path.is_dir() or len(parts) == 1 else parts[:-1])


def room_graph() -> dict[str, set[str]]:
    """The rooms that each room imports from; arrows between a folder and its own sub-folders are left out."""
    graph: dict[str, set[str]] = {}
    for found in all_imports():
        if found.is_ours:
            source, target = room_of(found.source), room_of(found.target)
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
        lines += [
            f'    subgraph {layer}["{layer}/"]',
            *(f'        {room}["{room.partition("/")[2]}/"]' for room in rooms),
        ]
        inside = {(room, target) for room in rooms for target in graph[room] if target.startswith(f"{layer}/")}
        lines += [f"        {source} --> {target}" for source, target in sorted(_shortest(inside))]
        lines.append("    end")
    arrows = {(room.split("/")[0], target.split("/")[0]) for room, targets in graph.items() for target in targets}
    between = {(source, target) for source, target in arrows if source != target and target not in GROUND}
    lines += [f"    {source} --> {target}" for source, target in sorted(_shortest(between))]
    # Mermaid's names have no slash; the labels in quotes keep theirs
    text = re.sub(r'(\w)/(?=\w)(?=[^"]*("[^"]*"[^"]*)*$)', r"\1_", "\n".join(lines), flags=re.MULTILINE)
    return f"```mermaid\n{text}\n```\n"


def _shortest(arrows: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The arrows without those that follow from others."""
    reach: dict[str, set[str]] = {}

    def below(layer: str) -> set[str]:
        if layer not in reach:
            reach[layer] = {end for start, end in arrows if start == layer}
            reach[layer] |= {end for each in reach[layer] for end in below(each)}
        return reach[layer]

    return {
        (source, target)
        for source, target in arrows
        if not any(target in below(other) for start, other in arrows if start == source and other != target)
    }


def main(check: bool) -> str:
    """Write the map into CONTRIBUTING, or only compare it. Returns what is wrong."""
    page = CONTRIBUTING.read_text("utf-8")
    before, _, rest = page.partition(BEGIN)
    saved, _, after = rest.partition(END)
    if check:
        return "" if saved == room_map() else "the map in CONTRIBUTING.md is not that of the imports: run `make map`"
    CONTRIBUTING.write_text(before + BEGIN + room_map() + END + after, "utf-8")
    return ""


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv) or None)
