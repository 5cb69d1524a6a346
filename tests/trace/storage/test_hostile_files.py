"""Files of traces with odd names or no bounds. `tests/fuzz/test_saved_traces.py` has damaged ones."""

import os

import pytest

from nbagent import Agent, ScriptedProvider, Trace
from nbagent.errors import ConfigurationError
from nbagent.trace.storage import files as store


@pytest.mark.parametrize("name", ["t.sqlite", "t.parquet", "t.jsonl"])
def test_any_name_is_the_name_of_a_file(tmp_path, name):
    path = tmp_path / f"ä ?mode=memory&cache=shared#%41{name}"
    Trace().save(path)
    Trace.load(path)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize(
    ("limit", "name", "told"),
    [
        ("LONGEST_VALUE", "t.sqlite", "too big"),
        ("LONGEST_VALUE", "t.jsonl", "more than 100,000 bytes"),
        ("LARGEST_TABLE", "t.parquet", "'runs' takes more than 100,000 bytes"),
    ],
)
async def test_a_file_beyond_a_limit_is_refused(tmp_path, monkeypatch, limit, name, told):
    agent = Agent(ScriptedProvider(["x" * 200_000]))
    await agent.chat("Much?")
    agent.trace.save(tmp_path / name)
    monkeypatch.setattr(store, limit, 100_000)
    with pytest.raises(ConfigurationError, match=rf"{name}.*{told}"):
        Trace.load(tmp_path / name)
