"""Tools that the provider runs: offered by a neutral name, recorded in the trace, sent again, and dropped."""

import base64
import hashlib
import json

import pytest
from support.loopback import Answer, Loopback, claude_said, responses_said
from support.provider_answers import (
    BLOCKS,
    FOUND,
    GROUNDED,
    ITEMS,
    NEWS,
    RUBY,
    SEARCH,
    claude_stream,
    gemini_stream,
    openai_worked,
    responses_stream,
)

import nbagent
from nbagent import Agent, FunctionCall, ScriptedProvider, create_provider
from nbagent.core.messages import Usage
from nbagent.errors import ConfigurationError
from nbagent.pricing import price
from nbagent.providers.formats.responses_tools import call_of

PATHS = {"claude": "", "gemini": "/v1beta"}
MODELS = {"claude": "claude-sonnet-5", "openai": "gpt-5.6-terra", "gemini": "gemini-3.7-flash", "zhipu": "glm-5.2"}
#: Images of 3 × 2 and of 9 × 9 pixels, in Base64.
GIF, OTHER = (
    base64.b64encode(
        b"GIF89a" + bytes([width, 0, height, 0, 0, 0, 0, 44, 0, 0, 0, 0, width, 0, height, 0, 0, 2])
    ).decode()
    for width, height in ((3, 2), (9, 9))
)
SAID = {"claude": claude_said, "openai": responses_said}
#: An answer of each provider in which it searched.
SEARCHED = {
    "claude": claude_stream(*BLOCKS),
    "openai": responses_stream(*ITEMS),
}


@pytest.fixture
async def server():
    async with Loopback() as loopback:
        yield loopback


def agent_of(provider_name, server, **options):
    more = {"api": "responses"} if provider_name == "openai" else {}
    url = server.url + PATHS.get(provider_name, "/v1")
    provider = create_provider(
        provider_name, model=MODELS.get(provider_name, "m1"), api_key="test-key", base_url=url, **more
    )
    return Agent(provider, **options)


def mean_by(column: str) -> float:
    """The mean of a column."""
    return 5.0


async def ask(agent, question="Which Ruby is stable?", **options):
    result = await agent.chat(question, **options)
    await agent.aclose()
    return result


async def test_claude_searches_and_cites(server):
    server.answers = [Answer(SEARCHED["claude"])]
    agent = agent_of("claude", server, tools=[mean_by, nbagent.web_search(max_uses=3)])
    result = await ask(agent)
    sent = server.requests[0].json["tools"]
    assert [tool["name"] for tool in sent] == ["mean_by", "web_search"]
    assert (sent[1]["type"], sent[1]["max_uses"]) == ("web_search_20250305", 3)
    assert result.content == "It is Ruby **4.0.6**."
    ruby, news = result.citations
    assert ruby == {"start": 6, "end": 20, **RUBY, "cited_text": "It is 4.0.6."}
    assert news["url"] == NEWS["url"]
    assert agent.trace.citations["text"].tolist() == ["Ruby **4.0.6**"] * 2
    assert agent.trace.citations["url"].tolist() == [RUBY["url"], NEWS["url"]]
    assert agent.trace.citations["message_id"][0] == agent.trace.messages["message_id"].iloc[-1]
    call = agent.trace.tool_calls.iloc[0]
    assert (call["name"], call["args"], call["source"]) == ("web_search", {"query": "stable ruby"}, "provider:claude")
    assert (call["result_text"], call["is_error"]) == (f"{RUBY['title']}\n{RUBY['url']}", False)
    assert call["call_id"] == agent.trace.calls["call_id"][0]
    own = agent.trace.blocks.query("tool_call_id == @call.tool_call_id")["type"].tolist()
    assert own == ["tool_call", "tool_result"]
    assert json.loads(agent.trace.calls["usage_raw"][0])["server_tool_use"] == {"web_search_requests": 1}
    assert result.function_calls == []
    assert result.cost == pytest.approx(0.01 + (9 * 2 + 5 * 10) / 1e6)  # the search, then the tokens


async def test_openai_searches_and_cites(server):
    server.answers = [Answer(SEARCHED["openai"])]
    agent = agent_of("openai", server, tools=["web_search"])
    result = await ask(agent)
    assert server.requests[0].json["tools"] == [{"type": "web_search"}]
    assert server.requests[0].json["include"] == ["reasoning.encrypted_content", "web_search_call.action.sources"]
    assert result.citations == [{"start": 6, "end": 16, **RUBY, "cited_text": None}]
    call = agent.trace.tool_calls.iloc[0]
    assert (call["name"], call["args"], call["result_text"]) == ("web_search", {"query": "stable ruby"}, RUBY["url"])


