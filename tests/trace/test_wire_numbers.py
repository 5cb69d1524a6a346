"""The numbers in the tables equal those in recorded traffic of Claude, OpenAI, Gemini and Qwen.

The expected numbers are those that the vendors' official SDKs read in it.
"""

import json

import pandas as pd
import pytest
from support import recordings
from support.recordings import said

from nbagent import Agent, Trace
from nbagent.errors import ProviderError

recorded = recordings.needed

#: API and vendor of the recordings -> at least so many answers.
VENDORS = {
    ("anthropic.messages", "anthropic"): 185, ("openai.chat", "openai"): 35, ("openai.responses", "openai"): 25,
    ("gemini.generateContent", "google"): 95, ("openai.chat", "alibaba"): 3,
}  # fmt: skip
TOKENS = ["input", "output", "cache_read", "cache_write", "reasoning"]
COLUMNS = [f"{kind}_tokens" for kind in TOKENS]


def tokens(bodies) -> list[int]:
    """Sums over raw answers, in the order of `TOKENS`."""
    return [sum(getattr(each, kind) or 0 for each in bodies) for kind in TOKENS]


def arguments(call) -> object:
    """The arguments in a row of `tool_calls`: an object, or the text if it is not JSON."""
    return call.args_raw if isinstance(call.args_raw, str) else call.args


def differences(trace: Trace, said_by_run: dict) -> list[str]:
    """The differences between the tables and the raw answers, for runs with one request."""
    calls = trace.calls.set_index("run_id")
    texts = trace.blocks.query("type in ['text', 'refusal'] and call_id.notna()").groupby("run_id")["text"].sum()
    thoughts = trace.thinking.groupby("run_id")["chars"].sum()
    functions = trace.tool_calls[~trace.tool_calls["source"].fillna("").str.startswith("vendor:")]
    used = {run_id: list(rows.itertuples()) for run_id, rows in functions.groupby("run_id")}
    found = []
    for run_id, want in said_by_run.items():
        row = calls.loc[run_id]
        is_guess = pd.notna(row["usage_estimated"]) and row["usage_estimated"]
        counted = [None if is_guess or pd.isna(row[column]) else int(row[column]) for column in COLUMNS]
        pairs = {
            "tokens": (tokens([want]) if want.input is not None else [None] * 5, counted),
            "text": (want.text, texts.get(run_id, "")),
            "thinking": (len(want.thinking), thoughts.get(run_id, 0)),
            "calls": (want.calls, [(call.name, arguments(call)) for call in used.get(run_id, [])]),
        }
        found += [f"{run_id}: {what}: said {a}, have {b}" for what, (a, b) in pairs.items() if a != b]
    return found


@recorded
@pytest.mark.parametrize(("api", "vendor"), VENDORS)
async def test_numbers_of_each_answer_and_their_sums(api, vendor):
    trace, want, providers = Trace(), {}, {}
    with recordings.replay_server() as server:
        for record, expected in recordings.records(api):
            # arguments in pieces are Gemini's alone, and have tests of their own
            if record["provider"] != vendor or expected["error"] or "partialArgs" in record["response"]["body"]:
                continue
            kind, server.default_id = record["stream"], record["id"]
            provider = providers.setdefault(kind, recordings.make_provider(record, server.url, kind))
            try:
                await Agent(provider, trace=trace).chat("Hello.", max_iterations=1)
            except ProviderError:  # a stream that was cut off where it was recorded
                assert not expected["complete"]
                continue
            want[trace.rows("runs")[-1]["run_id"]] = said(record)
        for provider in providers.values():
            await provider.aclose()
    assert len(want) >= VENDORS[api, vendor]
    assert differences(trace, want) == []
    by_vendor = trace.calls["usage_estimated"].eq(False).fillna(False)
    counted = trace.calls.loc[by_vendor, "run_id"]
    answered = trace.runs[trace.runs["run_id"].isin(want) & trace.runs["run_id"].isin(counted)]
    sums = tokens(want.values())
    assert answered[COLUMNS].sum().tolist() == sums
    assert answered["total_tokens"].sum() == sums[0] + sums[1]
    assert trace.calls.loc[by_vendor, "usage_raw"].notna().all()


@pytest.mark.full
@pytest.mark.local_model
async def test_token_counts_of_the_embedded_model():
    def celsius(fahrenheit: float) -> float:
        """Convert degrees Fahrenheit to Celsius."""
        return round((fahrenheit - 32) * 5 / 9, 1)

    agent = Agent("local", tools=[celsius], trace=Trace(record_http=True))
    await agent.chat("Convert 100 degrees Fahrenheit to Celsius.")
    await agent.chat("Convert 50 degrees Fahrenheit to Celsius.")
    await agent.chat("Say hello.")
    asked = [timings(body) for body in agent.trace.http["response_body"] if '"timings"' in body]
    sent, cached, generated = (sum(each[name] for each in asked) for name in ("prompt_n", "cache_n", "predicted_n"))
    assert len(asked) >= 2
    assert agent.trace.calls["input_tokens"].sum() == sent + cached
    assert agent.trace.calls["cache_read_tokens"].sum() == cached > 0
    assert agent.trace.runs["output_tokens"].sum() == generated
    assert agent.trace.usage["total_tokens"].sum() == sent + cached + generated
    assert agent.trace.tool_calls["name"].tolist() == ["celsius", "celsius"]


def timings(body: str) -> dict:
    """The last counts in a raw answer from the server of llama.cpp."""
    lines = [line.removeprefix("data:") for line in body.splitlines() if '"timings"' in line]
    return json.loads(lines[-1])["timings"]
