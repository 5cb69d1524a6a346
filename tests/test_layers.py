"""The shape of the package: which layer may import which, and no cycles.

Imports inside functions and under `if TYPE_CHECKING:` count. `support.imports` reads them from the syntax trees.
"""

import ast

from support.imports import GROUND, all_imports, cycle_in, room_graph, trees

#: What each layer may import, besides itself. A layer is a folder of `nbagent/`, or a module beside the folders.
BELOW_AGENT = {"ground", "core", "store", "providers", "functions", "trace", "pricing"}
BELOW = {
    "ground": set(),
    "core": {"ground"},
    "pricing": {"ground", "core", "providers"},
    "providers": {"ground", "core"},
    "functions": {"ground", "core"},
    "store": {"ground"},
    "trace": {"ground", "core", "store"},
    "batch": BELOW_AGENT,
    "agent": {*BELOW_AGENT, "batch"},
    "evaluation": {*BELOW_AGENT, "agent", "batch"},
    "skills": {*BELOW_AGENT, "agent"},
    "teams": {*BELOW_AGENT, "agent"},
    "memory": {"ground", "core", "store", "providers", "functions", "trace"},
    "loading": {*BELOW_AGENT, "agent", "skills"},
    "thread_server": {"ground"},
    "mcp": {*BELOW_AGENT, "agent", "loading", "thread_server"},
    "chat": {*BELOW_AGENT, "agent"},
    "notebook": {*BELOW_AGENT, "batch", "agent", "chat", "mcp", "skills", "thread_server"},
    "acp": {*BELOW_AGENT, "agent", "mcp", "server"},
    "remote": {*BELOW_AGENT, "agent"},
    "server": {*BELOW_AGENT, "agent", "chat", "loading", "mcp", "skills", "thread_server"},
    "doctor": {"ground", "core", "providers", "agent"},
    "cli": {"ground", "providers", "acp", "doctor", "loading", "mcp", "notebook", "server"},
}
#: The modules of `notebook` that may import `server`, for `%agent serve`.
SERVED_BY_THE_KERNEL = {"nbagent.notebook.serving"}

#: The only layer that may import a third-party package.
HOME = {
    **dict.fromkeys(["openai", "anthropic", "httpx", "xllamacpp"], "providers"),
    **dict.fromkeys(["IPython", "anywidget", "ipywidgets", "ipykernel", "comm", "itables"], "notebook"),
    **dict.fromkeys(["nbformat", "nbclient", "jupyter_client"], "notebook"),
    "opentelemetry": "trace",
    "feedparser": "skills",
    "latex2mathml": "core",
    **dict.fromkeys(["acp", "jupyter_ai_acp_client", "jupyter_ai_persona_manager"], "acp"),
    **dict.fromkeys(["dask", "distributed", "cloudpickle"], "batch"),
    **dict.fromkeys(["mcp", "mcp_types", "starlette"], "mcp"),
    "uvicorn": "thread_server",
    **dict.fromkeys(["ag_ui", "fastapi", "prometheus_client", "redis"], "server"),
}
#: A second layer that may also import it.
SECOND_HOME = {"openai": "server", "starlette": "server", "uvicorn": "server"}
PANDAS_AT_TOP = {"nbagent.trace.columns"}


def layer_of(module: str) -> str:
    part = module.split(".")[1]
    return "ground" if part in GROUND else part


def test_every_module_has_a_layer():
    assert {layer_of(module) for module in trees() if module != "nbagent"} == BELOW.keys()


def test_layers_import_only_lower_layers():
    internal = [found for found in all_imports() if found.is_ours]
    assert len(internal) > 50  # the package was found
    assert [str(found) for found in internal if found.target == "nbagent"] == [], "import a name from its own module"
    wrong = [
        str(found)
        for found in internal
        if (target := layer_of(found.target)) != (source := layer_of(found.source))
        and target not in BELOW[source]
        and not (target == "server" and found.source in SERVED_BY_THE_KERNEL)
    ]
    assert wrong == []


def test_no_cycle_between_modules():
    graph: dict[str, set[str]] = {module: set() for module in trees()}
    for found in all_imports():
        if found.is_ours:
            graph[found.source].add(found.target)
    assert cycle_in(graph) == ""


def test_no_cycle_between_folders():
    assert cycle_in(room_graph()) == ""


def test_third_party_packages_are_imported_only_in_their_layer():
    layer = {str(found): (found.target.split(".")[0], layer_of(found.source)) for found in all_imports()}
    homes = {package: {HOME.get(package), SECOND_HOME.get(package)} for package in HOME}
    assert [text for text, (package, home) in layer.items() if home not in homes.get(package, {home})] == []


def test_only_tables_load_pandas():
    loading = {found.source for found in all_imports() if found.top and found.target.split(".")[0] == "pandas"}
    assert "nbagent.trace.columns" in loading
    assert {each for each in loading if layer_of(each) not in ("batch", "evaluation")} <= PANDAS_AT_TOP


def test_modules_say_what_they_are_for():
    assert [module for module, tree in trees().items() if not ast.get_docstring(tree)] == []
