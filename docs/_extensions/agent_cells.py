"""Highlight `%%agent` cells: options, and `{expressions}` in the prompt. Other cells are highlighted as IPython."""

from collections.abc import Iterator

from ipython_pygments_lexers import IPython3Lexer
from pygments.lexer import Lexer, RegexLexer, bygroups, using
from pygments.lexers.python import PythonLexer
from pygments.lexers.special import TextLexer
from pygments.token import Keyword, Name, Operator, String, Text, Whitespace
from sphinx.application import Sphinx


class Prompt(RegexLexer):
    """A `%%agent` cell: its first line, then prose in which `{expressions}` are Python."""

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
    """A notebook cell: a prompt, or text for the lexer `otherwise`."""

    otherwise: type[Lexer] = IPython3Lexer

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, object, str]]:
        """Pygments' entry point."""
        lexer = Prompt if text.startswith("%%agent") else self.otherwise
        return lexer(**self.options).get_tokens_unprocessed(text)


class PromptOrText(Cell):
    """A block without a language: a prompt, or plain text."""

    otherwise = TextLexer


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry point."""
    for language in ("python", "ipython", "ipython3"):
        app.add_lexer(language, Cell)
    for language in ("prompt", "text"):
        app.add_lexer(language, PromptOrText)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
