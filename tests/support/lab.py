"""Real JupyterLab in headless Chromium, for tests and screenshots."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
import nbformat
from jupyter_client import BlockingKernelClient
from playwright.sync_api import BrowserContext, Locator, Page, Playwright, expect, sync_playwright

TOKEN = "tests-only"
#: The longest that any step may take; generous, for busy machines.
PATIENCE_S = 90
LIGHT = "JupyterLab Light"
#: Of a page, in pixels.
SIZE = {"width": 1280, "height": 1200}
expect.set_options(timeout=PATIENCE_S * 1000)
FLAGS = [
    *str.split("--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"),
    *str.split("--disable-component-update --disable-sync"),
]
#: No news, every cell is in the page, and no dialog covers it where a slow disk is late with a file's time.
SETTINGS = {
    "docmanager-extension/plugin": {"lastModifiedCheckMargin": 10**9},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "notebook-extension/tracker": {"windowingMode": "none"},
}
#: Closes what an open page shows.
CLOSE = "() => [...window.jupyterapp.shell.widgets('main')].forEach(old => old.dispose())"
#: Opens a notebook in an open page, which is faster than loading Lab again.
REPLACE = """async name => {
    for (const old of [...window.jupyterapp.shell.widgets('main')]) old.dispose();
    await window.jupyterapp.commands.execute('docmanager:open', {path: name});
}"""
#: Adds a cell at the end, and returns its number.
ADD = """async code => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    notebook.activeCellIndex = notebook.widgets.length - 1;
    await window.jupyterapp.commands.execute('notebook:insert-cell-below');
    notebook.activeCell.model.sharedModel.setSource(code);
    return notebook.activeCellIndex;
}"""
#: Empties the kernel that notebooks share: a new one would start and import for as long as most tests take.
EMPTY = """from ipywidgets import Widget
from nbagent.notebook.display.answer_buttons import answer_buttons
from nbagent.notebook.document.live import notebook_pages
get_ipython().extension_manager.unload_extension("nbagent")
answer_buttons.cache_clear()
notebook_pages.cache_clear()
Widget.close_all()
get_ipython().reset()"""


@cache
def playwright() -> Playwright:
    """The only instance: a thread can have only one. It ends with the process."""
    started = sync_playwright().start()
    atexit.register(started.stop)
    return started


LOAD = "%load_ext nbagent\n"
#: The beginning of a notebook: the extension, what most cells need, and a tool.
BEGIN = f'''{LOAD}
from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Usage, tool
@tool
def mean_by(column: str, group: str) -> dict:
    """Mean of a column for each value of a group."""
    return {{"Adelie": 3700.7, "Chinstrap": 3733.1, "Gentoo": 5076.0}}
'''


def chromium() -> str:
    """The browser's path."""
    found = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
    assert found, "no Chromium found: apt-get install chromium"
    return found[0]


def python_in(environment: str) -> str:
    """The interpreter of another environment, such as ".venv-rtc". `make environments` creates them."""
    return str(Path(__file__).parents[2] / environment / "bin" / "python")


def ask(panel: Locator, text: str) -> Locator:
    """Send a prompt in a panel or page, and return its box."""
    box = panel.get_by_label("Your prompt")
    box.fill(text)
    box.press("Enter")
    return box


def throttle(page: Page) -> None:
    """Slow the page down to a sixth, as on a small machine."""
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 6})


def fits(panel: Locator) -> bool:
    """Whether nothing of the panel can be scrolled sideways, besides code and tables."""
    return panel.evaluate("""panel => [panel, ...panel.querySelectorAll('.nbagent-chat, .nbagent-top, .nbagent-row')]
        .every(each => each.scrollWidth <= each.clientWidth)""")


