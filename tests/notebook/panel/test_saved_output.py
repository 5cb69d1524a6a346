"""A panel's output in the saved notebook: the conversation as of its last turn."""

import re

import pytest
from support.panels import Panel, script

pytestmark = pytest.mark.kernel


@pytest.fixture
def kernel(shared):
    return shared


def saves(panel, *texts):
    """Wait until the saved output has these texts, in this order."""
    panel.until(lambda: re.search(".*".join(map(re.escape, texts)), panel.saved["text/plain"], re.DOTALL))


def test_it_follows_panel_and_cells(kernel):
    script(kernel, "'**First** answer.'", "'Second answer.'", "RuntimeError('no <b>network</b>')")
    panel = Panel(kernel)
    assert panel.saved["text/plain"] == "No messages yet."
    panel.ask("one?")
    saves(panel, "> one?", "**First** answer.")
    assert "<strong>First</strong> answer." in panel.saved["text/html"]
    kernel.ok("%%agent\ntwo?")
    saves(panel, "> one?", "> two?", "Second answer.")
    assert "cell [" in panel.saved["text/html"]
    panel.ask("three?")
    panel.until(lambda: "no &lt;b&gt;network&lt;/b&gt;" in panel.saved["text/html"])
    kernel.ok("%agent new")
    panel.until(lambda: panel.saved["text/plain"] == "No messages yet.")


def test_a_turn_is_sent_once_and_not_while_it_streams(kernel):
    def updates():
        return [m["content"]["data"]["text/html"] for m in kernel.messages() if m["msg_type"] == "update_display_data"]

    kernel.ok("answer = '\\n\\n'.join('word ' * 20 + str(i) for i in range(40))")
    kernel.ok("agent = Agent(ScriptedProvider([answer], delay=0.003))")
    panel = Panel(kernel)
    before = len(updates())
    panel.ask("go")
    saves(panel, "> go", "word 39")
    kernel.ok("1")  # the end of a cell changes nothing
    assert ["word 39" in page for page in updates()[before:] if "word 0" in page] == [True]


def test_only_the_end_of_a_very_long_conversation_is_saved(kernel):
    kernel.ok("import nbagent.notebook.panel.saved as saved; before, saved.MAX_CHARS = saved.MAX_CHARS, 3500")
    script(kernel, *(f"'answer {n} ' + 'x' * 1000" for n in range(4)))
    kernel.ok("for n in range(4): agent.chat_sync(f'question {n}')")
    panel = Panel(kernel)
    for text in (panel.bundle["text/plain"], panel.saved["text/plain"]):
        assert "2 earlier turns are omitted here." in text
        assert "question 1" not in text
        assert text.index("question 2") < text.index("answer 3")
    kernel.ok("saved.MAX_CHARS = before")


def test_without_a_person_each_display_keeps_its_content(kernel):
    """nbclient gives all displays with one id the last content. nbval compares each with its own content."""
    script(kernel, "'yes'")
    cells = "panel = nbagent.ChatPanel(agent)\npanel", "await panel.ask('one?'); panel"
    shown = [kernel.ok(code, allow_stdin=False).of("display_data")[-1] for code in cells]
    assert not [each for each in shown if each["transient"]]
    assert shown[0]["data"]["text/plain"] == "No messages yet."
    assert shown[1]["data"]["text/plain"].startswith("> one?\nyes")
