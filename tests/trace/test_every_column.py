"""Every column has a value after runs that use everything, and every key refers to a row."""

import asyncio
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from support.loopback import Answer, Loopback, claude_said
from support.memory_notebook import MemoryNotebook

from nbagent import Agent, FunctionCall, FunctionRegistry, LLMResponse, ScriptedProvider, Trace, Usage, create_provider
from nbagent.errors import BadRequestError
from nbagent.trace.columns import COLUMNS

STREAMS = Path(__file__).parents[1] / "providers" / "formats" / "streams"
THINKING = (STREAMS / "messages_claude_thinking_tools.sse").read_bytes()
#: Columns without a value here: the cell that defined a tool, what tools print in a notebook, the error of a broken
#: connection.
UNKNOWN = {
    "runs": {"replayed_cost_usd"},  # see test_replayed_costs
    "calls": {"refused", "reminder", "speaker"},  # see test_requests, test_toolset and test_team
    "tool_calls": {"cell_id_of_definition", "outputs", "python"},  # see test_to_notebook
    "http": {"error_type", "error_message"},
    "scores": {"cell_id"},
    "environment": {"run_id", "cell_id", "git_commit", "git_dirty"},
}


def tools(trace: Trace, provider) -> FunctionRegistry:
    registry, notebook = FunctionRegistry(), MemoryNotebook()

    async def find(q: str, n: int) -> str:
        """Find something, with the help of another agent."""
        cell = await notebook.insert("40 + 2")
        await notebook.run(cell.id)
        await notebook.delete(cell.id)
        return str(await Agent(provider, trace=trace).chat(f"{q} {n}"))

    def now(zone: str) -> str:
        """The time."""
        raise KeyError(zone)

    registry.register("find", "Find something, with the help of another agent.", find, approve=True)
    registry.register("now", "The time.", now)
    return registry


@pytest.fixture(scope="module")
def trace():
    return asyncio.run(everything())


async def everything() -> Trace:
    """Thinking, retries, an inner run, an edited call, wrong arguments, an image, failures and an interrupt."""
    trace = Trace(record_http=True)
    trace.to_otel(tracer_provider=TracerProvider())
    async with Loopback() as server:
        busy = Answer(b'{"error": {"type": "overloaded_error"}}', 529, {"retry-after": "0"})
        good = [Answer(body, headers={"request-id": "r"}) for body in (THINKING, claude_said("in"), claude_said("out"))]
        server.answers = [busy, *good, Answer(b'{"error": {"message": "no", "code": "no_1"}}', 400)]
        provider = create_provider("claude", api_key="k", base_url=server.url, model="claude-sonnet-5", thinking="low")
        agent = Agent(
            provider, tools(trace, provider), "Look well.", trace=trace, approve=lambda call, tool: {"q": "z", "n": 1}
        )
        origin = {"source": "magic", "agent": "a", "cell_id": "c1", "execution_count": 3, "output_type": "int"}
        labels = {"tags": ["a"], "user": "u", "session": "s", "metadata": {"b": 1}}
        await agent.chat("Look", origin=origin, tool_choice="auto", **labels)
        trace.score(trace.tool_calls["tool_call_id"].iloc[0], "good", 1, "yes", by="me")
        with pytest.raises(BadRequestError):
            await agent.chat("fail")
        await provider.aclose()
    calls = [
        FunctionCall("now", {"zone": "UTC"}, "1"),
        FunctionCall("now", {}, "2", raw="{zone"),
        FunctionCall("x", {}),
        FunctionCall("find", {"q": "x", "n": "2"}),
    ]
    cited = {"start": 0, "end": 3, "url": "https://a.org", "title": "A", "cited_text": "Bye-bye"}
    counted = {"usage": Usage(10, 5), "usage_raw": {"in": 10}, "model": "s-1", "finish_reason_raw": "tool_use"}
    scripted = ScriptedProvider(
        [
            LLMResponse("", calls, "tool_calls", counted),
            LLMResponse("Bye", None, "length", {**counted, "citations": [cited]}),
        ]
    )
    scripted.provider_name = "local"
    picture = {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}
    await Agent(scripted, tools(trace, scripted), trace=trace).chat(
        ["What is this?", picture], origin={"cell_id": "c2"}
    )

    async def wait(messages, functions):
        await asyncio.sleep(60)

    task = asyncio.create_task(Agent(ScriptedProvider(wait), trace=trace).chat("Wait"))
    while len(trace.rows("calls")) < 7:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    return trace


