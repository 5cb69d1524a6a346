"""`nbagent acp` as a separate process, with the client of the protocol's SDK."""

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import acp
import pytest
import pytest_asyncio
from acp import schema
from support.acp_editor import edited

from nbagent.acp.content import stop_reason, title_of
from nbagent.core.results import AgentResult

APP = '''
import asyncio, os, sys
from nbagent import Agent, FunctionCall, FunctionRegistry, LLMResponse, Limits, ScriptedProvider

print("printed while the file is loaded")

def remove(path: str) -> str:
    """Remove a file."""
    print("printed by a tool")
    os.system("echo printed by a process")
    assert sys.stdin.read() == ""
    return f"removed {path}"

async def answer(messages, functions):
    last = messages[-1]
    question = [m for m in messages if m.role == "user"][-1].text
    words = question.split()
    if last.role == "tool":
        return f"The tool said: {last.text}"
    if words[0] == "call":
        arguments = {"path": words[2]} if len(words) > 2 else {}
        return FunctionCall(words[1], arguments)
    if words[0] == "wait":
        print("waiting", file=sys.stderr, flush=True)
        await asyncio.Event().wait()
    if words[0] == "crash":
        raise RuntimeError("no answer")
    if words[0] == "end":
        return LLMResponse("So far.", None, words[1])
    if words[0] == "think":
        return LLMResponse("Done.", None, "stop", {"thinking": "Well."})
    if words[0] == "show":
        return str([m.to_dict() for m in messages])
    return f"{sum(m.role == 'user' for m in messages)}: {question}"

registry = FunctionRegistry()
registry.register("remove", "", remove, approve=True)
agent = Agent(ScriptedProvider(answer), registry, "You help.", limits=Limits(max_tool_calls=3))
'''


module_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def one_process(tmp_path_factory):
    folder = tmp_path_factory.mktemp("acp")
    async with edited(folder, APP) as (editor, client, process):
        ready = await client.initialize(protocol_version=acp.PROTOCOL_VERSION)
        yield SimpleNamespace(editor=editor, client=client, folder=folder, ready=ready)
        assert process.returncode is None


@pytest.fixture
def process(one_process):
    """The process of this module, with an editor without notes."""
    one_process.editor.forget()
    return one_process


@module_loop
async def test_two_conversations_at_once(process):
    editor, client, folder, ready = process.editor, process.client, process.folder, process.ready
    assert (ready.protocol_version, ready.agent_info.name) == (acp.PROTOCOL_VERSION, "nbagent")
    assert ready.agent_capabilities.prompt_capabilities.image
    one, two = [(await client.new_session(cwd=str(folder))).session_id for _ in range(2)]

    async def ask(session, *blocks):
        editor.updates.clear()
        blocks = [acp.text_block(block) if isinstance(block, str) else block for block in blocks]
        return (await client.prompt(session_id=session, prompt=blocks)).stop_reason

    assert (await ask(one, "hello"), editor.text()) == ("end_turn", "1: hello")
    both = await asyncio.gather(ask(one, "again"), ask(two, "hi"))
    assert (both, editor.text(one), editor.text(two)) == (["end_turn"] * 2, "2: again", "1: hi")
    await ask(one, "think")
    assert [each.content.text for each in editor.of(schema.AgentThoughtChunk)] == ["Well."]
    link = acp.resource_link_block("notes.txt", "file:///notes.txt")
    inside = acp.resource_block(acp.embedded_text_resource("file:///a.py", "x = 1"))
    await ask(two, "show ", link, inside)
    for shown in ("[notes.txt](file:///notes.txt)", "x = 1", f"folder {folder}", "You help."):
        assert shown in editor.text()
    for reason, expected in {"length": "max_tokens", "content_filter": "refusal"}.items():
        assert await ask(two, f"end {reason}") == expected


