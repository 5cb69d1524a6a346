"""Recorded answers in which vendors ran their own tools: the calls, the results, and what the text cites."""

import pytest
from support import recordings
from support.recordings import load, make_provider

from nbagent import Agent

pytestmark = recordings.needed
#: By record: the calls with the beginnings of their results, and how often the text cites, and what first.
TOLD = {
    "anthropic-mess-2c822a32": (
        [
            (
                "web_search",
                {"query": "latest stable Ruby version"},
                "Ruby 3.4.7 Released | Ruby\nhttps://www.ruby-lang.org",
            )
        ],
        [
            ("The latest stable Ruby version is 4.0.6", "https://www.ruby-lang.org/en/downloads/"),
            ("was released in", ""),
        ],
    ),
    "anthropic-mess-3c95eeae": ([("web_fetch", {"url": "https://ai.pydantic.dev"}, "https://ai.pydantic.dev")], []),
    "anthropic-mess-f09fb1a2": (
        [("code_execution", {"command": 'echo "65465-6544 * 65464-6+1.02255" | bc -l'}, "-428330955.97745")],
        [],
    ),
    "anthropic-mess-261e0dff": ([("tool_search", {"query": "get exchange rate"}, "get_exchange_rate")], []),
    "openai-resp-1f0af721": (
        [("web_search", {"query": "ggplot2 CRAN archive release dates"}, "")],
        [("([stat.ethz.ch](", "https://stat.ethz.ch/CRAN/"), ("([rdocumentation.org](", "https://www.rdocumentation")],
    ),
    "openai-chat-348934f3": (
        [],
        [("([ruby-lang.org](", "https://www.ruby-lang.org/"), ("([dev.to](", "https://dev.to/"), ("(", "")],
    ),
    "google-gene-6c3f92cd": (
        [("web_search", {"queries": ["ggplot2 1.0.0 CRAN release date", "ggplot2 release history"]}, "rpkg.net http")],
        [("0 was released to CRAN on 2014-05-21.", "https://vertexaisearch.cloud.google.com/")],
    ),
    "google-gene-d3b9f8bc": (
        [("web_fetch", {"url": "https://rvest.tidyverse.org/articles/starwars.html"}, "URL_RETRIEVAL_STATUS_SUCCESS")],
        [("The first movie listed", "https://rvest.tidyverse.org/articles/starwars.html")],
    ),
    "google-gene-ccf24007": (
        [
            (
                "code_execution",
                {"code": "result = 65465 - 6544 * 65464 - 6 + 1.02255\nprint(result)"},
                "-428330955.97745",
            )
        ],
        [],
    ),
}


@pytest.mark.parametrize("name", TOLD)
async def test_calls_and_citations(name):
    calls, cited = TOLD[name]
    record = next(each for each in load("dev.jsonl") if each["id"] == name)
    with recordings.replay_server() as server:
        server.default_id = name
        provider = make_provider(record, server.url, record["stream"])
        agent = Agent(provider)
        result = await agent.chat("Hello.", max_iterations=1)
        await provider.aclose()
    ran = agent.trace.tool_calls[agent.trace.tool_calls["source"].fillna("").str.startswith("vendor:")]
    assert list(zip(ran["name"], ran["args"], strict=True)) == [call[:2] for call in calls]
    assert all(text.startswith(call[2]) for text, call in zip(ran["result_text"], calls, strict=True))
    assert not ran["is_error"].any()
    found = [(result.content[each["start"] : each["end"]], each["url"]) for each in result.citations]
    assert all(
        text.startswith(said) and url.startswith(source)
        for (text, url), (said, source) in zip(found, cited, strict=True)
    )
    assert agent.trace.citations["text"].tolist() == [text for text, _ in found]
