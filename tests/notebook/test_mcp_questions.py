"""A real MCP server in a panel: its resources, and its questions while a tool runs (typed: `tests/mcp/client`)."""

import pytest
from support.mcp_servers import PLAYGROUND
from support.panels import Panel

pytestmark = pytest.mark.kernel


@pytest.fixture(scope="module")
def kernel(shared):
    if not shared.takes_clicks:
        pytest.skip("kernels before ipykernel 7 take clicks between cells only")
    shared.ok(f"""
        import sys
        from nbagent import MCPServer
        agent = Agent(ScriptedProvider([FunctionCall('play_order', {{}}), 'done'] * 2), tools=[])
        server = MCPServer(sys.executable, {PLAYGROUND!r}, name='play')
        agent.use(server);
        await server.prepare()
        """)
    yield shared
    shared.ok("await agent.aclose()")


@pytest.mark.parametrize(("button", "result"), [("Answer", "1 of size L"), ("Deny", "decline")])
def test_a_server_s_question_is_a_form_in_the_panel(kernel, button, result):
    panel = Panel(kernel)
    panel.ask("Order.")
    panel.until_text("play asks you", "Which size?", "waiting for you…")
    panel.set({"value": '{"size": "L", "count": 1}'}, description="Answers, as JSON")
    panel.click(button)
    panel.until(lambda: not panel.find(description="Answers, as JSON"))
    panel.until(lambda: kernel.ok("agent.trace.tool_calls['result_text'].iloc[-1]").result == repr(result))


def test_a_resource_is_mentioned(kernel):
    kernel.ok("seen = []")
    kernel.ok("agent.provider = ScriptedProvider(lambda messages, tools: seen.append(messages[-1].content) or 'ok')")
    panel = Panel(kernel)
    panel.tell("complete", "@play:notes")
    panel.until(lambda: any("suggestions" in message for message in kernel.told(panel.root)))
    (suggestions,) = [each["suggestions"] for each in kernel.told(panel.root) if "suggestions" in each]
    assert suggestions[0] == ["@play:notes://today", "What is planned."]
    panel.ask('What of @play:notes://today, @play:notes://monday/plan and @"play:today\'s notes" is new?')
    panel.until_text("ok")
    sent = kernel.value("seen[-1]")
    assert sent.count("Buy milk.") == 2
    assert "The plan of monday." in sent
    assert '<attached name="@play:notes://today" about="resource of an MCP server, secrets hidden">' in sent
    assert [sent.count("</attached>"), "sk-abc" in sent] == [3, False]
    panel.type("@play:nowhere://x")
    panel.until(lambda: "be attached: The MCP server" in panel.draft)