@module_loop
async def test_calls_that_need_approval_are_asked_about(process):
    editor, client, folder = process.editor, process.client, process.folder
    one, two = [(await client.new_session(cwd="/")).session_id for _ in range(2)]

    async def remove(session, answer):
        editor.answers, editor.asked = [answer], []
        await client.prompt(session_id=session, prompt=[acp.text_block("call remove a.txt")])
        last = editor.of(schema.ToolCallProgress)[-1]
        return last.status, last.content[0].content.text, len(editor.asked)

    assert await remove(one, "allow") == ("completed", "removed a.txt", 1)
    ((call, options),) = editor.asked
    assert (call.title, call.raw_input) == ('remove {"path": "a.txt"}', {"path": "a.txt"})
    assert [option.kind for option in options] == ["allow_once", "allow_always", "reject_once"]
    for answer in ("cancelled", "made_up"):
        status, text, _ = await remove(one, answer)
        assert (status, "not approved" in text) == ("failed", True)
    assert await remove(one, "allow_tool") == ("completed", "removed a.txt", 1)
    assert await remove(one, "") == ("completed", "removed a.txt", 0)
    assert (await remove(two, "reject"))[0] == "failed"  # perhaps another user's session
    told = (folder / "stderr").read_text()
    assert [f"printed {where}" in told for where in ("while the file", "by a tool", "by a process")] == [True] * 3


@module_loop
async def test_cancelling_withdraws_all_prompts_and_the_session_continues(process):
    editor, client = process.editor, process.client
    await client.cancel(session_id="unknown")
    session = (await client.new_session(cwd="/")).session_id
    await client.cancel(session_id=session)  # nothing is running
    editor.answers = ["wait"]
    asking = asyncio.create_task(client.prompt(session_id=session, prompt=[acp.text_block("call remove a.txt")]))
    await editor.is_asked.wait()
    waiting = asyncio.create_task(client.prompt(session_id=session, prompt=[acp.text_block("next")]))
    await asyncio.sleep(0)  # let it be sent
    await client.cancel(session_id=session)
    assert [(await each).stop_reason for each in (asking, waiting)] == ["cancelled"] * 2
    answer = await client.prompt(session_id=session, prompt=[acp.text_block("and now?")])
    assert (answer.stop_reason, editor.text()) == ("end_turn", "2: and now?")


@module_loop
async def test_failures_are_reported_and_the_session_continues(process):
    client = process.client
    session = (await client.new_session(cwd="/")).session_id
    for code, said, session_id, block in (
        (-32603, "", session, acp.text_block("crash")),
        (-32602, "", session, acp.text_block("")),
        (-32602, "no session 'x'", "x", acp.text_block("hello")),
        (-32602, "audio", session, acp.audio_block("AA==", "audio/wav")),
    ):
        with pytest.raises(acp.RequestError) as failure:
            await client.prompt(session_id=session_id, prompt=[block])
        assert (failure.value.code, said in str(failure.value)) == (code, True)
    assert (await client.prompt(session_id=session, prompt=[acp.text_block("on")])).stop_reason == "end_turn"


@module_loop
async def test_a_session_continues_without_an_unusable_server(process):
    editor, client = process.editor, process.client
    server = schema.SseMcpServer(type="sse", name="far", url="http://127.0.0.1:1", headers=[])
    session = (await client.new_session(cwd="/", mcp_servers=[server])).session_id
    for said in (
        "*The MCP server 'far' can't be used: only stdio and http are supported.*\n\n1: a",
        "2: b",
    ):
        editor.forget()
        await client.prompt(session_id=session, prompt=[acp.text_block(said[-1])])
        assert editor.text() == said


