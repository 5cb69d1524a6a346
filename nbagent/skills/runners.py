"""Runs the Python entries of executable skills: in this process, or in one of their own, under limits."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from nbagent.core.threads import run_in_thread
from nbagent.functions.formatting import error_summary
from nbagent.skills.entry import Entry, EntryError
from nbagent.skills.manifest import SkillManifest
from nbagent.skills.processes import ProcessLimits, run_limited

_ENTRY = Path(__file__).with_name("entry.py")
#: Bytes of an output as JSON.
MAX_OUTPUT = 16 * 2**20


class Runner(Protocol):
    """Describes and calls executable skills. Both methods raise `EntryError` with the reason if they can't."""

    def describe(self, manifest: SkillManifest) -> dict[str, Any]:
        """`{"input", "output", "docstring"}`: two JSON Schemas and a text."""

    async def call(self, manifest: SkillManifest, arguments: dict[str, Any]) -> Any:
        """The output as JSON data."""


class InProcessRunner:
    """Runs entries in threads of this process: at once, with its memory and its rights."""

    def __init__(self) -> None:
        self._entries: dict[Path, tuple[int, Entry]] = {}

    def describe(self, manifest: SkillManifest) -> dict[str, Any]:
        """See `Runner`."""
        return self._entry(manifest).describe()

    async def call(self, manifest: SkillManifest, arguments: dict[str, Any]) -> Any:
        """See `Runner`."""
        try:
            async with asyncio.timeout(manifest.timeout):
                return await run_in_thread(lambda: self._entry(manifest).call(arguments))
        except TimeoutError:
            raise EntryError(f"{manifest.name} took more than {manifest.timeout:g} s.") from None
        except EntryError:
            raise
        except (Exception, SystemExit) as error:
            raise EntryError(error_summary(error)) from error

    def _entry(self, manifest: SkillManifest) -> Entry:
        """The entry, loaded again if its file has changed."""
        file, function = entry_of(manifest)
        changed = file.stat().st_mtime_ns
        known = self._entries.get(file)
        if known is None or known[0] != changed:
            try:
                known = self._entries[file] = (changed, Entry(str(file), function))
            except EntryError:
                raise
            except (Exception, SystemExit) as error:  # the module may raise anything
                raise EntryError(f"{file.name} can't be loaded: {error_summary(error)}") from error
        return known[1]


class SubprocessRunner:
    """Runs each call in a process of its own, with limits of time and memory, in a folder that is then removed.

    The entry sees no environment variable that could be a secret; on Linux it can write in its folder only.
    """

    def __init__(self, limits: ProcessLimits) -> None:
        self.limits = limits

    def describe(self, manifest: SkillManifest) -> dict[str, Any]:
        """See `Runner`."""
        described: dict[str, Any] = self._run(manifest, {})
        return described

    async def call(self, manifest: SkillManifest, arguments: dict[str, Any]) -> Any:
        """See `Runner`."""
        return await run_in_thread(self._run, manifest, {"arguments": arguments})

    def _run(self, manifest: SkillManifest, request: dict[str, Any]) -> Any:
        file, function = entry_of(manifest)
        stdin = json.dumps({"file": str(file), "function": function, **request}).encode()
        with tempfile.TemporaryDirectory(prefix="nbagent-skill-", ignore_cleanup_errors=True) as folder:
            answer = Path(folder, ".nbagent-answer.json")
            command = [sys.executable, "-P", "-B", str(_ENTRY), str(answer)]
            limits = replace(self.limits, seconds=manifest.timeout)
            done = run_limited(command, cwd=Path(folder), stdin=stdin, limits=limits)
            if done.refused is not None:
                raise EntryError(f"{manifest.name} was stopped: {done.refused}.")
            if not answer.is_file() or answer.is_symlink() or answer.stat().st_size > MAX_OUTPUT:
                last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
                raise EntryError(f"{manifest.name} ended with exit code {done.exit_code} and no usable answer: {last}")
            try:
                found = json.loads(answer.read_text(encoding="utf-8"))
            except (ValueError, RecursionError) as error:
                raise EntryError(f"{manifest.name} left an answer that is not JSON: {error}") from None
        if "error" in found:
            raise EntryError(found["error"])
        return found["value"]


def entry_of(manifest: SkillManifest) -> tuple[Path, str]:
    """The file and the function that the manifest names."""
    assert manifest.entry is not None
    file, _, function = manifest.entry.rpartition(":")
    return manifest.folder / file, function
