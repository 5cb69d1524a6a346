"""Calls executable skills: nbagent's own in this process, others in one of their own, under limits."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nbagent.core.browser import IN_BROWSER
from nbagent.core.threads import run_in_thread
from nbagent.errors import ToolError
from nbagent.functions.registry import FunctionDefinition
from nbagent.functions.validation import invalid_arguments
from nbagent.skills import entry
from nbagent.skills.manifest import SkillManifest
from nbagent.skills.processes import ProcessLimits, run_limited


async def call_entry(
    skill: SkillManifest, tool: FunctionDefinition, arguments: dict[str, Any], limits: ProcessLimits
) -> Any:
    """The output of a skill's function. Raises `ToolError` if it fails."""
    file, _, function = str(skill.entry).rpartition(":")
    call: dict[str, Any] = {"file": str(skill.folder / file), "function": function, "arguments": arguments}
    if skill.scope == "builtin" or IN_BROWSER:  # where there are no other processes
        found = await run_in_thread(partial(entry.answer, **call))
    else:
        found = await run_in_thread(_in_process, skill.name, replace(limits, seconds=skill.timeout), call)
    if "invalid" in found:
        raise invalid_arguments(tool, found["invalid"], arguments)
    if "error" in found:
        raise ToolError(found["error"], tool=tool.name)
    return found["value"]


def _in_process(name: str, limits: ProcessLimits, call: dict[str, Any]) -> dict[str, Any]:
    command, stdin = [sys.executable, "-P", "-B", entry.__file__], json.dumps(call).encode()
    with tempfile.TemporaryDirectory(prefix="nbagent-skill-", ignore_cleanup_errors=True) as folder:
        done = run_limited(name, command, cwd=Path(folder), stdin=stdin, limits=limits)
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except (ValueError, RecursionError):
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        raise ToolError(f"{name} ended with exit code {done.returncode} and no usable answer: {last}") from None
    return found
