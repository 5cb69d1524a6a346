"""`agent.map` asks about each row and answers beside the index."""

import pandas as pd
import pytest

from nbagent import Agent, ScriptedProvider


def echo(messages, *_):
    return f"echo {messages[-1].text}"


async def test_a_frame_gets_an_answer_for_each_row():
    agent = Agent(ScriptedProvider(echo, price={"input": 1, "output": 1}), system_prompt="Be brief.")
    data = pd.DataFrame({"text": ["a", "b", "a"], "n": [1, 2, 1]}, index=[5, 6, 7])
    answers = await agent.map(data, "{text} is {n}")
    assert answers.index.equals(data.index)
    assert list(answers["answer"]) == ["echo a is 1", "echo b is 2", "echo a is 1"]
    assert len(agent.trace.runs) == 2, "identical rows are asked once"
    assert answers["cost"].sum() == pytest.approx(agent.trace.runs["cost_usd"].sum())
    assert list(answers["output_tokens"] > 0) == [True, True, False]
    assert agent.conversation_history[1:] == []
