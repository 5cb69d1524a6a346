"""`agent.map(…, preview=True)`: the requests for three rows, and an estimate for all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nbagent.core.budget import Budget
from nbagent.core.content.images import content_as_text
from nbagent.core.history.preview import Preview
from nbagent.core.render import markdown as render
from nbagent.core.render.key_values import key_values_text
from nbagent.text import shortened

#: How many rows are shown, and how many characters of a message in one line and in a block.
SAMPLES, LINE_CHARS, BLOCK_CHARS = 3, 160, 4000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A rough estimate of a map's tokens and of their price in US dollars (None if unknown).

    `assumption` explains the assumed length of the answers.
    """

    input_tokens: int
    output_tokens: int
    cost: float | None
    assumption: str


@dataclass(frozen=True, slots=True, repr=False)
class MapPreview:
    """A preview of a map. Nothing has been sent. A notebook displays it as a table, and `print` shows it as text.

    - `samples`: the first three requests, each with `messages`, `functions` and `options`
    - `rows`, `requests`: the number of rows, and of the requests that they need. Equal rows are sent once.
    - `answered`: the number of rows with an answer from the checkpoint or from an unfinished map
    - `skipped`, `failed`: the number of rows without a value, and of rows that can't be sent, for example because a
      file is missing
    - `estimate`: the estimated `input_tokens`, `output_tokens`, and `cost` in US dollars (None if unknown)
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
        counts = {"answered before": self.answered, "skipped, without a value": self.skipped, "failed": self.failed}
        notes = [f"{count:,} {label}" for label, count in counts.items() if count]
        lines = [("model", f"{sample.provider}:{sample.model}") for sample in self.samples[:1]]
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
        """The roles and texts of the samples' messages. The system message appears once."""
        messages = [
            message
            for number, sample in enumerate(self.samples)
            for message in sample.messages
            if not number or message.role != "system"
        ]
        return [(message.role, content_as_text(message.content)) for message in messages]

    def _repr_html_(self) -> str:
        """The preview as safe HTML: folded messages, and the numbers as a table."""
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
