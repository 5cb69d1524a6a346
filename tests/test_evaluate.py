"""`evaluate`: agents answer a frame, with repeats, scores, intervals and failures."""

import json

import pandas as pd
import pytest
from pydantic import BaseModel

from nbagent import Agent, Budget, ScriptedProvider, evaluate, evaluate_sync, exact, judge, matches
from nbagent.errors import ConfigurationError, ProviderError
from nbagent.evaluation.intervals import wilson

REVIEWS = pd.DataFrame(
    {"text": ["fine", "awful", "lovely", "odd"], "label": ["good", "bad", "good", "bad"]}, index=["a", "b", "c", "d"]
)
PROMPT = "Is this good or bad? {text}"


def reviewer(*, wrong=(), fails=(), model="m"):
    """An agent that knows the labels except for these texts. `provider.requests` records its prompts."""

    def answer(messages, _):
        text = messages[-1].text.rsplit(" ", 1)[-1]
        if text in fails:
            raise ConnectionError("the line is dead")
        label = REVIEWS.set_index("text")["label"][text]
        return {"good": "bad", "bad": "good"}[label] if text in wrong else label

    return Agent(ScriptedProvider(answer, model=model, price={"input": 1, "output": 1}))


def length(row):
    """Return the length of the answer."""
    return len(row["answer"])


def is_same(answer, expected):
    """A scorer of two arguments."""
    return answer == expected


async def test_agents_are_mapped_and_scored():
    agents = {"right": reviewer(), "wrong": reviewer(wrong=["fine", "odd"], model="n")}
    scorers = {"exact": exact("label"), "same": is_same, "good": matches("^good"), "length": length}
    result = await evaluate(agents, REVIEWS, PROMPT, scorers=scorers, expected="label", progress=False)
    frame = result.frame
    assert list(frame.columns[:5]) == ["agent", "repeat", "text", "label", "answer"]
    assert frame.index.tolist() == ["a", "b", "c", "d"] * 2
    assert frame["agent"].tolist() == ["right"] * 4 + ["wrong"] * 4
    assert frame["exact"].tolist() == [True] * 4 + [False, True, True, False]
    assert frame["same"].equals(frame["exact"])
    assert frame["good"].tolist() == [True, False, True, False, False, False, True, True]
    assert frame["length"].tolist()[:4] == [4.0, 3.0, 4.0, 3.0]
    assert frame[list(scorers)].dtypes.astype(str).tolist() == ["boolean"] * 3 + ["Float64"]
    summary = result.summary()
    assert summary["exact"].tolist() == [1.0, 0.5]
    assert (summary["exact_low"]["wrong"], summary["exact_high"]["wrong"]) == pytest.approx(wilson(0.5, 4))
    assert 3.0 <= summary["length_low"]["right"] < 3.5 < summary["length_high"]["right"] <= 4.0
    assert summary["cost"].gt(0).all()
    assert result.failures("exact").index.tolist() == ["a", "d"]
    assert "exact" in repr(result)
    assert "4 of 8 rows failed" not in result._repr_html_()


DAY = pd.Timestamp("2026-01-02")
LABELS = [
    (5.0, "5", True), (5.0, " 5.0\n", True), (0.1, "0.1", True), (5.0, "6", False), (5.0, "five", False),
    (2**60 + 1, "1152921504606846977", True), (2**60 + 1, "1152921504606846976", False), ("5", 5.0, True),
    (True, "true", True), (False, "true", False), (True, 1, True), (True, "maybe", False), ("true", True, True),
    (DAY, "2026-01-02", True), (DAY, DAY.tz_localize("UTC"), True), (DAY.date(), DAY, True), (DAY.date(), "no", False),
    (5, None, False), ([], ["x"], False),
    (None, "x", None), (float("nan"), "5", None), (pd.NaT, "x", None), ("Good", "good", False),
]  # fmt: skip


def test_labels_are_compared_by_their_type():
    for label, answer, right in LABELS:
        assert exact("label")({"label": label, "answer": answer}) is right, (label, answer)


