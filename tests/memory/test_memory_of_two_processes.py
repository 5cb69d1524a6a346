"""Two processes that change the notes of one file at the same time: no change is lost."""

import os
import subprocess
import sys

import pytest

from nbagent import Memory

#: Random commands, of which some are refused. Each change that was made adds a line to the end of what is printed.
WORK = """
import random, sys
from nbagent import Memory
from nbagent.errors import ConfigurationError

path, who, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
memory, chance = Memory(path), random.Random(who)
for number in range(count):
    note, line = f"/memories/{chance.choice('abc')}", f"{who}{number}"
    try:
        match chance.choice(["create", "insert", "str_replace", "frame", "view"]):
            case "create":
                memory.run("create", path=note, file_text=f"{line}\\n")
            case "insert":
                memory.run("insert", path=note, insert_line=0, insert_text=line)
            case "str_replace":
                shown = memory.run("view", path=note).splitlines()[1].partition("\\t")[2]
                memory.run("str_replace", path=note, old_str=f"{shown}\\n", new_str=f"{line}\\n{shown}\\n")
            case "frame":
                frame = memory.frame
                frame.loc[frame["path"] == note, "text"] += line + "\\n"
                if note not in set(frame["path"]):
                    continue
                memory.frame = frame
            case "view":
                memory.run("view")
                continue
    except ConfigurationError:
        continue
    print(line)
"""


@pytest.fixture
def started():
    """Starts a process that gives so many commands -> the process."""
    processes = []

    def start(path, who, count):
        command = [sys.executable, "-c", WORK, str(path), who, str(count)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_many_commands_and_no_lost_update(tmp_path, started):
    path = tmp_path / "memory.sqlite"
    processes = [started(path, who, 150) for who in "xy"]
    done = [process.communicate()[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    kept = [line for text in Memory(path).frame["text"] for line in text.split()]
    assert sorted(kept) == sorted(done[0] + done[1])
    assert min(map(len, done)) > 30
    assert int(Memory(path).frame["version"].max()) == len(kept)  # each change has a version of its own
