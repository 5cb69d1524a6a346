"""`nbagent serve` as a process: its command line, and its end by a signal."""

import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pytest
from support.serving import events_of, serving_process

from nbagent.cli import main
from nbagent.errors import ConfigurationError, missing_extra
from nbagent.loading import load_agent, load_agents

APP = """
import asyncio, os
from pathlib import Path
from nbagent import Agent, ScriptedProvider

async def answer(messages, functions):
    if messages[-1].text == "wait":
        Path(f"waiting-{os.getpid()}").touch()
        await asyncio.Event().wait()
    return f"{len(messages)}: {messages[-1].text}"

agent = Agent(ScriptedProvider(answer))

def make():
    return agent
"""
TOKEN = "the-token-of-this-process"


def serving(tmp_path, *options, token=TOKEN):
    (tmp_path / "app.py").write_text(APP)
    return serving_process(tmp_path, "app.py", *options, NBAGENT_SERVE_TOKEN=token)


def test_a_generated_token_is_printed_once(tmp_path):
    with serving(tmp_path, token="") as served:
        process = served.process
        token = re.match(r"token: (\S{20,})\n", process.stdout.readline())[1]
        assert served.client(token).post("/agent/chat", json={"message": "Hi"}).json()["response"] == "1: Hi"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == ""
        assert process.wait(60) == -signal.SIGTERM


@pytest.mark.parametrize("workers", [1, 2])
def test_a_stopped_server_ends_runs_validly(tmp_path, workers):
    options = ["--grace", "0.2", "--requests-per-minute", "1000000", "--workers", str(workers)]
    with serving(tmp_path, *options, token=f"the-token-of-others, {TOKEN}") as served:
        client = served.client(TOKEN)
        client.post("/agent/chat", json={"message": "first", "conversation_id": "c"})

        def ask(number):
            body = {"message": "wait", "conversation_id": f"c{number}" if number else "c"}
            accept = "text/event-stream" if number % 2 else "application/json"
            return served.client(TOKEN).post("/agent/chat", json=body, headers={"Accept": accept})

        with ThreadPoolExecutor(8) as threads:
            asked = [threads.submit(ask, number) for number in range(8)]
            while "nbagent_runs_running 8.0" not in client.get("/metrics").text:
                pass
            served.process.send_signal(signal.SIGTERM)
            answers = [each.result(60) for each in asked]
        served.process.wait(60)
    for whole, streamed in zip(answers[::2], answers[1::2], strict=True):
        assert (whole.status_code, whole.json()["code"]) == (503, "shutting_down")
        assert events_of(streamed)[-1]["metadata"]["problem"]["code"] == "shutting_down"
    assert "Traceback" not in served.log.read_text()

    with serving(tmp_path) as served:  # answered turns are stored, and the conversation continues
        client = served.client(TOKEN)
        kept = client.get("/agent/conversations/c").json()["messages"]
        assert [each["content"] for each in kept[:2]] == ["first", "1: first"]
        answer = client.post("/agent/chat", json={"message": "again", "conversation_id": "c"}).json()
        assert answer["response"].endswith(": again")


def test_runs_of_a_dead_worker_no_longer_count_as_running(tmp_path):
    options = ["--workers", "2", "--requests-per-minute", "1000000"]
    with serving(tmp_path, *options) as served, ThreadPoolExecutor(1) as threads:
        client = served.client(TOKEN)
        asked = threads.submit(served.client(TOKEN).post, "/agent/chat", json={"message": "wait"})
        while not (waiting := next(tmp_path.glob("waiting-*"), None)):
            assert "nbagent_runs" in client.get("/metrics").text
        assert "nbagent_runs_running 1.0" in client.get("/metrics").text
        os.kill(int(waiting.name.partition("-")[2]), signal.SIGKILL)
        with pytest.raises(httpx.HTTPError):
            asked.result(60)
        counted = ""
        while "nbagent_runs_running 0.0" not in counted:
            with suppress(httpx.HTTPError):  # the connection was to the dead worker
                counted = client.get("/metrics").text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["no_such_module_at_all"], "no_such_module_at_all"),
        (["--workers", "2", "--store", "memory:"], "--store"),
        (["--store", "mongodb://x"], "store"),
        (["--keep-days", "0"], "--keep-days"),
        (["--port", "TAKEN"], "can't be used"),
        (["--store", "redis://127.0.0.1:1/0"], "127.0.0.1:1"),
        (["keyless.py"], "OPENAI_API_KEY"),
        (["own.py", "--max-cost-per-token", "2"], "max_cost_per_token=2: the price of openai:own is"),
        ([], "Name a file with --store"),
    ],
)
def test_errors_are_one_line(options, told, capsys, tmp_path, monkeypatch):
    (tmp_path / "keyless.py").write_text("from nbagent import *; agent = Agent('openai:gpt-5.6-luna')")
    (tmp_path / "own.py").write_text("from nbagent import *; agent = Agent(create_provider('openai:own', api_key='k'))")
    (tmp_path / "file").write_text("in the way of a home")
    for name in ("NBAGENT_SERVE_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NBAGENT_MODEL", "scripted")
    monkeypatch.setattr("platformdirs.user_data_path", lambda name: tmp_path / "file" / name)
    monkeypatch.chdir(tmp_path)
    store = ["--store", "memory:"] if options and "--store" not in options else []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", *(port if each == "TAKEN" else each for each in options), *store]) == 1
    line = capsys.readouterr().err
    assert told in line
    assert line.count("\n") == 1


def test_missing_packages_are_reported_in_one_line():
    code = "import sys; sys.modules['fastapi'] = None; from nbagent.cli import main; sys.exit(main(['serve']))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == f"nbagent: {missing_extra('The server', 'server')}\n"


def test_agents_named_on_the_command_line(tmp_path, monkeypatch):
    (tmp_path / "served_module.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    for target in ("served_module.py", "served_module.py:make", "served_module:agent", "served_module:make"):
        assert load_agent(target).provider.provider_name == "scripted", target
    both = load_agents(["served_module.py:agent", "served_module.py:make"])
    assert both["served_module"] is both["make"]  # the file ran once
    with pytest.raises(ConfigurationError, match="Two agents have the name 'served_module'"):
        load_agents(["served_module.py", "served_module:agent"])
    for target in ("served_module.py:mak", "served_module:asyncio", "served_modul:agent", "nothing.py", "agent.toml"):
        with pytest.raises(ConfigurationError, match="mak|asyncio|served_modul|nothing.py|toml.*app.py:agent"):
            load_agent(target)
