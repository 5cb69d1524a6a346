"""Text from models and tools as safe HTML, and the building blocks of every output.

Text never becomes raw HTML: Markdown is rendered with HTML and images switched off, and the result is reduced to a
short list of tags; everything else is escaped. A generated image is embedded as data. Outputs use the host's theme
variables, with fallbacks, and still read well where the style is stripped.

Hosts typeset whatever looks like TeX. Formulas in an answer are welcome, but not TeX commands that make links, styles
or definitions, which would apply to the whole notebook. Everything else is marked as not TeX.
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

#: Longer Markdown, or Markdown with more marks, is shown as plain text: hostile nesting makes parsing slow.
MAX_MARKDOWN = 200_000
MAX_MARKS = 10_000
_MARKS = "[*_<|~&"
#: Below this length, growing Markdown has no stable prefix: rendering all of it again is cheap.
MIN_STABLE_CHARS = 1_500
#: Characters of a tool's result in an output; the trace has all of it.
PREVIEW_CHARS = 2_000

_TAGS = {
    "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong",
    "s", "a", "table", "thead", "tbody", "tr", "th", "td", "span",
}  # fmt: skip
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "th": {"style"}, "td": {"style"}}
#: Only http, https and mailto links are kept: a relative link would reach the notebook server.
_LINK = re.compile(r"(https?://|mailto:)", re.IGNORECASE)
_TEX_COMMAND = re.compile(
    r"\\(?=(href|url|class|cssId|style|data|bbox|mmlToken|require|unicode|[gex]?def|let|(re)?newcommand"
    r"|(re)?newenvironment|DeclareMathOperator|DeclarePairedDelimiters?(X(PP)?)?|(re)?newtagform|usetagform"
    r"|Newextarrow|definecolor|mathtoolsset)(?![a-zA-Z]))"
)
#: What would begin a formula, in text that contains none, such as a price.
_TEX_DELIMITER = re.compile(r"\$|\\(?=[(\[])")
#: The beginning of a task in a list, in HTML.
_TASK = re.compile(r"(<li>(?:\n<p>)?)\[([ xX])\] ")
_FORMULA = re.compile(r"(?<!<span>)\$|\\[(\[]|\\begin\{")
_DEFINITION = re.compile(r"^ {0,3}\[[^\]\n]+\]: *\S", re.MULTILINE)
#: Classes that keep MathJax 2 and 3 from typesetting an element.
NO_TEX = "tex2jax_ignore mathjax_ignore"


def style_html(path: Path) -> str:
    """The style sheet in a file, as an HTML element."""
    return f"<style>\n{path.read_text('utf-8')}</style>"


#: The look of all outputs, in the host's colours and fonts if it has any. Doubled classes in it override the host's
#: rules for rendered HTML. It is part of every saved output, so it has no comments.
STYLE = style_html(Path(__file__).with_name("output.css"))


# -- Markdown ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _parser() -> Any:
    from markdown_it import MarkdownIt

    options = {"html": False, "linkify": False, "highlight": highlight.highlight_code}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"]).use(formula_plugin)
    vars(parser)["validateLink"] = lambda url: _LINK.match(url) is not None
    for name, rule in {
        "text": _escape_tex,
        "formula": _formula_html,
        "formula_block": lambda text: f"<p>{_formula_html(text)}</p>\n",
        "image": lambda text: f"[image: {_escape_tex(text)}]",
    }.items():
        parser.add_render_rule(name, lambda self, tokens, i, options, env, rule=rule: rule(tokens[i].content))
    return parser


def _formula_html(tex: str) -> str:
    """Escaped TeX. Commands that do more than write a formula are split, so that they have no effect."""
    return _TEX_COMMAND.sub(r"<span>\\</span>", html.escape(tex))


def _escape_tex(text: str) -> str:
    """Escaped text in which a host finds no formula: each delimiter gets an element of its own."""
    return _TEX_DELIMITER.sub(r"<span>\g<0></span>", _formula_html(text))


def _is_markdown(text: str) -> bool:
    return len(text) <= MAX_MARKDOWN and sum(map(text.count, _MARKS)) <= MAX_MARKS


def markdown_to_html(text: str) -> str:
    """Markdown as HTML without scripts, styles, images, event handlers or requests to other hosts.

    >>> markdown_to_html("**5** <script>alert(1)</script>")
    '<p><strong>5</strong> &lt;script&gt;alert(1)&lt;/script&gt;</p>\\n'
    """
    import nh3

    if not _is_markdown(text):
        return f'<pre class="nbagent-plain">{escape(text)}</pre>'
    cleaned = nh3.clean(
        _parser().render(printable(text)),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes={"span": highlight.CLASSES},
        filter_style_properties={"text-align"},  # Markdown tables align their columns with it
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )
    cleaned = show_control_chars(cleaned)  # again: `&#x202e;` has become a character
    return _TASK.sub(lambda found: found[1] + ("☐ " if found[2] == " " else "☑ "), cleaned)


def markdown_tokens(text: str) -> list[Any]:
    """The blocks of Markdown, as markdown-it's tokens; none if the text is too long."""
    return list(_parser().parse(well_formed(text))) if _is_markdown(text) else []


