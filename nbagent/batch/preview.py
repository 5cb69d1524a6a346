"""`agent.map(…, preview=True)`: three rows as they would be sent, and an estimate for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nbagent.core.budget import Budget
from nbagent.core.content.images import content_as_text
from nbagent.core.history.preview import Preview
from nbagent.core.render import markdown as render
from nbagent.core.render.key_values import key_values_text
from nbagent.text import shortened

#: Rows shown; characters of a message in a line; characters in its block.
SAMPLES, LINE_CHARS, BLOCK_CHARS = 3, 160, 4000


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate for rows: tokens by a rough count, dollars from the price list (None: unknown)."""

    input_tokens: int
    output_tokens: int
    cost: float | None
    #: The assumption about the answers' length.
    assumption: str


@dataclass(frozen=True, slots=True, repr=False)
class MapPreview:
    """A preview of a map; nothing was sent. It displays itself in a notebook; `print` shows it as text.

    - `samples`: the first three requests, each with `messages`, `functions` and `options`
    - `rows` of the data, and `requests` that these need: equal rows are asked once
    - `answered`: rows whose answer a checkpoint, or an unfinished map, has already
    - `skipped`: rows without a value; `failed`: rows that can't be sent, such as those of a missing file
    - `estimate`: `input_tokens`, `output_tokens`, `cost` in US dollars or None
    """

    samples: Sequence[Preview]
    rows: int
    requests: int
    answered: int
    skipped: int
    failed: int
    estimate: Estimate
    budget: Budget

    def _lines(self) -> list[tuple[str, str]]:
        """Labels and values, for both displays."""
        estimate = self.estimate
        counts = (
            (self.answered, "answered before"),
            (self.skipped, "skipped, without a value"),
            (self.failed, "failed"),
        )
        notes = [f"{count:,} {what}" for count, what in counts if count]
        lines = [("model", f"{each.provider}:{each.model}") for each in self.samples[:1]]
        lines += [
            ("rows", "; ".join([f"{self.rows:,}", *notes])),
            ("requests", f"{self.requests:,}"),
            ("tokens in", f"≈ {estimate.input_tokens:,}"),
            ("tokens out", f"≈ {estimate.output_tokens:,}, {estimate.assumption}"),
            ("cost", "not known" if estimate.cost is None else f"≈ ${estimate.cost:,.4f}"),
        ]
        if self.budget.max_cost is not None:
            enough = "enough" if (estimate.cost or 0) <= self.budget.left else "not enough"
            lines.append(("budget", f"${self.budget.left:,.2f} left, {enough}"))
        return lines

    def _messages(self) -> list[tuple[str, str]]:
        """The roles and texts of the samples; the system message comes once."""
        messages = [
            message
            for number, each in enumerate(self.samples)
            for message in each.messages
            if not number or message.role != "system"
        ]
        return [(message.role, content_as_text(message.content)) for message in messages]

    def _repr_html_(self) -> str:
        """Everything as safe HTML: the numbers as a table, messages folded."""
        rows = (
            f"<tr><th>{render.escape(label)}</th><td>{render.escape(text)}</td></tr>" for label, text in self._lines()
        )
        blocks = []
        for role, text in self._messages():
            line = render.escape(shortened(" ".join(text.split()), LINE_CHARS))
            summary = f'<span class="nbagent-quiet">{render.escape(role)}</span> <code>{line}</code>'
            blocks.append(render.details_html(summary, "", render.verbatim_html(shortened(text, BLOCK_CHARS))))
        return render.output_html(f"{''.join(blocks)}<table>{''.join(rows)}</table>", formulas=False)

    def __repr__(self) -> str:
        shown = [
            f"{role}: {render.printable(shortened(' '.join(text.split()), LINE_CHARS))}"
            for role, text in self._messages()
        ]
        return "\n".join([*shown, key_values_text(self._lines())])
