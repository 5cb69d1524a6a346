"""The peer benchmark itself: its adapters give right answers, and its verdict is right. Nothing is measured here."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import run
import targets
import worker

OURS = [*run.OWN, *run.RAW]


@pytest.fixture(scope="module")
def url():
    with run.server() as address:
        yield address


@pytest.mark.parametrize("adapter", OURS)
def test_an_adapter_gives_right_answers(adapter, url):
    peer = worker.load(adapter, url)
    try:
        worker.Meter(peer).check()
        for kind in ("sync", "async"):
            sleeper = worker.Sleeper(0)
            try:
                assert peer.parallel_tools("par-8", sleeper, kind) == worker.FINAL
                assert sleeper.calls == 8
            except NotImplementedError:
                assert (adapter, kind) == ("raw_limit", "async")
    finally:
        peer.close()


def test_a_wrong_answer_is_an_error(url):
    peer = worker.load("raw_httpx", url)
    try:
        right = peer.stream_text
        peer.stream_text = lambda model: right("text-4")
        with pytest.raises(AssertionError, match="streamed"):
            worker.Meter(peer).stream("text-5")
    finally:
        peer.close()


def test_every_adapter_is_listed_and_says_what_it_needs():
    files = {path.stem for path in (run.HERE / "adapters").glob("[!_]*.py")} - {"base"}
    assert files == set(OURS + run.PEERS)
    for adapter in files - {"nbagent_openai", "nbagent_anthropic", "raw_httpx_sharded"}:  # these inherit it
        assert run.modules(adapter), adapter


def test_what_is_not_installed_is_left_out(monkeypatch):
    monkeypatch.setattr(run, "interpreters", lambda: [sys.executable])
    assert run.interpreter_for("raw_httpx") == sys.executable
    monkeypatch.setattr(run, "modules", lambda adapter: ["no_such_package"])
    assert run.interpreter_for("raw_httpx") is None


def runs(**values):
    """Rounds in which nbagent has these values and every raw client has ones."""
    names = "delta_cpu_us paced_cpu_us first_ms round_cpu_ms async_cpu_ms slope_us par_sync_s"
    base = dict.fromkeys(names.split(), 1.0)
    nbagent = {name: [{**base, **values}] for name in ("nbagent_httpx", "nbagent_openai", "nbagent_anthropic")}
    return nbagent | {name: [base] for name in ("raw_httpx", "raw_openai_post", "raw_anthropic_post")}


def test_the_verdict():
    assert targets.verdict(runs())[1]
    assert targets.verdict(runs(first_ms=1.6))[1]
    for missed in ({"delta_cpu_us": 1.6}, {"paced_cpu_us": 1.7}, {"first_ms": 1.8}, {"async_cpu_ms": 2.1}):
        text, met = targets.verdict(runs(**missed))
        assert not met
        assert "| NO |" in text
    unmeasured = runs()
    del unmeasured["raw_openai_post"]
    text, met = targets.verdict(unmeasured)
    assert not met
    assert "not measured" in text


def test_only_ratios_of_one_round_count():
    rows = {
        "nbagent_httpx": [{"delta_cpu_us": 10.0}, {"error": "slow"}, {"delta_cpu_us": 40.0}],
        "raw_httpx": [{"delta_cpu_us": 10.0}, {"delta_cpu_us": 1.0}, {"delta_cpu_us": 20.0}],
    }
    assert targets.TARGETS[0].values(rows) == [1.0, 2.0]
    assert "| nbagent_httpx | 25 | 1.5 |" in targets.tables(rows)
    assert "- nbagent_httpx: error: slow" in targets.tables(rows)
