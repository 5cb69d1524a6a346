"""How long the stop button takes in a real kernel: seconds from the interrupt to the cell's reply.

    python benchmarks/interrupt.py [RUNS]

During the model's answer, an async tool and a sync tool; as a typed cell (async) and under `%%time` (background loop).
To reach: a median under 0.5 s.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.kernels import Kernel

DOING = {
    "model": "agent.provider = Gated('so far', 'never')",
    "async tool": "@tool\nasync def wait():\n    print('in')\n    await asyncio.sleep(600)",
    "sync tool": "@tool\ndef wait():\n    print('in')\n    time.sleep(600)",
}
WAYS = {"typed cell": "", "under %%time": "%%time\n"}


def latency(kernel: Kernel, doing: str, prefix: str) -> float:
    """Seconds from one interrupt to the reply of the interrupted cell."""
    kernel.run("agent = Agent(tools=nbagent.live)\nagent.provider = ScriptedProvider([FunctionCall('wait', {}, 'c')])")
    kernel.run(doing)
    cell = kernel.send(prefix + "%%agent\ngo")
    kernel.until(cell, lambda: "so far" in cell.text or "in" in cell.stdout)
    time.sleep(0.2)  # let it settle into waiting
    start = time.perf_counter()
    kernel.interrupt()
    kernel.until(cell, lambda: cell.reply is not None)
    took = time.perf_counter() - start
    assert kernel.wait(cell).error == "KeyboardInterrupt"
    return took


@contextmanager
def quiet_kernel() -> Iterator[Kernel]:
    """A kernel that keeps its warnings about its own set-up to itself."""
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "ipython" / "profile_default"
        profile.mkdir(parents=True)
        (profile / "ipython_kernel_config.py").write_text("get_config().Application.log_level = 40\n")
        with Kernel(Path(folder)) as kernel:
            yield kernel


def main(runs: int) -> None:
    """Print a line for each situation."""
    print(f"Seconds from an interrupt to the cell's reply, of {runs} each\n")
    with quiet_kernel() as kernel:
        for doing, code in DOING.items():
            for way, prefix in WAYS.items():
                times = [latency(kernel, code, prefix) for _ in range(runs)]
                print(f"  {doing:11} {way:13} median {statistics.median(times):.3f} s   worst {max(times):.3f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
