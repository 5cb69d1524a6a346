"""The panel's meter counts what the conversation used, including what it used before the panel was opened."""

import re

from nbagent import Agent, Limits, LLMResponse, ScriptedProvider, Usage
from nbagent.core.messages import LLMMessage
from nbagent.notebook.panel.meter import Meter


def answer(*used):
    return LLMResponse("yes", None, "stop", {"usage": Usage(*used)})


def test_a_panel_opened_later_shows_the_usage_of_the_last_run():
    agent = Agent(ScriptedProvider([answer(100, 20), answer(300, 5)]), limits=Limits(max_total_tokens=1_000))
    agent.context.replace_history([LLMMessage("user", "zero"), LLMMessage("assistant", "from elsewhere")])
    assert "0 of 1,000" in Meter(agent).html()
    agent.chat_sync("one")
    agent.chat_sync("two")
    html = Meter(agent).html()
    assert "425 tokens" in html
    assert re.search("3[0-9][0-9] of 1,000", html)


def test_the_meter_says_how_full_the_context_is():
    class Claude(ScriptedProvider):
        provider_name = "claude"

    agent = Agent(Claude([answer(240_000, 10_000)], model="claude-sonnet-5"), limits=Limits(max_cost=10))
    assert "width:0%" in Meter(agent).html()
    agent.chat_sync("one")
    html = Meter(agent).html()
    assert "Context: about 250,000 of 1,000,000 tokens (25%)" in html
    assert "Spent in all: 250,000 tokens, $0.5800" in html
    assert "Cost of the last run: $0.5800 of $10 (6%)" in html
    assert "The bar: context" in html, "it shows what is nearest to its limit"
    assert "width:25%" in html
    agent.context.max_tokens = 300_000
    assert "about 250,000 of 300,000 tokens (83%)" in Meter(agent).html(), "the history is trimmed there"
