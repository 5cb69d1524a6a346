"""The executor's policies: retries, cache, approval and hooks."""

import datetime as dt
import time
import types

import pytest
from support.tool_runs import executor_of, run

from nbagent import Agent, FunctionCall, RunContext, ScriptedProvider
from nbagent.errors import ToolDeniedError
from nbagent.functions import executor as executor_module
from nbagent.functions.registry import FunctionRegistry

# -- retries and the cache --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("retries", "is_error", "expected"), [(2, False, 3), (1, True, 2)])
async def test_retries(retries, is_error, expected, monkeypatch):
    monkeypatch.setattr(executor_module, "RETRY_DELAY_S", 0)
    calls = []

    def flaky():
        calls.append(1)
        if len(calls) < 3:
            raise OSError("again")

    assert (await run(executor_of(flaky, options={"retries": retries}), "flaky")).is_error is is_error
    assert len(calls) == expected


async def test_the_cache(monkeypatch):
    calls = []

    def tool(a: int):
        calls.append(a)
        if a == 3:
            raise ValueError

    now = [1000.0]
    clock = types.SimpleNamespace(monotonic=lambda: now[0], time=time.time, perf_counter=time.perf_counter)
    monkeypatch.setattr(executor_module, "time", clock)
    executor = executor_of(tool, options={"cache_ttl": 60})
    for number in (1, 1, 2, 3, 3):  # errors are not cached
        await run(executor, a=number)
    assert calls == [1, 2, 3, 3]
    now[0] += 61
    await run(executor, a=1)
    executor.registry.register("tool", "", lambda a: calls.append("new"), cache_ttl=60)
    await run(executor, a=1)
    assert calls == [1, 2, 3, 3, 1, "new"]


async def test_tools_with_a_run_context_are_not_cached():
    def orders(ctx: RunContext) -> str:
        return f"orders of {ctx.deps}"

    registry = FunctionRegistry()
    registry.register("orders", "", orders, cache_ttl=60)
    agent = Agent(ScriptedProvider([FunctionCall("orders", {}), "done"] * 2), tools=registry)
    results = [await agent.fork().chat("?", deps=who) for who in ("ada", "bob")]
    assert [result.function_calls[0]["result"] for result in results] == ["orders of ada", "orders of bob"]


# -- approval ---------------------------------------------------------------------------------------------------------


def delete(key: str = "all", count: int = 1) -> str:
    return f"deleted {count} {key}"


def raising(call, definition):
    raise RuntimeError("no interface")


def denying(call, definition):
    raise ToolDeniedError("Not on a Sunday.")


