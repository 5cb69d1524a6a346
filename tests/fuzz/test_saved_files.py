"""Saved files that somebody changed, by values or by bytes: read, or refused with one clear error.

What was read can be used.
"""

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import strategies as st
from support.fuzzing import fuzz, mutations, same_each_time
from support.streams import FORMATS, codec_of

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Usage, record, replay
from nbagent.errors import ConfigurationError, NbagentError
from nbagent.providers.options.resolved import ResolvedOptions

pytestmark = pytest.mark.fuzz


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


async def talk(folder: Path) -> None:
    """A conversation with a tool call, thinking and an error, in all the files that nbagent writes."""
    facts = {"usage": Usage(100, 20, 40, 0, 5), "model": "m-1", "thinking": "hm", "usage_raw": {"a": 1}}
    answers = [LLMResponse("", [FunctionCall("double", {"x": 4}, "w1")], None, facts), "It is 8.", "Bye."]
    agent = Agent(ScriptedProvider(answers), tools=[double], system_prompt="You help.")
    with record(folder / "r.jsonl"):
        await agent.chat("Twice 4?", tags=["t"])
        await agent.chat("Bye.")
    agent.save(folder / "a.json")


@pytest.fixture(scope="module")
def saved():
    """The content of each file."""
    with TemporaryDirectory() as name:
        asyncio.run(talk(Path(name)))
        return {path.name: same_each_time(path.read_text("utf-8")).encode() for path in Path(name).iterdir()}


def spliced(content: bytes) -> st.SearchStrategy[bytes]:
    """The bytes with some replaced or left out."""
    odd = st.sampled_from([b"\x00", b"\xff" * 4, b'"', b"[" * 3_000, b"9" * 5_000, b"\n", b"{}", b"\\ud800", b"null"])
    return st.builds(
        lambda at, new, more: content[:at] + new + content[at + more :],
        st.integers(0, len(content)),
        odd | st.binary(max_size=8),
        st.integers(0, 50),
    )


def changed_line(content: bytes) -> st.SearchStrategy[bytes]:
    """The lines, with a value in one of them replaced."""
    lines = content.splitlines(keepends=True)

    def with_line(number, new):
        return b"".join([*lines[:number], json.dumps(new).encode() + b"\n", *lines[number + 1 :]])

    return st.integers(0, len(lines) - 1).flatmap(
        lambda number: st.builds(with_line, st.just(number), mutations(json.loads(lines[number])))
    )


def test_a_conversation_is_loaded_or_refused(saved, tmp_path):
    path = tmp_path / "a.json"

    def check(content):
        path.write_bytes(content)
        try:
            agent = Agent.load(path, ScriptedProvider(["Fine."]))
        except ConfigurationError as error:
            str(error).encode()
            return
        for codec in map(codec_of, FORMATS):
            codec.encode_request(agent.conversation_history, ResolvedOptions(), "m1")
        assert agent.chat_sync("And?").content == "Fine."
        agent.save(path)

    content = saved["a.json"]
    changed = mutations(json.loads(content)).map(lambda value: json.dumps(value).encode())
    fuzz(check, changed | spliced(content), [content.replace(b'"w1"', b'"\\ud800"')])


def test_a_recording_is_replayed_or_refused(saved, tmp_path):
    path = tmp_path / "r.jsonl"

    def check(content):
        path.write_bytes(content)
        try:
            with replay(path):
                agent = Agent(ScriptedProvider(["never"]), tools=[double], system_prompt="You help.")
                agent.chat_sync("Twice 4?")
        except NbagentError as error:
            str(error).encode()

    content = saved["r.jsonl"]
    fuzz(check, changed_line(content) | spliced(content), [content.replace(b"You help.", b"\\ud800")])
