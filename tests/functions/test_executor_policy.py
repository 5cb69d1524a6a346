"""What the executor does besides calling the function: call context, retries, cache, approval, hooks."""

import asyncio
import contextlib
import datetime as dt
import functools
import threading
import time
import types

import pytest
from pydantic import Base64Bytes
from support.tool_runs import executor_of, run

from nbagent import Agent, FunctionCall, RunContext, ScriptedProvider, outside
from nbagent.errors import (
    ToolDeniedError,
)
from nbagent.functions import executor as executor_module
from nbagent.functions.executor import ToolExecutor
from nbagent.functions.formatting import NO_VALUE
from nbagent.functions.registry import FunctionRegistry

# -- the call context, retries, the cache ------------------------------------------------------------------------------


async def test_the_call_context_is_entered_right_around_the_call():
    seen = []

    @contextlib.contextmanager
    def call_context(definition):
        seen.append((definition.name, "in", threading.current_thread().name))
        yield
        seen.append((definition.name, "out", threading.current_thread().name))

    def tool():
        seen.append(("tool", "call", threading.current_thread().name))

    async def async_tool():
        seen.append(("async_tool", "call", threading.current_thread().name))

    executor = executor_of(tool, async_tool, call_context=call_context)
    await run(executor, "tool")
    await run(executor, "async_tool")
    assert [step for _, step, _ in seen] == ["in", "call", "out"] * 2
    assert len({thread for _, _, thread in seen[:3]}) == 1
    assert {thread for _, _, thread in seen[3:]} == {threading.current_thread().name}


@pytest.mark.parametrize(("retries", "is_error", "expected"), [(2, False, 3), (1, True, 2)])
async def test_retries(retries, is_error, expected, monkeypatch):
    monkeypatch.setattr(executor_module, "RETRY_DELAY_S", 0)
    calls = []

    def flaky():
        calls.append(1)
        if len(calls) < 3:
            raise OSError("again")
        return "done"

    outcome = await run(executor_of(flaky, options={"retries": retries}), "flaky")
    assert outcome.is_error is is_error
    assert len(calls) == expected


async def test_a_timeout_is_not_retried():
    calls = []

    async def slow():
        calls.append(1)
        await asyncio.sleep(30)

    await run(executor_of(slow, timeout=0.02, options={"retries": 3}), "slow")
    assert len(calls) == 1


async def test_the_cache(monkeypatch):
    calls = []

    def tool(a: int):
        calls.append(a)

    now = [1000.0]
    clock = types.SimpleNamespace(monotonic=lambda: now[0], time=time.time, perf_counter=time.perf_counter)
    monkeypatch.setattr(executor_module, "time", clock)
    executor = executor_of(tool, options={"cache_ttl": 60})
    for arguments in ({"a": 1}, {"a": 1}, {"a": 2}):
        assert (await run(executor, **arguments)).content == NO_VALUE
    assert calls == [1, 2]
    now[0] += 61
    await run(executor, a=1)
    assert calls == [1, 2, 1]
    executor.registry.register("tool", "", lambda a: calls.append("new"), cache_ttl=60)
    await run(executor, a=1)
    assert calls == [1, 2, 1, "new"]


async def test_a_cached_result_belongs_to_one_function():
    """Two partials, or methods of two objects, may have the same source."""
    registry = FunctionRegistry()
    executor = ToolExecutor(registry)
    for number in (1, 2):
        registry.register("tool", "", functools.partial(lambda n: n, number), cache_ttl=60)
        assert await executor.execute("tool") == number


async def test_what_depends_on_who_asks_is_not_cached():
    def orders(ctx: RunContext, year: int) -> str:
        return f"orders of {ctx.deps}"

    registry = FunctionRegistry()
    registry.register("orders", "", orders, cache_ttl=60)
    answer = lambda messages, functions: (  # noqa: E731  it answers with the result that it reads
        messages[-1].text if messages[-1].role == "tool" else FunctionCall("orders", {"year": 2025})
    )
    agent = Agent(ScriptedProvider(answer), tools=registry)
    assert [str(await agent.fork().chat("?", deps=who)) for who in ("ada", "bob")] == ["orders of ada", "orders of bob"]


