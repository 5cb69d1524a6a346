"""`agent.map` and `%%agent --map` in a real kernel: the stop button keeps what is done, and the next call goes on."""

import pytest
from support.kernels import TIMEOUT

pytestmark = pytest.mark.kernel

HELPERS = """
%load_ext nbagent
import pandas as pd
from pydantic import BaseModel

class Word(BaseModel):
    letters: int

class Halting(LLMProvider):
    '''Answers; but waits for ever at the row `halt`.'''
    vendor, model_name, halt, asked = "scripted", "halting", None, []
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
    [
        "await agent.map(words, '{word}', concurrency=1)",
        "agent.map_sync(words, '{word}', concurrency=1)",
    ],
    ids=["await", "sync"],
)
def test_the_stop_button_keeps_what_is_done(kernel, call):
    kernel.run("Halting.halt = 'ccc'")
    cell = kernel.send(call)
    kernel.until(cell, lambda: "waiting" in cell.stdout)
    kernel.interrupt()
    kernel.wait(cell)
    assert cell.status == "error"
    done = kernel.ok("agent.last_map.status.tolist()")
    assert done.result == "['ok', 'ok', 'left', 'left']"
    kernel.run("Halting.halt = None")
    going_on = kernel.ok(f"frame = {call}\nframe.status.tolist(), Halting.asked")
    assert going_on.result == "(['ok', 'ok', 'ok', 'ok'], ['a', 'bb', 'ccc', 'ccc', 'dddd'])"


def test_a_cell_asks_about_each_row(kernel):
    cell = kernel.ok("%%agent --map words -o counted --shape Word\n{word}")
    assert "letters" in cell.result
    kept = kernel.ok("counted.letters.tolist(), counted.index.tolist()")
    assert kept.result == "([1, 2, 3, 4], [1, 1, 2, 3])"


def test_a_cell_shows_what_it_would_send(kernel):
    cell = kernel.ok("%%agent --map words --dry-run\nHow long is {word}?")
    assert "user: How long is bb?" in cell.result
    assert kernel.ok("Halting.asked").result == "[]"


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("%%agent --map wrods\n{word}", "--map wrods: there is no such variable; did you mean words?"),
        ("%%agent --map words\n{wrod}", "no columns named 'wrod'; did you mean word?"),
        ("%%agent --map words --new\n{word}", "--new does not go with --map"),
        ("%%agent --shape Word\nHi", "--shape goes with --map"),
    ],
)
def test_what_is_wrong_is_named_before_anything_is_sent(kernel, cell, problem):
    failed = kernel.run(cell)
    assert failed.status == "error"
    assert problem in failed.traceback + failed.stderr  # the latter of wrong options
    assert "File " not in failed.traceback
    assert kernel.ok("Halting.asked").result == "[]"


COSTLY = "costly = Agent(ScriptedProvider(lambda *_: 'fine', price={'input': 0, 'output': 1e6}))"
OVER = f"{COSTLY}\n(await costly.map(words, '{{word}}', budget=3)).status.tolist()"


def test_a_map_over_its_budget_asks_the_person(kernel):
    cell = kernel.send(OVER)
    prompt = kernel.client.get_stdin_msg(timeout=TIMEOUT)["content"]["prompt"]
    assert "4 rows may cost about $800.00" in prompt
    assert prompt.endswith("Begin?\n[y/N] ")
    kernel.client.input("y")
    kernel.wait(cell)
    assert (cell.status, cell.result) == ("ok", "['ok', 'ok', 'ok', 'ok']")


def test_a_map_over_its_budget_is_refused_where_nobody_is(kernel):
    cell = kernel.run(OVER, allow_stdin=False)
    assert cell.status == "error"
    assert "pass allow_partial=True" in cell.traceback


def test_a_wrong_cell_changes_nothing(kernel):
    cell = kernel.run("%%agent --map words -m local -s 'Be rude.'\nWhat is {nope}?")
    assert "there are no columns named 'nope'. The data has word." in cell.reply["content"]["evalue"]
    assert kernel.ok("(agent.provider.vendor, agent.system_prompt)").result == "('scripted', None)"