async def test_gemini_is_grounded(server):
    metadata = {"groundingMetadata": GROUNDED}
    server.answers = [Answer(gemini_stream({"text": "Né: it "}, {"text": "Ruby 4.0.6 is."}, **metadata))]
    agent = agent_of("gemini", server)
    result = await ask(agent, tools=["web_search"])
    assert server.requests[0].json["tools"] == [{"googleSearch": {}}]
    assert result.citations == [{"start": 7, "end": 17, **RUBY, "cited_text": None}]
    assert agent.trace.citations["text"][0] == "Ruby 4.0.6"
    call = agent.trace.tool_calls.iloc[0]
    assert (call["name"], call["args"]) == ("web_search", {"queries": ["stable ruby"]})
    assert call["result_text"] == f"{RUBY['title']} {RUBY['url']}"


async def test_openai_shows_the_images_that_its_code_draws(server):
    server.answers = [Answer(openai_worked(GIF, OTHER))]
    agent = agent_of("openai", server, tools=["web_search", "code_execution", "image_generation"])
    result = await ask(agent)
    assert [image.to_base64() for image in result.images] == [GIF, OTHER]
    _, code, image = agent.trace.tool_calls.to_dict("records")
    assert code["result_text"].startswith("<b>42</b>\n[image: ")
    assert image["args"] == {"prompt": "A <i>Gentoo</i> that codes"}
    assert GIF not in str(agent.trace.rows("blocks"))
    images = agent.trace.blocks.query("type == 'image'")["sha256"].tolist()
    assert images == [hashlib.sha256(base64.b64decode(each)).hexdigest() for each in (GIF, OTHER)]


@pytest.mark.parametrize(("provider", "answer"), [("claude", BLOCKS), ("openai", ITEMS)], ids=["claude", "openai"])
async def test_the_next_turn_sends_their_blocks_byte_for_byte(provider, answer, server):
    server.answers = [Answer(SEARCHED[provider]), Answer(SAID[provider]("Yes."))]
    agent = agent_of(provider, server, tools=["web_search"])
    await agent.chat("Which Ruby is stable?")
    await ask(agent, "Are you sure?")
    body = server.requests[1].body.decode()
    assert all(json.dumps(each, separators=(",", ":"), ensure_ascii=False) in body for each in answer)


@pytest.mark.parametrize("provider", ["claude", "openai"])
async def test_another_provider_receives_only_the_text(provider, server):
    other = {"claude": "openai", "openai": "claude"}[provider]
    server.answers = [Answer(SEARCHED[provider]), Answer(SAID[other]("Yes."))]
    agent = agent_of(provider, server, tools=["web_search"])
    text = (await agent.chat("Which Ruby is stable?")).content
    agent.provider = agent_of(other, server).provider
    await ask(agent, "Are you sure?")
    body = server.requests[1].body.decode()
    assert text in body
    assert not any(word in body for word in ("srvtoolu_1", "ws_1", "encrypted_index", "citations", "gAAAAAB"))


async def test_a_paused_turn_continues(server):
    paused = claude_stream({"type": "text", "text": "I search. "}, SEARCH, reason="pause_turn", searches=0)
    server.answers = [Answer(paused), Answer(claude_stream(FOUND, *BLOCKS[2:]))]
    agent = agent_of("claude", server, tools=["web_search"])
    result = await ask(agent)
    first, second = server.requests[1].json["messages"]
    assert (first["role"], second["role"]) == ("user", "assistant")
    assert second["content"] == [{"type": "text", "text": "I search. "}, SEARCH]
    assert (result.status, result.iterations, result.content) == ("ok", 2, "It is Ruby **4.0.6**.")
    assert agent.trace.tool_calls["result_text"].dropna().tolist() == [f"{RUBY['title']}\n{RUBY['url']}"]


async def test_a_search_that_never_ended_is_not_sent_again(server):
    paused = claude_stream({"type": "text", "text": "I search. "}, SEARCH, reason="pause_turn", searches=0)
    server.answers = [Answer(paused), Answer(claude_said("Fine."))]
    agent = agent_of("claude", server, tools=["web_search"])
    await agent.chat("Which Ruby is stable?", max_iterations=1)
    await ask(agent, "Leave it.")
    assert server.requests[1].json["messages"][1]["content"] == [{"type": "text", "text": "I search. "}]


DOCS = nbagent.remote_mcp("https://mcp.example.org/mcp", name="docs", allowed_tools=["ask"])
RAN = [
    {"type": "server_tool_use", "id": "srvtoolu_2", "name": "bash_code_execution", "input": {"command": "ls"}},
    {
        "type": "bash_code_execution_tool_result",
        "tool_use_id": "srvtoolu_2",
        "content": {
            "type": "bash_code_execution_result",
            "stdout": "a.csv",
            "stderr": "",
            "return_code": 0,
            "content": [{"type": "bash_code_execution_output", "file_id": "file_1"}],
        },
    },
    {"type": "text", "text": "One file."},
]


