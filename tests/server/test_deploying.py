"""The examples in docs/how-to/deploy.md: nginx runs with its configuration; the others refer to existing commands."""

import asyncio
import configparser
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import threading
import tomllib
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
import yaml
from support.serving import TOKEN, served

from nbagent import Agent, ScriptedProvider
from nbagent.cli import _parser
from nbagent.core.events import Text
from nbagent.server import ServerSettings, create_app

PAGE = (Path(__file__).parents[2] / "docs/how-to/deploy.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL))


def arguments_of(command):
    place = next(number for number, word in enumerate(command) if word.endswith("nbagent"))
    return _parser().parse_args(command[place + 1 :])


def test_commands_and_probes_exist():
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(EXAMPLES["ini"])
    service = unit["Service"]
    assert float(service["TimeoutStopSec"]) > arguments_of(shlex.split(service["ExecStart"])).grace
    command = re.search(r"^CMD (.*)$", EXAMPLES["dockerfile"], re.MULTILINE)[1]
    assert arguments_of(json.loads(command)).port == 8000
    deployment, _ = yaml.safe_load_all(EXAMPLES["yaml"])
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    served_with = arguments_of(container["args"])
    pause = float(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > served_with.grace + pause
    for name in (each["name"] for each in container["env"]):
        assert not name.startswith("NBAGENT_SERVE_") or hasattr(served_with, name[14:].lower())
    paths = create_app(Agent("scripted"), ServerSettings(tokens=[TOKEN])).openapi()["paths"]
    assert {container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")} <= set(paths)
    assert set(tomllib.loads(EXAMPLES["toml"])) == {"admins", "tokens"}


@contextmanager
def nginx(folder, upstream):
    """nginx with the example, on a free port without TLS, and with a shorter timeout for headers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    example = EXAMPLES["nginx"].replace("listen 443 ssl", f"listen 127.0.0.1:{port}")
    example = re.sub(r" *ssl_.*\n", "", example).replace("http://127.0.0.1:8000", upstream)
    example = example.replace("client_header_timeout 10s", "client_header_timeout 1s")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    user = "user root;" if os.geteuid() == 0 else ""
    configuration = folder / "nginx.conf"
    configuration.write_text(
        f"daemon off; {user} pid {folder}/pid; error_log stderr notice; events {{}}"
        f"http {{ access_log off; {paths} {example} }}"
    )
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    command = [program, "-p", str(folder), "-e", "stderr", "-c", str(configuration)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert any("start worker process" in line for line in running.stderr)
            yield port
        finally:
            running.terminate()


@pytest.mark.full
def test_nginx_streams_answers_and_blocks_slow_and_large_headers(tmp_path):
    read = threading.Event()

    class Slow(ScriptedProvider):
        async def stream(self, request):
            yield Text("first")
            await asyncio.to_thread(read.wait)
            async for piece in super().stream(request):
                yield piece

    headers = {"Authorization": f"Bearer {TOKEN}", "Host": "agent.example.com", "Accept": "text/event-stream"}
    with ExitStack() as open_now:
        server = open_now.enter_context(served(Agent(Slow(["first and last"])), hosts=["agent.example.com"]))
        open_now.callback(read.set)
        port = open_now.enter_context(nginx(tmp_path, server.url))
        client = open_now.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60))
        with client.stream("POST", "/agent/chat", json={"message": "?"}) as answer:
            lines = answer.iter_lines()
            assert any("first" in line for line in lines)
            read.set()  # the rest is sent once the start has arrived
            assert any('"done"' in line for line in lines)
            assert len(answer.headers["x-request-id"]) == 32  # nginx's own
        for head in (b"GET / HTTP/1.1\r\nHost: agent.exam", b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 100_000):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                connection.sendall(head)
                assert connection.recv(65536)[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 408")
