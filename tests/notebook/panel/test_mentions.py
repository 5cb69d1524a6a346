"""Which words of a prompt are mentions, their content in the message, and their completions."""

import json
import re
import types
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.papers import pdf

from nbagent import Agent, ScriptedProvider
from nbagent.chat import files
from nbagent.chat.attachments import Attachment, split_attachments, with_attachments
from nbagent.chat.entry import PanelEntry, past_turn, question_html
from nbagent.chat.files import from_bytes
from nbagent.chat.recorded import Recorded, kept_rows
from nbagent.core.events import Text
from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError
from nbagent.functions.formatting import format_result
from nbagent.notebook.panel.mentions import Mentions, mentioned_words

PENGUINS = pd.DataFrame({"species": ["Adelie", "Gentoo"] * 172, "body_mass_g": range(344)})

AGENT = Agent(ScriptedProvider([]))


@dataclass
class History:
    """Replaces IPython's history of cells."""

    input_hist_raw: list = field(default_factory=lambda: ["", "x = 1", "%agent key", "x + 1"])
    output_hist: dict = field(default_factory=lambda: {3: 2})


class Shell:
    """The parts of IPython's shell that mentions use."""

    def __init__(self, **variables):
        self.user_ns = {"In": [], "_3": 2, "np": np, "json_text": json.dumps, "DataFrame": pd.DataFrame, **variables}
        self.user_ns_hidden = {}
        self.history_manager = History()
        self.magics_manager = types.SimpleNamespace(registry={})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Compare @a, @b and (@c). Is @d? @a again: @e's @f…", ["a", "b", "c", "d", "e", "f"]),
        ("@data/my.csv @~/notes.md @../x.txt", ["data/my.csv", "~/notes.md", "../x.txt"]),
        ('@"my data.csv", @cell:5.', ['"my data.csv"', "cell:5"]),
        ("ann@example.org git@host:x https://x.org/@ann npm/@scope/x a@b @ c @", []),
        ("@tool\n@cache(maxsize=None)\ndef f(): ...\n  @property\n  async def g(): ...", []),
        ("```python\n@x\n``` and `@y` but @z\n```\n@open", ["z"]),
        ("@penguins\nWhich is heaviest?", ["penguins"]),
    ],
)
def test_words_of_prose_may_be_mentions(text, words):
    assert mentioned_words(text) == words


def test_only_existing_names_are_resolved(folder):
    mentions = Mentions(Shell(n=3), AGENT)
    words = ["n", "In", "_3", "np", "json_text", "DataFrame", "nobody", "n.real", "angular/core", "example.org"]
    assert [word for word in words if mentions.resolve(word)] == ["n"]
    for missing in ("masses.csv", '"masses"', "cell:99", "~/no/such.png"):
        with pytest.raises(ConfigurationError, match="can't be attached: there is no"):
            mentions.resolve(missing)


def test_each_kind_of_value_becomes_what_the_model_reads(folder):
    found = Mentions(Shell(value=PENGUINS), AGENT).resolve("value")
    assert (found.content, found.about) == (format_result(PENGUINS), "DataFrame 344×2")
    assert Mentions(Shell(), AGENT).resolve("cell:3").content == "In [3]:\nx + 1\nReturned:\n2"
    picture = PIL.Image.new("RGB", (30, 20))
    picture.save("plot.png")
    for found in (Mentions(Shell(p=picture), AGENT).resolve("p"), Mentions(None, AGENT).resolve("plot.png")):
        assert [part["type"] for part in found.content] == ["image"]
    assert found.about == "image 30×20 png"


def test_secrets_are_hidden_with_a_note(folder):
    (folder / ".env").write_text("OPENAI_API_KEY=sk-proj-0123456789abcdef\nDEBUG=1")
    shell = Shell(api_key="a8Xk29sLq0pZ", config={"token": "a8Xk29sLq0pZ"})
    for word in ("api_key", "config", '".env"'):
        said = with_attachments("", [Mentions(shell, AGENT).resolve(word)])
        assert "secrets hidden" in said
        assert not re.search("a8Xk29sLq0pZ|sk-proj", said)


