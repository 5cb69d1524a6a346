"""An agent on a real server, used as if it were here: conversation, trace, approvals, interrupts and failures."""

import asyncio
import json
import threading

import pandas as pd
import pytest
from support.loopback import Answer, Loopback
from support.serving import OTHER_TOKEN, TOKEN, served

import nbagent
from nbagent import Agent, Allow, FunctionCall, Limits, LLMResponse, ScriptedProvider, Trace, Usage
from nbagent.core.event_json import SharedMessages, event_to_json
from nbagent.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    IncompleteStreamError,
    InvalidResponseError,
    ModelNotFoundError,
    ProviderConnectionError,
    ServerError,
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


def texts(agent):
    return [(message.role, message.text) for message in agent.conversation_history]


def check_tables(mine: Trace, theirs: Trace) -> None:
    counts = ["input_tokens", "output_tokens", "cost_usd"]
    for name, columns in {
        "runs": ["prompt", "output", "status", "n_calls", "n_tool_calls", *counts],
        "calls": ["provider", "model", "step", "finish_reason", "system_hash", "tools_hash", *counts],
        "messages": ["role", "text", "turn", "index", "call_id"],
        "tool_calls": ["name", "args", "result_text", "is_error", "duration_s", "tool_call_id"],
        "thinking": ["text", "kind"],
    }.items():
        pd.testing.assert_frame_equal(getattr(mine, name)[columns], getattr(theirs, name)[columns], obj=name)


def test_questions_are_answered_and_the_trace_is_that_of_the_server():
    seen = Trace()
    counted = {"usage": Usage(10, 5), "model": "m-1", "thinking": "Double it."}
    turns = [LLMResponse("", [FunctionCall("double", {"n": 4}, "c1")], "tool_calls", counted), "It is eight.", "Bye."]
    agent = an_agent(turns)
    agent.trace.observers.append(lambda trace, event: seen.record(event))
    with served(agent) as server:
        remote = connected(server)
        result = remote.chat_sync("Twice 4?", tags=["a"])
        assert (result.content, result.status, result.iterations) == ("It is eight.", "ok", 2)
        assert result.function_calls[0]["result"] == "8"
        assert result.usage.total_tokens > 15
        roles = ["user", "assistant", "tool", "assistant"]
        assert texts(remote) == list(zip(roles, ["Twice 4?", "", "8", "It is eight."], strict=True))
        check_tables(remote.trace, seen)
        assert remote.chat_sync("Bye").content == "Bye."
        (listed,) = server.client().get("/agent/conversations").json()["conversations"]
        assert (listed["conversation_id"], listed["message_count"]) == (result.metadata["conversation_id"], 6)
    assert remote.trace.runs["tags"].tolist()[0] == '["a"]'
    assert remote.trace.request(remote.trace.calls["call_id"].iloc[-1]).messages[0].text == "You help."


def test_what_was_changed_here_begins_another_conversation_there():
    def answer(messages, functions):
        return " / ".join(message.text for message in messages if message.role == "user")

    with served(an_agent(answer)) as server:
        remote = connected(server)
        first = remote.chat_sync("a").metadata["conversation_id"]
        question = remote.conversation_history[0]
        assert remote.chat_sync("b").metadata["conversation_id"] == first
        remote.undo()
        second = remote.chat_sync("c")
        assert (second.content, second.metadata["conversation_id"] != first) == ("a / c", True)
        assert remote.fork().chat_sync("d").content == "a / c / d"
        assert asyncio.run(remote.chat_stream("A", replaces=question).collect()).content == "A"
        assert texts(remote) == [("user", "A"), ("assistant", "A"), ("user", "c"), ("assistant", "a / c")]
        assert remote.chat_sync("e").content == "A / c / e"
        here = remote.context.here
        remote.context.new_conversation()
        assert remote.chat_sync("f").content == "f"
        remote.context.switch(here)
        assert remote.chat_sync("g").content == "A / c / e / g"
    assert remote.trace.messages["message_id"].is_unique


def test_images_instructions_limits_and_options_are_sent():
    asked = []

    def answer(messages, functions):
        asked.append(messages)
        return FunctionCall("double", {"n": 1}) if len(asked) > 1 else "Fine."

    with served(an_agent(answer)) as server:
        remote = connected(server)
        remote.system_prompt = "Mine."
        remote.chat_sync(["See:", PNG], temperature=0.5)
        result = remote.chat_sync("Go on", limits=Limits(max_tool_calls=2), instructions="Be brief.")
        assert (result.status, result.limit_reason) == ("limit", "tool_calls")
        assert asked[0][1].content[1] == PNG
        assert [messages[0].text for messages in asked[:2]] == ["You help.\n\nMine.", "You help.\n\nMine.\n\nBe brief."]
        assert "0.5" in remote.trace.calls["params"].iloc[0]
        for options in ({"extra_body": {"a": 1}}, {"tools": ["double"]}, {"approve_all": True}):
            with pytest.raises(ConfigurationError):
                remote.chat_sync("x", **options)


