"""`%agent analyst` and `%%agent --write`: let the agent write in the notebook, permanently or for one prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError

from nbagent.agent.agent import Agent
from nbagent.notebook.analyst.analyst import PROMPT_FILE, Analyst, analyst_of

ANALYST_USAGE = "[on [PROMPT.md] | off]"
_ON = "The analyst is on: the agent writes, runs and fixes cells of this notebook."


def analyst(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Switch the analyst on or off, or show its state. The analyst lets the agent write, run and fix cells of this
    notebook.
    """
    found = analyst_of(agent)
    match words:
        case []:
            off = f"The analyst is off. To read its prompt, or to copy and change it: {PROMPT_FILE}"
            print(_ON if found is not None and found.is_on else off)
        case ["on", *name]:
            prompt = _text_of(" ".join(name).strip("\"'")) if name else None
            (found or Analyst()).join(agent, prompt)
            print(_ON)
        case ["off"]:
            if found is not None:
                found.leave(agent)
            print("The analyst is off. The cells stay.")
        case _:
            raise UsageError(f"%agent analyst {ANALYST_USAGE}")


def _text_of(name: str) -> str:
    try:
        return Path(name).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"%agent analyst on: {name} can't be read: {error}") from None


@contextmanager
def writing(agent: Agent) -> Iterator[None]:
    """Within this block, the agent is an analyst."""
    found = analyst_of(agent)
    if found is not None and found.is_on:
        yield
        return
    found = found or Analyst()
    found.join(agent)
    try:
        yield
    finally:
        found.leave(agent)
