"""Tries an installed nbagent from outside of the project: `python smoke.py [EXTRA]` names the extra that is installed.

`make release-check` runs this in fresh environments, so it needs nothing but nbagent.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import nbagent
from nbagent import Agent, ScriptedProvider
from nbagent.core.messages import FunctionCall
from nbagent.errors import missing_extra

NOBODY = "http://127.0.0.1:9"


def scripted_agent() -> Agent:
    """An agent whose model asks for one tool call, and then answers."""

    def double(number: int) -> int:
        """Twice the number."""
        return 2 * number

    return Agent(ScriptedProvider([FunctionCall("double", {"number": 21}), "It is 42."]), tools=[double])


def asked() -> Agent:
    agent = scripted_agent()
    assert agent.chat_sync("Twice 21?").content == "It is 42."
    return agent


def shell_with_nbagent():
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "nbagent")
    return shell


def try_plain() -> None:
    """What needs no extra: the agent, its trace, the command, and a cell."""
    assert asked().trace.tool_calls.result_text.tolist() == ["42"]
    command = [str(Path(sys.executable).with_name("nbagent")), "--help"]
    assert "Agents at home in Jupyter" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    shell = shell_with_nbagent()
    shell.user_ns["agent"] = scripted_agent()
    shell.run_cell("%%agent\nTwice 21?").raise_error()
    assert shell.user_ns["_agent"].content == "It is 42."


def try_plot() -> None:
    os.environ.setdefault("MPLBACKEND", "agg")
    assert asked().trace.timeline().patches


def try_parquet() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asked().trace.save(f"{folder}/run.parquet")
        assert len(nbagent.Trace.load(f"{folder}/run.parquet").tool_calls) == 1


def try_explore() -> None:
    shell_with_nbagent()
    assert asked().trace.explore() is not None


def try_rss() -> None:
    from nbagent.skills.builtin.rss import news

    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder, "sources.txt")
        sources.write_text(f"{NOBODY}/feed\n", "utf-8")
        os.environ["NBAGENT_RSS_SOURCES"] = str(sources)
        assert "error" in news.fetch_rss_news()


def try_server() -> None:
    from nbagent.server import ServerSettings, create_app

    create_app(scripted_agent(), ServerSettings(tokens=["t" * 20]))


def try_redis() -> None:
    from nbagent.errors import StoreError
    from nbagent.server.conversations.redis import RedisStore

    with suppress(StoreError):  # nobody is there
        asyncio.run(RedisStore("redis://127.0.0.1:9").open())


def try_acp() -> None:
    command = [sys.executable, "-m", "nbagent.cli", "acp"]
    with tempfile.TemporaryDirectory() as folder:  # not the user's own conversations
        own = os.environ | {"XDG_DATA_HOME": folder}
        done = subprocess.run(command, input="", capture_output=True, text=True, check=False, env=own)
    if done.returncode:
        raise ImportError(done.stderr)


def said_yes(messages: object, functions: object) -> str:
    return "yes"


def try_dask() -> None:
    import pandas as pd
    from distributed import Client

    with Client(processes=False, dashboard_address=None) as client:
        answers = Agent(ScriptedProvider(said_yes)).map_sync(pd.Series(["a", "b"]), engine=client)
        assert answers.answer.tolist() == ["yes", "yes"]


#: What each extra brings. For "local", `nbagent pull` has fetched the model.
FEATURES: dict[str, Callable[[], object]] = {
    "plain": try_plain,
    "local": lambda: Agent("local").chat_sync("Hello"),
    "otel": lambda: scripted_agent().trace.to_otel(NOBODY).stop(),
    "mcp": lambda: nbagent.MCPServer(f"{NOBODY}/mcp"),
    **{name[4:]: function for name, function in globals().items() if name.startswith("try_")},
}


def read_message(extra: str) -> None:
    """Without the extra, its feature must fail with the command that installs its packages."""
    try:
        FEATURES[extra]()
    except (ImportError, ValueError) as error:
        if str(missing_extra("", extra)) not in str(error):
            raise
    else:
        raise AssertionError(f"{extra} is not installed, and its feature works: does it need the extra?")


def main(extra: str = "") -> None:
    """Try what the extra brings. Without one, try what needs none, and read what each feature says of its extra."""
    warnings.simplefilter("ignore")
    for name in FEATURES if extra == "all" else [extra or "plain"]:
        FEATURES[name]()
    if not extra:
        for name in sorted(FEATURES.keys() - {"plain", "dask"}):  # without Dask, there is no client to pass
            read_message(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
