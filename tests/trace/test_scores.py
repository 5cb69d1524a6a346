"""Scores of runs, calls and tool calls: replaced, withdrawn, concatenated, and shown safely."""

import re

import pytest
from support.hostile import PAYLOADS
from support.small_agent import add, call

from nbagent import Agent, LLMResponse, ScriptedProvider, Trace
from nbagent.errors import ConfigurationError

HARMLESS = {"div", "style", "table", "thead", "tbody", "tr", "th", "td"}


@pytest.fixture
def agent():
    agent = Agent(ScriptedProvider([LLMResponse("", [call("add", a=1, b=2)]), "3"] * 3, model="m"), tools=[add])
    agent.chat_sync("1 + 2?")
    return agent


def listed(trace):
    return [(*row[:3],) for row in trace.scores[["name", "value", "by"]].itertuples(index=False)]


def test_a_score_belongs_to_a_run_call_or_tool_call(agent):
    trace = agent.trace
    run, made, tool = trace.runs["run_id"][0], trace.calls["call_id"][1], trace.tool_calls["tool_call_id"][0]
    trace.score(run, "good", True, "It is.")
    trace.score(made, "short", 0.5, by="exam.py")
    trace.score(tool, "needed", 0)
    assert trace.scores["run_id"].tolist() == [run] * 3
    assert trace.scores["call_id"].fillna("").tolist() == ["", made, trace.calls["call_id"][0]]
    assert trace.scores["tool_call_id"].fillna("").tolist() == ["", "", tool]
    assert listed(trace) == [("good", 1.0, "user"), ("short", 0.5, "exam.py"), ("needed", 0.0, "user")]
    assert trace.scores["comment"][0] == "It is."
    assert len(trace.run(run)["scores"]) == 3


def test_an_author_has_one_score_per_name(agent):
    trace, run = agent.trace, agent.trace.runs["run_id"][0]
    for value in (1, 0):
        trace.score(run, "good", value)
    trace.score(run, "good", 1, by="other")
    assert listed(trace) == [("good", 0.0, "user"), ("good", 1.0, "other")]
    trace.score(run, "good", None)
    assert listed(trace) == [("good", 1.0, "other")]


def test_concatenated_traces_keep_all_scores_and_the_newest_of_each_author(agent, tmp_path):
    agent.trace.save(tmp_path / "t.sqlite")
    run = agent.trace.runs["run_id"][0]
    ann, bob = (Trace.load(tmp_path / "t.sqlite") for _ in range(2))
    ann.score(run, "good", 1, by="ann")
    bob.score(run, "good", 0, by="bob")
    ann.score(run, "good", 0.5, by="ann")
    for traces in ([ann, bob], [bob, ann, ann]):
        both = Trace.concat(traces)
        assert sorted(listed(both)) == [("good", 0.0, "bob"), ("good", 0.5, "ann")]
        assert len(both.runs) == 1


def test_wrong_scores_are_errors(agent):
    run = agent.trace.runs["run_id"][0]
    for named, *score in [
        ("nobody", "nobody", "good", 1), ("target", None, "good", 1), ("value", run, 1, "good"),
        ("value", run, "good", float("nan")), ("value", run, "good", float("inf")),
    ]:  # fmt: skip
        with pytest.raises(ConfigurationError, match=named):
            agent.trace.score(*score)
    assert agent.trace.scores.empty


def test_displays_of_scores_and_labels_are_safe():
    for payload in PAYLOADS:
        trace = Trace()
        agent = Agent(ScriptedProvider(["a"], model="m"), trace=trace)
        result = agent.chat_sync("?", tags=[payload.text], user=payload.text, metadata={"a": payload.text})
        trace.score(result.run_id, payload.text, 1, payload.text, by=payload.text)
        for frame in (trace.scores, trace.runs):
            shown, text = frame._repr_html_(), repr(frame)
            assert set(re.findall(r"<\s*(\w+)", shown)) <= HARMLESS, payload
            assert not any(char in shown + text for char in "\x1b\x07\x9b\x08\u202e\u202d\u2066\u200b\u2060\ufeff")
