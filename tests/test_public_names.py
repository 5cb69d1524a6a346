"""The public names: one sorted table, loaded lazily, documented, and the same for type checkers."""

import ast
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import nbagent
from nbagent.errors import missing_extra
from nbagent.version import DISTRIBUTION

INIT = Path(nbagent.__file__)
ROOT = INIT.parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
#: The modules that extras bring.
OF_EXTRAS = "acp fastapi feedparser filelock itables matplotlib mcp mcp_types opentelemetry pyarrow redis xllamacpp"
#: What would fetch the package `nbagent` of the index, which is somebody else's.
STRANGERS = re.compile(
    r"\b((pip|pipx|conda|uv|uv tool)\W+(install|add)|uvx)\b[^`;&|#]*?(?<![\w./-])nbagent(?![\w/-]|\.\w)"
    r"|(?<![\w./-])nbagent(\[[a-z]| ?[=~<>]=)"
)

#: Slow to import, so loaded only when a run needs them.
HEAVY = ["openai", "anthropic", "pandas", "ipywidgets", "pydantic", "IPython", "httpx"]


#: Waits for what is imported in the background.
PRELOADED = "import threading\nfor each in threading.enumerate():\n    if each.name == 'nbagent-preload': each.join()"


def _loaded_after(code: str) -> set[str]:
    """Return the names of the modules that a fresh interpreter has loaded after `code`."""
    program = f"{code}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_import_loads_nothing():
    loaded = _loaded_after("import nbagent")
    # the second records the loaded version
    assert sorted(name for name in loaded if name.startswith("nbagent")) == ["nbagent", "nbagent.version"]
    assert loaded.isdisjoint(HEAVY)


def test_agents_and_tools_load_nothing_heavy(monkeypatch):
    monkeypatch.delenv("NBAGENT_MODEL", raising=False)
    code = "from nbagent import Agent, tool, live\nAgent(), Agent('local'), Agent('unknown')\n"
    code += "@tool\ndef add(a: int, b: int) -> int:\n    'Sum.'\n    return a + b\n"
    assert _loaded_after(code + PRELOADED).isdisjoint(HEAVY)


def test_an_agent_starts_importing_what_its_provider_needs(monkeypatch):
    monkeypatch.delenv("NBAGENT_MODEL", raising=False)
    monkeypatch.setenv("DEEPSEEK_API_KEY", "k")
    assert "httpx2" in _loaded_after(f"from nbagent import Agent; Agent()\n{PRELOADED}")


def test_every_name_resolves_and_is_documented():
    for name in nbagent.__all__:
        value = getattr(nbagent, name)
        assert (inspect.getdoc(value) or "").strip(), f"nbagent.{name} has no docstring"
        if inspect.isclass(value):
            assert value.__doc__, f"nbagent.{name} shows an inherited docstring"
            assert not value.__doc__.startswith(f"{name}("), f"nbagent.{name} has only a generated docstring"


def test_unknown_names_raise_and_dir_lists_the_names():
    with pytest.raises(AttributeError, match="no attribute 'Agentt'"):
        nbagent.Agentt  # noqa: B018
    assert {*nbagent.__all__, "__version__"} <= set(dir(nbagent))


def test_name_and_version_match_the_project():
    assert (DISTRIBUTION, nbagent.__version__) == (PROJECT["name"], PROJECT["version"])


def test_no_text_says_to_install_the_other_nbagent():
    command = ["git", "grep", "-nI", "nbagent"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line for line in lines if STRANGERS.search(line)] == []


def test_the_error_for_a_missing_extra_names_its_packages(monkeypatch):
    extras = PROJECT["optional-dependencies"]
    for extra in ("server", "explore"):
        command = f"pip install {' '.join(map(json.dumps, extras[extra]))}"
        assert str(missing_extra("It", extra)) == f"It needs packages that are not installed: {command}"
    monkeypatch.setattr("nbagent.errors.DISTRIBUTION", "not-installed")
    assert "It needs the packages of the extra 'plot' in " in str(missing_extra("It", "plot"))


@pytest.mark.skipif(
    version("pandas").startswith("2."), reason="pandas 2 imports pyarrow from C, so this test can't hide it"
)
def test_each_feature_names_its_missing_extra(tmp_path):
    """This hides the extras' packages. `make release-check` does the same without installing them."""
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys('{OF_EXTRAS}'.split()))")
    there = os.environ | {"PYTHONPATH": str(tmp_path), "IPYTHONDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-P", ROOT / "tests/support/smoke.py"], env=there, check=True, timeout=600)


def test_type_checkers_see_the_same_table():
    tree = ast.parse(INIT.read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    seen = {}
    for node in block.body:
        for alias in node.names:
            assert alias.asname == alias.name, f"{alias.name} is not re-exported: import it `as` itself"
            seen[alias.name] = (node.module or "").removeprefix("nbagent.")
    assert seen == nbagent._WHERE