async def test_another_process_loads_a_session(tmp_path):
    async with edited(tmp_path, APP) as (editor, client, _):
        ready = await client.initialize(protocol_version=acp.PROTOCOL_VERSION)
        assert ready.agent_capabilities.load_session
        session = (await client.new_session(cwd="/data")).session_id
        await client.new_session(cwd="/data")  # without messages
        other = (await client.new_session(cwd="/other place")).session_id
        editor.answers = ["allow"]
        await client.prompt(session_id=session, prompt=[acp.text_block("call remove a.txt")])
        await client.prompt(session_id=other, prompt=[acp.text_block("elsewhere")])
        asking = asyncio.create_task(client.prompt(session_id=session, prompt=[acp.text_block("wait")]))
        while "waiting" not in (tmp_path / "stderr").read_text():
            await asyncio.sleep(0.01)
        await client.cancel(session_id=session)
        await asking
    async with edited(tmp_path, APP) as (editor, client, _):
        await client.initialize(protocol_version=acp.PROTOCOL_VERSION)
        listed = (await client.list_sessions()).sessions
        assert [(each.cwd, each.title) for each in listed] == [
            ("/data", "call remove a.txt"),
            ("/other place", "elsewhere"),
        ]
        assert [each.session_id for each in (await client.list_sessions(cwd="/other place")).sessions] == [other]
        with pytest.raises(acp.RequestError, match="no session 'x'"):
            await client.load_session(cwd="/", session_id="x", mcp_servers=[])
        await client.load_session(cwd="/data", session_id=session, mcp_servers=[])
        asked = [update.content.text for update in editor.of(schema.UserMessageChunk)]
        assert asked == ["call remove a.txt", "wait"]
        (call,), (result,) = editor.of(schema.ToolCallStart), editor.of(schema.ToolCallProgress)
        assert (call.tool_call_id, call.raw_input) == (result.tool_call_id, {"path": "a.txt"})
        assert result.content[0].content.text == "removed a.txt"
        assert editor.text() == "The tool said: removed a.txt"
        editor.forget()
        await client.prompt(session_id=session, prompt=[acp.text_block("and now?")])
        assert editor.text() == "3: and now?"
        async with edited(tmp_path, APP) as (second, beside, _):  # at the same time
            await beside.initialize(protocol_version=acp.PROTOCOL_VERSION)
            await beside.load_session(cwd="/data", session_id=session, mcp_servers=[])
            await beside.prompt(session_id=session, prompt=[acp.text_block("beside")])
            assert second.text().endswith("4: beside")
        asking = asyncio.create_task(client.prompt(session_id=session, prompt=[acp.text_block("wait")]))
        while "waiting" not in (tmp_path / "stderr").read_text():
            await asyncio.sleep(0.01)
        await client.load_session(cwd="/data", session_id=session, mcp_servers=[])
        await client.cancel(session_id=session)
        assert (await asking).stop_reason == "cancelled"
        editor.forget()
        await client.prompt(session_id=session, prompt=[acp.text_block("last")])
        assert editor.text() == "6: last"


MODELS = """
from nbagent import Agent, LLMResponse, ScriptedProvider, Usage, register_provider

class Priced(ScriptedProvider):
    provider_name = "openai"

answer = LLMResponse("Yes.", metadata={"usage": Usage(900, 100)})
price = {"input": 1000, "output": 1000}
register_provider("other", lambda model, **_: Priced([answer, answer], model="gpt-5.6-luna", price=price))
agent = Agent(ScriptedProvider(["Hello."]))
"""


async def test_the_users_choice_of_a_model_and_the_usage(tmp_path):
    async with edited(tmp_path, MODELS, "--model", "other:one") as (editor, client, _):
        await client.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = await client.new_session(cwd="/")
        (model,) = session.config_options
        assert (model.category, model.current_value) == ("model", "scripted:scripted")
        assert [each.value for each in model.options] == ["scripted:scripted", "other:one"]
        for wrong in ("other:two", ""):
            with pytest.raises(acp.RequestError, match="Choose one of these: scripted:scripted, other:one"):
                await client.set_config_option(session_id=session.session_id, config_id="model", value=wrong)
        chosen = await client.set_config_option(session_id=session.session_id, config_id="model", value="other:one")
        assert chosen.config_options[0].current_value == "other:one"
        for question in ("one", "two"):
            answer = await client.prompt(session_id=session.session_id, prompt=[acp.text_block(question)])
    assert (editor.text(), answer.usage.total_tokens) == ("Yes.Yes.", 2000)
    told = [(update.used, update.cost.amount) for update in editor.of(schema.UsageUpdate)]
    assert told == [(1000, 1.0), (1000, 2.0)]


