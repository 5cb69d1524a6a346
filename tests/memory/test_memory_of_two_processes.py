"""Two processes change the notes in one file at the same time, and no change is lost."""

from support.together import run_together

from nbagent import Memory

#: Every other line comes by the DataFrame, which is refused and made again where the other process was faster.
WORK = """
import sys
from nbagent import Memory
from nbagent.errors import ConfigurationError
memory, who = Memory(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for number in range(40):
    line, is_written = f"{who}{number}\\n", False
    if number % 2:
        memory.run("insert", path="/memories/a", insert_line=0, insert_text=line)
        continue
    while not is_written:
        try:
            memory.frame = memory.frame.assign(text=lambda frame: frame["text"] + line)
            is_written = True
        except ConfigurationError:
            pass
"""


def test_no_lost_update(tmp_path):
    path = tmp_path / "memory.sqlite"
    memory = Memory(path)
    memory.run("create", path="/memories/a", file_text="")
    run_together(WORK, (path, "x"), (path, "y"))
    (text,) = memory.frame["text"]
    assert sorted(text.split()) == sorted(f"{who}{number}" for who in "xy" for number in range(40))
    assert memory.frame["version"].tolist() == [81], "each change has its own version"
