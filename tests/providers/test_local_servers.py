"""`Agent()` without a key: which server on this machine it chooses, how it reports it, and what it ignores."""

import json
import os
import platform
import re
import subprocess
import sys
from contextlib import ExitStack

import pytest
from support.kernels import Kernel
from support.loopback import Answer, Loopback, said, served, sse

from nbagent import Agent, Limits, replay
from nbagent.providers import local_servers, resolve
from nbagent.providers.catalog import CATALOG

OLLAMA = {
    "/api/version": {"version": "0.40.0"},
    "/api/tags": {
        "models": [{"name": "b", "remote_host": "https://ollama.com"}, {"name": "a"}, {"name": "qwen3:4b", "size": 7}]
    },
    "/api/show": lambda asked: {"capabilities": ["completion"] if asked["model"] == "a" else ["completion", "tools"]},
}
STUDIO = [{"id": "a", "type": "embeddings"}, {"id": "b", "capabilities": ["tool_use"], "state": "not-loaded"}]
STUDIO += [{"id": "qwen3-4b", "capabilities": ["tool_use"], "state": "loaded"}]
STUDIO_SIZES = {"models": [{"key": "a", "size_bytes": 1}, {"key": "qwen3-4b", "size_bytes": 8}]}
MINE = {"model_alias": "mine", "chat_template": "{% if tools %}{{ tools }}{% endif %}"}
#: Each server's responses with a model that can call tools, its responses without one, and the model's name.
KINDS = {
    "Ollama": (OLLAMA, {**OLLAMA, "/api/show": lambda asked: {"capabilities": ["completion"]}}, "qwen3:4b"),
    "LM Studio": (
        {"/api/v0/models": {"data": STUDIO}, "/api/v1/models": STUDIO_SIZES},
        {"/api/v0/models": {"data": STUDIO[:1]}},
        "qwen3-4b",
    ),
    "llama.cpp": (
        {"/props": MINE, "/v1/models": {"data": [{"meta": {"size": 9}}]}},
        {"/props": MINE | {"chat_template": "{{ messages }}"}},
        "mine",
    ),
}


#: The sizes of their models, as far as they are reported.
SIZES = {"Ollama": {"a": None, "qwen3:4b": 7}, "LM Studio": {"b": None, "qwen3-4b": 8}, "llama.cpp": {"mine": 9}}


class Server(Loopback):
    """Responds with `data` by path, and answers prompts with "Hi". Other paths are not found."""

    data: dict

    def answer_to(self, request):
        found = self.data.get(request.path)
        if request.path == "/v1/chat/completions":
            return Answer(sse(said("Hi", usage={"prompt_tokens": 9, "completion_tokens": 1})))
        if isinstance(found, Answer):
            return found
        found = found(request.json) if callable(found) else found
        return Answer(json.dumps(found).encode(), status=404 if found is None else 200)


