"""`%agent keep` and `%agent restore` in real kernels: a conversation continues in another kernel."""

import json
import os
import re
import signal
import sqlite3
from contextlib import closing

import pytest
from support.hostile import PAYLOADS
from support.kernels import Kernel
from support.panels import Panel

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Trace

pytestmark = pytest.mark.kernel

SECRET = "sk-kept-nowhere-0123456789"
TOOL = """
@tool
def twice(n: int) -> int:
    'Twice a number.'
    return 2 * n
"""


@pytest.fixture
def notebook(tmp_path):
    """The notebook's path, which a server passes to the kernels that it starts."""
    return tmp_path / "analysis.ipynb"


def kernel_of(notebook, name="kernel"):
    folder = notebook.parent / f".{name}"
    folder.mkdir()
    return Kernel(folder, {"JPY_SESSION_NAME": str(notebook), "OPENAI_API_KEY": SECRET}, notebook.parent)


def asks(kernel, *questions, answer="lambda messages, tools: messages[-1].text.upper()"):
    kernel.ok(f"agent.provider = ScriptedProvider({answer})")
    for question in questions:
        kernel.ok(f"%%agent\n{question}")


def said(path):
    return [message.text for message in Agent.load(path, "scripted").conversation_history]


def texts(kernel):
    return kernel.value("[message.text for message in agent.conversation_history]")


def test_a_conversation_comes_back_in_another_kernel(notebook):
    talk = notebook.with_name("analysis.agent.json")
    with kernel_of(notebook, "one") as kernel:
        assert "analysis.agent.json" in kernel.ok("%agent keep").stdout
        kernel.ok(TOOL)
        asks(kernel, "four?", answer="[FunctionCall('twice', {'n': 2}, 'c'), 'Four.', 'Bye.']")
        assert said(talk) == ["four?", "", "4", "Four."]
        kernel.ok("%%agent\nbye?")
        kernel.ok("agent.trace.score(agent.trace.runs['run_id'].iloc[0], 'good', 1)")
        runs = kernel.value("agent.trace.runs['run_id'].tolist()")
    assert sorted(os.listdir(notebook.parent)) == [".one", "analysis.agent.json", "analysis.agent.sqlite"]
    assert json.loads(talk.read_text())["model"] == "scripted:scripted"
    kept = Trace.load(notebook.with_name("analysis.agent.sqlite"))
    assert kept.runs["run_id"].tolist() == runs
    assert kept.scores["value"].tolist() == [1.0]
    assert len(kept.environment) == 1

    with kernel_of(notebook, "two") as kernel:
        assert "2 prompts, saved 20" in kernel.ok("%agent keep").stdout
        panel = Panel(kernel)
        panel.until_text("analysis.agent.json has 2 prompts", "%agent restore brings them back.")
        restored = kernel.ok("%agent restore").stdout
        assert restored.startswith("2 prompts from analysis.agent.json, saved 20")
        assert texts(kernel) == ["four?", "", "4", "Four.", "bye?", "Bye."]
        panel.until(lambda: "twice(n=2)" in panel.text and "restore brings" not in panel.text)
        assert kernel.value("agent.trace.runs['run_id'].tolist()") == runs
        assert "Nothing to restore" in kernel.ok("%agent restore").stdout
        asks(kernel, "more?")
        assert kernel.value("agent.provider.requests[-1][0][0].text") == "four?"
        tables = "{t: len(getattr(agent.trace, t)) for t in ('runs', 'calls', 'messages', 'tool_calls', 'events')}"
        counts = kernel.value(tables)
        assert kernel.value("agent.trace.messages['message_id'].is_unique")
        assert kernel.value("agent.trace.tool_calls['name'].tolist()") == ["twice"]
        asked = "[m.text for m in agent.trace.request(agent.trace.calls['call_id'].iloc[-1]).messages]"
        assert kernel.value(asked) == ["four?", "", "4", "Four.", "bye?", "Bye.", "more?"]
        assert "twice(n=2)" in kernel.ok("nbagent.ChatPanel(agent)").text  # from the restored trace

    with kernel_of(notebook, "three") as kernel:
        kernel.ok("%agent restore")
        assert len(texts(kernel)) == 8
        assert kernel.value(tables) == counts
    assert sorted(name for name in os.listdir(notebook.parent) if name[1:4] not in ("one", "two", "thr")) == [
        "analysis.agent.json", "analysis.agent.sqlite",
    ]  # fmt: skip


