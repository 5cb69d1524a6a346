"""Formulas in an answer reach the host as written; prices and shell variables are not formulas."""

import html
import re

import pytest

from nbagent.core.render.markdown import clean_html, has_formulas, markdown_to_html
from nbagent.core.render.mathml import MAX_CONVERTED

FORMULAS = [
    r"$e^{i\pi}_1 * a_2*$",
    r"$\$5$",
    r"$x$",
    r"$$a_1 + b_1\,$$",
    r"\(a_1 * b*\)",
    r"\[a\\b\]",
    "$$\na_1\n- b\n= c\\\\\n$$",
    "\\[\nx_1 * y*\n\\]",
    "\\begin{align}\na_1&=b\\\\\n\\end{align}",
]
NONE = [
    "$5 and $10", "US$3, $4 or **$5**, and $6-$7", "$HOME/$USER", "$ a $ and $a $", "see $`x`$", r"\$x\$", "$$unclosed",
    "${HOME}/${USER}", "${A}${B}", "$.50/$.75", "$(a)/$(b)", "A$AP, A$AP", "$1$2",
    r"\\(x\\)", "$$ $$", r"\( \)", "$a\n\nb$",
]  # fmt: skip


AROUND = ["Before %s, after", "- one\n- %s", "> %s", "Text\n\n%s\n\ntext"]


@pytest.mark.parametrize(
    ("tex", "around"), [*((tex, "%s") for tex in FORMULAS), *((FORMULAS[0], each) for each in AROUND)]
)
def test_a_formula_stays_as_written(tex, around):
    if "\n" in tex:
        around = "Text\n%s\ntext"
    html = markdown_to_html(around % tex)
    assert tex.replace("&", "&amp;") in html
    assert has_formulas(html)


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (r"$$\label{eq:mine} E = mc^2 \tag{1}$$", r"<p>$$ E = mc^2 \tag{1}$$</p>"),
        ("\\begin{equation}\nx\\label {a}\n\\end{equation}", "<p>\\begin{equation}\nx\n\\end{equation}</p>"),
        (r"$\la\label{x}bel{y}$", r"<p>$<span>\</span>label{y}$</p>"),
        (r"$\ref{eq:mine}$", r"<p>$<span>\</span>ref{eq:mine}$</p>"),
        (r"Write `\label{a}` or \label{a}.", r"<p>Write <code>\label{a}</code> or <span>\</span>label{a}.</p>"),
    ],
)
def test_labels_and_references_cannot_affect_the_readers_equations(answer, shown):
    assert markdown_to_html(answer).strip() == shown


@pytest.mark.parametrize(
    ("tex", "shown"),
    [
        (r"$\frac{a}{b}$", "<mfrac><mrow><mi>a</mi></mrow><mrow><mi>b</mi></mrow></mfrac>"),
        (r"$$\lim_n$$", '<munder><mo movablelimits="true">lim</mo><mi>n</mi></munder>'),
        (r"\begin{align}a &= b\end{align}", '<mtd class="nbagent-left"><mi></mi><mo>=</mo><mi>b</mi></mtd>'),
        (r"$a < \text{<b onclick=x>}$", "<mtext>&lt;b&nbsp;onclick=x&gt;</mtext>"),
        (r"$\hspace{-99em}\raise{9em}{x}$", "<mspace></mspace><mpadded><mrow><mi>x</mi></mrow></mpadded>"),
    ],
)
def test_formulas_become_mathml_for_pages_without_a_typesetter(tex, shown):
    page = markdown_to_html(f"So {tex}.", as_mathml=True)
    assert shown in page
    assert f">{html.escape(tex, quote=False)}</annotation></semantics></math>" in page
    assert "<math" not in clean_html(page)


@pytest.mark.parametrize(
    "tex",
    [
        r"$\href{javascript:hit(1)}{x}$", r"$\unicode{x41}$", r"$\def\x{y}\x$", r"$\unknown$", r"$\frac{a}$", "$a_b_c$",
        "$x^{$", "${$", "$a & b$", r"$a \\\\ b$", "$" + "{" * 1_500 + "}" * 200 + "$", "$" + "x" * 100_000 + "$",
    ],
)  # fmt: skip
def test_what_is_no_valid_formula_stays_tex(tex):
    assert markdown_to_html(tex, as_mathml=True) == markdown_to_html(tex)


def test_only_so_much_tex_of_a_text_is_converted():
    page = markdown_to_html("$x_1$ " * MAX_CONVERTED, as_mathml=True)
    assert page.count("<math") == MAX_CONVERTED // len("$x_1$")
    assert page.endswith("$x_1$</p>\n")


def test_a_single_symbol_may_be_part_of_a_word():
    for text in ("the $n$th", "H$_2$O", "10$^{-3}$ and $^{13}$C", r"5$\times$10", r"20$^\circ$C"):
        assert markdown_to_html(text) == f"<p>{text}</p>\n"


def test_other_text_is_not_a_formula():
    assert [text for text in NONE if has_formulas(markdown_to_html(text))] == []


def test_task_lists_have_check_boxes():
    page = markdown_to_html("- [ ] one\n- [x] two\n- [y] three\n- `[x] `four")
    assert re.findall("<li(.*?)</li>", page) == [
        ' class="nbagent-task">☐ one', ' class="nbagent-task">☑ two', ">[y] three", "><code>[x] </code>four",
    ]  # fmt: skip
