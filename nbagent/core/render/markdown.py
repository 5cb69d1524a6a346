"""Converts text from models and tools to safe HTML, and provides the building blocks of all outputs.

Text never becomes raw HTML: Markdown is rendered without HTML or images, then reduced to a short list of tags, and
everything else is escaped. Generated images are embedded as data. Outputs use the host's theme variables, with
fallbacks, and remain readable if the style is stripped.

Hosts typeset everything that looks like TeX. Formulas in an answer are kept, but commands that create links, styles,
labels or definitions are not, because they would affect the whole notebook. All other text is marked as not TeX. For
pages without a typesetter, formulas become MathML.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from nbagent.core.messages import well_formed
from nbagent.core.render import highlight
from nbagent.core.render.control_chars import escape_control_chars, show_all_chars, show_control_chars
from nbagent.core.render.formulas import TooMuchWorkError, formula_plugin
from nbagent.core.render.mathml import MATHML, MAX_CONVERTED, formula_to_mathml
from nbagent.text import shortened

#: Longer Markdown is shown as plain text, because parsing takes time.
MAX_MARKDOWN = 500_000
#: How many rows of a table are shown. More would make the page slow and very long.
MAX_ROWS = 200
#: The size of a finished part of growing Markdown. Only the rest is rendered again with each update.
STABLE_CHARS = 800
#: How many characters of a tool's result are shown; the trace has all of it.
PREVIEW_CHARS = 2_000

_TAGS = {
    "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong",
    "s", "a", "table", "thead", "tbody", "tr", "th", "td", "span",
}  # fmt: skip
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}}
#: The alignment of table columns, as classes because a page may forbid inline styles.
_ALIGNMENTS = {f"text-align:{side}": f"nbagent-{side}" for side in ("left", "center", "right")}
_CELL_CLASSES = set(_ALIGNMENTS.values())
#: Only http, https and mailto links are kept: a relative link would reach the notebook server.
_LINK = re.compile(r"(https?://|mailto:)", re.IGNORECASE)
_TEX_COMMAND = re.compile(
    r"\\(?=(href|url|class|cssId|style|data|bbox|mmlToken|require|unicode|[gex]?def|let|(re)?newcommand"
    r"|(re)?newenvironment|DeclareMathOperator|DeclarePairedDelimiters?(X(PP)?)?|(re)?newtagform|usetagform"
    r"|Newextarrow|definecolor|mathtoolsset|label|(eq)?ref)(?![a-zA-Z]))"
)
#: The name of an equation, which would clash with one of the reader's own.
_LABEL = re.compile(r"\\label\s*\{[^{}]*\}")
#: Characters that would start a formula in plain text, such as a price.
_TEX_DELIMITER = re.compile(r"\$|\\(?=[(\[])")
#: Names that can be shown without quotes.
_NAME = re.compile(r"[\w.-]+")
#: The start of an item in a task list, in HTML.
_TASK = re.compile(r"<li>((?:\n<p>)?)\[([ xX])\] ")
_FORMULA = re.compile(r"(?<!<span>)\$|\\[(\[]|\\begin\{")
_DEFINITION = re.compile(r"^ {0,3}\[[^\]\n]+\]: *\S", re.MULTILINE)
#: The class of code that is not Python.
OTHER_LANGUAGE = "nbagent-other-language"
#: The class of a diagram that a front end may draw.
MERMAID = "nbagent-mermaid"
#: A larger drawing, or one with more fully connected nodes, could block a page for minutes.
MAX_MERMAID_CHARS, MAX_MERMAID_JOINS = 4_000, 20
#: Text that could make Mermaid contact a host or change its settings. Diagrams that contain it stay code.
_MERMAID_RISK = re.compile(r"\\|//|https?:|url\(|@import|@\{|%%\{|\A\s*---|<(?!br\b)/?[a-z]", re.IGNORECASE)
#: Classes that keep MathJax 2 and 3 from typesetting an element.
NO_TEX = "tex2jax_ignore mathjax_ignore"


def style_html(path: Path) -> str:
    """Return the style sheet in a file as an HTML element."""
    return f"<style>\n{path.read_text('utf-8')}</style>"


#: The style of all outputs, in the host's colours and fonts if it has any. Doubled classes override the host's rules
#: for rendered HTML. It is part of every saved output, so it has no comments.
STYLE = style_html(Path(__file__).with_name("output.css"))


@lru_cache
def _parser() -> Any:
    """The parser. Bare URLs become links."""
    from linkify_it import LinkifyIt
    from markdown_it import MarkdownIt

    options = {"html": False, "linkify": True, "highlight": highlight.highlight_code}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough", "linkify"]).use(formula_plugin)
    # only URLs that start with http:// or https://
    exact = {"fuzzy_link": False, "fuzzy_email": False, "fuzzy_ip": False}
    parser.block.ruler.at("table", _short_table, {"alt": ["paragraph", "reference"]})
    parser.linkify = LinkifyIt({"ftp:": None, "//": None, "mailto:": None}, exact)
    vars(parser)["validateLink"] = lambda url: _LINK.match(url) is not None
    for name, rule in {
        "text": _escape_tex,
        "image": lambda text: f"[image: {_escape_tex(text)}]",
        "more_rows": lambda text: f"<p><em>{text}</em></p>\n",
    }.items():
        parser.add_render_rule(name, lambda self, tokens, i, options, env, rule=rule: rule(tokens[i].content))
    parser.add_render_rule("fence", _fence_html)
    parser.add_render_rule("formula", _formula_html)
    parser.add_render_rule("formula_block", _formula_html)
    return parser


def _fence_html(renderer: Any, tokens: Any, place: int, options: Any, env: Any) -> str:
    """A code block. Diagrams and languages other than Python get a class, because they would fail in a cell."""
    page: str = type(renderer).fence(renderer, tokens, place, options, env)
    language, source = tokens[place].info.strip().lower().split(" ")[0], tokens[place].content
    is_python = not language or highlight.LANGUAGES.get(language) == "python"
    is_small = len(source) <= MAX_MERMAID_CHARS and source.count("&") <= MAX_MERMAID_JOINS
    is_drawable = language == "mermaid" and is_small and not _MERMAID_RISK.search(source)
    classes = f"{OTHER_LANGUAGE} {MERMAID}" if is_drawable else OTHER_LANGUAGE
    return re.sub("<code[^>]*>", "<code>" if is_python else f'<code class="{classes}">', page, count=1)


def _formula_html(renderer: Any, tokens: Any, place: int, options: Any, env: Any) -> str:
    """A formula as MathML or escaped TeX, without labels: a host numbers and names all equations of a notebook."""
    tex, page = _LABEL.sub("", tokens[place].content), None
    if "converted" in env and not _TEX_COMMAND.search(tex):
        env["converted"] += len(tex)
        page = formula_to_mathml(tex) if env["converted"] <= MAX_CONVERTED else None
    page = page or _without_commands(tex)
    return page if tokens[place].type == "formula" else f"<p>{page}</p>\n"


def _without_commands(tex: str) -> str:
    """Escaped TeX. Commands that do more than write a formula are split, so they have no effect."""
    return _TEX_COMMAND.sub(r"<span>\\</span>", html.escape(tex))


def _escape_tex(text: str) -> str:
    """Escaped text in which a host finds no formula: each delimiter gets its own element."""
    return _TEX_DELIMITER.sub(r"<span>\g<0></span>", _without_commands(text))


def _short_table(state: Any, start: int, end: int, silent: bool) -> bool:
    """markdown-it's rule for tables. Removes excess rows before their cells are parsed, and aligns columns by class."""
    from markdown_it.rules_block import table

    tokens, begin = state.tokens, len(state.tokens)
    if not table(state, start, end, silent):
        return False
    rows = [place for place in range(begin, len(tokens)) if tokens[place].type == "tr_open"][1:]
    if (missing := len(rows) - MAX_ROWS) > 0:
        del tokens[rows[MAX_ROWS] : -2]  # the two closing tokens stay
        more = f"{missing:,} more {'row' if missing == 1 else 'rows'}"
        remedy = "The answer's text has all of them, and <code>%%agent --as df</code> makes a DataFrame of a table."
        state.push("more_rows", "", 0).content = f"… {more}. {remedy}"
    for token in tokens[begin:]:
        if style := token.attrs.pop("style", None):
            token.attrs["class"] = _ALIGNMENTS[style]
    return True


