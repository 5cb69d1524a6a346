"""Compare nbagent's agent with raw clients, and with its peers, in interleaved runs; say whether the targets are met.

    python benchmarks/peers/run.py [--adapters A,B] [--rounds N] [--tests T,U] [--peers] [--out results.json]

In each round every adapter runs once, in a fresh process, beside the same server, so that a busy moment touches all of
them alike; only ratios of one round count. A peer runs in the first interpreter that has its package: this one, or one
of `.venv-peers*` (`make bench-peers` makes it; peers that can't stand others get a virtual environment of their own
beside it). The exit code is 1 where a target is missed.
"""

import argparse
import ast
import contextlib
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

from targets import tables, verdict

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OWN = [
    "raw_httpx",
    "nbagent_httpx",
    "raw_openai_post",
    "nbagent_openai",
    "raw_anthropic_post",
    "nbagent_anthropic",
]
RAW = ["raw_limit", "raw_httpx2", "raw_httpx_sharded", "raw_openai", "raw_anthropic"]
PEERS = [
    "pydantic_ai",
    "chatlas",
    "langchain",
    "langchain_model",
    "openai_agents",
    "litellm",
    "smolagents",
    "llm",
    "claudette",
    "cosette",
    "lisette",
    "async_batch_llm",
]
TESTS = ["first", "delta", "paced", "loop50", "growth", "parallel"]
#: These have no targets.
UNTARGETED = {"batch", "rows", "rows_f5"}
LIMIT_S = 300


@contextlib.contextmanager
def server():
    """The stand-in for the providers, in a process of its own -> its URL. It ends when its standard input does."""
    command = [sys.executable, str(HERE / "server.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


def modules(adapter):
    """What has to be installed for an adapter; read without running it."""
    tree = ast.parse((HERE / "adapters" / f"{adapter}.py").read_text(encoding="utf-8"))
    named = {
        ast.literal_eval(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "imports"
    }
    return sorted({name.strip().partition(".")[0] for names in named for name in names.split(",")})


def interpreters():
    """This Python, and those of the peers' virtual environments."""
    return [sys.executable, *map(str, sorted(ROOT.glob(".venv-peers*/bin/python")))]


def interpreter_for(adapter):
    """The first one that has what the adapter needs; None where it is not installed."""
    names = modules(adapter)
    if all(importlib.util.find_spec(name) for name in names):
        return sys.executable
    code = f"import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, {names!r})))"
    others = interpreters()[1:]
    return next((python for python in others if subprocess.run([python, "-c", code]).returncode == 0), None)


def measure(python, adapter, url, tests):
    """One run of one adapter -> its values; if it takes too long, those of the tests before."""
    command = [python, str(HERE / "worker.py"), adapter, url, *tests]
    try:
        done = subprocess.run(command, capture_output=True, timeout=LIMIT_S)
        said, problem = done.stdout, done.stderr.decode().strip()[-300:]
    except subprocess.TimeoutExpired as late:
        said, problem = late.stdout or b"", f"took more than {LIMIT_S} s"
    values = [json.loads(line) for line in re.findall(rb"^RESULT (.*)$", said, re.MULTILINE)]
    return (values or [{}])[-1] | ({} if len(values) == len(tests) else {"error": problem})


def main():
    """Run, print, and exit with 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adapters", help="instead of raw clients and nbagent")
    parser.add_argument("--peers", action="store_true", help="with all raw clients and the peers that are installed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tests", default=",".join(TESTS), help="also: batch, rows, rows_f5")
    parser.add_argument("--out", type=Path, help="keep every single value in this file")
    options = parser.parse_args()
    wanted = options.adapters.split(",") if options.adapters else OWN + (RAW + PEERS if options.peers else [])
    pythons = {adapter: interpreter_for(adapter) for adapter in wanted}
    runs = {adapter: [] for adapter, python in pythons.items() if python}
    with server() as url:
        for number in range(options.rounds):
            for adapter, rows in runs.items():
                print(f"\rround {number + 1} of {options.rounds}: {adapter:20}", end="", file=sys.stderr, flush=True)
                rows.append(measure(pythons[adapter], adapter, url, options.tests.split(",")))
                if options.out:
                    options.out.write_text(json.dumps(runs, indent=1), encoding="utf-8")
    print("\r" + " " * 50 + "\r", end="", file=sys.stderr)
    text, met = verdict(runs) if set(options.tests.split(",")) - UNTARGETED else ("", True)
    print(f"Medians of {options.rounds} interleaved rounds; x: ratio to the raw client, round by round\n")
    print(text)
    print(tables(runs))
    if missing := [adapter for adapter, python in pythons.items() if not python]:
        print(f"\nNot installed: {', '.join(missing)}")
    sys.exit(not met)


if __name__ == "__main__":
    main()
