"""A progress bar in a notebook: a line of HTML below its cell, which panels can also show."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tqdm import tqdm

from nbagent.core.messages import new_id
from nbagent.core.render import markdown as render

#: The bar is alone in its output, so it includes its style.
_STYLE = "display: flex; flex-wrap: wrap; gap: 2px 12px; align-items: center; font-size: 12px; line-height: 1.5"


class NotebookBar(tqdm):  # type: ignore[type-arg]  # subscripts fail at run time
    """A tqdm progress bar for notebooks. `publish`, a method of IPython's display publisher, shows it.

    `watchers` are called with each state as HTML, and with "" at the end.
    """

    def __init__(
        self, publish: Callable[..., Any], watchers: Iterable[Callable[[str], None]] = (), **options: Any
    ) -> None:
        self._publish, self._watchers = publish, watchers
        self._id, self._is_shown = new_id("bar"), False
        super().__init__(gui=True, **options)  # tqdm itself writes nothing

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Show the state. tqdm calls this."""
        facts = [each for each in self._facts() if each]
        spans = " ".join(f"<span>{render.escape(fact)}</span>" for fact in facts)
        bar = f'<progress aria-hidden="true" max="{self.total}" value="{self.n}"></progress>'
        page = f'<div class="nbagent-bar-line {render.NO_TEX}" style="{_STYLE}">{bar} {spans}</div>'
        shown = {"text/html": page, "text/plain": " · ".join(facts)}
        self._publish(shown, transient={"display_id": self._id}, update=self._is_shown)
        self._is_shown = True
        for watch in self._watchers:
            watch(page)

    def close(self) -> None:
        """Show the final state, if the bar was shown at all."""
        is_open = not self.disable
        super().close()
        if is_open and self._is_shown:
            self.display()
            for watch in self._watchers:
                watch("")

    def _facts(self) -> tuple[str, ...]:
        """The description, the amount done, the text of `set_postfix_str`, and the time left or taken."""
        now = self.format_dict
        done, total, unit, elapsed = now["n"], now["total"], now["unit"], now["elapsed"]
        amount = f"{done:,} of {total:,} {unit}s"
        if unit == "B":
            amount = f"{tqdm.format_sizeof(done, unit)} of {tqdm.format_sizeof(total, unit)}"
        rate = now["rate"] or (done - self.initial) / (elapsed or 1)
        time = render.format_seconds(elapsed)
        if not self.disable:
            time = f"{render.format_seconds((total - done) / rate)} left" if rate else ""
        return now["prefix"].removesuffix(": "), amount, now["postfix"] or "", time