def _parsed(text: str, env: dict[str, Any], *, inline: bool = False) -> list[Any] | None:
    """The text's tokens, for rendering with the same `env`; None if it is shown as plain text."""
    if len(text) > MAX_MARKDOWN:
        return None
    try:
        return list((_parser().parseInline if inline else _parser().parse)(text, env))
    except TooMuchWorkError:
        return None


def markdown_to_html(text: str, *, as_mathml: bool = False) -> str:
    """Convert Markdown to HTML without scripts, styles, images, event handlers or requests to other hosts.

    Formulas stay TeX for a host that typesets TeX, or become MathML.

    >>> markdown_to_html("**5** <script>alert(1)</script>")
    '<p><strong>5</strong> &lt;script&gt;alert(1)&lt;/script&gt;</p>\\n'
    """
    env: dict[str, Any] = {"converted": 0} if as_mathml else {}
    tokens = _parsed(printable(text), env)
    if tokens is None:
        return f'<pre class="nbagent-plain">{escape(text)}</pre>'
    cleaned = clean_html(_parser().renderer.render(tokens, _parser().options, env), mathml=as_mathml)
    return _TASK.sub(lambda found: f'<li class="nbagent-task">{found[1]}{"☐" if found[2] == " " else "☑"} ', cleaned)


