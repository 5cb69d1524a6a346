"""A recording's file: it contains no secrets, and every line but the last is always complete."""

import pytest
from support.loopback import Answer, said, sse

import nbagent
from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider
from nbagent.errors import BadRequestError
from nbagent.providers.replay.file import RecordingFile


def exchanges_in(path):
    recorded = RecordingFile(path)
    recorded.read()
    return recorded.exchanges


MARKERS = {
    "OPENAI_API_KEY": 'sk-marker-"openai"-1234',
    "ANTHROPIC_API_KEY": "sk-ant-marker-5678",
    "GEMINI_API_KEY": "AIza-marker-gemini-1",
    "MY_DB_PASSWORD": "marker-database-pw-1",
}


async def test_secrets_are_never_written(path, connect, loopback, monkeypatch):
    for name, value in MARKERS.items():
        monkeypatch.setenv(name, value)
    own, header = "marker-own-key-123", "marker-header-9876"

    def leak() -> dict:
        """Returns secrets."""
        return {**MARKERS, "own": own, "header": header}

    call = {"index": 0, "id": "c1", "function": {"name": "leak", "arguments": "{}"}}
    asked = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    repeated = " and ".join([*MARKERS.values(), own, header])
    answers = [Answer(sse(asked)), Answer(sse(said(repeated))), Answer(repeated.encode(), 400)]
    loopback.answers = list(answers)
    agent = Agent(connect(api_key=own, headers={"X-Corp-Token": header}), tools=[leak])
    with nbagent.record(path):
        await agent.chat(f"My password is {MARKERS['MY_DB_PASSWORD']}", extra_body={"user": own})
        with pytest.raises(BadRequestError):
            await agent.chat(repeated)
    written = path.read_text("utf-8")
    assert "marker" not in written
    assert "efgh" not in written
    assert "$MY_DB_PASSWORD" in written
    again = Agent(connect(api_key=own, headers={"X-Corp-Token": header}), tools=[leak])
    loopback.answers = []
    with nbagent.replay(path):
        result = await again.chat(f"My password is {MARKERS['MY_DB_PASSWORD']}")
    assert result.iterations == 2
    assert "$ANTHROPIC_API_KEY" in result.content


async def test_numbers_that_contain_a_secrets_digits_stay(path, monkeypatch):
    monkeypatch.setenv("DB_PASSWORD", "73918264")
    monkeypatch.setenv("MY_API_KEY", "00000000")
    monkeypatch.setenv("MAX_OUTPUT_TOKENS", "100000")
    turns = [FunctionCall("scale", {"factor": 0.1 + 0.2, "pin": 73918264, "n": 100000}), "The pin is 73918264."]
    with nbagent.record(path):
        await Agent(ScriptedProvider(turns)).chat("My pin: 73918264.")
    text = path.read_text("utf-8")
    assert "73918264" not in text
    assert "0.30000000000000004" in text
    assert "100000" in text
    assert len(exchanges_in(path)) == 2


async def test_an_incomplete_last_line_is_skipped_and_overwritten(path):
    with nbagent.record(path):
        for number in "12":
            await Agent(ScriptedProvider([number])).chat(number)
    path.write_bytes(path.read_bytes()[:-40])
    with nbagent.replay(path, mode="new"):
        assert str(await Agent(ScriptedProvider([])).chat("1")) == "1"
        assert str(await Agent(ScriptedProvider(["two"])).chat("2")) == "two"
    with nbagent.replay(path):
        assert str(await Agent(ScriptedProvider([])).chat("2")) == "two"


async def test_a_recording_stays_in_its_folder(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    with nbagent.record("data/run.jsonl"):
        await Agent(ScriptedProvider(["precious"])).chat("?")
    with nbagent.record("run.jsonl"):
        monkeypatch.chdir(tmp_path / "data")
        await Agent(ScriptedProvider(["one"])).chat("1")
    assert "precious" in (tmp_path / "data/run.jsonl").read_text("utf-8")
    assert "one" in (tmp_path / "run.jsonl").read_text("utf-8")


async def test_a_recording_deleted_while_open_starts_again(path):
    agent = Agent(ScriptedProvider(["1", "2", "3"]))
    with nbagent.record(path):
        await agent.chat("one")
        path.unlink()
        await agent.chat("two")
        await agent.chat("three")
    assert [each.response["content"] for each in exchanges_in(path)] == ["2", "3"]


async def test_unusual_metadata_does_not_break_a_recording(path):
    metadata = {"usage": {"prompt_tokens": 5}}
    with nbagent.record(path):
        await Agent(ScriptedProvider([LLMResponse("hello", None, "stop", metadata)])).chat("hi")
    with nbagent.replay(path):
        assert str(await Agent(ScriptedProvider([])).chat("hi")) == "hello"