ASKED = "[[m.text for m in b.messages if m.role == 'user'] for b in agent.context.branches]"


def test_all_versions_and_conversations_come_back(notebook):
    talk = notebook.with_name("analysis.agent.json")
    with kernel_of(notebook, "one") as kernel:
        kernel.ok("%agent keep")
        asks(kernel, "one", "two")
        kernel.ok("agent.context.edit(0, 'ONE')")  # has no id from then on
        kernel.ok("agent.system_prompt = 'Be brief.'")
        for question in ("zwei", "deux"):
            kernel.ok(f"await agent.chat({question!r}, branch_at=agent.context.here.questions[1])")
        kernel.ok("%agent new")
        asks(kernel, "else")
        kernel.ok("agent.context.switch(agent.context.branches[1])")
        said_so_far = texts(kernel)
        asked, branch = kernel.value(ASKED), kernel.value("agent.context.here.branch")
        assert asked == [["ONE", "two"], ["ONE", "zwei"], ["ONE", "deux"], ["else"]]
    data = json.loads(talk.read_text())
    assert [message["content"] for message in data["messages"]] == said_so_far
    assert [each["messages"][0] for each in data["branches"]][:3] == [1, 1, 1], "no message is written twice"
    assert data["here"] == 1
    assert said(talk) == said_so_far

    with kernel_of(notebook, "two") as kernel:
        kernel.ok("%agent keep")
        panel = Panel(kernel)
        assert "2 prompts from analysis.agent.json" in (restored := kernel.ok("%agent restore").stdout)
        prompt = (
            "The system prompt now comes from analysis.agent.json; agent.system_prompt = None removes it:\nBe brief.\n"
        )
        assert restored.endswith(f" 3 other branches as well.\n{prompt}")
        assert kernel.value(ASKED) == asked
        assert texts(kernel) == said_so_far
        assert kernel.value("agent.context.here.branch") == branch
        panel.until(lambda: "2/3" in panel.text)
        panel.click("Previous version")
        panel.until(lambda: "1/3" in panel.text and "two" in panel.text)
        assert "Nothing to restore" in kernel.ok("%agent restore").stdout
        kernel.ok("agent.provider = ScriptedProvider(['Three.'])")
        panel.ask("three")
        panel.until_text("Three.")
        kernel.ok("%agent conversations 1")
        assert texts(kernel)[1:] == ["else", "ELSE"]

    with kernel_of(notebook, "three") as kernel:
        asks(kernel, "new")
        assert "1 prompt of this kernel come after. 3 other" in kernel.ok("%agent restore").stdout
        assert kernel.value(ASKED) == [["ONE", "two", "three"], *asked[1:3], ["else", "new"]]


