"""What nbagent costs to import: medians over fresh processes, beside the targets.

    python benchmarks/imports.py [--runs N]

The two imports are whole processes, less a bare `python -c pass`. `%load_ext nbagent` is timed inside a process whose
IPython shell already runs, as in a notebook. Runs take turns, so that a busy moment touches all of them alike.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from statistics import median
from time import perf_counter

#: Modules that none of these may load.
FORBIDDEN = ["openai", "anthropic", "pandas", "ipywidgets", "pydantic", "IPython"]

BARE = "pass"
IMPORT = "import nbagent"
AGENT = "from nbagent import Agent"
LOAD_EXT = """
from time import perf_counter
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("pass")
begin = perf_counter()
shell.run_line_magic("load_ext", "nbagent")
print(perf_counter() - begin)
"""

#: What is measured -> (code, seconds allowed, whether it counts over the bare process).
TARGETS = {
    "import nbagent": (IMPORT, 0.060, True),
    "from nbagent import Agent": (AGENT, 0.200, True),
    "%load_ext nbagent": (LOAD_EXT, 0.400, False),
}


def run(code: str) -> tuple[float, str]:
    """Seconds that a fresh interpreter takes for `code`, and what it prints."""
    begin = perf_counter()
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return perf_counter() - begin, done.stdout


def measure(runs: int) -> dict[str, float]:
    """Median seconds by code, the processes taking turns; one round before them warms the caches."""
    taken: dict[str, list[float]] = {code: [] for code in (BARE, IMPORT, AGENT, LOAD_EXT)}
    for turn in range(runs + 1):
        for code, seconds in taken.items():
            whole, printed = run(code)
            if turn:
                seconds.append(float(printed) if code == LOAD_EXT else whole)
    return {code: median(seconds) for code, seconds in taken.items()}


def loaded(code: str) -> list[str]:
    """Which of the forbidden modules are loaded after `code`."""
    probe = f"{code}\nimport sys; print(*[name for name in {FORBIDDEN!r} if name in sys.modules])"
    return run(probe)[1].split()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=9, metavar="N", help="processes of each kind, 7 or more")
    runs = max(7, parser.parse_args().runs)
    medians = measure(runs)
    print(f"Import times, medians of {runs} fresh processes ({sys.implementation.name} {sys.version.split()[0]})\n")
    print(f"  {'bare python':28} {medians[BARE] * 1000:7.0f} ms")
    for name, (code, allowed, over_bare) in TARGETS.items():
        seconds = medians[code] - medians[BARE] * over_bare
        verdict = "met" if seconds < allowed else "MISSED"
        kind = "over bare" if over_bare else "in a running shell"
        print(f"  {name:28} {seconds * 1000:7.0f} ms  {kind}; target {allowed * 1000:.0f} ms: {verdict}")
    print()
    for code in (IMPORT, AGENT):
        print(f"  {code:28} loads of {', '.join(FORBIDDEN)}: {', '.join(loaded(code)) or 'none'}")


if __name__ == "__main__":
    main()
