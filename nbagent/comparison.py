"""`compare` sends the same prompts to several agents; a `Comparison` holds what they answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import pandas as pd

from nbagent.agent import Agent
from nbagent.checks import check_type, invalid
from nbagent.core.background import run_sync
from nbagent.core.inputs import MessageInput, as_messages
from nbagent.core.progress import progress_bar
from nbagent.core.render.control_chars import show_control_chars
from nbagent.core.render.markdown import NO_TEX
from nbagent.core.request_options import RunOptions
from nbagent.core.stream import StreamingHandler
from nbagent.errors import ConfigurationError
from nbagent.trace.columns import COUNT, REAL, TEXT
from nbagent.trace.trace import Trace

log = logging.getLogger("nbagent")

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = {
    "agent": TEXT, "prompt": TEXT, "answer": TEXT, "tools": TEXT, "tokens": COUNT, "cost": REAL, "seconds": REAL,
    "status": TEXT, "error": TEXT, "run_id": TEXT,
}  # fmt: skip
#: Arguments of `Agent.chat` that `compare` sets itself.
_RESERVED = frozenset(("self", "message", "origin"))
#: What the plot shows, and the labels of its axes.
MEASURES = {"seconds": "seconds a prompt", "tokens": "tokens a prompt", "cost": "dollars a prompt"}
#: Rows of a display, and characters of a value in it.
ROWS, WIDTH = 60, 160

Row = dict[str, Any]


class CompareOptions(RunOptions, total=False):
    """What `compare` takes by keyword: options of `Agent.chat`."""

    max_iterations: int | None
    handler: StreamingHandler | None


@dataclass(frozen=True, repr=False)
class Comparison:
    """What several agents answered to the same prompts.

    `frame` has one row for each prompt and agent: agent, prompt, answer, tools (the names of the tools it called, in
    order), tokens, cost (dollars), seconds, status, error, run_id. `trace` records all runs; join it by `run_id`.
    """

    frame: pd.DataFrame
    trace: Trace

    def summary(self) -> pd.DataFrame:
        """One row for each agent: prompts, failed prompts, tool calls, tokens, cost, mean seconds.

        Tokens, cost and seconds count answered prompts only. A sum is missing if one of its parts is.
        """
        names = pd.Index(self.frame["agent"].unique(), name="agent")
        every, answered = self.frame.groupby("agent"), self._answered().groupby("agent")
        return pd.DataFrame(
            {
                "prompts": every.size(),
                "failed": every["error"].count(),
                "tool_calls": every["tools"].agg(lambda tools: sum(len(text.split()) for text in tools)),
                "tokens": answered["tokens"].agg(lambda tokens: tokens.sum(skipna=False)),
                "cost": answered["cost"].agg(lambda costs: costs.sum(skipna=False)),
                "mean_seconds": answered["seconds"].mean(),
            },
            index=names,
        )

    def _answered(self) -> pd.DataFrame:
        return self.frame[self.frame["error"].isna()]

    def plot(self) -> list[Axes]:
        """Draw seconds, tokens and, if known and not 0, dollars: a bar for the mean, a dot for each answer.

        Needs the extra `plot`.

        >>> nbagent.compare({"small": small, "large": large}, prompts).plot()      # doctest: +SKIP
        """
        from nbagent.trace.views.plots import COLOURS, subplots, tidy

        drawn = {name: words for name, words in MEASURES.items() if name == "seconds" or self.frame[name].any()}
        names, answered = list(self.frame["agent"].unique()), self._answered()
        size = (1.2 + 3.0 * len(drawn), 1.0 + 0.4 * max(len(names), 1))
        grid = subplots(len(drawn), figsize=size)
        for ax, (measure, words) in zip(grid, drawn.items(), strict=True):
            for place, name in enumerate(names):
                values = answered.loc[answered["agent"] == name, measure].dropna().astype(float)
                if len(values):
                    ax.barh(place, values.mean(), height=0.62, color=COLOURS["waiting"])
                    dots: dict[str, Any] = {"color": COLOURS["model"], "alpha": 0.6, "markersize": 5, "clip_on": False}
                    ax.plot(values, [place] * len(values), "o", **dots)
            ax.set(xlabel=words, ylim=(len(names) - 0.4, -0.6))
            ax.set_yticks(range(len(names)), names if ax is grid[0] else [""] * len(names), parse_math=False)
            ax.set_xlim(left=0)
            tidy(ax, "left")
        return grid

    def __repr__(self) -> str:
        shown = self._shown().to_string(max_rows=ROWS, max_colwidth=60, index=False)
        return show_control_chars(f"{_readable(self.summary()).to_string()}\n\n{shown}")

    def _repr_html_(self) -> str:
        """What a notebook shows: the summary of the agents, and their answers."""
        with pd.option_context("display.max_colwidth", WIDTH):
            shown = self._shown().to_html(notebook=True, max_rows=ROWS, index=False, classes=NO_TEX)
        for cell in ("td", "th"):  # pandas aligns text to the right
            shown = shown.replace(f"<{cell}>", f'<{cell} style="text-align: left">')
        return show_control_chars(f"{_readable(self.summary()).to_html(notebook=True, classes=NO_TEX)}\n{shown}")

    def _shown(self) -> pd.DataFrame:
        """The frame without ids, and without the error column if nothing failed."""
        hidden = {"run_id"} | ({"error"} if self.frame["error"].isna().all() else set())
        return _readable(self.frame[[name for name in COLUMNS if name not in hidden]])


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    """The table with formatted numbers; missing values are blank."""
    forms = {"tokens": "{:,}", "cost": "${:.4f}", "seconds": "{:.2f}", "mean_seconds": "{:.2f}"}
    return pd.DataFrame(
        {
            name: ["" if pd.isna(value) else forms.get(str(name), "{}").format(value) for value in column]
            for name, column in table.items()
        },
        index=table.index,
    )


def compare(
    agents: Mapping[str, Agent],
    prompts: Iterable[MessageInput],
    *,
    progress: bool = True,
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Ask several agents the same prompts, and compare what they answer.

    Each prompt goes to a fork of each agent, so the agents' conversations do not change. The agents work side by side,
    each on one prompt after the other. A failure becomes a row with an `error`, and the rest goes on. `prompts` are
    messages for `Agent.chat`, `options` its options. A progress bar appears if it takes more than a second. In async
    code, use `await acompare(...)`. Raises `ConfigurationError` before the first request if no agent can take a prompt.

    Here agents chat: each has its conversation and its tools. For the rows of a frame, use `evaluate` without scorers:
    it maps them, with checkpoints, budgets and equal rows asked once.

    >>> result = nbagent.compare({"claude": one, "qwen": other}, ["Who are you?", "What is 2 + 2?"])  # doctest: +SKIP
    >>> result.frame.pivot(index="prompt", columns="agent", values="answer")                          # doctest: +SKIP
    """
    return run_sync(acompare(agents, prompts, progress=progress, **options))


