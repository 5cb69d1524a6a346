"""What a real MCP server asks the person while its tool runs, in a cell and in a panel of a real kernel."""

import json

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
        agent = Agent(ScriptedProvider([FunctionCall('play_order', {{}}), 'done'] * 3), tools=[])
        agent.use(MCPServer(sys.executable, {PLAYGROUND!r}, name='play'));
        """)
    yield shared
    shared.ok("await agent.aclose()")


def test_the_question_is_a_form_below_the_cell(kernel):
    cell = kernel.send("%%agent\nOrder.", cell_id="order")
    box = kernel.widget(cell, _model_name="VBoxModel")
    kernel.tell(box, method="update", state={"_view_count": 1}, buffer_paths=[])
    field = kernel.widget(cell, _model_name="TextareaModel", description="Answers, as JSON")
    answers = {"size": "S", "count": 2}
    kernel.tell(field, method="update", state={"value": json.dumps(answers)}, buffer_paths=[])
    button = kernel.widget(cell, _model_name="ButtonModel", description="Answer")
    kernel.tell(button, method="custom", content={"event": "click"})
    kernel.wait(cell)
    assert kernel.ok("agent.trace.tool_calls['result_text'].iloc[-1]").result == "'2 of size S'"


@pytest.mark.parametrize(("button", "result"), [("Answer", "1 of size L"), ("Deny", "decline")])
def test_and_in_the_panel(kernel, button, result):
    panel = Panel(kernel)
    panel.ask("Order.")
    panel.until_text("play asks you", "Which size?", "waiting for you…")
    panel.set({"value": '{"size": "L", "count": 1}'}, description="Answers, as JSON")
    panel.click(button)
    panel.until(lambda: not panel.find(description="Answers, as JSON"))
    panel.until(lambda: kernel.ok("agent.trace.tool_calls['result_text'].iloc[-1]").result == repr(result))