@pytest.fixture
def machine(monkeypatch):
    """Starts servers by title. No other server on this machine is looked for, and there are no keys."""
    for name in (
        "NBAGENT_MODEL",
        "OLLAMA_HOST",
        *(name for row in CATALOG.values() for name in (*row.key_vars, *row.base_url_vars)),
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(local_servers, "ANSWER_S", 5.0)  # the tests' own machine may be busy
    with ExitStack() as running:

        def start(**kinds):
            servers = {title: running.enter_context(served(Server())) for title in kinds}
            for title, server in servers.items():
                server.data = kinds[title]
            rows = [(t, p, f"{servers[t].url}/v1", m) for t, p, _, m in local_servers.SERVERS if t in servers]
            monkeypatch.setattr(local_servers, "SERVERS", tuple(rows))
            return list(servers.values())

        yield start


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_with_a_model_that_can_call_tools_is_chosen(machine, kind):
    usable, useless, model = KINDS[kind]
    [server] = machine(**{kind: usable})
    agent = Agent(limits=Limits(max_cost=1))
    assert server.requests == []
    assert agent.default_note == f"found at {server.url}/v1, no key needed"
    result = agent.chat_sync("Hi")
    assert (result.content, result.cost, server.requests[-1].json["model"]) == ("Hi", 0.0, model)
    assert agent.fork().provider is agent.provider
    assert local_servers.local_servers()[0].sizes == SIZES[kind]
    server.data = useless
    assert resolve(None).provider_name == "local"
    assert [each.problem for each in local_servers.local_servers()] == ["it has no model that can call tools"]


def test_late_and_unknown_servers_are_ignored(machine, monkeypatch):
    for answer in ({"models": ["nothing", "of its kind"]}, Answer(b"<html>"), None):
        machine(Ollama=OLLAMA | {"/api/tags": answer})
        assert resolve(None).provider_name == "local"
    monkeypatch.setattr(local_servers, "ANSWER_S", 0.05)
    machine(**{kind: dict.fromkeys(answers, Answer(end="stall")) for kind, (answers, *_) in KINDS.items()})
    assert local_servers.local_servers() == [], "though they never end"


def test_no_server_is_queried_if_a_model_is_named_a_recording_answers_or_it_runs_elsewhere(
    machine, monkeypatch, tmp_path
):
    [server] = machine(Ollama=OLLAMA)
    (tmp_path / "run.jsonl").touch()
    with replay(tmp_path / "run.jsonl", "none"):
        assert resolve(None).provider_name == "local"
    monkeypatch.setenv("NBAGENT_MODEL", "local")
    assert Agent().provider.provider_name == "local"
    monkeypatch.delenv("NBAGENT_MODEL")
    monkeypatch.setattr("nbagent.providers.http.address.is_loopback", lambda host: False)  # OLLAMA_BASE_URL says where
    assert resolve(None).provider_name == "local"
    assert server.requests == []


def test_ollamas_own_variable_sets_its_address_on_this_machine(machine, monkeypatch):
    rows = local_servers.SERVERS[:1]
    [server] = machine(Ollama=OLLAMA)
    monkeypatch.setattr(local_servers, "SERVERS", rows)
    port = server.url.rpartition(":")[2]
    for host in (f"0.0.0.0:{port}", f":{port}", f"http://127.0.0.1:{port}/"):
        monkeypatch.setenv("OLLAMA_HOST", host)
        assert resolve(None).model_name == "qwen3:4b", host
    monkeypatch.setenv("OLLAMA_HOST", "192.0.2.1")
    assert resolve(None).provider_name == "local"


async def test_the_event_loop_runs_during_the_search(machine, monkeypatch):
    title, provider, _, model_of = local_servers.SERVERS[0]
    machine()
    async with Server() as server:  # it answers on this event loop
        server.data = OLLAMA
        monkeypatch.setattr(local_servers, "SERVERS", ((title, provider, f"{server.url}/v1", model_of),))
        assert (await Agent().chat("Hi")).content == "Hi"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say who listens at a port")
def test_another_users_server_is_not_chosen(machine, monkeypatch):
    machine(Ollama=OLLAMA)
    monkeypatch.setattr(local_servers, "FIRST_USER", 0)  # the tests may run as root
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert (resolve(None).provider_name, local_servers.local_servers()[0].problem) == ("local", "another user runs it")


@pytest.mark.kernel
def test_a_notebook_reports_once_where_the_model_was_found(machine, tmp_path):
    [server] = machine(Ollama=OLLAMA)
    with Kernel(tmp_path, {**{name: "" for name in os.environ if name.endswith("_API_KEY")}, "NBAGENT_MODEL": "",
                           "OLLAMA_BASE_URL": f"{server.url}/v1"}) as kernel:  # fmt: skip
        kernel.ok("%load_ext nbagent\nfrom nbagent.providers import local_servers\nlocal_servers.ANSWER_S = 5.0")
        note = f"found at {server.url}/v1, no key needed"
        assert f"ollama:qwen3:4b ({note})" in kernel.ok("agent").result
        first, second = (kernel.ok("%%agent\nHi").text for _ in range(2))
    assert (note in first, "found at" in second) == (True, False)


def doctor(tmp_path, **variables):
    """The output of `nbagent doctor` by label, in a process with only these variables."""
    paths = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NBAGENT_CACHE": str(tmp_path)}
    command = [sys.executable, "-m", "nbagent.cli", "doctor"]
    report = subprocess.run(command, env=paths | variables, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (report.stderr, report.stdout.count("\n") < 24) == ("", True), "one screen"
    assert "sk-secret" not in report.stdout
    return dict(line.split(maxsplit=1) for line in report.stdout.splitlines())


def test_the_doctor_reports_what_is_here_and_which_model_an_agent_would_use(machine, tmp_path):
    [server] = machine(Ollama=OLLAMA)
    address = f"{server.url}/v1"
    report = doctor(tmp_path, OLLAMA_BASE_URL=address.replace("//", "//ada:sk-secret@"))
    assert report["python"] == f"{platform.python_version()}, {sys.executable}"
    assert re.match(r"ipykernel \d.*, jupyterlab \d", report["kernel"])
    assert {"local", "mcp"} <= set(re.split(", |;", report["extras"]))
    assert ("dev" in report["extras"], report["keys"]) == (False, "none")
    assert report["servers"].startswith(f"Ollama at {address}: qwen3:4b")
    assert report["models"] == "SmolLM2-135M-Instruct (not fetched: run `nbagent pull`)"
    assert report["Agent()"] == f"uses ollama:qwen3:4b (found at {address}, no key needed)"
    report = doctor(tmp_path, OLLAMA_BASE_URL="http://127.0.0.1:9/v1")
    nothing = "no Ollama, LM Studio, llama.cpp", "uses local:SmolLM2-135M-Instruct (embedded model, no key needed)"
    assert (report["servers"], report["Agent()"]) == nothing or re.match("LM Studio|llama.cpp", report["servers"])
    assert "expected the address of a server" in doctor(tmp_path, OLLAMA_BASE_URL="http://[::1")["Agent()"]
    assert doctor(tmp_path, NBAGENT_MODEL="local")["Agent()"] == "uses local:SmolLM2-135M-Instruct (NBAGENT_MODEL)"
    report = doctor(tmp_path, OLLAMA_BASE_URL=address, ANTHROPIC_API_KEY="sk-secret")
    assert (report["keys"], report["Agent()"]) == (
        "ANTHROPIC_API_KEY",
        "uses claude:claude-sonnet-5 (ANTHROPIC_API_KEY)",
    )
    assert "there is no API key" in doctor(tmp_path, NBAGENT_MODEL="openai")["Agent()"]
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['xllamacpp'] = None")
    report = doctor(tmp_path, PYTHONPATH=str(tmp_path), NBAGENT_MODEL="local")
    assert "needs packages that are not installed" in report["Agent()"]
