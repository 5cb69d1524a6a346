"""Several models and routes in `%%agent` cells of a real kernel."""

import pytest

pytestmark = pytest.mark.kernel

SET_UP = """
from nbagent.errors import ServerError
first = ScriptedProvider([ServerError("Overloaded")], model="first")
agent = Agent([first, ScriptedProvider(lambda *_: "I am the second.", model="second")])
_ = agent.route("(?i)what day", lambda match: "It is **Tuesday**.")
"""


def test_a_cell_says_who_goes_on_and_a_route_answers_as_a_model_does(shared):
    shared.run(SET_UP)
    cell = shared.ok("%%agent\nWho are you?")
    assert "scripted:first: Overloaded. Going on with scripted:second." in cell.text
    assert "I am the second." in cell.text
    assert "It is Tuesday" in shared.ok("%%agent\nWhat day is it?").text.replace("*", "")
    shared.ok("%%agent -m scripted:other --dry-run\nWho are you?")
    kept = shared.ok("agent.trace.calls['model'].tolist(), agent.provider.model_name")
    assert kept.result == "(['first', 'second', 'function'], 'first')"
