"""`Agent(trace=False)` records nothing, and the views say so."""

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.trace.columns import COLUMNS


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


def agent() -> Agent:
    return Agent(ScriptedProvider([FunctionCall("double", {"x": 4}), "It is 8."]), tools=[double], trace=False)


async def test_all_tables_stay_empty_and_the_views_say_that_nothing_is_recorded():
    asked = agent()
    result = await asked.chat("Twice 4?")
    assert (result.content, result.status) == ("It is 8.", "ok")
    trace = asked.trace
    assert {name: len(getattr(trace, name)) for name in COLUMNS} == dict.fromkeys(COLUMNS, 0)
    assert not trace.recorder.results
    for shown in (repr(trace), trace._repr_html_(), trace.to_text(), trace.to_text("timeline")):
        assert "nothing is recorded" in shown
    assert not asked.fork().trace.is_recording
