"""`df.agent.map` exists once pandas and an agent do, and never hides a column."""

import subprocess
import sys

import pandas as pd
import pytest

from nbagent import Agent, ScriptedProvider
from nbagent.errors import ConfigurationError


def echo(messages, *_):
    return f"echo {messages[-1].text}"


async def test_series_and_frames_have_map():
    agent = Agent(ScriptedProvider(echo))
    data = pd.DataFrame({"text": ["a"]}, index=[7])
    answers = await data.agent.map("Hi {text}", agent=agent)
    assert (answers.index[0], answers["answer"].item()) == (7, "echo Hi a")
    assert data["text"].agent.map_sync(agent=agent)["answer"].item() == "echo a"
    with pytest.raises(ConfigurationError, match="Pass agent="):
        await data.agent.map("Hi {text}")


def test_a_column_named_agent_stays_a_column():
    assert pd.DataFrame({"agent": [1]}).agent.tolist() == [1]
    assert pd.Series({"agent": 5}).agent == 5


def test_an_agent_adds_the_accessor_only_if_pandas_is_loaded():
    code = """
import sys
from nbagent import Agent, ScriptedProvider
agent = Agent(ScriptedProvider(["unused"]))
assert "pandas" not in sys.modules
import pandas as pd
assert not hasattr(pd.DataFrame, "agent")
agent = Agent(ScriptedProvider(lambda messages, *_: messages[-1].text.upper()))
print(pd.Series(["hi"]).agent.map_sync()["answer"].item())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "HI", done.stderr
