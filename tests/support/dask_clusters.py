"""A real Dask cluster of worker processes on loopback, and a server whose answers a test can hold back."""

import asyncio
import contextlib
import os
import threading
from collections import Counter

from distributed import Client, LocalCluster

from support.loopback import Answer, Loopback, said, sse

#: What only the workers have in their environment.
WORKER_KEY = "sk-of-the-workers-0123456789abcdef"


@contextlib.contextmanager
def cluster_of():
    """A client of two worker processes."""
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "worker_dashboard_address": ":0"}
    with LocalCluster(2, **options, env={"OPENAI_API_KEY": WORKER_KEY}) as cluster, Client(cluster) as client:
        yield client


class EchoServer(Loopback):
    """Answers each question with itself. `asked` counts the questions. `held` is set when one waits for `release`."""

    def __init__(self):
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.before_hold: float = float("inf")
        self.held = threading.Event()
        self.released = asyncio.Event()

    def hold(self, after: int) -> None:
        """Answer so many more questions, and keep those after them waiting until `release`."""
        self.before_hold = after

    def release(self) -> None:
        self.before_hold = float("inf")
        self.released.set()

    async def _send(self, answer, reader, writer):
        self.before_hold -= 1
        if self.before_hold < 0:
            self.held.set()
            await self.released.wait()
        return await super()._send(answer, reader, writer)

    def answer_to(self, request):
        question = request.json["messages"][-1]["content"]
        self.asked[question] += 1
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        return Answer(sse(said(f"echo {question}", usage=usage)))


def worker_pids(client) -> dict[str, int]:
    return client.run(os.getpid)
