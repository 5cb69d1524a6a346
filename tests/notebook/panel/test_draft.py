"""The prompt before it is sent, in a real kernel: its mentions, its attachments and its cost."""

import base64

import pytest
from support.panels import Panel, result
from support.property_tools import PNG

pytestmark = pytest.mark.kernel
HELPERS = """
import base64, pathlib
import pandas as pd
penguins = pd.DataFrame({"species": ["Adelie", "Gentoo"], "body_mass_g": [3700, 5076]})
seen = []
def answer(messages, tools):
    seen.append(messages[-1].content)
    return f"answer {len(seen)}"
def priced(provider_name, model="claude-sonnet-5", answers=answer):
    provider = ScriptedProvider(answers, model=model)
    provider.provider_name = provider_name
    return Agent(provider)
"""


@pytest.fixture
def kernel(shared):
    shared.ok("seen.clear(); agent = priced('claude')")
    return shared


def until_below(panel, *texts):
    panel.until(lambda: all(text in panel.draft for text in texts))


def attach(panel, name="plot.png"):
    panel.tell("attach", name, base64.b64decode(PNG["data"]))
    panel.until(lambda: panel.attached == [name])


def test_the_line_says_what_would_be_sent_and_what_it_costs(kernel):
    panel = Panel(kernel)
    panel.type("Is @penguins like @cell:1 or @nobody, ann@example.org?")
    until_below(panel, "@penguins · DataFrame 2×2 · about", "@cell:1 · In [1] · about", " tokens · about $0.00")
    assert "nobody" not in panel.draft
    panel.type("")
    panel.until(lambda: not panel.draft)
    assert kernel.value("len(agent.trace.calls), seen") == (0, [])
    for provider, model, said in (("claude", "nobody-knows", " tokens · price unknown"), ("local", "qwen", " tokens<")):
        kernel.ok(f"agent = priced({provider!r}, {model!r})")
        panel = Panel(kernel)
        panel.type("Is it?")
        until_below(panel, said)
        assert "$" not in panel.draft


def test_mentions_are_resolved_when_the_prompt_is_sent(kernel):
    panel = Panel(kernel)
    panel.type("Is it @penguins?")
    until_below(panel, "DataFrame 2×2")
    kernel.ok("penguins.loc[2] = ['Chinstrap', 3733]")
    until_below(panel, "DataFrame 3×2")  # the line follows cells
    panel.click("Send")
    panel.until_text("answer 1")
    own, _, attached = kernel.value("seen[0].partition('\\n\\n')")
    assert own == "Is it @penguins?"
    assert attached.startswith('<attached name="@penguins" about="DataFrame 3×2">\nDataFrame: 3 rows x 2 columns')
    kernel.ok("del penguins")
    panel.click("Retry")
    panel.until_text("answer 2")
    assert kernel.value("seen[0] == seen[1]") is True
    panel.until(lambda: "> Is it @penguins?\n> [@penguins: DataFrame 3×2]\nanswer 2" in panel.saved["text/plain"])
    kernel.ok(HELPERS.partition("seen")[0])


def test_a_missing_file_returns_the_prompt_to_the_box(kernel):
    panel = Panel(kernel)
    attach(panel)
    panel.ask("Is @missing.csv?")
    panel.until_text("@missing.csv can't be attached: there is no such file in")
    assert (panel.box, panel.attached) == ("Is @missing.csv?", ["plot.png"])
    panel.ask("Is it?")
    panel.until_text("answer 1")
    assert "missing" not in panel.text
    assert result(kernel, "[part['type'] for part in seen[0]]") == "['text', 'image', 'text']"


def test_text_from_code_reads_no_files(kernel, tmp_path):
    (tmp_path / "notes.txt").write_text("hunter2")
    panel = Panel(kernel, "panel = nbagent.ChatPanel(agent); panel")
    kernel.ok(f"panel.ask('Is @{tmp_path / 'notes.txt'}?')")
    panel.until_text("answer 1")
    assert kernel.value("seen") == [f"Is @{tmp_path / 'notes.txt'}?"]
