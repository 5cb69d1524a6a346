"""Highlights `%%agent` cells: options and `{expressions}` in the text of a question. All other cells are IPython's."""

from collections.abc import Iterator

from ipython_pygments_lexers import IPython3Lexer
from pygments.lexer import Lexer, RegexLexer, bygroups, using
from pygments.lexers.python import PythonLexer
from pygments.lexers.special import TextLexer
from pygments.token import Keyword, Name, Operator, String, Text, Whitespace
from sphinx.application import Sphinx


class Question(RegexLexer):
    """A `%%agent` cell: its line, then prose in which `{expressions}` are Python."""

    tokens = {
        "root": [(r"(%%)(agent)\b", bygroups(Operator, Keyword), "line")],
        "line": [
            (r"\n", Whitespace, "prose"),
            (r"(?<=\s)--?[a-z-]+", Name.Attribute),
            (r'"[^"\n]*"', String),
            (r"[^\n]", Text),
        ],
        "prose": [
            (r"\{\{|\}\}", Text),
            (r"(\{)([^{}\n]+)(\})", bygroups(String.Interpol, using(PythonLexer), String.Interpol)),
            (r"[^{}]+|[{}]", Text),
        ],
    }


class Cell(Lexer):
    """A cell of a notebook: a question, or else what `otherwise` reads."""

    otherwise: type[Lexer] = IPython3Lexer

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, object, str]]:
        """Pygments' entry point."""
        lexer = Question if text.startswith("%%agent") else self.otherwise
        return lexer(**self.options).get_tokens_unprocessed(text)


class QuestionOrText(Cell):
    """A block without a language: a question, or plain text."""

    otherwise = TextLexer


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry point."""
    for language in ("python", "ipython", "ipython3"):
        app.add_lexer(language, Cell)
    for language in ("question", "text"):
        app.add_lexer(language, QuestionOrText)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
