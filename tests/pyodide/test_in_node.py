"""nbagent in Pyodide, the Python of browsers, run by Node.js. pandas has no wheel outside of Pyodide's distribution:
`tests/core/test_browser.py` looks at the tables."""

import json
import subprocess
import textwrap
import tomllib
from pathlib import Path

import pytest
from jupyterlite_pyodide_kernel.constants import PYODIDE_VERSION
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from support.mcp_environment import NODE
from support.pyodide import PYODIDE, ROOT, WHEELS, built_wheel

pytestmark = pytest.mark.pyodide

#: What these tests define first.
SETTING = """
import json, nbagent
from nbagent import Agent, FunctionCall, ScriptedProvider

def add(a: int, b: int) -> int:
    "The sum."
    return a + b

def script():
    return ScriptedProvider([FunctionCall("add", {"a": 2, "b": 3}), "It is **5**."])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def in_pyodide(wheel, tmp_path):
    """Runs code in Pyodide and returns `answer`, as JSON."""

    def run(code: str):
        script = tmp_path / "script.py"
        script.write_text(f"{SETTING}\n{textwrap.dedent(code)}\nprint(json.dumps(answer))\n")
        files = [Path(__file__).with_name("run.mjs"), PYODIDE, script, *sorted(WHEELS.glob("*.whl")), wheel]
        command = [NODE, "--experimental-wasm-jspi", *files]  # as in current browsers, blocking code can wait
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run


def test_each_dependency_has_a_wheel(wheel):
    lock = json.loads((PYODIDE / "pyodide-lock.json").read_text())["packages"]
    have = {canonicalize_name(name): [each["version"]] for name, each in lock.items()}
    for file in WHEELS.glob("*.whl"):
        name, version, _, _ = parse_wheel_filename(file.name)
        have.setdefault(name, []).append(str(version))
    platform = {"sys_platform": "emscripten", "platform_system": "Emscripten", "os_name": "posix"}
    needs = map(Requirement, tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
    there = [need for need in needs if need.marker is None or need.marker.evaluate(platform)]
    assert {"pandas", "openai"} < {need.name for need in there}
    for need in there:
        assert any(map(need.specifier.contains, have.get(canonicalize_name(need.name), []))), need


def test_an_agent_calls_a_tool_and_its_run_is_recorded_and_replayed(in_pyodide):
    code = """
        with nbagent.record("run.jsonl"):
            agent = Agent(script(), tools=[add])
            first = await agent.chat("2 + 3?")
        replayed = Agent("replay:run.jsonl", tools=[add])
        second = await replayed.chat("2 + 3?")
        replayed.save("conversation.json")
        loaded = Agent.load("conversation.json", "replay:run.jsonl")
        answer = [str(first), first.function_calls[0]["result"], str(second), len(loaded.conversation_history)]
    """
    assert in_pyodide(code) == ["It is **5**.", "5", "It is **5**.", 4]


def test_blocking_calls_wait_and_what_is_missing_is_said(in_pyodide):
    code = """
        blocking = Agent(script(), tools=[add])
        texts = [event.content for event in blocking.chat_stream("2 + 3?") if event.type == "text"]
        try:
            await Agent("local").chat("?")
        except nbagent.errors.ConfigurationError as error:
            said = str(error)
        answer = ["".join(texts), said]
    """
    text, said = in_pyodide(code)
    assert text == "It is **5**."
    assert said.startswith("The embedded model needs another process, which Python in a browser does not have.")


def test_providers_are_asked_with_fetch(in_pyodide, llmock_server):
    providers = [
        ("open_source", llmock_server.base_url("openai"), "gpt-4o"),
        ("openai", llmock_server.base_url("openai"), "gpt-5"),
        ("claude", llmock_server.base_url("anthropic"), "claude-sonnet-5"),
    ]
    code = f"""
        import warnings
        warnings.simplefilter("error")
        answer = []
        for name, base_url, model in {providers}:
            provider = nbagent.create_provider(name, base_url=base_url, model=model, api_key="key", max_retries=0)
            stream = Agent(provider).chat_stream("Hello")
            pieces = [event.content async for event in stream if event.type == "text"]
            answer.append("".join(pieces) == str(stream.result()) != "")
    """
    assert in_pyodide(code) == [True] * 3


def test_the_documentation_loads_this_pyodide():
    assert json.loads((PYODIDE / "package.json").read_text())["version"] == PYODIDE_VERSION
