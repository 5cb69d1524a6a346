"""The chat page: its security policy, its state, and its patches."""

import asyncio
import base64
import hashlib
import re
from threading import Event, Thread

import pytest
from support.panels import merged
from support.serving import OTHER_TOKEN, events_of, served

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Usage
from nbagent.core.events import Text
from nbagent.errors import ServerError
from nbagent.functions.registry import FunctionDefinition


def add(a: int) -> int:
    """Add."""
    return a


class Waiting(ScriptedProvider):
    """Starts an answer, and waits."""

    def __init__(self):
        super().__init__(["unused"])
        self.asked = Event()

    async def stream(self, request):
        yield Text("I begin")
        self.asked.set()
        await asyncio.sleep(600)


def page_agent():
    return Agent(ScriptedProvider(["x"]))


def test_only_the_pages_own_script_and_style_are_allowed():
    with served(page_agent()) as server:
        page = server.client().get("/")
    rules = dict(rule.split(" ", 1) for rule in page.headers["content-security-policy"].split("; "))
    for tag in ("script", "style"):
        texts = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", page.text, re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
        assert rules[f"{tag}-src"].split() == [f"'sha256-{digest}'" for digest in digests]
    assert rules["default-src"] == rules["frame-ancestors"] == "'none'"
    assert rules["connect-src"] == "'self'"
    assert "unsafe" not in page.headers["content-security-policy"]
    assert not re.search(r"https?://", page.text)
    assert not re.search(r"\son\w+=|\sstyle=", page.text)


def test_patches_add_up_to_the_stored_conversations_state():
    about = {"thinking": "Add them.", "usage": Usage(1000, 20, 900)}
    calls = LLMResponse("", [FunctionCall("add", {"a": 1})], "tool_calls", about)
    agent = Agent(ScriptedProvider([calls, "| a |\n|--:|\n| **1** <b onclick=x> |"]), tools=[add])
    with served(agent) as server:
        client = server.client()
        body = {"message": "1?", "conversation_id": "c"}
        patches = events_of(client.post("/page/chat", json=body))
        later = client.get("/page/state", params={"conversation_id": "c"}).json()
        assert client.get("/page/conversations").json() == {
            "conversations": [["c", "1?"]],
            "next": None,
            "agents": [],
        }
        assert client.get("/page/state", params={"conversation_id": "other"}).status_code == 404
        assert server.client(token=OTHER_TOKEN).get("/page/state", params={"conversation_id": "c"}).status_code == 404
        new = client.get("/page/state").json()
    shown = {}
    for patch in patches:
        shown = merged(shown, patch)
    assert shown["said"] == "a 1 <b onclick=x>"
    assert ["now" in patch for patch in patches] == [True, *(False for _ in patches[1:])]
    (streamed,), (stored,) = shown["turns"].values(), later["turns"].values()
    assert (streamed["live"], stored["live"]) == (False, False)
    assert streamed["question"] == stored["question"]
    assert streamed["text"] == stored["text"] == "| a |\n|--:|\n| **1** <b onclick=x> |"
    for turn in (streamed, stored):
        thought, call, table, footer = (turn["pieces"][name]["html"] for name in turn["order"])
        assert "Add them." in thought
        assert "add(a=1)" in call
        assert re.search(r"✓</span> \d+ .?s", call)
        assert "(900 cached)" in footer
        assert '<td class="nbagent-right"><strong>1</strong> &lt;b onclick=x&gt;</td>' in table
    assert new["greeting"]["tools"] == [["add", "Add."]]


def test_a_fast_model_sends_few_patches():
    with served(Agent(ScriptedProvider(["word " * 2000]))) as server:
        patches = events_of(server.client().post("/page/chat", json={"message": "?"}))
    assert len(patches) < 200


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            [("a.bin", b"\0")],
            "a.bin can't be attached: it is neither UTF-8 text nor a PNG, JPEG, GIF or WebP image. Attach",
        ),
        ([("a.pdf", b"%PDF-1.7")], "a.pdf can't be attached: this PDF can't be read"),
        ([(f"{n}.txt", b"x") for n in range(21)], "at most 20 files. Send 20.txt with the next prompt."),
        ([], "The prompt is empty."),
    ],
)
def test_files_that_cannot_be_attached_are_refused_by_name(files, said):
    body = {"message": "", "files": [{"name": n, "data": base64.b64encode(data).decode()} for n, data in files]}
    with served(page_agent()) as server:
        problem = server.client().post("/page/chat", json=body)
        assert server.client().get("/page/conversations").json()["conversations"] == []
    assert problem.status_code == 422
    assert said in problem.json()["detail"]


def test_the_page_shows_failures_like_other_clients():
    with served(Agent(ScriptedProvider([ServerError("secret-sk-12345678 is down", provider="acme")]))) as server:
        text = server.client().post("/page/chat", json={"message": "?"}).text
    assert "<strong>Failed</strong>" in text
    assert "RefusedError" not in text


def test_an_approval_shows_where_a_call_runs_and_for_which_agent():
    wipe = FunctionDefinition("wipe", "Wipe.", {"type": "object"}, lambda: "gone", approve=True, source="mcp:disk")
    cleaner = Agent(ScriptedProvider([[FunctionCall("wipe", {})], "Clean."]), tools=[wipe])
    asks = [FunctionCall("clean", {"question": "Wipe."})]
    agent = Agent(ScriptedProvider([asks, "Done."]), tools=[cleaner.as_tool("clean", "Cleans.")])
    with served(agent, approval_seconds=0.2) as server:
        text = server.client().post("/page/chat", json={"message": "?", "waits_for_approval": True}).text
    assert "asks to run on the MCP server disk, for the agent clean" in text


@pytest.mark.parametrize(("path", "said"), [("/page/chat", "Interrupted."), ("/agent/chat", '"code":"stopped"')])
def test_stop_ends_the_runs_of_one_conversation_only(path, said):
    provider = Waiting()
    with served(Agent(provider), max_concurrent=1) as server:
        texts, body, stop = [], {"message": "?", "conversation_id": "c"}, {"conversation_id": "c"}
        asking = Thread(target=lambda: texts.append(server.client().post(path, json=body).text))
        asking.start()
        assert provider.asked.wait(60)
        assert server.client(token=OTHER_TOKEN).post("/page/stop", json=stop).json() == {"stopped": 0}
        assert server.client().post("/page/stop", json={"conversation_id": "d"}).json() == {"stopped": 0}
        assert server.client().post("/page/stop", json=stop).json() == {"stopped": 1}
        asking.join(60)
        kept = server.client().get("/agent/conversations/c").json()["messages"]
        assert 'status="cancelled"} 1.0' in server.client().get("/metrics").text
    assert said in texts[0]
    assert "Failed" not in texts[0]
    assert kept[-1]["content"] == "I begin"
