"""What `make quick T=tests/trace` runs: folders or files of tests, and the files that vouch for the layers below them.

PYTHONPATH=tests python -m support.quick tests/trace
"""

import sys
from pathlib import Path

from test_layers import BELOW

TESTS = Path(__file__).parents[1]
#: For each layer that others stand on, the files whose tests say most about it for their time.
VOUCHING = {
    "core": ["core/test_loop.py", "core/test_turn.py", "core/test_messages.py", "core/history/test_repair.py"],
    "functions": [
        "functions/test_executor.py",
        "functions/test_validation.py",
        "functions/schema/test_function_schema.py",
    ],
    "providers": ["providers/formats/test_encoding.py", "providers/http/test_retry.py"],
    "trace": ["trace/test_columns.py", "trace/test_every_column.py", "trace/test_files.py"],
    "agent": ["agent/test_agent.py", "test_public_names.py"],
    "batch": ["batch/test_map_rows.py", "batch/test_checkpoint.py"],
    "skills": ["skills/test_manifest.py", "skills/test_host.py"],
    "mcp": ["mcp/server/test_tool_server.py"],
    "pricing": ["test_pricing.py"],
}


def layer_of(tests: Path) -> str:
    """The layer that a folder or file below `tests/` is about: "trace" for `tests/trace/views`, "plan" for its file.

    Raises SystemExit for a path that does not exist, or lies elsewhere.
    """
    if not tests.exists() or not tests.resolve().is_relative_to(TESTS):
        raise SystemExit(f"make quick: {str(tests)!r} holds no tests. Name a folder or file: make quick T=tests/trace")
    first = tests.resolve().relative_to(TESTS).parts[0]
    return first.removesuffix(".py").removeprefix("test_")


def selected(*tests: Path) -> list[str]:
    below = {layer for path in tests for layer in BELOW.get(layer_of(path), VOUCHING)}
    files = [TESTS / file for layer in VOUCHING if layer in below for file in VOUCHING[layer]]
    others = [file for file in files if not any(file.is_relative_to(path.resolve()) for path in tests)]
    return [str(path) for path in (*tests, *others)]


if __name__ == "__main__":
    if len(sys.argv) == 1:
        raise SystemExit("make quick: name a folder or file of tests: make quick T=tests/trace")
    print(*selected(*map(Path, sys.argv[1:])))