async def test_code_continues_in_the_container_with_its_files(server):
    container = {"id": "container_1", "expires_at": "2999-01-01T00:00:00Z"}
    ran = claude_stream(*RAN, searches=0, container=container)
    server.answers = [Answer(ran), Answer(claude_said("Still one.")), Answer(claude_said("Yes."))]
    agent = agent_of("claude", server, tools=["code_execution"])
    await agent.chat("Write a file.")
    await agent.chat("And now?")
    assert agent.trace.tool_calls["result_text"][0] == "a.csv\nfile_1"
    assert "container" not in server.requests[0].json
    assert server.requests[1].json["container"] == "container_1"
    agent.tools_off.add("code_execution")
    await ask(agent, "Thanks?")
    assert "container" not in server.requests[2].json


@pytest.mark.parametrize(
    ("provider", "tool", "message"),
    [
        ("deepseek", "web_search", "web_search: deepseek has no such tool.*claude"),
        ("deepseek", DOCS, "remote_mcp: deepseek has no such tool"),
        ("gemini", nbagent.web_search(max_uses=1), "gemini does not accept max_uses here; it accepts no options"),
        ("openai", nbagent.web_search(blocked_domains=["a.org"]), "only max_uses, allowed_domains, user_location"),
    ],
)
async def test_a_tool_or_an_option_that_the_provider_lacks_is_an_error(provider, tool, message, server):
    agent = agent_of(provider, server, tools=[tool])
    with pytest.raises(ConfigurationError, match=message):
        await ask(agent)
    assert server.requests == []


async def test_with_tool_search_functions_are_deferred_until_found(server):
    server.answers = [Answer(claude_said("Hi."))]
    await ask(agent_of("claude", server, tools=[mean_by, nbagent.tool_search]))
    mean, search = server.requests[0].json["tools"]
    assert mean["defer_loading"] is True
    assert search["type"] == "tool_search_tool_bm25_20251119"


async def test_claude_uses_an_mcp_server_itself(server):
    use = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "ask", "server_name": "docs", "input": {"q": "ruby"}}
    got = {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False}
    got["content"] = [{"type": "text", "text": "4.0.6"}]
    server.answers = [Answer(claude_stream(use, got, {"type": "text", "text": "It is 4.0.6."}))]
    agent = agent_of("claude", server, tools=[DOCS])
    await ask(agent)
    (request,) = server.requests
    assert request.json["mcp_servers"] == [{"type": "url", "url": "https://mcp.example.org/mcp", "name": "docs"}]
    assert request.headers["anthropic-beta"] == "mcp-client-2025-11-20"
    (toolset,) = request.json["tools"]
    assert (toolset["mcp_server_name"], toolset["configs"]) == ("docs", {"ask": {"enabled": True}})
    call = agent.trace.tool_calls.iloc[0]
    assert (call["name"], call["args"], call["result_text"]) == ("ask", {"q": "ruby"}, "4.0.6")


def test_no_provider_tool_is_on_unless_it_is_named():
    assert Agent(ScriptedProvider("Hi"), tools=[mean_by]).offered_tools() == ["mean_by"]
    assert Agent(ScriptedProvider("Hi"), tools=[mean_by, "web_search"]).offered_tools() == ["mean_by", "web_search"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Agent("local", tools=["mean_by"]), "Provider tools have names: web_search"),
        (lambda: nbagent.web_search(max_uses=0), "max_uses"),
        (lambda: nbagent.web_search(allowed_domains=["a.org"], blocked_domains=["b.org"]), "not both"),
        (lambda: nbagent.remote_mcp("file:///etc", name="x"), "http or https address"),
    ],
)
def test_wrong_input(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_calling_it_like_a_function_is_an_error():
    agent = Agent(ScriptedProvider([FunctionCall("web_search", {}), "Oh."]), tools=["web_search"])
    result = agent.chat_sync("Search")
    assert "is run by the provider" in result.function_calls[0]["result"]


@pytest.mark.parametrize(
    ("model", "queries", "fee"),
    [
        ("gemini-2.5-flash", [["a", "b"], ["c"]], 0.035),  # a prompt with searches
        ("gemini-3.7-flash", [["a", "a", "b"]], 0.028),  # distinct queries
    ],
)
def test_gemini_bills_prompts_before_version_3_and_queries_since(model, queries, fee):
    calls = [{"name": "web_search", "is_error": False, "arguments": {"queries": each}} for each in queries]
    assert price(Usage(), model, "gemini", {"provider_calls": calls}) == pytest.approx(fee)


def test_openai_bills_searches_but_not_opened_pages():
    actions = [
        {"type": "search", "query": "penguins"},
        {"type": "open_page", "url": "https://example.org"},
        {"type": "find_in_page", "url": "https://example.org", "pattern": "mass"},
    ]
    about = {"type": "web_search_call", "id": "w1", "status": "completed"}
    calls = [call_of({**about, "action": action}).to_dict() for action in actions]
    assert [call["name"] for call in calls] == ["web_search", "web_fetch", "web_fetch"]
    assert price(Usage(), "gpt-5.6-luna", "openai", {"provider_calls": calls}) == pytest.approx(0.01)