def markdown_line_to_text(text: str) -> str:
    """A line of Markdown without its marks.

    >>> markdown_line_to_text("**5** `mm` [here](https://example.org)")
    '5 mm here'
    """
    tokens = _parser().parseInline(well_formed(text))
    return "".join(child.content for token in tokens for child in token.children or ())


def stable_prefix_length(text: str) -> int:
    """How many characters at the beginning of growing Markdown will not change their look; 0 for short texts.

    More text can change only the last block (a paragraph, list, table or code block), and the blocks right before it
    without a blank line between: they may turn out to be one formula.

    >>> stable_prefix_length("one paragraph\\n\\n" * 200 + "the last") == len("one paragraph\\n\\n" * 200)
    True
    """
    if len(text) < MIN_STABLE_CHARS or "\r" in text or not _is_markdown(text):
        return 0
    lines = text.split("\n")
    starts = [token.map[0] for token in _parser().parse(text) if token.map and token.level == 0]
    last = max((start for start in starts if start and not lines[start - 1].strip()), default=0)
    return sum(len(line) + 1 for line in lines[:last])


def has_link_definitions(text: str) -> bool:
    """Whether Markdown defines link targets, which may be used anywhere in it."""
    return _DEFINITION.search(text) is not None and _is_markdown(text)


def has_formulas(page: str) -> bool:
    """Whether a host would typeset something in this safe HTML."""
    return NO_TEX not in page and _FORMULA.search(page) is not None


# -- HTML -------------------------------------------------------------------------------------------------------------


def escape(text: str) -> str:
    """Any text for an HTML element or attribute."""
    return html.escape(printable(text), quote=True)


def verbatim_html(text: str) -> str:
    """Text as typed, with its line breaks."""
    return f'<div class="nbagent-plain {NO_TEX}">{escape(text)}</div>'


def image_html(media_type: str, base64_data: str, caption: str) -> str:
    """An embedded image. Type and data are checked before, see `Image.from_part`."""
    return f'<p><img src="data:{escape(media_type)};base64,{escape(base64_data)}" alt="{escape(caption)}"></p>'


def details_html(summary: str, side: str, body: str) -> str:
    """A collapsed block. All three arguments are HTML."""
    side = f'<span class="nbagent-side">{side}</span>' if side else ""
    return (
        f'<details class="{NO_TEX}"><summary>{summary}{side}</summary><div class="nbagent-body">{body}</div></details>'
    )


def note_html(text: str) -> str:
    """A muted line, such as a status."""
    return f'<div class="nbagent-quiet {NO_TEX}">{escape(text)}</div>' if text else ""


def labelled_html(label: str, text: str) -> str:
    """A small heading with preformatted text below it."""
    return f"<small>{escape(label)}</small><pre>{html.escape(printable(shortened_with_note(text)), quote=False)}</pre>"


def output_html(body: str, *, formulas: bool = True, style: bool = True) -> str:
    """A complete output: the style, and the container that it applies to. Without `formulas` nothing is typeset.

    A cell with several outputs needs one `style` only.
    """
    classes = "nbagent" if formulas else f"nbagent {NO_TEX}"
    return f'{STYLE if style else ""}<div class="{classes}">{body}</div>'


# -- plain text -------------------------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """Any text as valid Unicode with visible control characters."""
    return show_control_chars(well_formed(text))


def shortened_with_note(text: str, limit: int = PREVIEW_CHARS, see: str = ": see agent.trace.tool_calls") -> str:
    """The text, or its beginning with a note: how much is missing, and where to `see` it."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more characters{see})"


def readable_json(value: Any, indent: int | None = None) -> str:
    """JSON text for people; characters that hide or reorder others become `\\uXXXX`."""
    return escape_control_chars(well_formed(json.dumps(value, ensure_ascii=False, default=str, indent=indent)))


def format_call(name: str, arguments: dict[str, Any] | None) -> str:
    """A call in Python's notation, `mean_by(column="body_mass_g")`, with shortened values."""
    parts = [f"{shortened(key, 60)}={shortened(readable_json(value), 60)}" for key, value in (arguments or {}).items()]
    return f"{shortened(name, 100)}({shortened(', '.join(parts), 1_000)})"


def format_duration(seconds: float) -> str:
    """Seconds for people.

    >>> format_duration(0.0142), format_duration(3.21), format_duration(204), format_duration(0.00004)
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
