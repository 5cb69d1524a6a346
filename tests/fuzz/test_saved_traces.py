"""Saved traces that somebody changed, by bytes: loaded, or refused with one clear error."""

import pytest
from hypothesis import strategies as st
from support.fuzzing import fuzz, same_each_time
from support.small_agent import add, call

from nbagent import Agent, ScriptedProvider, Trace
from nbagent.errors import ConfigurationError

pytestmark = pytest.mark.fuzz
ODD = [b"\x00", b"\xff" * 4, b'"', b"[" * 3_000, b"9" * 5_000, b"\n", b"{}", b"\\ud800", b"null", b"5", b""]


def saved(path) -> bytes:
    """A trace with a tool call and a score, the same one each time."""
    agent = Agent(ScriptedProvider([call("add", a=1, b=2), "It is 3."]), tools=[add])
    agent.trace.score(agent.chat_sync("1 + 2?").run_id, "good", 1)
    lines = path.with_name("trace.jsonl")
    agent.trace.save(lines)
    kept = [line for line in lines.read_text("utf-8").splitlines(keepends=True) if '"environment"' not in line]
    lines.write_text(same_each_time("".join(kept)), "utf-8")
    Trace.load(lines).save(path)
    return path.read_bytes()


@pytest.mark.parametrize("name", ["t.jsonl", "t.sqlite"])
def test_a_damaged_trace_is_loaded_or_refused(tmp_path, name):
    content, path, again = saved(tmp_path / name), tmp_path / f"damaged {name}", tmp_path / "again.jsonl"

    def check(change):
        at, piece, more = change
        path.write_bytes(content[:at] + piece + content[at + more :])
        try:
            trace = Trace.load(path)
        except ConfigurationError as error:
            str(error).encode()
            return
        trace.save(again)
        assert len(Trace.load(again).rows("runs")) == len(trace.rows("runs"))

    places = st.integers(0, len(content))
    fuzz(check, st.tuples(places, st.sampled_from(ODD) | st.binary(max_size=8), st.integers(0, 50)))
