"""The panel's meter counts what the conversation used, including what it used before the panel was opened."""

from nbagent import Agent, Limits, LLMResponse, ScriptedProvider, Usage
from nbagent.core.messages import LLMMessage
from nbagent.notebook.panel.conversation import Meter


def answer(*used):
    return LLMResponse("yes", None, "stop", {"usage": Usage(*used)})


def test_a_panel_opened_later_shows_the_usage_of_the_last_run():
    agent = Agent(ScriptedProvider([answer(100, 20), answer(300, 5)]), limits=Limits(max_total_tokens=1_000))
    agent.chat_sync("one")
    agent.chat_sync("two")
    html = Meter(agent).html()
    assert "425 tokens" in html
    assert "305 of 1,000" in html
    assert "width:30%" in html


def test_messages_from_elsewhere_count_no_usage():
    agent = Agent(ScriptedProvider([]), limits=Limits(max_total_tokens=1_000))
    agent.context.replace_history([LLMMessage("user", "one"), LLMMessage("assistant", "yes")])
    assert "0 of 1,000" in Meter(agent).html()