async def test_errors_are_not_cached():
    calls = []

    def tool():
        calls.append(1)
        raise ValueError

    executor = executor_of(tool, options={"cache_ttl": 60})
    await run(executor)
    await run(executor)
    assert len(calls) == 2


async def test_python_objects_are_not_cached():
    executor = executor_of(lambda a: object(), options={"cache_ttl": 60})
    marker = object()
    assert await executor.execute("tool", {"a": marker}) is not await executor.execute("tool", {"a": marker})


# -- approval ---------------------------------------------------------------------------------------------------------


def delete(key: str = "all", count: int = 1) -> str:
    return f"deleted {count} {key}"


def raising(call, definition):
    raise RuntimeError("no interface")


@pytest.mark.parametrize(
    ("answer", "approval", "content", "is_async"),
    [
        (True, "approved", "deleted 1 x", True),
        ({"key": "y"}, "edited", 'The user changed the arguments to {"key": "y"}.\ndeleted 1 y', False),
        ({"key": "y", "count": "2"}, "edited", "deleted 2 y", True),
        ({}, "edited", "deleted 1 all", False),
        (False, "denied", None, True),
        (None, "denied", None, False),
        (1, "denied", None, False),
        ({"key": []}, "denied", None, False),
        ({"unknown": 1}, "denied", None, False),
        (raising, "denied", None, True),
    ],
)
async def test_approval(answer, approval, content, is_async):
    asked = []

    def approver(call, definition):
        asked.append((call.arguments, definition.name))
        return answer(call, definition) if callable(answer) else answer

    async def async_approver(call, definition):
        return approver(call, definition)

    executor = executor_of(delete, options={"approve": True}, approver=async_approver if is_async else approver)
    outcome = await run(executor, "delete", key="x")
    assert asked == [({"key": "x"}, "delete")]
    assert outcome.approval == approval
    assert outcome.denied is outcome.is_error is (content is None)
    if content is None:
        assert outcome.content.startswith("Error: The call was not approved.")
        assert isinstance(outcome.error, ToolDeniedError)
        assert outcome.value is None
    else:
        assert outcome.content.endswith(content)
    if approval == "edited":
        assert outcome.call.arguments == answer


@pytest.mark.parametrize("approve", [False, True])
async def test_bytes_that_are_not_text_can_be_repaired_and_asked_about(approve):
    def store(data: Base64Bytes, count: int):
        return len(data) * count

    asked = []
    executor = executor_of(store, options={"approve": approve}, approver=lambda call, _: asked.append(call) or True)
    outcome = await run(executor, "store", data="/w==", count="3")
    assert outcome.value == 3
    assert outcome.args_repaired == {"data": "_w==", "count": 3}
    assert [call.arguments for call in asked] == [outcome.args_repaired] * approve


async def async_policy(count):
    return count > 1


@pytest.mark.parametrize(
    ("policy", "asked"),
    [
        (async_policy, 1),
        (lambda key, count: count > 1, 1),
        (lambda key, **_: key != "all", 0),  # the default counts as given
        (lambda count: count > 1, 1),  # names one of two parameters
        (lambda: True, 2),
        (lambda other: False, 2),  # a policy that can't be called
        (lambda key, count: count / 0, 2),
    ],
)
async def test_an_approve_function_decides_from_the_arguments_whether_to_ask(policy, asked):
    questions = []
    executor = executor_of(delete, options={"approve": policy}, approver=lambda call, _: questions.append(call) or True)
    for number in (1, 2):
        await executor.execute("delete", {"count": number})
    assert len(questions) == asked


async def test_without_an_approver_the_call_is_denied():
    executor = executor_of(delete, options={"approve": True})
    with pytest.raises(ToolDeniedError, match=r"nobody can be asked .*Agent\(approve=...\)"):
        await executor.execute("delete")
    assert (await run(executor, "delete")).denied


