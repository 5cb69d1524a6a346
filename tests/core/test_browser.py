"""Python in a browser, simulated: no threads, no other processes, and some packages are missing.

`tests/pyodide` runs the real one, without pandas and approvals.
"""

import json
import subprocess
import sys
import textwrap

#: The differences in a browser. The standard library is imported first, unchanged.
SETTING = """
import asyncio, ctypes, importlib.abc, json, logging, multiprocessing, signal, socket, sqlite3, ssl, subprocess, sys
import sysconfig, threading, uuid

sysconfig.get_config_vars()  # it uses the platform's name

#: Packages without a wheel there, and packages that are loaded only when they are needed.
MISSING = {"aiohttp", "filelock", "httpx_aiohttp", "ipykernel", "nest_asyncio", "psutil", "xllamacpp", "zmq"}
MISSING |= {"anthropic", "httpx2", "jsonschema", "nh3", "openai", "yaml"}

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def refuse(*_, **__):
    raise RuntimeError("can't start new thread")

def no_process(*_, **__):
    raise OSError(138, "emscripten does not support processes.")

sys.meta_path.insert(0, Missing())
threading.Thread.start, subprocess.Popen.__init__ = refuse, no_process
sys.platform = "emscripten"

from nbagent import Agent, FunctionCall, ScriptedProvider
import nbagent
"""


def in_browser(code, folder):
    """The JSON value that `code`, the body of an async function, returns there."""
    body = textwrap.indent(textwrap.dedent(code), "    ")
    program = f"{SETTING}\nasync def main():\n{body}\nprint(json.dumps(asyncio.run(main())))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_tools_with_failures_approval_and_the_main_thread_work_and_so_does_a_map(tmp_path):
    code = """
        import pandas as pd

        @nbagent.tool(main_thread=True)
        def who() -> str:
            "Who asks."
            return "Ada"

        @nbagent.tool(approve=True)
        def fail() -> str:
            "Fails."
            raise SystemExit("no")

        calls = [FunctionCall("who", {}), FunctionCall("fail", {})]
        agent = Agent(ScriptedProvider([calls, "Done."]), tools=[who, fail], approve=lambda call, definition: True)
        results = [call["result"] for call in (await agent.chat("?")).function_calls]
        agent = Agent(ScriptedProvider(lambda messages, functions: messages[-1].content.upper()))
        frame = await agent.map(pd.Series(["a", "b"]), checkpoint="run.sqlite", progress=False)
        return [results, list(frame.answer)]
    """
    (who, failed), answers = in_browser(code, tmp_path)
    assert who == "Ada"
    assert "SystemExit" in failed
    assert answers == ["A", "B"]
