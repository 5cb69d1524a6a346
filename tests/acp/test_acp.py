"""`nbagent acp` as a process of its own, with the client of the protocol's SDK."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import acp
import pytest
from acp import schema

from nbagent.acp.content import parts_of, stop_reason, title_of
from nbagent.cli import main
from nbagent.core.results import AgentResult
from nbagent.errors import ConfigurationError

APP = '''
import asyncio, os, sys
from nbagent import Agent, FunctionCall, FunctionRegistry, LLMResponse, Limits, ScriptedProvider

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
print("printed while the file is loaded")

def remove(path: str) -> str:
    """Remove a file."""
    print("printed by a tool")
    os.system("echo printed by a process")
    assert sys.stdin.read() == ""
    return f"removed {path}"

def draw() -> list:
    """Draw."""
    return [{"type": "text", "text": "A picture"}, {"type": "image", "media_type": "image/png", "data": PNG}]

def fail() -> None:
    """Fail."""
    raise ValueError("it is broken")

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
registry.register("draw", "", draw)
registry.register("fail", "", fail)
agent = Agent(ScriptedProvider(answer), registry, "You help.", limits=Limits(max_tool_calls=3))
'''
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="


class Editor(acp.Client):
    """A client that notes what it is told, and answers what it is asked."""

    def __init__(self):
        self.updates, self.asked, self.answers = [], [], []
        self.told = asyncio.Event()

    async def session_update(self, session_id, update, **_):
        self.updates.append((session_id, update))
        self.told.set()

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked.append((tool_call, options))
        answer = self.answers.pop(0)
        if answer == "wait":
            await asyncio.Event().wait()
        if answer == "cancelled":
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return schema.RequestPermissionResponse(outcome=schema.AllowedOutcome(outcome="selected", option_id=answer))

    def text(self, session_id=None):
        return "".join(
            update.content.text
            for told, update in self.updates
            if isinstance(update, schema.AgentMessageChunk) and told == (session_id or told)
        )

    def of(self, *kinds):
        return [update for _, update in self.updates if isinstance(update, kinds)]


@asynccontextmanager
async def edited(tmp_path, app=APP):
    (tmp_path / "app.py").write_text(app)
    editor = Editor()
    command = [sys.executable, "-m", "nbagent.cli", "acp", str(tmp_path / "app.py:agent")]
    errors = (tmp_path / "stderr").open("wb")
    with errors:
        options = {"stderr": errors, "limit": 2**24}
        async with acp.spawn_agent_process(editor, *command, transport_kwargs=options) as (client, process):
            yield editor, client, process


async def test_a_conversation_with_tools_pictures_and_two_sessions(tmp_path):
    async with edited(tmp_path) as (editor, client, process):
        ready = await client.initialize(protocol_version=acp.PROTOCOL_VERSION)
        assert (ready.protocol_version, ready.agent_info.name) == (acp.PROTOCOL_VERSION, "nbagent")
        assert ready.agent_capabilities.prompt_capabilities.image
        one, two = [(await client.new_session(cwd=str(tmp_path))).session_id for _ in range(2)]

        async def ask(session, *blocks):
            editor.updates.clear()
            blocks = [acp.text_block(block) if isinstance(block, str) else block for block in blocks]
            return (await client.prompt(session_id=session, prompt=blocks)).stop_reason

        assert (await ask(one, "hello"), editor.text()) == ("end_turn", "1: hello")
        assert (await ask(two, "hi"), editor.text()) == ("end_turn", "1: hi")
        both = await asyncio.gather(ask(one, "again"), ask(two, "once more"))
        assert (both, editor.text(one), editor.text(two)) == (["end_turn"] * 2, "2: again", "2: once more")
        await ask(one, "think")
        assert [each.content.text for each in editor.of(schema.AgentThoughtChunk)] == ["Well."]
        await ask(one, "call draw")
        (started,) = editor.of(schema.ToolCallStart)
        first, second = editor.of(schema.ToolCallProgress)
        assert (started.title, started.status, first.status, second.status) == (
            "draw",
            "pending",
            "in_progress",
            "completed",
        )
        assert {each.tool_call_id for each in (first, second)} == {started.tool_call_id}
        assert [each.content.type for each in second.content] == ["text", "image"]
        await ask(one, "call fail")
        assert editor.of(schema.ToolCallProgress)[-1].status == "failed"
        link = acp.resource_link_block("notes.txt", "file:///notes.txt")
        inside = acp.resource_block(acp.embedded_text_resource("file:///a.py", "x = 1"))
        await ask(two, "show ", link, inside, acp.image_block(PNG, "image/png"))
        for shown in ("[notes.txt](file:///notes.txt)", "x = 1", PNG[:20], f"folder {tmp_path}", "You help."):
            assert shown in editor.text()
        for reason, expected in {"length": "max_tokens", "content_filter": "refusal", "stop": "end_turn"}.items():
            assert await ask(two, f"end {reason}") == expected
        assert process.returncode is None


async def test_calls_that_need_approval_are_asked_about(tmp_path):
    async with edited(tmp_path) as (editor, client, _):
        await client.initialize(protocol_version=acp.PROTOCOL_VERSION)
        one, two = [(await client.new_session(cwd="/")).session_id for _ in range(2)]

        async def remove(session, answer):
            editor.answers, editor.asked = [answer], []
            await client.prompt(session_id=session, prompt=[acp.text_block("call remove a.txt")])
            last = editor.of(schema.ToolCallProgress)[-1]
            return last.status, last.content[0].content.text, len(editor.asked)

        assert await remove(one, "allow") == ("completed", "removed a.txt", 1)
        ((call, options),) = editor.asked
        assert (call.title, call.raw_input) == ('remove {"path": "a.txt"}', {"path": "a.txt"})
        assert call.tool_call_id == editor.of(schema.ToolCallStart)[0].tool_call_id
        assert [option.kind for option in options] == ["allow_once", "allow_always", "reject_once"]
        for answer in ("reject", "cancelled", "made_up"):
            status, text, asked = await remove(one, answer)
            assert (status, "not approved" in text, asked) == ("failed", True, 1)
        assert await remove(one, "allow_tool") == ("completed", "removed a.txt", 1)
        assert await remove(one, "") == ("completed", "removed a.txt", 0)
        assert (await remove(two, "reject"))[0] == "failed"  # another session, another user perhaps
    told = (tmp_path / "stderr").read_text()
    for printed in ("while the file is loaded", "by a tool", "by a process"):
        assert f"printed {printed}" in told


async def test_cancel_ends_the_turn_and_the_session_goes_on(tmp_path):
    async with edited(tmp_path) as (editor, client, _):
        await client.initialize(protocol_version=acp.PROTOCOL_VERSION)
        await client.cancel(session_id="unknown")
        for question in ("wait", "call remove a.txt"):
            session = (await client.new_session(cwd="/")).session_id
            await client.cancel(session_id=session)  # nothing is running
            editor.answers, editor.updates = ["wait"], []
            asking = asyncio.create_task(client.prompt(session_id=session, prompt=[acp.text_block(question)]))
            while "waiting" not in (tmp_path / "stderr").read_text() or (question != "wait" and not editor.asked):
                await asyncio.sleep(0.01)
            await client.cancel(session_id=session)
            assert (await asking).stop_reason == "cancelled"
            answer = await client.prompt(session_id=session, prompt=[acp.text_block("and now?")])
            assert (answer.stop_reason, editor.text()) == ("end_turn", "2: and now?")


async def test_failures_are_told_and_end_nothing(tmp_path):
    server = schema.SseMcpServer(type="sse", name="s", url="http://127.0.0.1:1", headers=[])
    async with edited(tmp_path) as (_, client, _):
        await client.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = (await client.new_session(cwd="/")).session_id
        for question, code in (("crash", -32603), ("", -32602)):
            with pytest.raises(acp.RequestError) as failure:
                await client.prompt(session_id=session, prompt=[acp.text_block(question)])
            assert failure.value.code == code
        with pytest.raises(acp.RequestError, match="no session 'x'"):
            await client.prompt(session_id="x", prompt=[acp.text_block("hello")])
        with pytest.raises(acp.RequestError, match="audio"):
            await client.prompt(session_id=session, prompt=[acp.audio_block("AA==", "audio/wav")])
        with pytest.raises(acp.RequestError, match="can't be used"):
            await client.new_session(cwd="/", mcp_servers=[server])
        assert (await client.prompt(session_id=session, prompt=[acp.text_block("on")])).stop_reason == "end_turn"


async def test_garbage_is_answered_with_errors_and_the_end_of_input_ends_the_process(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "nbagent.cli", "acp", str(tmp_path / "app.py")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    request = {"jsonrpc": "2.0", "id": 7, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}
    odd = [b"garbage", b"[1]", b"5", b'{"method": 5}', b"\xff\xfe", b"[" * 100_000, b'{"id": 1}', b"{}"]
    wrong = [
        {**request, "method": "session/prompt", "params": {"sessionId": 5}},
        {**request, "method": "no/such"},
        {**request, "params": [1]},
    ]
    lines = [*odd, *(json.dumps(each).encode() for each in wrong), json.dumps(request).encode()]
    waiting = {**request, "id": 8, "method": "session/prompt"}
    process.stdin.write(b"\n".join(lines) + b"\n")
    answers = [json.loads(await process.stdout.readline()) for _ in range(10)]
    codes = sorted(answer["error"]["code"] for answer in answers if "error" in answer)
    assert codes == [-32700] * 3 + [-32602] * 2 + [-32601] + [-32600] * 3
    (session,) = [answer["result"]["sessionId"] for answer in answers if "result" in answer]
    waiting["params"] = {"sessionId": session, "prompt": [{"type": "text", "text": "wait"}]}
    process.stdin.write(json.dumps(waiting).encode() + b"\n")
    while b"waiting" not in await process.stderr.readline():
        pass
    process.stdin.close()  # in the middle of an answer
    await process.communicate()
    assert process.returncode == 0


def test_prompts_and_results_in_the_words_of_both():
    assert title_of("f", {}) == "f"
    assert len(title_of("f", {"a": "x" * 1000})) < 120
    reasons = {"iterations": "max_turn_requests", "total_tokens": "max_tokens", "cost": "max_turn_requests"}
    for limit, reason in reasons.items():
        assert stop_reason(AgentResult(status="limit", limit_reason=limit)) == reason
    assert stop_reason(AgentResult(status="denied")) == "end_turn"
    with pytest.raises(ConfigurationError, match="audio"):
        parts_of([acp.audio_block("AA==", "audio/wav")])


def test_a_wrong_file_is_told_on_stderr(tmp_path, capfd):
    with pytest.raises(SystemExit):
        main(["acp", "a", "b"])
    assert "usage" in capfd.readouterr().err


PLANS = """
from nbagent import Agent, FunctionCall, ScriptedProvider
def update(*steps): return FunctionCall("update_plan", {"steps": [dict(step=s, status=t) for s, t in steps]})
turns = [
    update(("Load", "doing"), ("Plot", "pending")), update(("Load", "done"), ("Plot", "dropped"), ("Tell", "doing")),
    update(("Load", "nonsense")), "Done.",
]
agent = Agent(ScriptedProvider(turns), plan=True)
"""


async def test_a_plan_is_an_update_of_the_plan(tmp_path):
    async with edited(tmp_path, PLANS) as (editor, client, _):
        await client.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = (await client.new_session(cwd=str(tmp_path))).session_id
        await client.prompt(session_id=session, prompt=[acp.text_block("Go")])
    plans = [[(each.content, each.status) for each in plan.entries] for plan in editor.of(schema.AgentPlanUpdate)]
    assert plans == [
        [("Load", "in_progress"), ("Plot", "pending")],
        [("Load", "completed"), ("Tell", "in_progress")],
    ]
    (failed,) = editor.of(schema.ToolCallStart)
    assert (failed.status, editor.of(schema.ToolCallProgress)) == ("failed", [])
    assert "nonsense" in failed.title
    assert editor.text() == "Done."