def clean_html(page: str, *, mathml: bool = False) -> str:
    """Remove scripts, styles, images, event handlers and requests to other hosts from HTML. `mathml` keeps formulas.

    >>> clean_html("<strong onclick=x()>5</strong><script>x()</script>")
    '<strong>5</strong>'
    """
    import nh3

    cleaned = nh3.clean(
        page,
        tags=_TAGS | MATHML.keys() if mathml else _TAGS,
        attributes=_ATTRIBUTES | MATHML if mathml else _ATTRIBUTES,
        allowed_classes={
            "span": highlight.CLASSES,
            "code": {OTHER_LANGUAGE, MERMAID},
            "th": _CELL_CLASSES,
            "td": _CELL_CLASSES,
            "mtd": _CELL_CLASSES,
        },
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )
    return show_control_chars(cleaned)  # `&#x202e;` has become a character


def markdown_tokens(text: str) -> list[Any]:
    """Return the blocks of Markdown as markdown-it tokens, or no tokens if the text is shown as plain text."""
    return _parsed(well_formed(text), {}) or []


def markdown_line_to_text(text: str) -> str:
    """Return a line of Markdown without its markup.

    >>> markdown_line_to_text("**5** `mm` [here](https://example.org)")
    '5 mm here'
    """
    tokens = _parsed(well_formed(text), {}, inline=True)
    return text if tokens is None else "".join(child.content for token in tokens for child in token.children or ())


def stable_ends(text: str) -> list[int]:
    """Return where growing Markdown can be cut into parts of at least `STABLE_CHARS` that no later text can change.

    More text can change only the last block (a paragraph, list, table or code block), and blocks that are not separated
    from it by a blank line, because they may turn out to be one formula. The kind of a block is known once its first
    line is complete ("2" may become "2. and so on"). So a cut, once returned, is never moved.

    >>> stable_ends("one paragraph\\n\\n" * 100 + "the last")
    [810]
    """
    if len(text) < STABLE_CHARS or "\r" in text:
        return []
    starts = {token.map[0] for token in _parsed(text, {}) or () if token.map and token.level == 0}
    lines, ends, length = text.split("\n"), [0], 0
    for number, line in enumerate(lines[:-1]):
        if length - ends[-1] >= STABLE_CHARS and number in starts and not lines[number - 1].strip():
            ends.append(length)
        length += len(line) + 1
    return ends[1:]


def has_link_definitions(text: str) -> bool:
    """Whether Markdown defines link targets, which may be used anywhere in the text."""
    return _DEFINITION.search(text) is not None and _parsed(text, {}) is not None


def has_formulas(page: str) -> bool:
    """Whether a host would typeset something in this safe HTML."""
    return NO_TEX not in page and _FORMULA.search(page) is not None


def escape(text: str) -> str:
    """Escape any text for an HTML element or attribute."""
    return html.escape(printable(text), quote=True)


def verbatim_html(text: str) -> str:
    """Return an HTML block with the text exactly as typed, including line breaks."""
    return f'<div class="nbagent-plain {NO_TEX}">{escape(text)}</div>'


def image_html(media_type: str, base64_data: str, caption: str) -> str:
    """Return an embedded image. `Image.from_part` has checked its type and data."""
    return f'<p><img src="data:{escape(media_type)};base64,{escape(base64_data)}" alt="{escape(caption)}"></p>'