class Lab:
    """A JupyterLab server for a folder, and a page that shows it.

    Notebooks share one kernel, which is emptied for each. Those that need more than an empty one are opened with
    `fresh=True`: they end it, change its environment, or keep their conversation in a file of their name.

    `python`: that of another environment; `env`: variables for the server and its kernels.
    """

    def __init__(self, folder: Path, python: str = sys.executable, **env: str) -> None:
        self.folder = folder
        self._python = python
        self._runtime = folder / ".runtime"
        self._runtime.mkdir(exist_ok=True)
        self._env = {**os.environ, "JUPYTER_RUNTIME_DIR": str(self._runtime), "IPYTHONDIR": str(folder / ".ipython")}
        self._env |= {"JUPYTER_CONFIG_DIR": str(folder / ".config"), "JUPYTERLAB_SETTINGS_DIR": str(folder / ".s")}
        self._env |= env
        for path, settings in SETTINGS.items():
            file = folder / ".s" / "@jupyterlab" / f"{path}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(settings))

    def __enter__(self) -> Lab:
        command = [
            self._python, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0",
            f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={self.folder}",
            "--LabApp.expose_app_in_browser=True", "--JupyterNotebookApp.expose_app_in_browser=True",
            "--LanguageServerManager.autodetect=False",  # a server on the PATH would open dialogs over the page
            f"--SQLiteYStore.db_path={self.folder}/.ystore.db",  # for shared notebooks, else in the current folder
        ]  # fmt: skip
        self._log = (self.folder / ".lab.log").open("w")
        self._server = subprocess.Popen(command, env=self._env, stdout=self._log, stderr=subprocess.STDOUT)
        self.url = self._address()
        self._browser = playwright().chromium.launch(executable_path=chromium(), args=FLAGS)
        self._context = self._new_context(width=SIZE["width"])
        self._page: Page | None = None
        self._kernel = ""
        return self

    def __exit__(self, *_: object) -> None:
        self._browser.close()
        self._server.terminate()
        self._server.wait(timeout=PATIENCE_S)
        self._log.close()

    def _address(self) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for file in self._runtime.glob("jpserver-*.json"):
                with suppress(ValueError):  # still being written
                    return str(json.loads(file.read_text())["url"])
            time.sleep(0.1)
        raise TimeoutError((self.folder / ".lab.log").read_text())

    def _new_context(self, width: int = 1100, offline: bool = False) -> BrowserContext:
        context = self._browser.new_context(viewport={"width": width, "height": 1200}, offline=offline)
        context.set_default_timeout(PATIENCE_S * 1000)
        return context

    def write(self, name: str, cells: list[str]) -> None:
        """A new notebook with these code cells."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self.folder / name)

    def close_others(self) -> None:
        """Close all pages but the shared one: a second JupyterLab would overwrite the layout of the first."""
        for each in (*self._browser.contexts, *self._context.pages):
            if each not in (self._context, self._page):
                each.close()

    def blank(self) -> Page:
        """An empty page in its own context."""
        return self._new_context().new_page()

    def visit(self, path: str, **query: str) -> Page:
        """A page of this server, with the same cache as the others."""
        page = self._context.new_page()
        page.goto(f"{self.url}{path}?{urlencode({'token': TOKEN, **query})}")
        return page

    def visit_file(self, path: Path) -> Page:
        """A page that is a file, without any network."""
        page = self._new_context(offline=True).new_page()
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        return page

    def open(self, name: str, cells: list[str], theme: str = LIGHT, fresh: bool = False, **how: Any) -> Page:
        """The page with a new notebook of these code cells, in place of the one before. `how`: see `show`.

        A notebook on its own page is always fresh.
        """
        self._new(name, cells, fresh or bool(how))
        return self.show(name, theme, **how)

    def show(self, name: str, theme: str = LIGHT, prepare: Any = None) -> Page:
        """The page with a notebook that is already in the folder, in place of the one before.

        Where `prepare(page)` is to be called first, it is a page of its own.
        """
        is_shared = prepare is None
        page = self._page if is_shared else None
        if page is not None:
            page.evaluate(REPLACE, name)
        else:
            page = self._context.new_page()
            if prepare is not None:
                prepare(page)
            page.goto(f"{self.url}lab/tree/{name}?token={TOKEN}&reset")
            self._page = page if is_shared else self._page
        page.set_viewport_size(SIZE)
        self.wait_for_kernel(page)
        self.theme(page, theme)
        return page

    def open_in(self, host: str, name: str, cells: list[str], theme: str = LIGHT, fresh: bool = False) -> Page:
        """The same in `"JupyterLab 4"`, or in `"Notebook 7"`, which has a page of its own: `close_others` closes it."""
        if host != "Notebook 7":
            return self.open(name, cells, theme, fresh)
        self._new(name, cells, fresh)
        page = self.visit(f"notebooks/{name}")
        self.wait_for_kernel(page)
        return page

    def run(self, name: str, cells: list[str], theme: str = LIGHT, host: str = "", fresh: bool = False) -> Page:
        """Open a new notebook and start to run all of its cells."""
        page = self.open_in(host, name, cells, theme, fresh)
        self.command(page, "notebook:run-all-cells")
        return page

    def _new(self, name: str, cells: list[str], fresh: bool = False) -> None:
        """Write a notebook and give it a kernel: the shared one, unless that still works or the name is used again."""
        headers = {"Authorization": f"token {TOKEN}"}
        with httpx2.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S) as server:
            for session in server.get("api/sessions").json():
                if session["path"] == name:  # as when a test is repeated
                    server.delete(f"api/sessions/{session['id']}")
            self.write(name, cells)
            if fresh:
                return
            if self._page is not None:
                self._page.evaluate(CLOSE)
            running = [kernel for kernel in server.get("api/kernels").json() if kernel["id"] == self._kernel]
            if not running or running[0]["execution_state"] == "busy":
                started = server.post("api/kernels", json={"name": "python3", "path": ""}).raise_for_status()
                self._kernel = started.json()["id"]
            self.execute(EMPTY)
            kernel = {"id": self._kernel, "name": "python3"}
            session = {"path": name, "name": name, "type": "notebook", "kernel": kernel}
            server.post("api/sessions", json=session).raise_for_status()

    def execute(self, code: str) -> None:
        """Run code in the shared kernel, as a program without a page does."""
        client = BlockingKernelClient(connection_file=str(self._runtime / f"kernel-{self._kernel}.json"))
        client.load_connection_file()
        client.start_channels()
        reply = client.execute(code, store_history=False, reply=True, timeout=PATIENCE_S)["content"]
        client.stop_channels()
        assert reply["status"] == "ok", reply

    @staticmethod
    def run_cell(page: Page, index: int) -> Locator:
        execute = "window.jupyterapp.commands.execute('notebook:run-cell')"
        page.evaluate(f"i => {{ window.jupyterapp.shell.currentWidget.content.activeCellIndex = i; {execute} }}", index)
        return page.locator(".jp-Cell").nth(index)

    @classmethod
    def run_new_cell(cls, page: Page, code: str) -> Locator:
        return cls.run_cell(page, page.evaluate(ADD, code))

    @staticmethod
    def theme(page: Page, theme: str) -> None:
        if page.locator("body").get_attribute("data-jp-theme-name") != theme:
            page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
            page.wait_for_selector(f'body[data-jp-theme-name="{theme}"] #main')  # until the next frame all is hidden
            page.wait_for_selector("#jupyterlab-splash", state="detached")

    @staticmethod
    def wait_for_kernel(page: Page) -> None:
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
        session = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session"
        page.wait_for_function(f"{session}?.kernel?.status == 'idle'")

    @staticmethod
    def command(page: Page, name: str) -> None:
        page.evaluate("name => { window.jupyterapp.commands.execute(name) }", name)
