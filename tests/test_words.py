"""The panel uses exactly the words of one table, `nbagent/chat/words.json`."""

import json
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "nbagent"
SCRIPTS = [PACKAGE / "chat" / "panel.js", PACKAGE / "server" / "page" / "page.js"]
#: What else comes through `t`: words of the page, and those that the kernel sends.
OTHERS = [PACKAGE / "server" / "page" / "index.html", *(PACKAGE / "chat").glob("*.py")]
OTHERS += [PACKAGE / "server" / "routes" / "page.py", *(PACKAGE / "notebook").rglob("*.py")]


def test_the_table_has_exactly_the_words_that_are_used():
    words = json.loads((PACKAGE / "chat" / "words.json").read_text("utf-8"))
    script = "".join(path.read_text("utf-8") for path in SCRIPTS)
    written = script + "".join(path.read_text("utf-8") for path in OTHERS)
    said = {text[1:-1] for text in re.findall(r'\bt\(("[^"\n]+"|`[^`\n]+`)', script)}
    assert {re.sub(r"\$\{[^}]+\}", "{}", text) for text in said} - words.keys() == set()
    parts = {key: re.split(r"\{\}", key) for key in words}
    assert [key for key, texts in parts.items() if not all(text.strip() in written for text in texts)] == []
    assert [key for key, chinese in words.items() if key.count("{}") != chinese.count("{}")] == []
