"""Characters that hide, reorder or overwrite text are visible wherever text appears."""

import logging
import re

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.core.render.control_chars import escape_control_chars, show_all_chars, show_control_chars
from nbagent.core.render.markdown import format_call, markdown_to_html

HIDDEN = [
    "\x1b[2K", "\x9b2J", "\x08", "\x7f", "\xad", "\u061c", "\u200b", "\u200e", "\u200f", "\u180e", "\u2028", "\u202e",
    "\u2060", "\u2066", "\u206a", "\ufeff", "\ufff9", "\U000e0041",
]  # fmt: skip
FOUND = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)


def test_each_hidden_character_is_shown():
    for hidden in HIDDEN:
        text = f"100 - 200{hidden}x"
        assert not FOUND.search(show_control_chars(text))
        assert show_all_chars(text) not in (text, "100 - 200x")
        assert not FOUND.search(escape_control_chars(text))
        assert not FOUND.search(markdown_to_html(text))
        assert not FOUND.search(format_call(f"f{hidden}", {f"a{hidden}": hidden}))


NEEDED = ["می\u200cخواهم", "👨\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "क्\u200dष", "a\r\nb\tc", "1\ufe0f\u20e3"]


def test_characters_that_scripts_and_emojis_need_are_kept():
    for text in NEEDED:
        assert show_control_chars(text) == escape_control_chars(text) == text


async def test_tables_and_logs_also_show_hidden_characters(caplog):
    agent = Agent(
        ScriptedProvider([FunctionCall("wi\u200bpe\x1b[2K", {"a\x1b[1A": "\x1b[8mx"}, "c"), "\x1b]0;t\x07\u202eend"])
    )
    agent.register_function("wipe", "Wipe.", lambda: None)
    await agent.chat("\u200fhello")
    trace = agent.trace
    for shown in (trace.tool_calls, trace.runs, trace.blocks):
        assert not FOUND.search(repr(shown))
        assert not FOUND.search(shown._repr_html_())
    with caplog.at_level("WARNING", logger="nbagent"):
        logging.getLogger("nbagent").warning("the tool %s failed", "wi\u200bpe\x1b[2K")
    assert caplog.messages == ["the tool wi⟨U+200B⟩pe failed"]