async def test_an_approver_may_say_why_it_denies():
    def approver(call, definition):
        raise ToolDeniedError("Not on a Sunday.")

    executor = executor_of(delete, options={"approve": True}, approver=approver)
    outcome = await run(executor, "delete")
    assert (outcome.content, outcome.denied, outcome.approval) == ("Error: Not on a Sunday.", True, "denied")


async def test_an_answer_that_is_neither_yes_nor_no_is_logged(caplog):
    executor = executor_of(delete, options={"approve": True}, approver=lambda *_: "yes")
    assert (await run(executor, "delete")).denied
    assert "the approver of delete returned str 'yes': denied" in caplog.text
    executor.approver = lambda *_: False
    caplog.clear()
    assert (await run(executor, "delete")).denied
    assert not caplog.text


async def test_approve_all_asks_about_every_tool():
    executor = executor_of(delete)
    assert (await run(executor, "delete")).approval == "auto"
    executor.approve_all = True
    assert (await run(executor, "delete")).denied


async def test_invalid_arguments_are_never_asked_about():
    executor = executor_of(delete, options={"approve": True}, approver=lambda *_: pytest.fail("asked"))
    assert not (await run(executor, "delete", key=[])).args_valid


async def test_a_sync_approver_may_block_or_return_a_future():
    both = threading.Barrier(2)
    executor = executor_of(delete, options={"approve": True}, approver=lambda *_: both.wait(30) >= 0)
    outcomes = await asyncio.gather(run(executor, "delete"), run(executor, "delete"))
    assert [outcome.approval for outcome in outcomes] == ["approved", "approved"]
    answer = asyncio.get_running_loop().create_future()
    executor.approver = lambda *_: answer
    task = asyncio.create_task(run(executor, "delete"))
    await asyncio.sleep(0.01)
    answer.set_result(True)
    assert (await task).approval == "approved"


# -- hooks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
async def test_hooks(is_async):
    class Registry(FunctionRegistry):
        seen: list = []  # noqa: RUF012

        def before_call(self, definition, arguments):
            self.seen.append((definition.name, dict(arguments)))
            if arguments.get("key") == "cached":
                return "kept"
            if arguments.get("key") == "forbidden":
                raise ToolDeniedError("Not yours.", tool=definition.name)
            return None

        def after_call(self, definition, arguments, outcome):
            self.seen.append((outcome.content, outcome.is_error))

    class AsyncRegistry(Registry):
        seen: list = []  # noqa: RUF012

        async def before_call(self, definition, arguments):
            return super().before_call(definition, arguments)

        async def after_call(self, definition, arguments, outcome):
            super().after_call(definition, arguments, outcome)

    registry = AsyncRegistry() if is_async else Registry()
    executor = executor_of(delete, registry=registry)
    assert (await run(executor, "delete", count="2", key="a")).value == "deleted 2 a"
    assert (await run(executor, "delete", key="cached")).value == "kept"
    denied = await run(executor, "delete", key="forbidden")
    assert (denied.denied, denied.approval, denied.content) == (True, "denied", "Error: Not yours.")
    await run(executor, "delete", key=[])
    await run(executor, "nothing")
    seen, registry.seen[:] = list(registry.seen), []
    assert seen == [
        ("delete", {"key": "a", "count": 2}),
        ("deleted 2 a", False),
        ("delete", {"key": "cached"}),
        ("kept", False),
        ("delete", {"key": "forbidden"}),
        ("Error: Not yours.", True),
    ]


async def test_a_hook_that_fails(caplog):
    class Registry(FunctionRegistry):
        def before_call(self, definition, arguments):
            if arguments["key"] == "before":
                raise KeyError("hook")

        def after_call(self, definition, arguments, outcome):
            raise KeyError("hook")

    executor = executor_of(delete, registry=Registry())
    before = await run(executor, "delete", key="before")
    assert (before.is_error, isinstance(before.error, KeyError)) == (True, True)
    after = await run(executor, "delete", key="after")
    assert (after.is_error, after.value) == (False, "deleted 1 after")
    assert "after_call" in caplog.text


# -- what is approved is what runs ------------------------------------------------------------------------------------


