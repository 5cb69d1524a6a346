"""Measure one adapter in this process. After each test, print one line with all values so far as JSON.

    python worker.py ADAPTER URL TEST…          tests: check first delta paced loop50 growth parallel batch rows rows_f5

CPU is that of the whole process, all threads. Milliseconds end in `_ms`, microseconds in `_us`, seconds in `_s`.
"""

import contextlib
import gc
import importlib
import inspect
import io
import json
import os
import statistics
import sys
import time
from itertools import pairwise

from adapters.base import FINAL, Sleeper

median = statistics.median
#: Seconds that each of the parallel tools sleeps.
NAP = 0.2


def load(adapter, url):
    """The adapter's `Peer`."""
    return importlib.import_module(f"adapters.{adapter}").Peer(url)


class Meter:
    """The measurements of one peer, whose imports took `import_ms`. Each checks that the answers are right."""

    def __init__(self, peer, import_ms=0.0):
        self.peer = peer
        self.import_ms = import_ms

    def name(self, script):
        """The model's name that plays `script` for this peer."""
        if self.peer.final_tool and script.startswith(("tools", "par")):
            script = "fa" + script
        return self.peer.prefix + script

    def stream(self, script):
        """One streamed answer -> (ms to the first text delta, CPU seconds)."""
        count = int(script.split("-")[1])
        wall, cpu = time.perf_counter(), time.process_time()
        got = self.peer.stream_text(self.name(script))
        spent = time.process_time() - cpu
        text = "".join(got.parts)
        assert text == "".join(f"w{i % 100:02d} " for i in range(count)), f"streamed {text[:80]!r}…"
        return (got.first - wall) * 1e3, spent

    def loop(self, rounds, **kind):
        """One tool loop -> (wall, CPU), each a list of ms from one call of the tool to the next."""
        gc.collect()
        ticks = self.peer.tool_loop(self.name(f"tools-{rounds}"), **kind)
        assert len(ticks.wall) == rounds, f"{len(ticks.wall)} tool calls, not {rounds}"
        assert FINAL in str(ticks.final), f"final text {ticks.final!r}"
        return [[(after - before) * 1e3 for before, after in pairwise(times)] for times in (ticks.wall, ticks.cpu)]

    def check(self):
        """Right answers, nothing measured."""
        self.stream("text-5")
        self.loop(3)
        return {}

    def first(self):
        """The first text delta of a short answer."""
        cold = self.stream("text-5")[0]
        for _ in range(5):
            self.stream("text-5")
        runs = [self.stream("text-5") for _ in range(30)]
        return {
            "first_cold_ms": self.import_ms + cold,
            "first_ms": median(run[0] for run in runs),
            "short_cpu_ms": median(run[1] for run in runs) * 1e3,
        }

    def delta(self, count=2000):
        """Deltas that are sent at once, an HTTP chunk each."""
        self.stream("text-50")
        runs = []
        for _ in range(5):
            gc.collect()
            runs.append(self.stream(f"text-{count}"))
        return {"delta_cpu_us": median(run[1] for run in runs) / count * 1e6}

    def paced(self, count=250):
        """Deltas that come 2 ms apart, so that each has to be read by itself."""
        runs = [self.stream(f"text-{count}-d2") for _ in range(3)]
        return {"paced_cpu_us": median(run[1] for run in runs) / count * 1e6}

    def loop50(self):
        """Tool loops of 50 rounds. nbagent also runs them with an async tool."""
        self.loop(3)
        runs = [self.loop(50) for _ in range(3)]
        out = {
            "round_ms": median(median(wall) for wall, _ in runs),
            "round_cpu_ms": median(median(cpu) for _, cpu in runs),
        }
        if "kind" in inspect.signature(self.peer.tool_loop).parameters:
            out["async_cpu_ms"] = median(median(self.loop(50, kind="async")[1]) for _ in range(3))
        return out

    def growth(self, rounds=200):
        """What a round costs more for each round that went before."""
        _, cpu = self.loop(rounds)
        early, late = median(cpu[10:40]), median(cpu[-30:])
        return {"early_cpu_ms": early, "late_cpu_ms": late, "slope_us": (late - early) / (rounds - 40) * 1e3}

    def parallel(self, count=8):
        """So many calls in one answer, each of which sleeps: seconds for all."""
        out = {}
        for kind in ("sync", "async"):
            try:
                for sleeper in (Sleeper(0), Sleeper(NAP)):  # the first is a warm-up
                    begin = time.perf_counter()
                    final = self.peer.parallel_tools(self.name(f"par-{count}"), sleeper, kind)
                    wall = time.perf_counter() - begin
                assert sleeper.calls == count, f"{sleeper.calls} calls, not {count}"
                assert FINAL in str(final), f"final text {final!r}"
                out |= {f"par_{kind}_s": wall, f"par_{kind}_peak": sleeper.peak}
            except NotImplementedError:
                pass
            except Exception as error:
                out[f"par_{kind}_error"] = brief(error)
        return out

    def batch(self, count=300, concurrency=32):
        """Prompts per second; `l50`: each answer takes 50 ms at least."""
        out = {}
        for key, script in (("batch", "text-20"), ("batch_l50", "text-20-l50")):
            prompts = [f"Prompt {i}" for i in range(count)]
            self.peer.batch(self.name(script), prompts[:40], concurrency)
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            texts = self.peer.batch(self.name(script), prompts, concurrency)
            out |= {
                f"{key}_cpu_ms": (time.process_time() - cpu) / count * 1e3,
                f"{key}_per_s": count / (time.perf_counter() - wall),
            }
            assert [len(text) for text in texts] == [80] * count, str(texts[:1])
        return out

    def rows(self, key="rows", options="", count=1000, concurrency=32):
        """Rows per second, and rows that are lost."""
        script = f"{'json' if self.peer.structured_rows else 'text'}-20-l50{options}"
        prompts = [f"Row {i} of {script}" for i in range(count)]
        self.peer.rows(self.name(script), prompts[:concurrency], concurrency)  # imports, connections
        wall = time.perf_counter()
        texts = self.peer.rows(self.name(script), prompts, concurrency)
        return {
            f"{key}_per_s": count / (time.perf_counter() - wall),
            f"{key}_lost": count - sum(isinstance(text, str) and len(text) == 80 for text in texts),
            "rows_lines": lines_of(type(self.peer)),
        }

    def rows_f5(self):
        """The same on a server that fails 5 % of the requests."""
        return self.rows("rows_f5", "-f5")


def lines_of(peer):
    """Lines of code that the user writes for `rows`."""
    code = inspect.getsource(peer).partition("# rows: begin")[2].partition("# rows: end")[0]
    return sum(bool(line.strip()) for line in code.splitlines()) - 1  # the interface of `Peer`


def brief(error):
    """An error in one line."""
    return f"{type(error).__name__}: {error}"[:300]


def main(adapter, url, *tests):
    """Print the values of these tests; `NAME_error` in place of those of a test that failed."""
    out, stdout = {}, sys.stdout
    with contextlib.redirect_stdout(io.StringIO()):  # some peers talk
        begun = time.perf_counter()
        peer = load(adapter, url)
        meter = Meter(peer, (time.perf_counter() - begun) * 1e3)
        for test in tests:
            try:
                out |= getattr(meter, test)()
            except NotImplementedError:
                pass
            except Exception as error:
                out[f"{test}_error"] = brief(error)
            print("RESULT " + json.dumps(out), file=stdout, flush=True)
    os._exit(0)  # some peers leave threads behind that do not end


if __name__ == "__main__":
    main(*sys.argv[1:])
