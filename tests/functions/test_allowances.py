"""Approvals for the rest of the session: for a tool, or for calls with the same arguments."""

import pytest
from support.tool_runs import executor_of, run

from nbagent import Agent, FunctionCall, ScriptedProvider, tool
from nbagent.functions.allowances import Allow

OPTIONS = {"approve": True}


def wiper(runs):
    @tool(approve=True)
    def wipe(rows: float):
        runs.append(rows)

    return wipe


def allowing(questions, answer=Allow.TOOL):
    """An approver that notes what it was asked."""

    def approve(call, definition):
        questions.append(call.arguments["rows"])
        call.arguments["rows"] = 99  # a copy, so the allowance is for the original
        return answer

    return approve


@pytest.mark.parametrize(("allow", "asked"), [(Allow.TOOL, [1]), (Allow.CALL, [1, 2]), (True, [1, 1, 2, 2])])
async def test_allowed_calls_are_not_asked_about_again(allow, asked):
    questions, runs = [], []
    executor = executor_of(wiper(runs), options=OPTIONS, approver=allowing(questions, allow))
    outcomes = [await run(executor, "wipe", rows=rows) for rows in (1, 1, 2, 2)]
    assert questions == asked
    assert runs == [1, 1, 2, 2]
    later = {Allow.TOOL: ["approved", *["allowed"] * 3], Allow.CALL: ["approved", "allowed"] * 2}
    assert [outcome.approval for outcome in outcomes] == later.get(allow, ["approved"] * 4)


async def test_another_function_with_the_same_name_needs_approval():
    questions = []
    executor = executor_of(wiper([]), options=OPTIONS, approver=allowing(questions))
    await run(executor, "wipe", rows=1)
    executor.registry.add(executor_of(wiper([]), options=OPTIONS).registry.get_function("wipe"))
    await run(executor, "wipe", rows=2)
    assert questions == [1, 2]


async def test_approve_all_still_asks_and_forks_share_allowances():
    questions, call = [], FunctionCall("wipe", {"rows": 1}, "c")
    agent = Agent(ScriptedProvider([call, "Done."] * 4), tools=[wiper([])], approve=allowing(questions))
    await agent.chat("x")
    await agent.chat("x", approve_all=True)
    await agent.fork().chat("x")
    assert questions == [1, 1]


async def test_allowances_are_described_and_revoked():
    answers = [Allow.CALL, Allow.CALL, Allow.TOOL, False]
    executor = executor_of(wiper([]), options=OPTIONS, approver=lambda call, definition: answers.pop(0))
    func, described = executor.registry.get_function("wipe").func, []
    for rows in (1, 2, 3):
        await run(executor, "wipe", rows=rows)
        described.append(executor.allowances.describe(func))
    assert described == ["1 call allowed", "2 calls allowed", "allowed"]
    executor.allowances.revoke(func)
    assert executor.allowances.describe(func) == ""
    assert (await run(executor, "wipe", rows=1)).denied