async def test_a_failed_row_has_no_score_and_is_shown():
    agents = {"a": reviewer(fails=["awful"])}
    result = await evaluate(agents, REVIEWS, PROMPT, scorers={"right": exact("label")}, progress=False)
    assert result.frame["right"].isna().tolist() == [False, True, False, False]
    assert (result.summary()["failed"]["a"], result.summary()["right"]["a"]) == (1, 1.0)
    assert result.failures()["text"].tolist() == ["awful"]
    assert "the line is dead" in result._repr_html_()


async def test_repeats_are_sent_again_and_count_as_one_row(tmp_path):
    agent, where = reviewer(wrong=["fine"]), tmp_path / "answers.sqlite"
    options = {"scorers": {"right": exact("label")}, "repeats": 3, "checkpoint": where, "progress": False}
    for _ in range(2):  # the second time, all answers come from the checkpoint
        result = await evaluate({"a": agent}, REVIEWS, PROMPT, **options)
        assert len(agent.provider.requests) == 12
    assert result.frame["repeat"].tolist() == [1] * 4 + [2] * 4 + [3] * 4
    summary = result.summary()
    assert (summary["right_low"]["a"], summary["right_high"]["a"]) == pytest.approx(wilson(0.75, 4))


async def test_a_judge_reads_the_answers_and_spends_the_same_budget():
    def verdict(messages, _):
        return json.dumps({"result": "Answer: good" in messages[-1].text})

    budget = Budget(max_cost=1.0)
    judging = Agent(ScriptedProvider(verdict, price={"input": 1, "output": 1}))
    scorers = {"nice": judge(judging, "Is this nice?\n\n{text}\n\nAnswer: {answer}")}
    result = await evaluate({"a": reviewer()}, REVIEWS, PROMPT, scorers=scorers, budget=budget, progress=False)
    assert result.frame["nice"].tolist() == [True, False, True, False]
    assert budget.spent > result.summary()["cost"]["a"] > 0


async def test_paid_answers_stay_if_the_judge_fails():
    agent, judging = reviewer(), Agent(ScriptedProvider([ProviderError("down")] * 4 + ["true"] * 4))
    options = {"scorers": {"fair": judge(judging, "Is it fair? {text} {answer}")}, "progress": False}
    with pytest.raises(ConfigurationError, match="The judge answered none of the rows"):
        await evaluate({"a": agent}, REVIEWS, PROMPT, **options)
    result = await evaluate({"a": agent}, REVIEWS, PROMPT, **options)
    assert result.frame["fair"].all()
    assert len(agent.provider.requests) == len(REVIEWS)
    assert not agent.unfinished


async def test_a_models_fields_are_scored():
    class Verdict(BaseModel):
        status: str

    agents = {"a": Agent(ScriptedProvider(lambda *_: '{"status": "good"}'))}
    scorers = {"right": exact("label", "status")}
    result = await evaluate(agents, REVIEWS, PROMPT, Verdict, scorers=scorers, progress=False)
    assert result.frame["right"].tolist() == [True, False, True, False]


async def test_a_scorer_that_fails_warns_and_loses_no_answer():
    scorers = {"broken": lambda row: row["none"]}
    with pytest.warns(UserWarning, match=r"Scorer 'broken' failed for 4 of 4 rows\. KeyError"):
        result = await evaluate({"a": reviewer()}, REVIEWS, PROMPT, scorers=scorers, progress=False)
    assert result.frame["answer"].tolist() == ["good", "bad", "good", "bad"]
    assert result.frame["broken"].isna().all()


def test_invalid_evaluations_are_errors_before_the_first_request():
    agent = reviewer()
    given = {"agents": {"a": agent}, "frame": REVIEWS, "prompt": PROMPT, "progress": False}
    for change, match in [
        ({"agents": {}}, "agents: expected a dict of agents by name"),
        ({"frame": REVIEWS.rename(columns={"label": "status"})}, r"adds columns with the names \['status'\]. Rename"),
        ({"scorers": {"s": 3}}, r"scorers\['s'\]: expected a function"),
        ({"scorers": {"s": is_same}}, r"\(answer, expected\)\. Pass expected"),
        ({"expected": "none"}, "expected: expected the name of a column"),
        ({"repeats": 0}, "repeats"),
    ]:
        with pytest.raises(ConfigurationError, match=match):
            evaluate_sync(**given | change)
    assert agent.provider.requests == []
