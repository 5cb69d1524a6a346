"""Text of models and tools -> safe HTML.

Nothing that a model or a tool said is ever raw HTML: Markdown is rendered with HTML and images switched off, then
cleaned against a short list of tags. Everything else is escaped. An image that a model made is in the page as data. The
style uses the host's theme variables, with fallbacks, and the page reads well where it is stripped.

Hosts typeset what looks like TeX in an output. Formulas of an answer are welcome, but not TeX commands that make links,
styles or definitions, which would hold for the whole notebook; everything else is marked as no TeX.
"""

from __future__ import annotations

import html
import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from nbagent.core.messages import well_formed
from nbagent.core.render import highlight
from nbagent.core.render.control_chars import escape_control_chars, show_control_chars
from nbagent.core.render.formulas import formula_plugin
from nbagent.text import shortened

#: Longer Markdown, or with more marks in it, is shown as plain text: parsing time grows with hostile nesting.
MAX_MARKDOWN = 200_000
MAX_MARKS = 10_000
_MARKS = "[*_<|~&"
#: Characters of growing Markdown from which on its first blocks are kept as they are.
MIN_STABLE_CHARS = 1_500
#: Characters of a tool's result that a display shows; the trace has the whole.
PREVIEW_CHARS = 2_000

_TAGS = {
    "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong",
    "s", "a", "table", "thead", "tbody", "tr", "th", "td", "span",
}  # fmt: skip
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "th": {"style"}, "td": {"style"}}
#: Links lead to the web, and never to what a server on this machine would do.
_LINK = re.compile(r"(https?://|mailto:)", re.IGNORECASE)
_TEX_COMMAND = re.compile(
    r"\\(?=(href|url|class|cssId|style|data|bbox|mmlToken|require|unicode|[gex]?def|let|(re)?newcommand"
    r"|(re)?newenvironment|DeclareMathOperator|DeclarePairedDelimiters?(X(PP)?)?|(re)?newtagform|usetagform"
    r"|Newextarrow|definecolor|mathtoolsset)(?![a-zA-Z]))"
)
#: What would begin a formula, in text that is none, such as a price.
_TEX_SIGN = re.compile(r"\$|\\(?=[(\[])")
#: The beginning of a task in a list, in HTML.
_TASK = re.compile(r"(<li>(?:\n<p>)?)\[([ xX])\] ")
_FORMULA = re.compile(r"(?<!<span>)\$|\\[(\[]|\\begin\{")
_DEFINITION = re.compile(r"^ {0,3}\[[^\]\n]+\]: *\S", re.MULTILINE)
#: The class of what no host should typeset, as MathJax 2 and 3 know it.
NO_TEX = "tex2jax_ignore mathjax_ignore"


def style_html(path: Path) -> str:
    """The style sheet in a file, as an HTML element."""
    return f"<style>\n{path.read_text('utf-8')}</style>"


#: The look of all outputs, in the host's colours and fonts, else ours. A class is doubled in it where a host's own rule
#: for rendered HTML must be overruled. It is part of every saved output, so it has no comments.
STYLE = style_html(Path(__file__).with_name("output.css"))


@lru_cache(maxsize=1)
def _markdown() -> Any:
    from markdown_it import MarkdownIt

    options = {"html": False, "linkify": False, "highlight": highlight.highlight_code}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"]).use(formula_plugin)
    vars(parser)["validateLink"] = lambda url: _LINK.match(url) is not None
    parser.add_render_rule("text", lambda self, tokens, i, options, env: _untypeset(tokens[i].content))
    parser.add_render_rule("formula", lambda self, tokens, i, options, env: _formula(tokens[i].content))
    parser.add_render_rule(
        "formula_block", lambda self, tokens, i, options, env: f"<p>{_formula(tokens[i].content)}</p>\n"
    )
    parser.add_render_rule("image", lambda self, tokens, i, options, env: f"[image: {_untypeset(tokens[i].content)}]")
    return parser


def _formula(tex: str) -> str:
    """Escaped TeX in which commands that do more than to write a formula are split, so that they do nothing."""
    return _TEX_COMMAND.sub(r"<span>\\</span>", html.escape(tex))


def _untypeset(text: str) -> str:
    """Escaped text in which a host finds no formula: what would begin one is in an element of its own."""
    return _TEX_SIGN.sub(r"<span>\g<0></span>", _formula(text))


def _is_markdown(text: str) -> bool:
    return len(text) <= MAX_MARKDOWN and sum(map(text.count, _MARKS)) <= MAX_MARKS


def markdown_to_html(text: str) -> str:
    """Markdown -> HTML without scripts, styles, images, event handlers or foreign requests.

    >>> markdown_to_html("**5** <script>alert(1)</script>")
    '<p><strong>5</strong> &lt;script&gt;alert(1)&lt;/script&gt;</p>\\n'
    """
    import nh3

    if not _is_markdown(text):
        return f'<pre class="nbagent-plain">{escape(text)}</pre>'
    cleaned = nh3.clean(  # `&#x202e;` is a character only afterwards
        _markdown().render(printable(text)),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes={"span": highlight.CLASSES},
        filter_style_properties={"text-align"},  # how Markdown tables align their columns
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )
    return _TASK.sub(lambda found: found[1] + ("☐ " if found[2] == " " else "☑ "), show_control_chars(cleaned))


