"""Real JupyterLab in headless Chromium, for tests and for looking at what was made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
from playwright.sync_api import Page, sync_playwright

TOKEN = "tests-only"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip

#: The beginning of a notebook: the extension, what most cells need, and a tool.
BEGIN = '''%load_ext nbagent
from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Usage, tool
@tool
def mean_by(column: str, group: str) -> dict:
    """Mean of a column for each value of a group."""
    return {"Adelie": 3700.7, "Chinstrap": 3733.1, "Gentoo": 5076.0}
'''


def chromium() -> str:
    """The browser's path."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise RuntimeError("no Chromium found: apt-get install chromium")


class Lab:
    """A JupyterLab server on a folder, and a page to look at it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runtime = folder / ".runtime"
        self._runtime.mkdir()
        self._env = {**os.environ, "JUPYTER_RUNTIME_DIR": str(self._runtime), "IPYTHONDIR": str(folder / ".ipython")}
        self._env |= {"JUPYTER_CONFIG_DIR": str(folder / ".config"), "JUPYTERLAB_SETTINGS_DIR": str(folder / ".s")}
        quiet = folder / ".s" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
        quiet.parent.mkdir(parents=True, exist_ok=True)
        quiet.write_text('{"fetchNews": "false", "checkForUpdates": false}')

    def __enter__(self) -> Lab:
        command = [
            sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0",
            f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={self.folder}",
            "--LabApp.expose_app_in_browser=True",
        ]  # fmt: skip
        self._log = (self.folder / ".lab.log").open("w")
        self._server = subprocess.Popen(command, env=self._env, stdout=self._log, stderr=subprocess.STDOUT)
        self.url = self._address()
        self._playwright = sync_playwright().start()
        self._browser = self._playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        return self

    def __exit__(self, *_: object) -> None:
        self._browser.close()
        self._playwright.stop()
        self._server.terminate()
        self._server.wait(timeout=30)
        self._log.close()

    def _address(self) -> str:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for file in self._runtime.glob("jpserver-*.json"):
                try:
                    return str(json.loads(file.read_text())["url"])
                except (ValueError, KeyError):
                    continue  # still being written
            time.sleep(0.1)
        raise TimeoutError((self.folder / ".lab.log").read_text())

    def page(self, script: str = "") -> Page:
        """An empty page. `script` runs first in each of its frames."""
        page = self._browser.new_context(viewport={"width": 1100, "height": 1200}).new_page()
        page.add_init_script(script)
        return page

    def open(self, name: str, cells: list[str], theme: str = "JupyterLab Light", script: str = "") -> Page:
        """A page with a new notebook of these code cells; none has run. `script` runs first in each frame."""
        page = self.page(script)
        self.show(page, name, cells)
        if theme != "JupyterLab Light":
            page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
        return page

    def show(self, page: Page, name: str, cells: list[str]) -> None:
        """Open a new notebook of these code cells in a page."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self.folder / name)
        page.goto(f"{self.url}lab/tree/{name}?token={TOKEN}&reset")
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=60_000)
        page.wait_for_function(
            "window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status == 'idle'"
        )

    @staticmethod
    def command(page: Page, name: str) -> None:
        """Run one of Lab's commands without waiting for its end."""
        page.evaluate("name => { window.jupyterapp.commands.execute(name) }", name)