@pytest.mark.parametrize(
    ("answer", "approval", "content", "is_async"),
    [
        (True, "approved", "deleted 1 x", True),
        ({"key": "y"}, "edited", 'The user changed the arguments to {"key": "y"}.\ndeleted 1 y', False),
        ({"key": "y", "count": "2"}, "edited", "deleted 2 y", True),
        ({}, "edited", "deleted 1 all", False),
        (False, "denied", "The call was not approved.", True),
        (None, "denied", "The call was not approved.", False),
        ("yes", "denied", "The call was not approved.", False),
        ({"key": []}, "denied", "The call was not approved.", False),
        (raising, "denied", "The call was not approved.", True),
        (denying, "denied", "Not on a Sunday.", False),
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
    assert outcome.denied is outcome.is_error is (approval == "denied")
    assert content in outcome.content
    if outcome.denied:
        assert isinstance(outcome.error, ToolDeniedError)
        assert outcome.value is None
    if approval == "edited":
        assert outcome.call.arguments == answer


async def async_policy(count):
    return count > 1


@pytest.mark.parametrize(
    ("policy", "asked"),
    [
        (async_policy, 1),
        (lambda key, count: count > 1, 1),
        (lambda key, **_: key != "all", 0),  # the default counts as given
        (lambda: True, 2),
        (lambda other: False, 2),  # a policy that can't be called
        (lambda key, count: count / 0, 2),
    ],
)
async def test_a_function_decides_whether_to_ask(policy, asked):
    questions = []
    executor = executor_of(delete, options={"approve": policy}, approver=lambda call, _: questions.append(call) or True)
    for number in (1, 2):
        await executor.execute("delete", {"count": number})
    assert len(questions) == asked


async def test_without_an_approver_the_call_is_denied():
    executor = executor_of(delete, options={"approve": True})
    with pytest.raises(ToolDeniedError, match=r"nobody can be asked .*Agent\(approve=...\)"):
        await executor.execute("delete")


# -- hooks ------------------------------------------------------------------------------------------------------------


async def test_hooks():
    seen = []

    class Registry(FunctionRegistry):
        async def before_call(self, definition, arguments):
            seen.append(dict(arguments))
            if arguments["key"] == "cached":
                return "kept"
            if arguments["key"] == "forbidden":
                raise ToolDeniedError("Not yours.", tool=definition.name)
            return None

        def after_call(self, definition, arguments, outcome):
            seen.append((outcome.content, outcome.is_error))

    executor = executor_of(delete, registry=Registry())
    assert (await run(executor, "delete", count="2", key="a")).value == "deleted 2 a"
    assert (await run(executor, "delete", key="cached")).value == "kept"
    denied = await run(executor, "delete", key="forbidden")
    assert (denied.denied, denied.approval, denied.content) == (True, "denied", "Error: Not yours.")
    await run(executor, "delete", key=[])
    assert seen == [
        *({"key": "a", "count": 2}, ("deleted 2 a", False)),
        *({"key": "cached"}, ("kept", False)),
        *({"key": "forbidden"}, ("Error: Not yours.", True)),
    ]


# -- the approved arguments run ----------------------------------------------------------------------------------------


def approving(asked):
    """Keeps each call, and approves it."""
    return lambda call, _: asked.append(call) or True


async def test_the_approver_gets_the_validated_arguments():
    asked = []

    def pay(amount: int, day: dt.date, tip: float = 0) -> str:
        return f"{amount} on {day:%d.%m.}"

    executor = executor_of(pay, options={"approve": True}, approver=approving(asked))
    for sent in ("1_000", "7.0"):
        outcome = await run(executor, "pay", amount=sent, day="2026-03-01")
        assert outcome.content == f"{asked[-1].arguments['amount']} on 01.03."
        assert outcome.call.arguments["amount"] == sent  # the trace has what the model sent
    assert [each.arguments for each in asked] == [{"amount": amount, "day": "2026-03-01"} for amount in (1000, 7)]
    assert not (await run(executor, "pay", amount="many", day="2026-03-01")).args_valid
    assert len(asked) == 2  # nobody is asked about wrong arguments


@pytest.mark.parametrize(("approve", "runs"), [(True, 1), (False, 3)])
async def test_an_approval_is_for_one_execution(approve, runs, monkeypatch):
    monkeypatch.setattr("nbagent.functions.executor.RETRY_DELAY_S", 0)
    done = []

    def send() -> None:
        done.append("sent")
        raise ConnectionError

    options = {"approve": approve, "retries": 2}
    assert (await run(executor_of(send, options=options, approver=lambda *_: True), "send")).is_error
    assert len(done) == runs


async def test_approve_all_covers_agents_that_a_tool_calls():
    asked = []

    def ask() -> str:
        inner = Agent(ScriptedProvider([FunctionCall("delete", {"key": "x"}), "done"]), tools=[delete])
        return inner.chat_sync("delete").function_calls[0]["result"]

    agent = Agent(
        ScriptedProvider([FunctionCall("ask", {}), "done"] * 2),
        tools=[ask],
        approve=lambda call, _: asked.append(call.name) or call.name != "delete",
    )
    result = await agent.chat("go", approve_all=True)
    assert asked == ["ask", "delete"]
    assert result.function_calls[0]["result"].startswith("Error: The call was not approved.")
    result = await agent.chat("go")
    assert len(asked) == 2
    assert result.function_calls[0]["result"] == "deleted 1 x"
