"""What the runs add up to: medians, ratios of values that were measured next to each other, and the targets."""

from dataclasses import dataclass
from statistics import median

#: Tables: title -> columns.
COLUMNS = {
    "First event": "first_cold_ms first_ms short_cpu_ms",
    "Streaming 2,000 deltas; paced ones": "delta_cpu_us delta_x paced_cpu_us paced_x",
    "Tool loop, `streaming=False`": (
        "round_ms round_cpu_ms round_x async_cpu_ms async_x early_cpu_ms late_cpu_ms slope_us"
    ),
    "8 parallel tools of 0.2 s": "par_sync_s par_sync_peak par_async_s par_async_peak",
    "Batch of 300 at 32": "batch_per_s batch_cpu_ms batch_l50_per_s",
    "1,000 rows at 32, then 5 % of the requests fail": "rows_per_s rows_lost rows_f5_per_s rows_f5_lost rows_lines",
}
#: Columns that are ratios to `raw_httpx` of the same round.
RATIOS = {
    "delta_x": "delta_cpu_us",
    "paced_x": "paced_cpu_us",
    "round_x": "round_cpu_ms",
    "async_x": "async_cpu_ms",
}
#: What `raw_httpx`, which calls a tool where it is, is measured by instead.
BASE_KEYS = {"async_cpu_ms": "round_cpu_ms"}


@dataclass(frozen=True)
class Target:
    """At most `most` times `base`'s value; `added`: so much more than it; without `base`: so much."""

    what: str
    key: str
    most: float
    adapter: str = "nbagent_httpx"
    base: str | None = "raw_httpx"
    added: bool = False

    def values(self, runs):
        """One value for each round in which both were measured."""
        mine, base_key = runs.get(self.adapter, []), BASE_KEYS.get(self.key, self.key)
        others = runs.get(self.base, []) if self.base else [{base_key: 0.0}] * len(mine)
        pairs = [
            (a[self.key], b[base_key]) for a, b in zip(mine, others, strict=False) if self.key in a and base_key in b
        ]
        return [a - b if self.added or not self.base else a / b for a, b in pairs]


#: To be met. The SDKs' transports are compared with the same SDK's low-level `post`.
TARGETS = [
    Target("httpx: CPU per streamed delta", "delta_cpu_us", 1.5),
    Target("httpx: CPU per paced delta", "paced_cpu_us", 1.6),
    Target("httpx: first event, ms later", "first_ms", 0.7, added=True),
    Target("httpx: CPU per round of a 50-round tool loop, sync tool", "round_cpu_ms", 2.5),
    Target("httpx: the same with an async tool", "async_cpu_ms", 2.0),
    Target("httpx: growth per round of history, us", "slope_us", 4.0, base=None),
    *(
        Target(f"{sdk} SDK: {what}", key, 1.5, f"nbagent_{sdk}", f"raw_{sdk}_post")
        for sdk in ("openai", "anthropic")
        for what, key in (("CPU per streamed delta", "delta_cpu_us"), ("CPU per paced delta", "paced_cpu_us"))
    ),
]
#: Good to have, on a machine where raw_httpx takes 0.86 ms, 20 us, 147 us and 0.86 ms for the first four.
WISHES = [
    Target("first event, ms", "first_ms", 1.2, base=None),
    Target("CPU per streamed delta, us", "delta_cpu_us", 30, base=None),
    Target("CPU per paced delta, us", "paced_cpu_us", 180, base=None),
    Target("CPU per round of 50, ms", "round_cpu_ms", 1.3, base=None),
    Target("growth per round of history, us", "slope_us", 2.0, base=None),
    Target("8 sync tools of 0.2 s, s", "par_sync_s", 0.21, base=None),
]


def summary(runs):
    """By adapter: the median of every number, and the ratios."""
    table = {}
    for adapter, rows in runs.items():
        keys = dict.fromkeys(key for row in rows for key in row if not key.endswith("error"))
        table[adapter] = {key: median(row[key] for row in rows if key in row) for key in keys}
        for name, key in RATIOS.items():
            if values := Target("", key, 0, adapter).values(runs):
                table[adapter][name] = median(values)
    return table


def show(value):
    """Three figures."""
    return "-" if value is None else f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def tables(runs):
    """Markdown: the medians of every adapter, and what failed."""
    table = summary(runs)
    lines = []
    for title, names in COLUMNS.items():
        keys = [key for key in names.split() if any(key in row for row in table.values())]
        if not keys:
            continue
        lines += ["", f"### {title}", "", f"| | {' | '.join(keys)} |", "|---|" + "---:|" * len(keys)]
        for adapter, row in table.items():
            if any(key in row for key in keys):
                lines.append(f"| {adapter} | {' | '.join(show(row.get(key)) for key in keys)} |")
    errors = {
        f"- {a}: {k}: {v}" for a, rows in runs.items() for row in rows for k, v in row.items() if k.endswith("error")
    }
    return "\n".join([*lines, *(["", "### Failed", "", *sorted(errors)] if errors else [])])


def verdict(runs):
    """`(Markdown, whether all targets are met)`. A target that was not measured is not met."""
    lines = ["### Targets", "", "| target | at most | median | of the rounds | met |", "|---|---:|---:|---:|---|"]
    met = True
    for target in TARGETS:
        line, good = _line(target, runs)
        lines.append(line)
        met &= good
    lines += ["", "### Wishes", "", *lines[2:4]]
    lines += [_line(wish, runs)[0] for wish in WISHES]
    return "\n".join(lines), met


def _line(target, runs):
    values = target.values(runs)
    if not values:
        return f"| {target.what} | {target.most:g} | - | - | not measured |", False
    good = median(values) <= target.most
    sign = "x" if target.base and not target.added else ""
    spread = f"{show(min(values))} to {show(max(values))}"
    figures = f"{target.most:g}{sign} | {show(median(values))}{sign} | {spread}"
    return f"| {target.what} | {figures} | {'yes' if good else 'NO'} |", good
