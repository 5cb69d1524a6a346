"""Python in a browser, as far as this Python can play it: no threads, no other processes, and none of some packages.

`tests/pyodide` runs the real one, without pandas.
"""

import json
import subprocess
import sys
import textwrap

#: What is different in a browser; the standard library is imported before, as what it is.
SETTING = """
import asyncio, ctypes, importlib.abc, json, logging, multiprocessing, signal, socket, sqlite3, ssl, subprocess, sys
import sysconfig, threading, uuid

sysconfig.get_config_vars()  # which it looks up by the platform's name

#: What has no wheel there, and what is loaded only when it is needed.
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

def add(a: int, b: int) -> int:
    "The sum."
    return a + b

def script():
    return ScriptedProvider([FunctionCall("add", {"a": 2, "b": 3}), "It is 5."])
"""


def in_browser(code, folder):
    """What `code`, the body of an async function, returns there, as JSON."""
    body = textwrap.indent(textwrap.dedent(code), "    ")
    program = f"{SETTING}\nasync def main():\n{body}\nprint(json.dumps(asyncio.run(main())))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_tools_run_answers_are_replayed_and_the_trace_has_its_tables(tmp_path):
    code = """
        with nbagent.record("run.jsonl"):
            await Agent(script(), tools=[add]).chat("2 + 3?")
        agent = Agent("replay:run.jsonl", tools=[add])
        answer = await agent.chat("2 + 3?")
        assert agent.trace.runs.replayed.all()
        calls = agent.trace.tool_calls[["name", "args", "result_text"]].to_dict("records")
        agent.trace.save("trace.jsonl")
        again = nbagent.Trace.load("trace.jsonl")
        return [str(answer), calls, list(again.runs.status), list(agent.trace.environment.git_commit.isna())]
    """
    call = {"name": "add", "args": {"a": 2, "b": 3}, "result_text": "5"}
    assert in_browser(code, tmp_path) == ["It is 5.", [call], ["ok"], [True]]


def test_a_tool_may_fail_ask_or_want_the_main_thread_and_a_map_asks_about_each_row(tmp_path):
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


MISSING = {
    "await Agent('local').chat('?')": "The embedded model needs another process",
    "Agent(script()).chat_sync('?')": "write `await`",
    "nbagent.MCPServer('npx', 'server')": "An MCP server needs threads and other processes",
    "from nbagent.skills.processes import run_limited; run_limited(['ls'], cwd='.', limits=None)": (
        "A skill's program needs another process"
    ),
}


def test_what_is_missing_is_said(tmp_path):
    tries = "\n".join(f"try: {each}\nexcept Exception as error: told.append(str(error))" for each in MISSING)
    told = in_browser(f"told = []\n{tries}\nreturn told", tmp_path)
    assert all(says in said for says, said in zip(MISSING.values(), told, strict=True)), told
