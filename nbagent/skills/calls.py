"""Calls executable skills: nbagent's own in this process, others in one of their own, under limits."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.core.browser import IN_BROWSER
from nbagent.core.threads import run_in_thread
from nbagent.errors import ToolError
from nbagent.functions.validation import invalid_arguments
from nbagent.skills.entry import answer
from nbagent.skills.processes import ProcessLimits, run_limited

if TYPE_CHECKING:
    from nbagent.functions.registry import FunctionDefinition
    from nbagent.skills.manifest import SkillManifest

_ENTRY = Path(__file__).with_name("entry.py")


async def call_entry(
    skill: SkillManifest, tool: FunctionDefinition, arguments: dict[str, Any], limits: ProcessLimits
) -> Any:
    """The output of a skill's function. Raises `ToolError` if it fails."""
    assert skill.entry is not None
    file, _, function = skill.entry.rpartition(":")
    call: dict[str, Any] = {"file": str(skill.folder / file), "function": function, "arguments": arguments}
    if skill.scope == "builtin" or IN_BROWSER:  # where there are no other processes
        found = await run_in_thread(partial(answer, **call))
    else:
        limits = replace(limits, seconds=skill.timeout)
        found = await run_in_thread(_answer_of_process, skill.name, limits, call)
    if "invalid" in found:
        raise invalid_arguments(tool, found["invalid"], arguments)
    if "error" in found:
        raise ToolError(found["error"], tool=tool.name)
    return found["value"]


def _answer_of_process(name: str, limits: ProcessLimits, call: dict[str, Any]) -> dict[str, Any]:
    command, stdin = [sys.executable, "-P", "-B", str(_ENTRY)], json.dumps(call).encode()
    with tempfile.TemporaryDirectory(prefix="nbagent-skill-", ignore_cleanup_errors=True) as folder:
        done = run_limited(name, command, cwd=Path(folder), stdin=stdin, limits=limits)
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except (ValueError, RecursionError):
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        raise ToolError(f"{name} ended with exit code {done.returncode} and no usable answer: {last}") from None
    return found
