"""Pyodide, and wheels for it, as `make test-all` installs them into `.pyodide`, and the wheel of this code."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = ROOT / ".pyodide"
PYODIDE = HERE / "node_modules/pyodide"
WHEELS = HERE / "wheels"


def built_wheel(folder: Path) -> Path:
    """The wheel of nbagent as it is now."""
    command = [
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        str(folder),
        str(ROOT),
    ]
    subprocess.run([sys.executable, *command], check=True, timeout=600)
    (wheel,) = folder.glob("nbagent-*.whl")
    return wheel
