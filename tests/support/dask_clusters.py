"""A real Dask cluster of worker processes on loopback, and a server whose answers a test can hold back."""

import asyncio
import contextlib
import json
import os
import threading
from collections import Counter

from distributed import Client, LocalCluster

from support.loopback import Answer, Loopback, said, sse

#: What only the workers have in their environment.
WORKER_KEY = "sk-of-the-workers-0123456789abcdef"


@contextlib.contextmanager
def cluster_of(workers=2, **environment):
    """A client of as many worker processes, which have these environment variables."""
    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            worker_dashboard_address=":0",
            env={"OPENAI_API_KEY": WORKER_KEY, **environment},
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


class EchoServer(Loopback):
    """Answers each question with itself. `asked` counts the questions.

    `hold` is how many questions wait for `release` from then on; `held` is set when so many do.
    """

    def __init__(self):
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.keys: set[str | None] = set()
        self.open_now = self.most_open = 0
        self.answered = 0
        self.hold_after: int | None = None
        self.held = threading.Event()
        self.released = asyncio.Event()

    def hold(self, after: int) -> None:
        """Answer so many more questions, and keep those after them waiting until `release`."""
        self.hold_after, self.answered = after, 0
        self.held.clear()
        self.released.clear()

    def release(self) -> None:
        self.hold_after = None
        self.released.set()

    async def _send(self, answer, reader, writer):
        request = self.requests[-1]
        question = request.json["messages"][-1]["content"]
        self.asked[question] += 1
        self.keys.add(request.headers.get("authorization"))
        self.answered += 1
        if self.hold_after is not None and self.answered > self.hold_after:
            self.held.set()
            await self.released.wait()
        return await super()._send(answer, reader, writer)

    def answer_to(self, request):
        question = request.json["messages"][-1]["content"]
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        return Answer(sse(said(f"echo {question}", usage=usage)))


def worker_pids(client) -> dict[str, int]:
    return client.run(os.getpid)


def as_json(value) -> str:
    return json.dumps(value, default=repr)
