"""`agent.map` and `%%agent --map` in a real kernel: after the stop button, the next call continues."""

import re

import pytest
from support.kernels import TIMEOUT
from support.panels import Panel

pytestmark = pytest.mark.kernel

HELPERS = """
%load_ext nbagent
import pandas as pd
from pydantic import BaseModel

class Word(BaseModel):
    letters: int

class Halting(LLMProvider):
    '''Answers; but waits for ever at the row `halt`.'''
    provider_name, model_name, halt, asked = "scripted", "halting", None, []
    def supports_function_calling(self): return True
    async def chat(self, messages, functions=None, temperature=None, **kwargs):
        text = messages[-1].text
        self.asked.append(text)
        if text == self.halt:
            print("waiting", flush=True)
            await asyncio.sleep(600)
        return LLMResponse('{"letters": %d}' % len(text), None, "stop")

words = pd.DataFrame({"word": ["a", "bb", "ccc", "dddd"]}, index=[1, 1, 2, 3])
"""


@pytest.fixture
def kernel(shared):
    shared.run("agent = Agent(Halting(), tools=nbagent.live)\nHalting.halt, Halting.asked = None, []")
    return shared


@pytest.mark.parametrize(
    "call",
    ["await agent.map(words, '{word}', concurrency=1)", "agent.map_sync(words, '{word}', concurrency=1)"],
    ids=["await", "sync"],
)
def test_the_stop_button_keeps_what_is_done(kernel, call):
    kernel.ok("Halting.halt = 'ccc'")
    cell = kernel.send(call)
    kernel.until(cell, lambda: "waiting" in cell.stdout)
    kernel.interrupt()
    assert kernel.wait(cell).status == "error"
    assert kernel.value("agent.last_map.status.tolist()") == ["ok", "ok", "left", "left"]
    kernel.ok("Halting.halt = None")
    going_on = kernel.value(f"({call}).status.tolist(), Halting.asked")
    assert going_on == (["ok", "ok", "ok", "ok"], ["a", "bb", "ccc", "ccc", "dddd"])


def test_a_cell_asks_about_each_row(kernel):
    shown = kernel.ok("%%agent --map words --dry-run\nHow long is {word}?").result
    assert "user: How long is bb?" in shown
    assert kernel.value("Halting.asked") == []
    cell = kernel.ok("%%agent --map words.head(3) -o counted --shape Word\n{word}")
    assert "letters" in cell.result
    assert kernel.value("counted.letters.tolist(), counted.index.tolist()") == ([1, 2, 3], [1, 1, 2])


def test_a_map_s_progress_bar_is_in_its_cell_and_in_a_panel(kernel):
    kernel.ok("Halting.halt = 'dddd'")
    panel = Panel(kernel)
    cell = kernel.send("%%agent --map words\n{word}")
    panel.until(lambda: "<span>3 of 4 rows</span> <span>$0.0000 · 0 errors</span>" in panel.state.get("bar", ""))
    assert panel.state["bar"].startswith(cell.of("display_data")[-1]["data"]["text/html"].partition("value=")[0])
    kernel.interrupt()
    assert kernel.wait(cell).status == "error"
    panel.until(lambda: "bar" not in panel.state)
    last = cell.of("update_display_data")[-1]["data"]["text/plain"]
    assert re.fullmatch(r"map · 3 of 4 rows · \$0\.0000 · 0 errors · \d+ s", last)


def test_a_cell_returns_a_value_of_the_type_in_shape(kernel):
    assert kernel.ok("%%agent --shape Word -o word\nccc").result == "Word(letters=3)"
    assert kernel.value("word.letters, _agent.data == word") == (3, True)


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("%%agent --map wrods\n{word}", "--map wrods: there is no variable wrods; did you mean words?"),
        ("%%agent other --map words -m local\n{wrod}", "no columns named 'wrod'"),
        ("%%agent --map words -m local -s 'Be rude.'\n{wrod}", "no columns named 'wrod'; did you mean word?"),
        ("%%agent --map words.hed()\n{word}", "--map words.hed(): AttributeError: "),
        ("%%agent --map words[\n{word}", "expected a Python expression, in quotes if it has spaces, got 'words['"),
        ("%%agent --shape Word --as df\n{word}", "give --as or --shape, not both"),
        ("%%agent --map words --new\n{word}", "--new can't be used with --map"),
    ],
)
def test_wrong_input_is_named_before_anything_is_sent(kernel, cell, problem):
    failed = kernel.run(cell)
    assert failed.status == "error"
    assert problem in failed.traceback + failed.stderr  # wrong options are on stderr
    assert "File " not in failed.traceback
    state = kernel.value("Halting.asked, agent.provider.provider_name, agent.system_prompt, 'other' in globals()")
    assert state == ([], "scripted", None, False)


def test_a_map_over_budget_needs_approval_and_is_refused_if_nobody_can_give_it(kernel):
    kernel.ok("costly = Agent(ScriptedProvider(lambda *_: 'fine', price={'input': 0, 'output': 1e6}))")
    over = "(await costly.map(words, '{word}', budget=3)).status.tolist()"
    assert "pass allow_partial=True" in kernel.run(over, allow_stdin=False).traceback
    cell = kernel.send(over)
    prompt = kernel.client.get_stdin_msg(timeout=TIMEOUT)["content"]["prompt"]
    assert "4 rows may cost about $800.00" in prompt
    assert prompt.endswith("Start?\n[y/N] ")
    kernel.client.input("y")
    assert kernel.ok(cell).result == "['ok', 'ok', 'ok', 'ok']"