@pytest.mark.parametrize("table", COLUMNS)
def test_every_column_has_a_value(trace, table):
    frame = getattr(trace, table)
    assert {name for name in frame.columns if frame[name].isna().all()} <= UNKNOWN.get(table, set())
    assert frame.dtypes.astype(str).to_dict() == COLUMNS[table]


def test_every_key_refers_to_a_row(trace):
    ids = {"run_id": "runs", "call_id": "calls", "tool_call_id": "tool_calls", "message_id": "messages"}
    for key, home in ids.items():
        assert getattr(trace, home)[key].is_unique
        assert getattr(trace, home)[key].notna().all()
        for table in COLUMNS:
            frame = getattr(trace, table)
            if key in frame:
                assert frame[key].dropna().isin(getattr(trace, home)[key]).all(), (table, key)
                assert frame[key].notna().all() or key != "run_id" or table == "environment", table
    assert trace.runs["parent_run_id"].dropna().isin(trace.runs["run_id"]).all()
    assert trace.runs["branch"].isin(trace.runs["run_id"]).all()
    assert trace.messages["parent_id"].dropna().isin(trace.messages["message_id"]).all()


def test_columns_have_the_right_values(trace):
    calls, runs = trace.calls, trace.runs
    first, failed = calls.iloc[0], calls.iloc[3]
    assert (first["attempt"], first["retries"], first["http_status"], first["retry_wait_s"] > 0) == (2, 1, 200, True)
    assert (first["cache_read_tokens"], first["reasoning_tokens"], first["cache_hit"]) == (100, 9, True)
    assert (first["thinking_level"], first["tool_choice"], first["finish_reason_raw"]) == ("low", "auto", "tool_use")
    assert (failed["error_type"], failed["http_status"]) == ("BadRequestError", 400)
    assert runs["status"].tolist() == ["ok", "ok", "error", "truncated", "interrupted"]
    assert runs["parent_run_id"].tolist()[1] == runs["run_id"].iloc[0]
    assert (runs["cell_id"].iloc[0], runs["execution_count"].iloc[0], runs["output_type"].iloc[0]) == ("c1", 3, "int")
    tools = trace.tool_calls
    assert tools["wire_id"].tolist()[:2] == ["t1", "t2"]
    assert tools["approval"].tolist() == ["edited", "auto", "auto", "auto", "auto", "denied"]
    assert tools["args"].tolist()[0] == {"q": "z", "n": 1}
    assert tools["args_sent"].tolist()[0] != tools["args"].tolist()[0]
    assert tools["args_repaired"].tolist()[-1] == {"q": "x", "n": 2}
    assert tools["validation_kind"].dropna().tolist() == ["missing", "json", "unknown_tool"]
    assert tools["approval_wait_s"].notna().tolist() == [True, False, False, False, False, True]
    assert tools["args_raw"].tolist()[3] == "{zone"
    assert "KeyError: 'UTC'" in tools["traceback"].iloc[2]
    cells = trace.cells[["kind", "before", "after"]].astype(object).fillna("").values.tolist()
    assert cells == [["add", "", "40 + 2"], ["run", "40 + 2", "40 + 2"], ["delete", "40 + 2", ""]]
    last = trace.run(runs["run_id"].iloc[-1])
    assert last["events"]["type"].tolist() == ["run_started", "turn_started", "interrupted"]
    assert str(trace.transcript(runs["run_id"].iloc[-1])).endswith("Ended: interrupted")
    assert trace.thinking["kind"].tolist() == ["visible", "redacted"]
