"""Does in Binder's environment what a visitor of the link does, and prints how long it takes.

.venv-binder/bin/python tests/support/binder.py

It runs without anything of the project but what binder/ installs. The repository to pull is made of the working tree.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import urlopen

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "binder"))
import link  # noqa: E402

TOKEN = "tests-only"
PATIENCE_S = 120


def size_mb(*folders: Path) -> float:
    """The size of all files in megabytes."""
    files = (file for folder in folders for file in folder.rglob("*"))
    return sum(file.lstat().st_size for file in files if not file.is_dir()) / 1e6


def repository(folder: Path) -> str:
    """A repository whose branch `main` holds the files of the working tree."""
    git = ["git", "-c", "user.name=tests", "-c", "user.email=tests@localhost", f"--git-dir={folder}"]
    subprocess.run(["git", "init", "-q", "--bare", f"--initial-branch={link.CONTENT}", folder], check=True)
    subprocess.run([*git, f"--work-tree={ROOT}", "add", "."], cwd=ROOT, check=True)
    subprocess.run([*git, f"--work-tree={ROOT}", "commit", "-qm", "The working tree"], cwd=ROOT, check=True)
    return folder.as_uri()


def started(server: subprocess.Popen, runtime: Path) -> str:
    """The address of the server, once it answers."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and server.poll() is None:
        for file in runtime.glob("jpserver-*.json"):
            try:
                url = json.loads(file.read_text())["url"]
                urlopen(f"{url}lab?token={TOKEN}").close()
                return url
            except (ValueError, OSError):
                continue  # still being written, or not yet listening
        time.sleep(0.05)
    raise TimeoutError("JupyterLab did not start")


def visit(folder: Path) -> None:
    """Open the link in a server that starts in this empty folder, and run the notebook that it opens with."""
    repo = repository(folder / "origin.git")
    home = folder / "home"
    home.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "NBAGENT"))}
    env |= {"PATH": f"{sys.prefix}/bin:{env['PATH']}", "JUPYTER_RUNTIME_DIR": str(folder / "runtime")}
    start = [str(ROOT / "binder/start")]
    lab = [*start, "jupyter", "lab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0"]
    begin = time.monotonic()
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [*lab, f"--IdentityProvider.token={TOKEN}"], cwd=home, env=env, stderr=log, stdout=log
        )
    try:
        url = started(server, folder / "runtime")
        print(f"  {time.monotonic() - begin:5.1f} s until JupyterLab answers", flush=True)
        asked = {name: value for name, (value,) in parse_qs(urlsplit(link.pulling(repo)).query).items()}
        begin = time.monotonic()
        pulled = urlopen(f"{url}git-pull/api?{urlencode(asked | {'token': TOKEN})}").read().decode()
        if '"phase": "finished"' not in pulled:
            raise RuntimeError(pulled)
        urlopen(f"{url}{asked['urlpath']}&token={TOKEN}").close()
        print(f"  {time.monotonic() - begin:5.1f} s until the notebooks are pulled", flush=True)
        code = "import nbagent; print(nbagent.__file__)"
        imported = subprocess.run([*start, "python", "-c", code], cwd=home, env=env, check=True, capture_output=True)
        latest = home / link.FOLDER
        if not Path(imported.stdout.decode().strip()).is_relative_to(latest):
            raise RuntimeError(f"not the code that was pulled: {imported.stdout.decode()}")
        begin = time.monotonic()
        execute = [*start, "jupyter", "execute", latest / "notebooks/01_quickstart.ipynb"]
        done = subprocess.run(execute, cwd=home, env=env, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        print(f"  {time.monotonic() - begin:5.1f} s for the quickstart", flush=True)
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


def main() -> None:
    """Print sizes and times; an error ends it."""
    command = [f"{sys.prefix}/bin/nbagent", "pull"]
    model = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
    print(
        f"Binder's environment: {size_mb(Path(sys.prefix)):,.0f} MB, and {model.stat().st_size / 1e6:,.0f} MB of model"
    )
    with tempfile.TemporaryDirectory(prefix="binder") as folder:
        visit(Path(folder))


if __name__ == "__main__":
    main()