def test_undo_edits_failures_and_another_agent_are_kept_too(notebook):
    talk = notebook.with_name("analysis.agent.json")
    with kernel_of(notebook) as kernel:
        kernel.ok("%agent keep")
        asks(kernel, "one", "two", "three")
        kernel.ok("%agent undo")
        assert said(talk) == ["one", "ONE", "two", "TWO"]
        kernel.ok("agent.context.edit(0, 'first')")
        assert said(talk) == ["first", "ONE", "two", "TWO"]
        kernel.ok("agent.provider = ScriptedProvider([RuntimeError('no network')])")
        assert kernel.run("%%agent\nlost").error == "RuntimeError"
        assert said(talk) == ["first", "ONE", "two", "TWO"]
        assert Trace.load(talk.with_suffix(".sqlite")).runs["status"].tolist()[-1] == "error"
        kernel.ok("agent = Agent(ScriptedProvider(['Hello.']))")  # this loses nothing that was kept
        assert said(talk) == ["first", "ONE", "two", "TWO"]
        moved = kernel.ok("%%agent\nhello").stdout
        assert "analysis.agent.1.json has 2 prompts" in moved
        assert said(talk) == ["hello", "Hello."]
        assert said(notebook.with_name("analysis.agent.1.json")) == ["first", "ONE", "two", "TWO"]
        assert Trace.load(notebook.with_name("analysis.agent.1.sqlite")).runs["prompt"].tolist()[:2] == ["one", "two"]
        assert "1 prompt of this kernel come" in kernel.ok("%agent restore analysis.agent.1.json").stdout
        assert texts(kernel) == ["first", "ONE", "two", "TWO", "hello", "Hello."]
        assert said(talk) == texts(kernel)
        assert "no longer kept" in kernel.ok("%agent keep off").stdout.lower()
        asks(kernel, "unkept")
        assert said(talk)[-1] == "Hello."


def test_two_kernels_do_not_keep_in_one_file(notebook):
    with kernel_of(notebook, "one") as first, kernel_of(notebook, "two") as second:
        first.ok("%agent keep")
        refused = second.run("%agent keep")
        assert refused.status == "error"
        pid = first.value("os.getpid()")
        assert f"another kernel (process {pid})" in refused.traceback
        assert "Shut that kernel down" in refused.traceback
        asks(first, "one")
        asks(second, "two")
        assert said(notebook.with_name("analysis.agent.json")) == ["one", "ONE"]
        second.ok("%agent keep mine.json")
        first.ok("%agent keep off")
        second.ok("%agent keep")


def test_a_kernel_that_is_killed_while_a_run_goes_on_leaves_what_tools_did_and_no_lock(notebook):
    talk = notebook.with_name("analysis.agent.json")
    with kernel_of(notebook, "one") as kernel:
        kernel.ok("%agent keep" + TOOL)
        kernel.ok("""
class Slow(ScriptedProvider):
    async def stream(self, request):
        if request.messages[-1].role == "tool":
            await asyncio.sleep(3600)
        async for item in super().stream(request):
            yield item
agent.provider = Slow([FunctionCall("twice", {"n": 2}, "c")])""")
        kernel.ok(
            "task = asyncio.create_task(agent.chat('four?'))\n"
            f"while not os.path.exists({str(talk)!r}): await asyncio.sleep(0.01)"
        )
        os.kill(kernel.value("os.getpid()"), signal.SIGKILL)
    assert said(talk) == ["four?", "", "4"]
    with kernel_of(notebook, "two") as kernel:
        kernel.ok("%agent keep")
        kernel.ok("%agent restore")
        asks(kernel, "more?")
        assert said(talk)[-2:] == ["more?", "MORE?"]
    assert sorted(name for name in os.listdir(talk.parent) if "analysis" in name) == [
        talk.name,
        "analysis.agent.sqlite",
    ]


def test_no_secret_is_in_the_files(notebook):
    with kernel_of(notebook) as kernel:
        kernel.ok("%agent keep")
        kernel.ok("class Keyed(ScriptedProvider):\n    secrets = ['sk-of-the-provider-42']")
        kernel.ok("agent.provider = Keyed(['sk-of-the-provider-42', 'fine'])")
        kernel.ok(f"%%agent\nWhat is {SECRET}?")
        kernel.ok("%%agent\nand now?")
    for name in ("analysis.agent.json", "analysis.agent.sqlite"):
        text = notebook.with_name(name).read_text(errors="replace")
        assert "What is $OPENAI_API_KEY?" in text
        assert SECRET not in text
        assert "sk-of-the-provider" not in text


