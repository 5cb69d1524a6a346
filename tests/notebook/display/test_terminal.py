"""`%%agent` in IPython in a real terminal: text as it arrives, typed approval, Ctrl-C."""

import os
import re
import signal

import pexpect
import pytest
from support.kernels import TIMEOUT, python

pytestmark = pytest.mark.kernel

SETUP = (
    "from nbagent import *; "
    "agent = Agent(ScriptedProvider(['one two **three**', FunctionCall('wipe', {'n': 2}, 'c'), 'Gone.', "
    "*[FunctionCall('wipe', {'n': 4}), 'So be it.'] * 3, "
    "'slow ' * 5000, 'fine'], delay=0.005), tools=live)"
)
TOOL = 'exec("def wipe(n: int) -> int: return n * 21"); wipe = tool(approve=True)(wipe)'


class Terminal:
    """IPython in a pseudo-terminal."""

    def __init__(self, folder):
        environment = {**os.environ, "IPYTHONDIR": str(folder), "TERM": "dumb", "NO_COLOR": "1"}
        options = {"env": environment, "encoding": "utf-8", "timeout": TIMEOUT, "dimensions": (50, 200)}
        # tests that a shell runs in the background ignore Ctrl-C, and so would their children
        options["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
        self.child = pexpect.spawn(python(), ["-m", "IPython", "--simple-prompt", "--no-banner"], **options)
        self.count = 0
        self.until_prompt()

    def until_prompt(self):
        """The output until the next prompt, without colours."""
        self.count += 1
        self.child.expect_exact(f"In [{self.count}]: ")
        return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", self.child.before).replace("\r\n", "\n")

    def start(self, *lines):
        for line in lines:
            self.child.sendline(line)
        if lines[0].startswith("%%"):  # two empty lines end a cell
            self.child.sendline("")
            self.child.sendline("")

    def run(self, *lines):
        self.start(*lines)
        return self.until_prompt()


@pytest.fixture
def terminal(tmp_path):
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.child.kill(signal.SIGKILL)
    terminal.child.wait()
    terminal.child.close()


def test_a_session(terminal):
    terminal.run("%load_ext nbagent")
    terminal.run(SETUP)
    terminal.run(TOOL)
    said = terminal.run("%%agent", "count")
    assert "one two **three**\n[scripted" in said, "each piece once, as it comes"

    terminal.start("%%agent", "wipe")
    terminal.child.expect_exact("Run wipe(n=2)? [y/N, always, or why not] ")
    assert "  42\nGone." in terminal.run("y")
    terminal.start("%%agent", "wipe more")
    terminal.child.expect_exact("or why not] ")
    terminal.run("not on Mondays")
    assert "denied this call: not on Mondays." in terminal.run("print(agent.trace.tool_calls.iloc[-1].result_text)")
    terminal.start("%%agent", "wipe more")
    terminal.child.expect_exact("or why not] ")
    terminal.run("always")
    terminal.run("%%agent", "wipe more")
    assert "allowed" in terminal.run("agent.trace.tool_calls.iloc[-1].approval")
    assert "always; allowed" in terminal.run("%agent tools")
    assert "revoked" in terminal.run("%agent tools ask wipe")

    terminal.start("%%agent", "go on")
    terminal.child.expect_exact("slow slow")
    terminal.child.sendintr()
    assert "KeyboardInterrupt" in terminal.until_prompt()
    assert "True" in terminal.run("agent.conversation_history[-1].interrupted")
    assert "fine" in terminal.run("%%agent", "and now?")

    assert re.search(r"wipe +● on", terminal.run("%agent tools"))
    assert "only helps in a notebook" in terminal.run("%agent nest on")
    assert "> go on" in terminal.run("%agent panel"), "a panel is the conversation as text"
