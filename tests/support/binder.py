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
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import urlopen

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "binder"))
import link  # noqa: E402

TOKEN = "tests-only"
PATIENCE_S = 120
START = [str(ROOT / "binder/start")]


@contextmanager
def timed(what: str):
    begin = time.monotonic()
    yield
    print(f"  {time.monotonic() - begin:5.1f} s {what}", flush=True)


def repository(folder: Path) -> str:
    """A repository whose branch `main` holds the files of the working tree."""
    git = ["git", "-c", "user.name=tests", "-c", "user.email=tests@localhost", f"--git-dir={folder}"]
    subprocess.run(["git", "init", "-q", "--bare", f"--initial-branch={link.CONTENT}", folder], check=True)
    for words in (["add", "."], ["commit", "-qm", "The working tree"]):
        subprocess.run([*git, f"--work-tree={ROOT}", *words], cwd=ROOT, check=True)
    return folder.as_uri()


def started(server: subprocess.Popen, runtime: Path) -> str:
    """The address of the server, once it answers."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and server.poll() is None:
        for file in runtime.glob("jpserver-*.json"):
            with suppress(ValueError, OSError):  # still being written, or not yet listening
                url = json.loads(file.read_text())["url"]
                urlopen(f"{url}lab?token={TOKEN}").close()
                return url
        time.sleep(0.05)
    raise TimeoutError("JupyterLab did not start")


def visit(folder: Path) -> None:
    """Open the link in a server that starts in this empty folder, and run the notebook that it opens with."""
    repo = repository(folder / "origin.git")
    home = folder / "home"
    home.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "NBAGENT"))}
    env |= {"PATH": f"{sys.prefix}/bin:{env['PATH']}", "JUPYTER_RUNTIME_DIR": str(folder / "runtime")}
    lab = [*START, "jupyter", "lab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0"]
    lab += [f"--IdentityProvider.token={TOKEN}"]

    def run(*command: object) -> str:
        done = subprocess.run([*START, *command], cwd=home, env=env, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout.strip()

    with (folder / "log").open("w") as log, subprocess.Popen(lab, cwd=home, env=env, stderr=log, stdout=log) as server:
        try:
            with timed("until JupyterLab answers"):
                url = started(server, folder / "runtime")
            asked = {name: value for name, (value,) in parse_qs(urlsplit(link.pulling(repo)).query).items()}
            with timed("until the notebooks are pulled"):
                pulled = urlopen(f"{url}git-pull/api?{urlencode(asked | {'token': TOKEN})}").read().decode()
                assert '"phase": "finished"' in pulled, pulled
                urlopen(f"{url}{asked['urlpath']}&token={TOKEN}").close()
            imported = run("python", "-c", "import nbagent; print(nbagent.__file__)")
            assert Path(imported).is_relative_to(home / link.FOLDER), f"not the code that was pulled: {imported}"
            with timed("for the quickstart"):
                run("jupyter", "execute", home / link.FOLDER / "notebooks/01_quickstart.ipynb")
        finally:
            server.terminate()


def main() -> None:
    command = [f"{sys.prefix}/bin/nbagent", "pull"]
    model = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
    size = sum(file.lstat().st_size for file in Path(sys.prefix).rglob("*") if not file.is_dir())
    print(f"Binder's environment: {size / 1e6:,.0f} MB, and {model.stat().st_size / 1e6:,.0f} MB of model")
    with tempfile.TemporaryDirectory(prefix="binder") as folder:
        visit(Path(folder))


if __name__ == "__main__":
    main()
