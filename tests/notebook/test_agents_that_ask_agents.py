"""Agents that run subagents, in a real kernel: in the cell and in the panel, live, and with approval."""

import re

import pytest
from support.kernels import WIPE
from support.panels import Panel, result

pytestmark = pytest.mark.kernel

HELPERS = f"""
{WIPE}
def look(at: str) -> str:
    'Look.'
    return f'saw {{at}}'
class Steps(Gated):
    async def stream(self, request):
        if request.messages[-1].role == 'user':
            yield LLMResponse('', [FunctionCall('look', {{'at': 'mass'}}, 'l')])
        else:
            async for each in super().stream(request): yield each
def asking(child):
    turns = [FunctionCall('research', {{'question': 'Heaviest?'}}, 'r'), 'The end.']
    return Agent(ScriptedProvider(turns), tools=[child.as_tool('research', 'Finds facts.')])
"""


def steps(kernel, gate):
    """An agent whose child calls a tool, and then says something before and after a file exists."""
    kernel.ok(f"agent = asking(Agent(Steps('It is the ', '**emperor**.', {str(gate)!r}), tools=[look]))")


def summaries(page):
    return [re.sub(r"<[^>]*>", "", each) for each in re.findall(r"<summary>(.*?)</summary>", page)]


def test_a_subagent_s_steps_appear_live_and_are_folded_at_the_end(shared, tmp_path):
    steps(shared, tmp_path / "gate")
    cell = shared.send("%%agent\nWhich penguin is the heaviest?")
    shared.until(cell, lambda: "It is the" in cell.html)
    assert cell.html.count(" open>") == 1
    assert [each.split("(")[0] for each in summaries(cell.html)] == ["research", "research working…", "look"]
    (tmp_path / "gate").touch()
    shared.ok(cell)
    assert " open>" not in cell.html
    assert "<strong>emperor</strong>" in cell.html
    assert cell.text.splitlines()[:2] == ['▸ research(question="Heaviest?")', '  ▸ look(at="mass")']
    assert shared.value("agent.trace.tree().roots[0].sums['n_calls']") == 4


def test_a_subagent_s_calls_are_approved_in_the_panel(shared):
    shared.ok("agent = asking(Agent(ScriptedProvider([call, 'Gone.']), tools=[wipe]))")
    panel = Panel(shared)
    panel.ask("Wipe")
    panel.until_text("wipe asks to run in your kernel, for the agent research")
    panel.click("Approve")
    panel.until_text("The end.")
    assert result(shared, "wiped") == "[('cities', 3)]"


def test_a_panel_shows_what_a_subagent_s_checks_print_below_its_call(shared):
    shared.ok("agent = asking(Agent(ScriptedProvider(['The emperor.']), validators=[lambda answer: print('checked')]))")
    panel = Panel(shared)
    panel.ask("Which penguin is the heaviest?")
    panel.until_text("The end.")
    assert "checked" in panel.text


def test_a_team_in_a_cell_and_in_a_panel(shared):
    shared.ok(
        "from nbagent import Team\n"
        "desk = Agent(ScriptedProvider([FunctionCall('hand_over', {'to': 'billing'}, 'h'), 'Bye.']))\n"
        "team = Team({'desk': desk, 'billing': Agent(ScriptedProvider(['Paid back.']))})"
    )
    lines = shared.ok("%%agent team\nI paid twice.").text.splitlines()
    assert (lines[0], lines[2:5]) == ("desk:", ["  billing speaks now.", "billing:", "Paid back."])
    panel = Panel(shared, "nbagent.ChatPanel(team)")  # it shows the past turn, and the next one
    panel.until_text("billing", "Paid back.")
    panel.ask("Thanks.")
    panel.until_text("Bye.")
    assert re.findall(r'nbagent-speaker [^"]*">(\w+)<', panel.html()) == ["desk", "billing", "desk"]
