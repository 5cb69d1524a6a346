"""`Evaluation`: agents' answers to the rows of a frame, and their scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from nbagent.batch.frame import title_of
from nbagent.checks import invalid
from nbagent.core.render.control_chars import show_control_chars
from nbagent.core.render.markdown import NO_TEX
from nbagent.evaluation.intervals import bootstrap, wilson
from nbagent.trace.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

#: How many rows a display shows, and how many characters of a value.
ROWS, WIDTH = 60, 160
#: The measures plotted without scorers, with their axis labels.
MEASURES = {"seconds": "seconds per row", "tokens": "tokens per row", "cost": "dollars per row"}


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Agents' answers to the rows of a frame, with scores. `evaluate` and `compare` return it.

    - `frame`: a row for each agent, repeat and row of the data, with the data's index. Its columns are agent, repeat,
      the data's columns, the columns of `Agent.map`, `tools` (with `tools=True`: the names of the called tools), and a
      column for each scorer. Scores are NA for rows without a complete answer.
    - `scorers`: the names of the scorers
    - `models`: the agents' models by agent name
    """

    frame: pd.DataFrame
    scorers: tuple[str, ...]
    models: Mapping[str, str]
    traces: tuple[Trace, ...] = ()

    def summary(self) -> pd.DataFrame:
        """Return a row for each agent, with each scorer's mean and the mean's 95% interval (`_low`, `_high`).

        The row also has the numbers of rows and failed rows, and the total tokens, total cost and mean seconds of the
        answered rows. A total is missing if any of its values is missing. Failed rows have no score. A row's repeats
        are averaged first, because they are not independent, so the interval is computed from one mean per row. It is
        Wilson's interval for True and False, and a percentile bootstrap interval from 2,000 samples for numbers.
        `nbagent.evaluation.intervals` names the sources.
        """
        return pd.DataFrame([self._summary_of(name) for name in self.models], index=pd.Index(self.models, name="agent"))

    def _summary_of(self, agent: str) -> dict[str, Any]:
        mine = self.frame["agent"] == agent
        is_answered = mine & (self._values("status") == "ok")
        row: dict[str, Any] = {"rows": int(mine.sum()), "failed": int((mine & ~is_answered).sum())}
        for scorer in self.scorers:
            low, high = self.interval(agent, scorer)
            row |= {scorer: self._by_row(agent, scorer).mean(), f"{scorer}_low": low, f"{scorer}_high": high}
        row |= {name: self._values(name)[is_answered].sum(skipna=False) for name in ("tokens", "cost")}
        return {**row, "mean_seconds": self._values("seconds")[is_answered].mean()}

    def _values(self, name: str) -> pd.Series[Any]:
        """A column of the frame, from a scorer or a map, or `tokens`, the sum of two columns."""
        if name in self.scorers:
            return self.frame[name]
        if name == "tokens":
            return self._values("input_tokens") + self._values("output_tokens")
        return self.frame[title_of(name, self.frame)]

    def _by_row(self, agent: str, name: str) -> pd.Series[float]:
        """Each answered row's mean over its repeats, for rows with a value."""
        mine, is_answered = (self.frame["agent"] == agent).to_numpy(), self._values("status") == "ok"
        place = self.frame[mine].groupby("repeat").cumcount()  # the data's index may not be unique
        means = self._values(name).where(is_answered)[mine].astype("Float64").groupby(place.to_numpy()).mean()
        return means.dropna().astype(float)

    def interval(self, agent: str, name: str) -> tuple[float, float]:
        """Return the 95% interval of an agent's mean score, seconds, tokens or cost. NaN means too few values."""
        means = self._by_row(agent, name)
        if means.empty:
            return float("nan"), float("nan")
        if self._is_flag(name):
            return wilson(means.mean(), len(means))
        return bootstrap(means.to_list())

    def _is_flag(self, name: str) -> bool:
        return bool(self._values(name).dtype == "boolean")

    def failures(self, scorer: str | None = None) -> pd.DataFrame:
        """Return the rows of `frame` that have no complete answer or for which a scorer returned False.

        With `scorer`, only this scorer counts.

        >>> result.failures("right")                                            # doctest: +SKIP
        """
        if scorer is not None and scorer not in self.scorers:
            raise invalid("scorer", scorer, f"one of the scorers ({', '.join(self.scorers) or 'there are none'})")
        failed = self._values("status") != "ok"
        for name in self.scorers if scorer is None else [scorer]:
            if self._is_flag(name):
                failed |= ~self.frame[name].fillna(True).to_numpy(dtype=bool)
        return self.frame[failed.to_numpy(dtype=bool)]

    def plot(self) -> list[Axes]:
        """For each scorer, plot each agent's mean as a dot, with its 95% interval as a line.

        Without scorers, plot the seconds and, if known and not 0, the tokens and dollars per row. Requires the `plot`
        extra.

        >>> (await nbagent.compare({"small": small, "large": large}, prompts)).plot()      # doctest: +SKIP
        """
        from nbagent.trace.views.plots import COLOURS, subplots, tidy

        names = list(self.models)
        drawn = self.scorers or [name for name in MEASURES if name == "seconds" or self._values(name).any()]
        grid = subplots(len(drawn), figsize=(1.2 + 3.0 * len(drawn), 1.0 + 0.4 * len(names)))
        for ax, measure in zip(grid, drawn, strict=True):
            for place, name in enumerate(names):
                low, high = self.interval(name, measure)
                ax.plot([low, high], [place, place], color=COLOURS["waiting"], linewidth=3, solid_capstyle="round")
                ax.plot([self._by_row(name, measure).mean()], [place], "o", color=COLOURS["model"], clip_on=False)
            ax.set(ylim=(len(names) - 0.4, -0.6))
            ax.set_xlabel(measure if self.scorers else MEASURES[measure], parse_math=False)
            ax.set_yticks(range(len(names)), names if ax is grid[0] else [""] * len(names), parse_math=False)
            if not self.scorers:
                ax.set_xlim(left=0)
            elif self._is_flag(measure):
                ax.set_xlim(0, 1)
            tidy(ax, "left")
        return grid

    @property
    def trace(self) -> Trace:
        """The agents' traces combined, with all of their runs. `trace.runs` and `frame` share the column `run_id`."""
        return Trace.concat(self.traces)

    def __repr__(self) -> str:
        text = self.summary().to_string(float_format="{:.3f}".format)
        if not self.scorers:
            text = f"{text}\n\n{self._shown().to_string(max_rows=ROWS, max_colwidth=60, index=False)}"
        return show_control_chars(text)

    def _repr_html_(self) -> str:
        """The display in a notebook: the summary, then the failed rows or, without scorers, all rows."""
        page = self.summary().to_html(notebook=True, classes=NO_TEX, float_format="{:.3f}".format)
        rows = self._shown()
        if len(rows):
            with pd.option_context("display.max_colwidth", WIDTH):
                shown = rows.to_html(notebook=True, max_rows=ROWS, classes=NO_TEX)
            title = f"<p>{len(rows)} of {len(self.frame)} rows failed:</p>\n" if self.scorers else ""
            page = f"{page}\n{title}{shown}"
        return show_control_chars(page)

    def _shown(self) -> pd.DataFrame:
        """The rows to show. Without scorers, they have no uninformative columns: ids, a single repeat, no error."""
        if self.scorers:
            return self.failures()
        hidden = {title_of("run_id", self.frame)}
        if self.frame["repeat"].eq(1).all():
            hidden.add("repeat")
        if self._values("error").isna().all():
            hidden.add(title_of("error", self.frame))
        return self.frame.drop(columns=list(hidden))
