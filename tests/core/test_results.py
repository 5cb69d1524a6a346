"""The result of a run."""

from nbagent import AgentResult, Usage


def test_a_result_is_shown_in_short():
    calls = [{"name": "f", "result": "x" * 20_000}]
    result = AgentResult("It is *sunny*.\x1b[2J", calls, usage=Usage(1200, 62), cost=0.0012)
    assert repr(result) == r"<AgentResult ok: 'It is *sunny*.\x1b[2J', 1 tool call, 1,262 tokens, $0.0012>"
    limited = AgentResult("long " * 1000, status="limit", limit_reason="tokens")
    assert repr(limited).startswith("<AgentResult limit (tokens): 'long long")
    assert len(repr(limited)) < 400
    assert str(limited) == "long " * 1000
