"""The preview that a person sees before approving a call whose arguments alone don't show the change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from nbagent.core.messages import FunctionCall
from nbagent.core.render.arguments import folded
from nbagent.core.render.diff import Line, diff_lines, without_far_lines


class TextChange(NamedTuple):
    """A text before and after a call; `before` or `after` is None if the text doesn't exist then. If they are equal,
    the call uses the text unchanged.
    """

    title: str
    before: str | None
    after: str | None
    language: str = ""

    def lines(self) -> list[Line]:
        """The changed lines and the lines around them, each with its sign. Invisible characters are made visible, and
        long runs of blanks are replaced by notes.
        """
        before, after = (None if text is None else folded(text) for text in (self.before, self.after))
        if before == after or before is None:
            return [(" ", line) for line in (after or "").splitlines()]
        if after is None:
            return [("-", line) for line in before.splitlines()]
        return list(without_far_lines(diff_lines(before, after)))


@dataclass(frozen=True, slots=True)
class Preview:
    """The effect of a call, as the tool's `preview` describes it.

    - `does`: the words after "asks to", such as "add a code cell"
    - `changes`: the texts that the call would add, change, remove or run
    - `in_place`: a function that also shows the change where it would happen, and returns a function that removes this
      display. `in_place` receives a function to call with the decision that the user makes there: True, False, or a new
      text for the argument named by `edits`
    - `edits`: the name of the argument that *Edit* offers as text; by default, *Edit* offers all arguments as JSON
    """

    does: str
    changes: tuple[TextChange, ...]
    edits: str = ""
    in_place: Callable[[Callable[[bool | str], None]], Callable[[], None]] | None = None

    def to_text(self) -> str:
        """All changes as text: diffs with `+` and `-` signs, and unchanged or new texts without them."""
        blocks = []
        for change in self.changes:
            lines = change.lines()
            has_signs = any(sign != " " for sign, _ in lines)
            text = "\n".join(f"{sign} {line}".rstrip() if has_signs else line for sign, line in lines)
            blocks.append(f"{change.title}:\n{text}" if change.title else text)
        return "\n\n".join(blocks)


@dataclass(frozen=True, slots=True)
class PreviewedCall(FunctionCall):
    """A call and its preview. An approver receives this instead of the call alone."""

    preview: Preview = field(kw_only=True)