async def test_garbage_is_ignored_and_the_end_of_input_ends_the_process(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    command = [sys.executable, "-m", "nbagent.cli", "acp", str(tmp_path / "app.py"), "--store", "memory:"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    process = await asyncio.create_subprocess_exec(*command, **pipes)

    def send(method, params):
        request = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        process.stdin.write(json.dumps(request).encode() + b"\n")

    process.stdin.write(b"garbage\n\n\xff\xfe\n")
    send("session/prompt", {"sessionId": 5})
    send("no/such", {})
    send("session/new", {"cwd": "/", "mcpServers": []})
    answers = [json.loads(await process.stdout.readline()) for _ in range(3)]
    codes = sorted(answer["error"]["code"] for answer in answers if "error" in answer)
    assert codes == [-32602, -32601]
    (session,) = [answer["result"]["sessionId"] for answer in answers if "result" in answer]
    send("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "wait"}]})
    while b"waiting" not in await process.stderr.readline():
        pass
    process.stdin.close()  # in the middle of an answer
    await process.communicate()
    assert process.returncode == 0


def test_short_titles_and_stop_reasons():
    assert len(title_of("f", {"a": "x" * 1000})) < 120
    reasons = {"iterations": "max_turn_requests", "total_tokens": "max_tokens", "cost": "max_turn_requests"}
    for limit, reason in reasons.items():
        assert stop_reason(AgentResult(status="limit", limit_reason=limit)) == reason


PLANS = """
from nbagent import Agent, FunctionCall, ScriptedProvider
def update(*steps): return FunctionCall("update_plan", {"steps": [dict(step=s, status=t) for s, t in steps]})
turns = [
    update(("Load", "doing"), ("Plot", "pending")), update(("Load", "done"), ("Plot", "dropped"), ("Tell", "doing")),
    update(("Load", "nonsense")), "Done.",
]
agent = Agent(ScriptedProvider(turns), plan=True)
"""


async def test_plans_are_sent_as_plan_updates(tmp_path):
    async with edited(tmp_path, PLANS) as (editor, client, _):
        await client.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = (await client.new_session(cwd=str(tmp_path))).session_id
        await client.prompt(session_id=session, prompt=[acp.text_block("Go")])
    plans = [[(each.content, each.status) for each in plan.entries] for plan in editor.of(schema.AgentPlanUpdate)]
    assert plans == [[("Load", "in_progress"), ("Plot", "pending")], [("Load", "completed"), ("Tell", "in_progress")]]
    (failed,) = editor.of(schema.ToolCallStart)
    assert (failed.status, "nonsense" in failed.title) == ("failed", True)


NOTEBOOK = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.notebook.document.cell import NotebookCell
from nbagent.notebook.document.tools import notebook_tools
from support.memory_notebook import MemoryNotebook

calls = [
    ("list_cells", {{}}),
    ("edit_cell", {{"cell": "one", "source": "print(2 + 2)"}}),
    ("run_cells", {{"cells": ["one"]}}),
    ("delete_cell", {{"cell": "one"}}),
]

def turn(messages, functions):
    done = sum(message.role == "tool" for message in messages)
    return FunctionCall(*calls[done]) if done < len(calls) else messages[-1].text

notebook = MemoryNotebook(NotebookCell("code", "x = 1", id="one"))
agent = Agent(ScriptedProvider(turn), tools=notebook_tools(notebook))
"""


async def test_approvals_show_the_change_in_a_notebook(tmp_path):
    async with edited(tmp_path, NOTEBOOK) as (editor, client, _):
        await client.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = (await client.new_session(cwd="/")).session_id
        editor.answers = ["allow", "allow", "reject"]
        await client.prompt(session_id=session, prompt=[acp.text_block("Print 2 + 2.")])
        shown = [asked.content[0].content.text for asked, _ in editor.asked]
        assert shown == ["- x = 1\n+ print(2 + 2)", "print(2 + 2)", "- print(2 + 2)"]
        results = [update.content for update in editor.of(schema.ToolCallProgress) if update.status == "completed"]
        assert results[-1][0].content.text.endswith("ran as In [1]:\nPrinted:\n4")
        assert editor.text().startswith("Error: The call was not approved.")
