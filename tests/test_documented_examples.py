"""The examples in the documents that this project grew from run as written. So do the approval policies.

Only the import line and the address differ: a local server stands in for the provider.
"""

import re
from pathlib import Path

import pytest
from support.feeds import FeedServer, feed
from support.loopback import served

import nbagent
from nbagent import Agent, FunctionCall, ScriptedProvider


@pytest.fixture
def rss_feeds(monkeypatch, tmp_path):
    """Let the news tools read a local feed."""
    with served(FeedServer(feed=feed())) as server:
        sources = tmp_path / "sources.txt"
        sources.write_text(f"{server.url}/feed Times", "utf-8")
        monkeypatch.setenv("NBAGENT_RSS_SOURCES", str(sources))
        yield


def test_streaming_conversation(rss_feeds, llmock, capsys):
    from nbagent import RSS_TOOLS_DEFINITIONS, Agent, AgentConfig

    config = AgentConfig(
        model="qwen3-235b-instruct",
        api_key="your_api_key",
        base_url=llmock.base_url("openai"),
        system_prompt="你是一个智能新闻助手...",
        max_tool_iterations=5,
    )
    agent = Agent(config)
    for tool_def in RSS_TOOLS_DEFINITIONS:
        agent.register_tool(
            name=tool_def["name"],
            description=tool_def["description"],
            parameters=tool_def["parameters"],
            function=tool_def["function"],
        )
    llmock.call_tool("filter_rss_news", {"query": "AI"}).reply("这里是关于 AI 的新闻。")
    messages = [{"role": "user", "content": "帮我找一些关于AI的新闻"}]

    for chunk in agent.chat_stream(messages):
        if chunk["type"] == "text":
            print(chunk["content"], end="", flush=True)
        elif chunk["type"] == "tool_call":
            print(f"\n🔧 调用工具: {chunk['tool_name']}")
        elif chunk["type"] == "tool_result":
            print("✅ 工具执行完成")

    assert capsys.readouterr().out == "\n🔧 调用工具: filter_rss_news\n✅ 工具执行完成\n这里是关于 AI 的新闻。"
    assert "AI finds planets" in agent.trace.tool_calls["result_text"].iloc[0]
    agent.close()


POLICIES = [
    ("delete_rows", {"condition": "x"}, True),
    ("write", {"path": "/tmp/a.txt", "text": ""}, False),
    ("write", {"path": "/tmp/../etc/passwd", "text": ""}, True),
    ("write", {"path": "{folder}/link/passwd", "text": ""}, True),
    *(("write", {"path": path, "text": ""}, True) for path in ("a.txt", "/tmpx/a.txt")),
    ("read", {"path": "{folder}/a.csv"}, False),
    ("read", {"path": "{folder}/a.csv/.."}, True),
    ("read", {"path": "{folder}/link.csv"}, True),
]


async def test_the_approval_policies_on_the_page_about_tools(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "link.csv").symlink_to("/etc/passwd")
    page = (Path(__file__).parents[1] / "docs" / "how-to" / "tools.md").read_text("utf-8")
    (block,) = [each for each in re.findall("```python\n(.*?)```", page, re.DOTALL) if "nbagent.outside(" in each]
    namespace = {"nbagent": nbagent, "tool": nbagent.tool, "Path": Path}
    exec(block, namespace)
    asked = []
    calls = [
        FunctionCall(name, {key: value.format(folder=tmp_path) for key, value in arguments.items()}, str(number))
        for number, (name, arguments, _) in enumerate(POLICIES)
    ]
    tools = [namespace[each] for each in ("delete_rows", "write", "read")]
    provider = ScriptedProvider([*calls, "done"])
    agent = Agent(provider, tools=tools, approve=lambda call, _: asked.append(call.id) or True)
    result = await agent.chat("go")
    for each in tools:
        nbagent.live.unregister(each.__name__)
    assert not any(call["is_error"] for call in result.function_calls)
    assert asked == [str(number) for number, (*_, asks) in enumerate(POLICIES) if asks]
    monkeypatch.chdir("/tmp")
    assert nbagent.outside("/tmp")(path="~/a.txt"), "the tool may expand it"