def test_a_full_disk_is_reported_once_and_nothing_is_lost(notebook):
    talk = notebook.with_name("analysis.agent.json")
    with kernel_of(notebook) as kernel:
        kernel.ok("%agent keep")
        asks(kernel, "one")
        # no file may grow beyond this: writes then fail as on a full disk
        kernel.ok(
            "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "before = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))"
        )
        cell = kernel.ok("%%agent\ntwo")
        assert "TWO" in cell.text
        assert "'analysis.agent.json'" in cell.stderr.replace(f"{notebook.parent}/", "")
        assert "File too large" in cell.stderr
        assert kernel.ok("%%agent\nthree").stderr == ""
        assert said(talk) == ["one", "ONE"]
        kernel.ok("resource.setrlimit(resource.RLIMIT_FSIZE, before)")
        assert said(talk) == ["one", "ONE", "two", "TWO", "three", "THREE"]
        assert Trace.load(talk.with_suffix(".sqlite")).runs["prompt"].tolist() == ["one", "two", "three"]


def test_without_a_name_or_a_file_the_error_says_what_to_write(tmp_path):
    with Kernel(tmp_path, {"JPY_SESSION_NAME": ""}) as kernel:
        kernel.ok(f"os.chdir({str(tmp_path)!r})")
        for line, expected in {
            "keep": "this notebook's name is not known here; write %agent keep FILE.json",
            "restore": "this notebook's name is not known here; write %agent restore FILE.json",
            "restore other.json": "there is no other.json",
            "keep talk.txt": "must end with .json",
            "keep nowhere/talk.json": "No such file or directory",
        }.items():
            cell = kernel.run(f"%agent {line}")
            assert cell.status == "error"
            assert expected in cell.stderr + cell.traceback
        kernel.ok("__vsc_ipynb_file__ = os.path.abspath('in vs code.ipynb')")
        assert "in vs code.agent.json" in kernel.ok("%agent keep").stdout
        assert "there is no in vs code.agent.json" in kernel.run("%agent restore").stderr
        kernel.ok("%agent keep 'our talk.json'")
        asks(kernel, "one")
        assert said(tmp_path / "our talk.json") == ["one", "ONE"]


def test_nothing_in_a_hostile_file_becomes_html(notebook):
    texts = [payload.text for payload in PAYLOADS]
    calls = [FunctionCall(text, {"code": text}, str(number)) for number, text in enumerate(texts)]
    agent = Agent(ScriptedProvider([LLMResponse("", calls, "tool_calls", {"thinking": texts[0]}), "\n\n".join(texts)]))
    agent.chat_sync(texts[0])
    agent.save(notebook.with_name("theirs.json"))
    agent.trace.save(notebook.with_name("theirs.sqlite"))
    with closing(sqlite3.connect(notebook.with_name("theirs.sqlite"))) as database, database:
        for (name,) in database.execute("SELECT name FROM tool_calls").fetchall():
            outputs = json.dumps([{"stream": "stdout", "text": name}, {"text/html": name}])
            database.execute("UPDATE tool_calls SET outputs = ? WHERE name = ?", (outputs, name))
    with kernel_of(notebook) as kernel:
        kernel.ok("%agent restore theirs.json")
        page = kernel.ok("nbagent.ChatPanel(agent)").html
        assert page.count("nbagent-output") > len(texts)
        assert not re.search("<(script|img|svg|iframe|noscript|object|embed|form)", page, re.IGNORECASE)


def test_files_of_others_are_not_overwritten(notebook):
    talk = notebook.with_name("analysis.agent.json")
    talk.write_text('{"mine": 1}')
    with kernel_of(notebook) as kernel:
        refused = kernel.run("%agent keep")
        assert "is not a saved conversation" in refused.traceback
        assert talk.read_text() == '{"mine": 1}'