async def acompare(
    agents: Mapping[str, Agent],
    prompts: Iterable[MessageInput],
    *,
    progress: bool = True,
    **options: Unpack[CompareOptions],
) -> Comparison:
    """`compare` for async code.

    >>> result = await nbagent.acompare({"claude": one, "qwen": other}, prompts)        # doctest: +SKIP
    """
    asked = _checked(agents, prompts, options)
    with progress_bar(len(agents) * len(asked), "comparing", "answer", shown=progress, leave=False) as bar:
        answers = await asyncio.gather(*(_ask(name, agents[name], asked, bar.update, options) for name in agents))
    by_prompt = [answer for of_prompt in zip(*answers, strict=True) for answer in of_prompt]
    rows = [row for row, _ in by_prompt]
    frame = pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=kind) for name, kind in COLUMNS.items()})
    return Comparison(frame, Trace.concat(trace for _, trace in by_prompt))


def _checked(agents: Mapping[str, Agent], prompts: Iterable[MessageInput], options: Mapping[str, Any]) -> list[Any]:
    if not isinstance(agents, Mapping) or not agents:
        raise invalid("agents", agents, "a dict of agents by name", 'Pass {"claude": agent_a, "qwen": agent_b}.')
    for name, agent in agents.items():
        check_type(f"agents[{name!r}]", agent, Agent, fix="Pass Agent('vendor:model').")
    if not isinstance(prompts, Iterable):
        raise invalid("prompts", prompts, "a list of prompts", "Pass ['Who are you?', ...].")
    asked = [prompts] if isinstance(prompts, str) else list(prompts)
    for prompt in asked:
        as_messages(prompt)  # raises before any agent is asked
    if taken := _RESERVED.intersection(options):
        raise ConfigurationError(f"compare() sets {' and '.join(sorted(taken))} itself: leave it out.")
    errors = [error for agent in agents.values() for error in _preview_errors(agent, asked[:1], options)]
    if len(errors) == len(agents):
        raise errors[0]
    return asked