def markdown_tokens(text: str) -> list[Any]:
    """The blocks of Markdown, as markdown-it's tokens; none where it is too long."""
    return [] if not _is_markdown(text) else list(_markdown().parse(well_formed(text)))


def markdown_line_to_text(text: str) -> str:
    """A line of Markdown without its marks.

    >>> markdown_line_to_text("**5** `mm` [here](https://example.org)")
    '5 mm here'
    """
    tokens = _markdown().parseInline(well_formed(text))
    return "".join(child.content for token in tokens for child in token.children or ())


def verbatim_html(text: str) -> str:
    """Text as HTML with its own line breaks, and nothing else made of it."""
    return f'<div class="nbagent-plain {NO_TEX}">{escape(text)}</div>'


def stable_prefix_length(text: str) -> int:
    """How many characters at the beginning of growing Markdown stay as they look now; 0 where that is not worth it.

    Only the last block (a paragraph, a list, a table, code) can still change by what follows, and those that no blank
    line parts from it: they may turn out to be one formula.

    >>> stable_prefix_length("one paragraph\\n\\n" * 200 + "the last") == len("one paragraph\\n\\n" * 200)
    True
    """
    if len(text) < MIN_STABLE_CHARS or "\r" in text or not _is_markdown(text):
        return 0
    lines = text.split("\n")
    starts = [token.map[0] for token in _markdown().parse(text) if token.map and token.level == 0]
    last = max((start for start in starts if start and not lines[start - 1].strip()), default=0)
    return sum(len(line) + 1 for line in lines[:last])


def escape(text: str) -> str:
    """Any text as the text of an HTML element or attribute."""
    return html.escape(printable(text), quote=True)


def printable(text: str) -> str:
    """Any text so that it can be sent, and shows what it is."""
    return show_control_chars(well_formed(text))


def image_html(media_type: str, base64_data: str, caption: str) -> str:
    """An image that is in the page itself, of a type and in base64 that were checked before (see `Image.from_part`)."""
    return f'<p><img src="data:{escape(media_type)};base64,{escape(base64_data)}" alt="{escape(caption)}"></p>'


def details_html(summary: str, side: str, body: str) -> str:
    """A collapsed block. All three are HTML already."""
    side = f'<span class="nbagent-side">{side}</span>' if side else ""
    return (
        f'<details class="{NO_TEX}"><summary>{summary}{side}</summary><div class="nbagent-body">{body}</div></details>'
    )


def note_html(text: str) -> str:
    """A line beside what is said: a state, a note."""
    return f'<div class="nbagent-quiet {NO_TEX}">{escape(text)}</div>' if text else ""


def labelled_html(label: str, text: str) -> str:
    """A small heading and preformatted text under it."""
    return f"<small>{escape(label)}</small><pre>{html.escape(printable(shortened_with_note(text)), quote=False)}</pre>"


def shortened_with_note(text: str, limit: int = PREVIEW_CHARS, see: str = ": see agent.trace.tool_calls") -> str:
    """The text, or its beginning, how much was left out, and where that is to `see`."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit:,} more characters{see})"


def readable_json(value: Any, indent: int | None = None) -> str:
    """JSON text for people; characters that hide or reorder others are written as `\\uXXXX`."""
    return escape_control_chars(well_formed(json.dumps(value, ensure_ascii=False, default=str, indent=indent)))


def format_call(name: str, arguments: dict[str, Any] | None) -> str:
    """`mean_by(column="body_mass_g")`: a call as one would type it, values shortened."""
    parts = [f"{shortened(key, 60)}={shortened(readable_json(value), 60)}" for key, value in (arguments or {}).items()]
    return f"{shortened(name, 100)}({shortened(', '.join(parts), 1_000)})"


def has_link_definitions(text: str) -> bool:
    """Whether Markdown says somewhere where the links go that are used elsewhere in it."""
    return _DEFINITION.search(text) is not None and _is_markdown(text)


def has_formulas(page: str) -> bool:
    """Whether safe HTML has what a host would typeset."""
    return NO_TEX not in page and _FORMULA.search(page) is not None


def format_duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(0.0142), duration(3.21), duration(204), duration(0.00004)
    ('14 ms', '3.2 s', '3 min 24 s', '40 µs')
    """
    if 0 < seconds < 0.0005:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,} min {rest} s"


def output_html(body: str, *, formulas: bool = True, style: bool = True) -> str:
    """One output: the style, and a container that it applies to. Where there are no `formulas` none is looked for.

    One `style` is enough for all outputs of a cell.
    """
    classes = "nbagent" if formulas else f"nbagent {NO_TEX}"
    return f'{STYLE if style else ""}<div class="{classes}">{body}</div>'