async def test_the_question_shows_the_arguments_after_validation():
    asked = []

    def pay(amount: int, day: dt.date, tip: float = 0) -> str:
        return f"{amount} on {day:%d.%m.}"

    executor = executor_of(
        pay, options={"approve": True}, approver=lambda call, _: asked.append(call.arguments) or True
    )
    for sent in ("1_000", "７", "7.0"):
        outcome = await run(executor, "pay", amount=sent, day="2026-03-01")
        assert outcome.content == f"{asked[-1]['amount']} on 01.03."
        assert outcome.call.arguments["amount"] == sent  # the trace has what the model sent
    assert [arguments["amount"] for arguments in asked] == [1000, 7, 7]
    assert asked[0]["day"] == "2026-03-01"


async def test_an_approver_gets_a_copy():
    def approver(call, definition):
        call.arguments["keys"].append("b")
        call.arguments["more"] = 1
        return True

    def remove(keys: list[str]) -> str:
        return ",".join(keys)

    outcome = await run(executor_of(remove, options={"approve": True}, approver=approver), "remove", keys=["a"])
    assert (outcome.content, outcome.call.arguments, outcome.approval) == ("a", {"keys": ["a"]}, "approved")


async def test_an_answer_that_changes_later_changes_nothing():
    answer = {"key": "y"}
    executor = executor_of(delete, options={"approve": True}, approver=lambda *_: answer)
    outcome = await run(executor, "delete", key="x")
    answer["key"] = "z"
    assert outcome.call.arguments == {"key": "y"}


@pytest.mark.parametrize(("approve", "runs"), [(True, 1), (False, 3)])
async def test_a_yes_is_for_one_execution(approve, runs, monkeypatch):
    monkeypatch.setattr("nbagent.functions.executor.RETRY_DELAY_S", 0)
    done = []

    def send() -> None:
        done.append("sent")
        raise ConnectionError

    options = {"approve": approve, "retries": 2}
    assert (await run(executor_of(send, options=options, approver=lambda *_: True), "send")).is_error
    assert len(done) == runs


@pytest.mark.parametrize("is_async", [False, True])
async def test_approve_all_covers_the_agents_that_a_tool_asks(is_async):
    asked = []

    def inner_agent():
        return Agent(ScriptedProvider([FunctionCall("delete", {"key": "x"}), "done"]), tools=[delete])

    def ask() -> str:
        return inner_agent().chat_sync("delete").function_calls[0]["result"]

    async def ask_async() -> str:
        return (await inner_agent().chat("delete")).function_calls[0]["result"]

    name = "ask_async" if is_async else "ask"
    agent = Agent(
        ScriptedProvider([FunctionCall(name, {}), "done"] * 2),
        tools=[ask, ask_async],
        approve=lambda call, _: asked.append(call.name) or call.name != "delete",
    )
    result = await agent.chat("go", approve_all=True)
    assert asked == [name, "delete"]
    assert result.function_calls[0]["result"].startswith("Error: The call was not approved.")
    result = await agent.chat("go")
    assert asked == [name, "delete"]
    assert result.function_calls[0]["result"] == "deleted 1 x"


@pytest.mark.parametrize(
    ("path", "asks"),
    [("in.txt", False), ("{inside}/a/b.txt", False), ("{inside}/../x", True), ("/etc/passwd", True),
     ("{inside}/link/x", True), ("~/x", True), ("{inside}x/y", True), (None, True)],
)  # fmt: skip
async def test_paths_outside_of_a_folder_are_asked_about(path, asks, tmp_path, monkeypatch):
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path)
    monkeypatch.chdir(inside)
    path = path and path.format(inside=inside)
    asked = []

    def write(path: str | None, text: str) -> str:
        """Write."""
        return "written"

    registry = FunctionRegistry()
    registry.register("write", "", write, approve=outside(inside))
    executor = ToolExecutor(registry, approver=lambda call, definition: asked.append(call) or True)
    outcome = await executor.run(FunctionCall("write", {"path": path, "text": "/etc/passwd"}))
    assert (outcome.content, bool(asked)) == ("written", asks)