def _preview_errors(agent: Agent, prompts: list[Any], options: Mapping[str, Any]) -> Iterator[ConfigurationError]:
    """Errors of the requests to this agent, as far as a preview shows them."""
    of_stream = {name: value for name, value in options.items() if name != "handler"}
    for prompt in prompts:
        try:
            agent.chat_stream(prompt, **of_stream).preview()
        except ConfigurationError as error:
            yield error


async def _ask(
    name: str, agent: Agent, prompts: list[Any], step: Callable[[], object], options: Mapping[str, Any]
) -> list[tuple[Row, Trace]]:
    """One agent's rows, in the order of the prompts, each with the trace of its fork."""
    found = []
    for prompt in prompts:
        error: Exception | None = None
        fork = None
        try:
            agent.provider.check()  # makes the provider once, for all forks
            fork = agent.fork()
            fork.trace = fork.trace if fork.trace.is_recording else Trace()
            await fork.chat(prompt, origin={"source": "compare", "agent": name}, **options)
        except Exception as failure:  # the row holds it; other rows are not lost
            log.info("%s failed", name, exc_info=True)
            error = failure
        trace = fork.trace if fork else Trace()
        found.append((_row(name, prompt, trace, error), trace))
        step()
    return found


def _row(name: str, prompt: Any, trace: Trace, error: Exception | None) -> Row:
    """A row, by what the trace says of the run; only the error if no run began."""
    asked = "\n".join(message.text for message in as_messages(prompt))
    run = next((row for row in trace.rows("runs") if row["source"] == "compare"), {})
    text = None if error is None else f"{type(error).__name__}: {error}"
    return {
        "agent": name,
        "prompt": run.get("prompt") or asked,
        "answer": run.get("output"),
        "tools": " ".join(row["name"] for row in trace.rows("tool_calls") if row["run_id"] == run.get("run_id")),
        "tokens": run.get("total_tokens"),
        "cost": _cost(run),
        "seconds": _seconds(run, trace),
        "status": run.get("status", "error"),
        "error": text,
        "run_id": run.get("run_id"),
    }


def _cost(run: Row) -> float | None:
    """What the models cost, replayed answers when they were recorded."""
    paid = run.get("cost_usd")
    return None if paid is None else paid + (run.get("replayed_cost_usd") or 0.0)


def _seconds(run: Row, trace: Trace) -> float | None:
    """How long the run took; for a replayed run, how long the model took when it was recorded."""
    if run.get("replayed"):
        return float(sum(call["duration_s"] for call in trace.rows("calls") if call["run_id"] == run["run_id"]))
    return run.get("duration_s")
