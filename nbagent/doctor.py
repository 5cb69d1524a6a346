"""`nbagent doctor` reports what is installed and reachable, and which model `Agent()` would use."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path

from nbagent.agent.summary import keyless_note
from nbagent.core.render.key_values import key_values_text
from nbagent.errors import NbagentError
from nbagent.providers import default_provider
from nbagent.providers.catalog import CATALOG
from nbagent.providers.http.address import without_password
from nbagent.providers.keys import keys
from nbagent.providers.larger_models import LARGER_MODELS
from nbagent.providers.local.download import SMOLLM2, cached
from nbagent.providers.local.server import check_installed
from nbagent.providers.local_servers import SERVERS, LocalServer, local_servers

#: How long to wait for a busy server, in seconds. An agent waits less.
PATIENCE_S = 2.0
#: Extras for contributors, and the extra that includes all others.
_NO_FEATURES = frozenset({"all", "browser", "dev", "docs"})


def report() -> str:
    """Return the report as text. It requires no call to a model, and contains the names of keys, but never their
    values.
    """
    look = cache(lambda: local_servers(PATIENCE_S))
    # the package's name may differ, so find it by its command
    ours = next((each.dist for each in entry_points(group="console_scripts") if each.value == "nbagent.cli:main"), None)
    lines = [
        ("nbagent", f"{ours.version if ours else 'not installed'}, {Path(__file__).parent}"),
        ("python", f"{platform.python_version()}, {sys.executable}"),
        ("kernel", ", ".join(f"{name} {_version(name) or '–'}" for name in ("ipykernel", "ipython", "jupyterlab"))),
        ("extras", _extras(ours.requires or []) if ours else "unknown"),
        ("keys", _or_problem(_keys)),
        ("servers", _or_problem(lambda: _servers(look()))),
        ("models", "; ".join(_models())),
        ("Agent()", _or_problem(lambda: _choice(look))),
    ]
    return key_values_text(lines)


def _version(package: str) -> str:
    """The version of an installed package, else ""."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _extras(requirements: list[str]) -> str:
    """The extras whose packages are all installed, and the other extras."""
    packages: dict[str, list[str]] = {}
    for line in requirements:
        if found := re.fullmatch(r"([\w.-]+).*extra == ['\"](\w+)['\"]", line):
            packages.setdefault(found[2], []).append(found[1])
    installed = {extra: all(map(_version, names)) for extra, names in packages.items() if extra not in _NO_FEATURES}
    missing = ", ".join(extra for extra, is_installed in installed.items() if not is_installed)
    return (", ".join(filter(installed.get, installed)) or "none") + (f"; not installed: {missing}" if missing else "")


def _keys() -> str:
    """The names of the keys found."""
    return ", ".join(name for row in CATALOG.values() for name in row.key_vars if keys.find([name])) or "none"


def _servers(found: list[LocalServer]) -> str:
    """The servers found, with their models. If there are none, the names of the servers that it looked for."""
    lines = [f"{each.title} at {without_password(each.base_url)}: {each.model or each.problem}" for each in found]
    return "; ".join(lines) or f"no {', '.join(title for title, *_ in SERVERS)}"


def _models() -> list[str]:
    """The embedded model, and the larger ones that were fetched."""
    path = cached()
    embedded = f"{SMOLLM2.gguf_bytes / 1e6:.0f} MB, {path}" if path else "not fetched: run `nbagent pull`"
    pulled = [f"{name} ({model.size})" for name, model in LARGER_MODELS.items() if cached(model)]
    return [f"{SMOLLM2.name} ({embedded})", *pulled]


def _choice(look: Callable[[], list[LocalServer]]) -> str:
    """The model that `Agent()` would use, and why."""
    provider = default_provider(look)
    row = CATALOG.get(provider.provider_name)
    key = next((name for name in row.key_vars if keys.find([name])), "") if row and not row.keyless else ""
    reason = "NBAGENT_MODEL" if os.environ.get("NBAGENT_MODEL") else key or keyless_note(provider)
    provider.check()
    if provider.provider_name == "local":
        check_installed()
    return f"uses {provider.provider_name}:{provider.model_name} ({reason})"


def _or_problem(line: Callable[[], str]) -> str:
    """A line's text, or the problem with it, such as a broken .env."""
    try:
        return line()
    except NbagentError as error:
        return str(error)