def details_html(summary: str, side: str, body: str, *, is_open: bool = False) -> str:
    """Return a block that can be folded. `summary`, `side` and `body` are HTML."""
    side = f' <span class="nbagent-side">{side}</span>' if side else ""
    kind = f'class="{NO_TEX}"{" open" if is_open else ""}'
    return f'<details {kind}><summary>{summary}{side}</summary><div class="nbagent-body">{body}</div></details>'


def note_html(text: str) -> str:
    """Return a muted line, such as a status."""
    return f'<div class="nbagent-quiet {NO_TEX}">{escape(text)}</div>' if text else ""


def footer_html(facts: Sequence[str], attributes: str = "", amounts: Collection[str] = ()) -> str:
    """Return a muted line of facts. The `amounts` are hidden if space is tight, but the tooltip shows all the facts."""
    if not facts:
        return ""
    amount = ' class="nbagent-amount"'
    spans = (f"<span{amount if each in amounts else ''}>{escape(each)}</span>" for each in facts)
    title = f' title="{escape(" · ".join(facts))}"' if amounts else ""
    line = f'<span class="nbagent-facts"{title}>{" ".join(spans)}</span>'  # spaces for hosts that strip the style
    return f'<div class="nbagent-foot {NO_TEX}"{attributes}>{line}</div>'


def labelled_html(label: str, text: str) -> str:
    """Return a small heading with preformatted text below it."""
    return f"<small>{escape(label)}</small><pre>{html.escape(printable(shortened_with_note(text)), quote=False)}</pre>"


def output_html(body: str, *, formulas: bool = True, style: bool = True, before: str = "") -> str:
    """Return a complete output. A cell with several outputs needs `style` only once. Without `formulas`, nothing is
    typeset.
    """
    return f'{STYLE if style else ""}<div class="{container_classes(body, before, formulas=formulas)}">{body}</div>'


def container_classes(body: str, before: str = "", *, formulas: bool = True) -> str:
    """Return the CSS classes of a container. Folded blocks are placed close together, with a gap after the last one."""
    is_fold, follows = (page.startswith("<details") for page in (body, before))
    spacing = " nbagent-fold" if is_fold else " nbagent-after" if follows else ""
    return f"nbagent{spacing}{'' if formulas else f' {NO_TEX}'}"


def printable(text: str) -> str:
    """Return any text as valid Unicode with visible control characters."""
    return show_control_chars(well_formed(text))


def shortened_with_note(text: str, limit: int = PREVIEW_CHARS, see: str = ": see agent.trace.tool_calls") -> str:
    """Return the text, or its beginning with a note on how much is missing and where to `see` the rest."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more characters{see})"


def readable_json(value: Any, indent: int | None = None) -> str:
    """Return readable JSON text. Characters that hide or reorder other characters become `\\uXXXX`."""
    return escape_control_chars(well_formed(json.dumps(value, ensure_ascii=False, default=str, indent=indent)))


def format_call(name: str, arguments: dict[str, Any] | None) -> str:
    """Return a call in Python notation with shortened values, such as `mean_by(column="body_mass_g")`."""
    given = (arguments or {}).items()
    parts = [f"{shortened(readable_name(key), 60)}={shortened(readable_json(value), 60)}" for key, value in given]
    return f"{shortened(readable_name(name), 100)}({shortened(', '.join(parts), 1_000)})"


def readable_name(name: str) -> str:
    """Return the name of a tool or an argument. Models can invent any text as a name, so unusual names are quoted as
    JSON.

    >>> readable_name("mean_by"), readable_name("theme='dark')?\\n")
    ('mean_by', '"theme=\\'dark\\')?\\\\n"')
    """
    return name if _NAME.fullmatch(show_all_chars(name)) else readable_json(name)


def format_seconds(seconds: float) -> str:
    """Format elapsed time in whole seconds.

    >>> format_seconds(12.9), format_seconds(75)
    ('12 s', '1 min 15 s')
    """
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:,} min {rest} s" if minutes else f"{rest} s"


def format_duration(seconds: float) -> str:
    """Format a duration in a suitable unit.

    >>> format_duration(0.0142), format_duration(3.21), format_duration(204), format_duration(0.00004)
    ('14 ms', '3.2 s', '3 min 24 s', '40 µs')
    """
    if 0 < seconds < 0.0005:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    return format_seconds(round(seconds))