def test_the_person_here_approves_calls_there():
    asked = []

    def approve(call, definition):
        asked.append((call.name, call.arguments, definition.description))
        return [True, False, {"path": "b.txt"}, {"wrong": 1}, Allow.TOOL][len(asked) - 1]

    with served(an_agent([FunctionCall("remove", {"path": "a.txt"}), "Done."] * 7)) as server:
        remote = connected(server)
        remote.chat_sync("Remove it")
        remote.tool_executor.approver = approve
        for _ in range(6):
            remote.chat_sync("Remove it")
    assert asked == [("remove", {"path": "a.txt"}, "Remove a file.")] * 5, "the last call was allowed before"
    calls = remote.trace.tool_calls
    approvals = ["denied", "approved", "denied", "edited", "denied", "approved", "approved"]
    assert calls["approval"].tolist() == approvals
    assert "removed b.txt" in calls["result_text"].iloc[3]


def test_an_interrupt_ends_the_run_there_and_the_conversation_goes_on():
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

        assert asyncio.run(ask()).content == "5 messages"
    assert remote.trace.runs["status"].tolist() == ["ok", "interrupted", "ok"]


def test_a_failure_there_is_raised_here_and_the_conversation_goes_on():
    turns = ["Hi.", ServerError("overloaded", vendor="v", status=529), ValueError("a secret detail"), "Fine."]
    with served(an_agent(turns)) as server:
        remote = connected(server)
        first = remote.chat_sync("hello")
        with pytest.raises(ServerError, match="overloaded"):
            remote.chat_sync("fail")
        with pytest.raises(nbagent.errors.NbagentError) as failure:
            remote.chat_sync("fail")
        assert "secret" not in str(failure.value)
        last = remote.chat_sync("again")
    assert (last.content, last.metadata["conversation_id"]) == ("Fine.", first.metadata["conversation_id"])
    assert [role for role, _ in texts(remote)] == ["user", "assistant"] * 2


def test_wrong_tokens_addresses_and_arguments_say_what_to_do(monkeypatch):
    monkeypatch.setenv("NBAGENT_CONNECT_TOKEN", TOKEN)
    with served(an_agent(["Hi."])) as server:
        with pytest.raises(AuthenticationError, match="NBAGENT_CONNECT_TOKEN"):
            nbagent.connect(server.url, "a-wrong-token-of-the-tests").chat_sync("hello")
        with pytest.raises(ModelNotFoundError, match="address"):
            nbagent.connect(server.url + "/v2", TOKEN).chat_sync("hello")
        assert nbagent.connect(server.url).chat_sync("hello").content == "Hi."
    with pytest.raises(ProviderConnectionError):
        nbagent.connect(server.url, max_retries=0).chat_sync("hello")
    remote = nbagent.connect("http://127.0.0.1:1")
    for wrong in (
        lambda: nbagent.connect("http://127.0.0.1:1", tools=[double]),
        lambda: nbagent.connect("http://127.0.0.1:1", timeout=0),
        lambda: nbagent.connect("ftp://x"),
        lambda: nbagent.connect("http://user:pw@127.0.0.1:1"),
        lambda: remote.use(),
        lambda: remote.register_tool("a", "", {}, double),
        lambda: setattr(remote, "provider", "local"),
    ):
        with pytest.raises(ConfigurationError):
            wrong()


def test_the_token_is_shown_nowhere(caplog):
    with served(an_agent(["Hi.", BadRequestError("no")])) as server:
        remote = nbagent.connect(server.url, OTHER_TOKEN, trace=Trace(record_http=True))
        remote.chat_sync("hello")
        with pytest.raises(BadRequestError) as failure:
            remote.chat_sync("fail")
    shown = [remote, remote.provider, vars(remote), remote._repr_mimebundle_(), failure.value, caplog.text]
    shown += [getattr(remote.trace, name).to_csv() for name in ("events", "calls", "http", "runs")]
    assert OTHER_TOKEN not in repr(shown)


async def test_an_answer_that_breaks_off_leaves_a_valid_conversation():
    """The stream ends while the second of two tools runs: its result is missing, and the first is kept."""
    told, shared = [], SharedMessages()
    agent = an_agent([[FunctionCall("double", {"n": n}, f"c{n}") for n in (1, 2)], "Never."])
    agent.observers.append(lambda event: told.append(event_to_json(event, shared)))
    await agent.chat("Go")
    end = [data["type"] for data in told].index("tool_result")
    broken = "".join(f"data: {json.dumps(data)}\n\n" for data in told[: end + 1])
    async with Loopback() as server:
        server.answers = [Answer(b"busy", 503, {"retry-after": "0"}), Answer(broken.encode()), Answer(b"data: {}\n\n")]
        remote = nbagent.connect(server.url, TOKEN)
        with pytest.raises(IncompleteStreamError, match="before the run was over"):
            await remote.chat("Go")
        assert len({request.headers["idempotency-key"] for request in server.requests}) == 1
        assert [message.is_error for message in remote.conversation_history if message.role == "tool"] == [False, True]
        with pytest.raises(InvalidResponseError):
            await remote.chat("Go on")
        history = json.loads(server.requests[-1].body)["history"]
        assert [message["role"] for message in history] == ["user", "assistant", "tool", "tool"]
        await remote.aclose()
