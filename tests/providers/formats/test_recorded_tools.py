"""Recorded answers in which vendors ran their own tools: the calls, the results, and what the text cites."""

import json

import pytest
from support import recordings
from support.recordings import load, make_provider

from nbagent import Agent

pytestmark = recordings.needed
#: By record: the tools that the vendor ran, whether it told their results, and how many times the text cites.
TOLD = {
    "anthropic-mess-2c822a32": (["web_search"], True, 2),
    "anthropic-mess-3c95eeae": (["web_fetch"], True, 0),
    "anthropic-mess-f09fb1a2": (["code_execution"], True, 0),
    "anthropic-mess-261e0dff": (["tool_search"], True, 0),
    "openai-resp-1f0af721": (["web_search"], False, 2),
    "openai-chat-348934f3": ([], True, 3),
    "google-gene-6c3f92cd": (["web_search"], True, 1),
    "google-gene-d3b9f8bc": (["web_fetch"], True, 1),
    "google-gene-ccf24007": (["code_execution"], True, 0),
}


@pytest.mark.parametrize("name", TOLD)
async def test_calls_and_citations(name):
    names, has_results, count = TOLD[name]
    record = next(each for each in load("dev.jsonl") if each["id"] == name)
    with recordings.replay_server() as server:
        server.default_id = name
        provider = make_provider(record, server.url, record["stream"])
        agent = Agent(provider)
        result = await agent.chat("Hello.", max_iterations=1)
        await provider.aclose()
    ran = agent.trace.tool_calls[agent.trace.tool_calls["source"].fillna("").str.startswith("vendor:")]
    assert ran["name"].tolist() == names
    assert all(ran["args"])
    assert (ran["result_text"].str.len() > 0).tolist() == [has_results] * len(names)
    assert not ran["is_error"].any()
    found = [(result.content[each["start"] : each["end"]], each["url"]) for each in result.citations]
    assert len(found) == count
    recorded = json.dumps(record)
    assert all(text and json.dumps(url)[1:-1] in recorded for text, url in found)
    assert agent.trace.citations["text"].tolist() == [text for text, _ in found]
