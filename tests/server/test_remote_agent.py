"""An agent on a real server, used like a local one: conversation, trace, approvals, interrupts and failures."""

import asyncio
import threading

import pytest
from support.loopback import Answer, Loopback
from support.serving import OTHER_TOKEN, TOKEN, served

import nbagent
from nbagent import Agent, Allow, FunctionCall, LLMResponse, ScriptedProvider, Trace, Usage
from nbagent.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    ModelNotFoundError,
    NbagentError,
    ProviderConnectionError,
    ProviderError,
)

PNG = {
    "type": "image",
    "media_type": "image/png",
    "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==",
}


def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


def remove(path: str) -> str:
    """Remove a file."""
    return f"removed {path}"


def an_agent(turns, *tools) -> Agent:
    registry = nbagent.FunctionRegistry()
    for tool in tools or (double,):
        registry.register(tool.__name__, "", tool)
    registry.register("remove", "", remove, approve=True)
    return Agent(ScriptedProvider(turns, price={"input": 1, "output": 1}), registry, "You help.")


def connected(server, **options):
    return nbagent.connect(server.url, TOKEN, **options)


def test_an_answer_comes_with_remote_tool_calls_and_cost():
    counted = {"usage": Usage(10, 5), "thinking": "Double it."}
    turns = [LLMResponse("", [FunctionCall("double", {"n": 4}, "c1")], "tool_calls", counted), "It is eight.", "Bye."]
    agent = an_agent(turns)
    with served(agent) as server:
        remote = connected(server)
        result = remote.chat_sync("Twice 4?")
        assert (result.content, result.status, result.usage.total_tokens > 15) == ("It is eight.", "ok", True)
        assert remote.chat_sync("Bye").content == "Bye."
        assert server.client().get("/agent/conversations").json()["conversations"] == [], "it is kept here"
    trace = remote.trace
    assert trace.tool_calls[["name", "args", "result_text"]].values.tolist() == [["double", {"n": 4}, "8"]]
    assert trace.thinking["text"].tolist() == ["Double it."]
    assert 0 < result.cost == trace.runs["cost_usd"].iloc[0]


def test_local_edits_are_what_the_remote_agent_reads():
    def answer(messages, functions):
        if messages[-1].text == "d":
            return FunctionCall("double", {"n": 1})
        return " / ".join(message.text for message in messages if message.role != "assistant")

    with served(an_agent(answer)) as server:
        remote = connected(server)
        assert remote.chat_sync("a", instructions="Mine.").content == "You help.\n\nMine. / a"
        remote.chat_sync("b")
        remote.undo()
        assert remote.chat_sync("c").content == "You help. / a / c"
        assert remote.fork().chat_sync("d").content == "You help. / a / c / d / 2"
        assert remote.fork().chat_sync(["See:", PNG]).content.endswith("See:")


def test_a_local_person_approves_remote_calls():
    asked = []

    def approve(call, definition):
        asked.append((call.name, call.arguments))
        return [True, False, {"path": "b.txt"}, {"wrong": 1}, {"path": {1}}, Allow.TOOL][len(asked) - 1]

    with served(an_agent([FunctionCall("remove", {"path": "a.txt"}), "Done."] * 8)) as server:
        connected(server).chat_sync("Remove it")
        remote = connected(server, approve=approve)
        for _ in range(7):
            remote.chat_sync("Remove it")
        calls = remote.trace.tool_calls
    assert asked == [("remove", {"path": "a.txt"})] * 6, "the last call was allowed before"
    assert calls["is_error"].tolist() == [False, True, False, True, True, False, False]
    assert "removed b.txt" in calls["result_text"].iloc[2]


def test_an_interrupt_ends_the_remote_run_and_the_conversation_continues():
    begun = threading.Event()

    async def answer(messages, functions):
        if messages[-1].text == "wait":
            begun.set()
            await asyncio.sleep(600)
        return f"{len(messages)} messages"

    with served(an_agent(answer)) as server:
        remote = connected(server)

        async def ask():
            await remote.chat("hello")
            task = asyncio.create_task(remote.chat("wait"))
            await asyncio.to_thread(begun.wait, 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while server.host._running:
                await asyncio.sleep(0.01)
            return await remote.chat("and now?")

        assert asyncio.run(ask()).content == "4 messages"
    assert remote.trace.runs["status"].tolist() == ["ok", "interrupted", "ok"]


def test_a_remote_failure_is_raised_locally_and_the_conversation_continues():
    turns = ["Hi.", BadRequestError("no such option"), ValueError("a secret detail"), "Fine."]
    with served(an_agent(turns)) as server:
        remote = connected(server, max_retries=0)
        remote.chat_sync("hello")
        with pytest.raises(ProviderError, match="no such option"):
            remote.chat_sync("fail")
        with pytest.raises(NbagentError) as failure:
            remote.chat_sync("fail")
        assert "secret" not in str(failure.value)
        assert remote.chat_sync("again").content == "Fine."
    assert [message.role for message in remote.conversation_history] == ["user", "assistant"] * 2


async def test_a_prompt_is_retried_only_before_its_answer_starts():
    """The agent's tools may have run."""
    begun = b'data: {"type": "response.created", "response": {}}\n\n'
    async with Loopback() as server:
        server.answers = [Answer(b"busy", 503, {"retry-after": "0"}), Answer(begun), Answer(begun)]
        remote = nbagent.connect(server.url, TOKEN)
        with pytest.raises(ProviderError):
            await remote.chat("Go")
        assert len(server.requests) == 2
        await remote.aclose()


def test_wrong_tokens_addresses_and_arguments_are_errors(monkeypatch):
    monkeypatch.setenv("NBAGENT_CONNECT_TOKEN", TOKEN)
    with served(an_agent(["Hi."])) as server:
        with pytest.raises(AuthenticationError):
            nbagent.connect(server.url, "a-wrong-token-of-the-tests").chat_sync("hello")
        with pytest.raises(ModelNotFoundError):
            nbagent.connect(server.url + "/v2", TOKEN).chat_sync("hello")
        remote = nbagent.connect(server.url)
        assert remote.chat_sync("hello").content == "Hi."
        remote.register_tool("a", "", {}, double)
        with pytest.raises(BadRequestError, match="tools of its own"):
            remote.chat_sync("hello")
        with pytest.raises(ConfigurationError, match="decides which calls"):
            remote.fork().chat_sync("hello", approve_all=True)
    with pytest.raises(ProviderConnectionError):
        nbagent.connect(server.url, max_retries=0).chat_sync("hello")
    for wrong in ({"timeout": 0}, {"url": "ftp://x"}):
        with pytest.raises(ConfigurationError):
            nbagent.connect(**{"url": "http://127.0.0.1:1", **wrong})


def test_the_token_is_never_shown(caplog):
    with served(an_agent(["Hi.", BadRequestError("no")])) as server:
        remote = nbagent.connect(server.url, OTHER_TOKEN, trace=Trace(record_http=True))
        remote.chat_sync("hello")
        with pytest.raises(BadRequestError) as failure:
            remote.chat_sync("fail")
    shown = [remote, remote.provider, vars(remote), remote._repr_mimebundle_(), failure.value, caplog.text]
    shown += [getattr(remote.trace, name).to_csv() for name in ("events", "calls", "http", "runs")]
    assert OTHER_TOKEN not in repr(shown)
