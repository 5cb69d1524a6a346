"""What a real MCP server asks the person while its tool runs, in a panel. Typed answers: `tests/mcp/client`."""

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
        agent.use(MCPServer(sys.executable, {PLAYGROUND!r}, name='play'));
        """)
    yield shared
    shared.ok("await agent.aclose()")


@pytest.mark.parametrize(("button", "result"), [("Answer", "1 of size L"), ("Deny", "decline")])
def test_the_question_is_a_form_in_the_panel(kernel, button, result):
    panel = Panel(kernel)
    panel.ask("Order.")
    panel.until_text("play asks you", "Which size?", "waiting for you…")
    panel.set({"value": '{"size": "L", "count": 1}'}, description="Answers, as JSON")
    panel.click(button)
    panel.until(lambda: not panel.find(description="Answers, as JSON"))
    panel.until(lambda: kernel.ok("agent.trace.tool_calls['result_text'].iloc[-1]").result == repr(result))
