"""Recordings in trouble: several processes, full disks, missing permissions, corrupt lines."""

import os
import subprocess
import sys

import pytest
from support.together import run_together

import nbagent
from nbagent import Agent, ScriptedProvider
from nbagent.errors import ConfigurationError
from nbagent.providers.replay.file import RecordingFile

WRITER = """
import sys, nbagent
from nbagent import Agent, ScriptedProvider
path, mode, who = sys.argv[1:]
with nbagent.replay(path, mode):
    print("ready", flush=True)
    sys.stdin.readline()
    agent = Agent(ScriptedProvider(lambda messages, functions: "x" * 50_000))
    for number in range(int(10)):
        agent.chat_sync(f"{who} asks {number}")
"""


@pytest.mark.parametrize("mode", ["once", "new"])
def test_several_processes_record_to_one_file(path, mode):
    if mode == "new":
        with nbagent.record(path):
            Agent(ScriptedProvider(["old"])).chat_sync("old")
        with path.open("ab") as file:
            file.write(b'{"request": {"id": "torn')
    run_together(WRITER, *[(path, mode, who) for who in "abc"])
    recorded = RecordingFile(path)
    recorded.read()
    asked = sorted(each.request.messages[-1]["content"] for each in recorded.exchanges)
    assert asked == sorted([f"{who} asks {n}" for who in "abc" for n in range(10)] + ["old"] * (mode == "new"))


LIMITED = """
import logging, resource, signal, sys, nbagent
from nbagent import Agent, ScriptedProvider
logging.basicConfig()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
agent = Agent(ScriptedProvider(["a" * 3000, "b" * 3000]))
with nbagent.record(sys.argv[1]):
    agent.chat_sync("1")
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, resource.RLIM_INFINITY))
    print(str(agent.chat_sync("2"))[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits a file's size")
def test_an_answer_that_cannot_be_written_reaches_the_agent(path):
    ran = subprocess.run([sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, check=True)
    assert ran.stdout == "b\n"
    assert "an answer is not in the recording" in ran.stderr
    recorded = RecordingFile(path)
    recorded.read()
    assert [each.response["content"][0] for each in recorded.exchanges] == ["a"]


def test_missing_permissions_are_an_error_before_any_request(path):
    path.parent.chmod(0o500)
    user = os.geteuid()
    try:
        if user == 0:  # root may write everywhere
            os.seteuid(65_534)
        with pytest.raises(ConfigurationError, match="a folder that exists and that you may write to"):
            nbagent.record(path).start()
    finally:
        os.seteuid(user)
        path.parent.chmod(0o700)
