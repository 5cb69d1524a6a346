"""Saved files that somebody changed: read, or refused with one clear error; and what was read can be used."""

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import strategies as st
from support.fuzzing import fuzz, mutations, same_each_time
from support.recordings import CODECS

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
    """The text of each file."""
    with TemporaryDirectory() as folder:
        asyncio.run(talk(Path(folder)))
        return {path.name: same_each_time(path.read_text("utf-8")) for path in Path(folder).iterdir()}


def changed_line(text: str) -> st.SearchStrategy[str]:
    """A file of JSON lines in which one line is changed, by its values or by its characters."""
    lines = text.splitlines(keepends=True)

    def with_line(number, new):
        return "".join([*lines[:number], new, *lines[number + 1 :]])

    one = st.integers(0, len(lines) - 1).flatmap(
        lambda n: st.builds(with_line, st.just(n), mutations(json.loads(lines[n])).map(lambda v: json.dumps(v) + "\n"))
    )
    return one | spliced(text)


def spliced(text: str) -> st.SearchStrategy[str]:
    odd = st.sampled_from(["\x00", '"', "\\", "[" * 3_000, "9" * 5_000, "\n", "{}", "\r", "\ud800", "null"])
    return st.builds(
        lambda at, new, more: text[:at] + new + text[at + more :], st.integers(0, len(text)), odd, st.integers(0, 50)
    )


FOLDER = TemporaryDirectory()


def written(name: str, content: str) -> Path:
    """The path of a file of this name and content."""
    path = Path(FOLDER.name) / name
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    return path


def test_a_conversation_is_loaded_or_refused(saved):
    def check(content):
        path = written("a.json", content)
        try:
            agent = Agent.load(path, ScriptedProvider(["Fine."]))
        except ConfigurationError as error:
            str(error).encode()
            return
        repr(agent)
        for codec in CODECS.values():
            codec.encode_request(agent.conversation_history, ResolvedOptions(), "m1")
        assert agent.chat_sync("And?").content == "Fine."
        agent.save(path)

    text = saved["a.json"]
    fuzz(check, mutations(json.loads(text)).map(json.dumps) | spliced(text), [text.replace('"w1"', '"\\ud800"')])


def test_a_recording_is_replayed_or_refused(saved):
    def check(content):
        path = written("r.jsonl", content)
        try:
            with replay(path):
                agent = Agent(ScriptedProvider(["never"]), tools=[double], system_prompt="You help.")
                agent.chat_sync("Twice 4?")
        except NbagentError as error:
            str(error).encode()

    text = saved["r.jsonl"]
    fuzz(check, changed_line(text), [text.replace("You help.", "\\ud800")])