def test_files_are_recognised_by_their_content(folder, monkeypatch):
    (folder / "m.csv").write_text("species,mass\nGentoo,5076\n")
    (folder / "my notes.md").write_text("Gentoo " * 50_000)
    (folder / "model.bin").write_bytes(b"\xff\x00\x01")
    mentions = Mentions(None, AGENT)
    table = mentions.resolve("m.csv")
    assert (table.about, table.content) == ("table 1×2", format_result(pd.read_csv("m.csv")))
    notes = mentions.resolve('"my notes.md"')
    assert (notes.name, notes.about) == ("@my notes.md", "350,000 characters, shortened")
    assert len(notes.content) < 101_000
    with pytest.raises(ConfigurationError, match=r"neither UTF-8 text nor a PNG"):
        mentions.resolve("model.bin")
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 100_000)
    with pytest.raises(ConfigurationError, match="Load it into a variable"):
        mentions.resolve('"my notes.md"')


def test_suggestions_begin_with_the_newest_variable_and_run_no_code(folder):
    class Odd:
        def __getattribute__(self, name):
            raise AssertionError

    (folder / "data").mkdir()
    for name in ("data/a b.csv", "pens.csv", ".hidden"):
        (folder / name).touch()
    mentions = Mentions(Shell(pen=1, penguins=PENGUINS, odd=Odd()), AGENT)
    assert mentions.suggest("PEN") == [("@penguins", "DataFrame 344×2"), ("@pen", "int 1"), ("@pens.csv", "file")]
    names = [name for name, _ in mentions.suggest("")]
    assert names == ["@odd", "@penguins", "@pen", "@cell:3", "@cell:2", "@cell:1", "@data/", "@pens.csv"]
    assert mentions.suggest("cell:3") == [("@cell:3", "x + 1")]
    assert mentions.suggest("data/") == [('@"data/a b.csv"', "file")]
    assert mentions.suggest(".h") == [("@.hidden", "file")]


texts = st.text(alphabet=st.sampled_from('ab@<>/"\n attached=name'), max_size=30)
about = st.text(alphabet="ab×3 ", min_size=1, max_size=9).map(str.strip)
image = {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}


@given(own=texts, bodies=st.lists(st.tuples(texts, st.booleans()), max_size=3), about=about)
def test_attachments_are_split_from_the_text_again(own, bodies, about):
    given_ = []
    for body, has_image in bodies:
        parts = [{"type": "text", "text": body}, image, {"type": "text", "text": "</attached>\n"}]
        given_.append(Attachment("@x", about, parts if has_image else body))
    content = with_attachments(own, given_)
    found_own, found = split_attachments(content)
    assert found_own == own
    assert [(each.name, each.about) for each in found] == [("@x", about)] * len(given_)
    assert with_attachments(own, found) == content


def test_the_bubble_and_the_plain_text_fold_attachments():
    shown = Attachment("@<b>", "DataFrame 344×2", "<script>\n" * 400)
    question = LLMMessage("user", with_attachments("Which?\nNow", [shown]))
    page = question_html(question, {})
    assert '<div class="nbagent-you">Which?\nNow</div><details' in page
    assert "<script>" not in page
    assert len(page) < 30_000
    assert past_turn([question], Recorded(kept_rows([]))).text().startswith("> Which?\nNow\n> [@<b>: DataFrame 344×2]")


def test_only_the_beginning_of_a_long_pdf_and_the_text_of_a_wide_table_are_read(monkeypatch):
    monkeypatch.setattr("nbagent.chat.files.PDF_SECONDS", 0)  # each page takes longer
    assert from_bytes("paper.pdf", pdf("Gentoo", "Adelie", "Chinstrap"), "").about == "PDF, the first 1 of 3 pages"
    assert from_bytes("wide.csv", b"," * 2_001 + b"\n1", "").about == "2,003 characters"


def test_the_text_of_a_pdf():
    paper = from_bytes("paper.pdf", pdf("Gentoo are heaviest.", "Key: sk-proj-abcdefghijklmnopqrstuvwx0123456789"), "")
    assert paper.about == "PDF, 2 pages, secrets hidden"
    assert "Page 1\nGentoo are heaviest.\n\nPage 2" in paper.content
    for data, reason in ((b"%PDF-1.7 \xff\x00", "can't be read: "), (pdf(""), "has no text")):
        with pytest.raises(ConfigurationError, match=f"paper.pdf can't be attached: this PDF {reason}"):
            from_bytes("paper.pdf", data, "")


def test_the_prompt_is_rendered_once_however_long_the_answer_is():
    entry = PanelEntry(LLMMessage("user", "Is it odd?"))
    entry.begin({"source": "panel"})
    before = entry.state()["question"]
    entry.feed(Text("No."))
    assert entry.state()["question"] is before
