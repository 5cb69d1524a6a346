"""`Evaluation`: what agents answered to the rows of a frame, and how the answers score."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from nbagent.checks import invalid
from nbagent.core.render.control_chars import show_control_chars
from nbagent.core.render.markdown import NO_TEX
from nbagent.evaluation.intervals import bootstrap, wilson

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

#: Rows of a display, and characters of a value in it.
ROWS, WIDTH = 60, 160
#: Columns of a map that the summary counts.
COUNTED = ("input_tokens", "output_tokens", "cost", "seconds")


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What agents answered to the rows of a frame, and how the answers score; `evaluate` makes one.

    `frame` has a row for each agent, repeat and row of the data, with the data's index: agent, repeat, the data's
    columns, those of `Agent.map`, and a column for each scorer, NA where there is no whole answer. `scorers` are their
    names, `models` the agents' models by name.
    """

    frame: pd.DataFrame
    scorers: tuple[str, ...]
    models: Mapping[str, str]
    prompt: str = ""
    expected: str | None = None

    def summary(self) -> pd.DataFrame:
        """One row for each agent: rows, failed, then of each scorer its mean and the 95 % interval (`_low`, `_high`).

        The repeats of a row are averaged first, and the interval is that of the rows, since the repeats of a row are
        not independent. For yes and no it is Wilson's, for numbers a percentile bootstrap of 2,000 draws (see
        `nbagent.evaluation.intervals` for the sources). Failed rows have no score. Then tokens, cost and mean seconds
        of the answered rows; a sum is missing if one of its parts is.
        """
        return pd.DataFrame([self._summary_of(name) for name in self.models], index=pd.Index(self.models, name="agent"))

    def _summary_of(self, agent: str) -> dict[str, Any]:
        rows = self.frame[self.frame["agent"] == agent]
        is_answered = self._column(rows, "status") == "ok"
        told: dict[str, Any] = {"rows": len(rows), "failed": int((~is_answered).sum())}
        for scorer in self.scorers:
            low, high = self.interval(agent, scorer)
            told |= {scorer: self._by_row(agent, scorer).mean(), f"{scorer}_low": low, f"{scorer}_high": high}
        answered = {name: self._column(rows[is_answered], name) for name in COUNTED}
        tokens = answered["input_tokens"] + answered["output_tokens"]
        told |= {"tokens": tokens.sum(skipna=False), "cost": answered["cost"].sum(skipna=False)}
        return {**told, "mean_seconds": answered["seconds"].mean()}

    def _column(self, rows: pd.DataFrame, name: str) -> pd.Series[Any]:
        """A column of the map, also where a field of the answer's model has its name."""
        own: pd.Series[Any] = rows[f"row_{name}" if f"row_{name}" in rows else name]
        return own

    def _by_row(self, agent: str, scorer: str) -> pd.Series[float]:
        """The mean score of each row of the data that has one, over its repeats."""
        rows = self.frame[self.frame["agent"] == agent]
        place = rows.groupby("repeat").cumcount()  # the data's index need not be unique
        means = rows[scorer].astype("Float64").groupby(place.to_numpy()).mean()
        return means.dropna().astype(float)

    def interval(self, agent: str, scorer: str) -> tuple[float, float]:
        """The 95 % interval of an agent's mean score; NaN if nothing is scored."""
        means = self._by_row(agent, scorer)
        if means.empty:
            return float("nan"), float("nan")
        if self._is_flag(scorer):
            return wilson(means.mean(), len(means))
        return bootstrap(means.to_list())

    def _is_flag(self, scorer: str) -> bool:
        return bool(self.frame[scorer].dtype == "boolean")

    def failures(self, scorer: str | None = None, below: float | None = None) -> pd.DataFrame:
        """The rows of `frame` without a whole answer, and those that a yes-or-no scorer says no to.

        With a `scorer`, only by this one; `below` is for one that gives numbers.

        >>> result.failures("length", below=10)                                 # doctest: +SKIP
        """
        if scorer is not None and scorer not in self.scorers:
            raise invalid("scorer", scorer, f"one of the scorers ({', '.join(self.scorers) or 'there is none'})")
        if below is not None and scorer is None:
            raise invalid("below", below, "None without a scorer", "Name the scorer, too.")
        failed = self._column(self.frame, "status") != "ok"
        for name in self.scorers if scorer is None else [scorer]:
            if below is not None:
                failed |= (self.frame[name].astype("Float64") < below).fillna(False).to_numpy(dtype=bool)
            elif self._is_flag(name):
                failed |= ~self.frame[name].fillna(True).to_numpy(dtype=bool)
        return self.frame[failed.to_numpy(dtype=bool)]

    def plot(self) -> list[Axes]:
        """Draw the mean of each scorer by agent: a dot, with its 95 % interval as a line.

        Needs the extra `plot`.
        """
        from nbagent.trace.views.plots import COLOURS, subplots, tidy

        if not self.scorers:
            raise invalid("scorers", {}, "at least one to draw", "Pass scorers={...} to evaluate().")
        names = list(self.models)
        grid = subplots(len(self.scorers), figsize=(1.2 + 3.0 * len(self.scorers), 1.0 + 0.4 * len(names)))
        for ax, scorer in zip(grid, self.scorers, strict=True):
            for place, name in enumerate(names):
                low, high = self.interval(name, scorer)
                ax.plot([low, high], [place, place], color=COLOURS["waiting"], linewidth=3, solid_capstyle="round")
                ax.plot([self._by_row(name, scorer).mean()], [place], "o", color=COLOURS["model"], clip_on=False)
            ax.set(ylim=(len(names) - 0.4, -0.6))
            ax.set_xlabel(scorer, parse_math=False)
            ax.set_yticks(range(len(names)), names if ax is grid[0] else [""] * len(names), parse_math=False)
            if self._is_flag(scorer):
                ax.set_xlim(0, 1)
            tidy(ax, "left")
        return grid

    def to_inspect(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write a log for each agent that Inspect reads (`inspect view`), and return their paths.

        Repeats are Inspect's epochs. Needs `pip install inspect-ai`.
        """
        from nbagent.evaluation.inspect_log import write_logs

        return write_logs(self, Path(folder))

    def __repr__(self) -> str:
        return show_control_chars(self.summary().to_string(float_format="{:.3f}".format))

    def _repr_html_(self) -> str:
        """What a notebook shows: the summary, and the rows that failed."""
        page = self.summary().to_html(notebook=True, classes=NO_TEX, float_format="{:.3f}".format)
        failed = self.failures()
        if len(failed):
            with pd.option_context("display.max_colwidth", WIDTH):
                shown = failed.to_html(notebook=True, max_rows=ROWS, classes=NO_TEX)
            page = f"{page}\n<p>{len(failed)} of {len(self.frame)} rows failed:</p>\n{shown}"
        return show_control_chars(page)
