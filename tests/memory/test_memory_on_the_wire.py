"""Memory in requests: Claude receives its native tool, other providers receive a function."""

import json

import pytest
from support.conformance_case import Case
from support.dialects.providers import DIALECTS
from support.dialects.script import call, reply

from nbagent import Agent, Memory, create_provider
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats.anthropic import MessagesCodec
from nbagent.providers.options.resolved import ResolvedOptions

NOTE = "/memories/units.md"


async def test_claude_uses_memory_as_its_own_tool(tmp_path):
    def connect(url, **options):
        return create_provider("claude", model="claude-sonnet-5", base_url=url, **options)

    memory = Memory(tmp_path / "memory.sqlite", write=True)
    memory.run("create", path=NOTE, file_text="Metric.\n")
    view = json.dumps({"command": "view", "path": NOTE})
    change = json.dumps({"command": "str_replace", "path": NOTE, "old_str": "Metric", "new_str": "Imperial"})
    script = [reply(call("memory", view, id="c1")), reply(call("memory", change, id="c2")), reply("Noted.")]
    async with Case("claude", DIALECTS["claude"], connect).talk(*script) as talk:
        await Agent(talk.provider).use(memory).chat("I use feet now.")
        first, last = talk.server.asked[0].body, talk.server.asked[-1].body
    assert first["tools"][0] == {"type": "memory_20250818", "name": "memory"}
    assert f"- {NOTE}: Metric." in json.dumps(first)
    assert f"{NOTE} (version 1, 1 line)" in json.dumps(last)
    assert memory.frame["text"].tolist() == ["Imperial.\n"]


@pytest.mark.parametrize(
    ("provider", "model", "write", "is_native"),
    [
        ("claude", "claude-sonnet-5", True, True),
        ("claude", "claude-sonnet-5", False, False),  # the native tool could write
        ("claude", "claude-3-7-sonnet-latest", True, False),
        ("minimax", "MiniMax-M2.5", True, False),
    ],
)
def test_which_models_receive_the_native_tool(tmp_path, provider, model, write, is_native):
    tools = Memory(tmp_path / "memory.sqlite", write=write).tools.list_functions()
    body = json.loads(MessagesCodec(CATALOG[provider]).encode_request([], ResolvedOptions(tools), model))
    memory, search = body["tools"]
    assert ("input_schema" in memory, "type" in memory) == (not is_native, is_native)
    assert search["input_schema"]["required"] == ["query"]
