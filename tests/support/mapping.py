"""Maps in processes of their own, and a server that remembers which rows it was asked about."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager

import pandas as pd

from nbagent import Agent, create_provider
from support.killed import process_of
from support.loopback import Answer, Loopback, Request, said, sse


class RowServer(Loopback):
    """Answers each question by itself. `on_asked` is called with each question before it is answered."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.on_asked: Callable[[str], object] = str

    def answer_to(self, request: Request) -> Answer:
        question = request.json["messages"][-1]["content"]
        self.asked.append(question)
        self.on_asked(question)
        usage = {"prompt_tokens": 5, "completion_tokens": len(question)}
        return Answer(sse(said(f"The answer to {question}.", usage=usage)))


def agent_for(url: str) -> Agent:
    return Agent(create_provider("open_source", model="m1", base_url=f"{url}/v1"))


def questions(count: int) -> pd.Series:
    return pd.Series([f"row {number}" for number in range(count)], name="question")


def mapper(url: str, checkpoint: object, count: int, concurrency: int) -> AbstractContextManager[subprocess.Popen[str]]:
    """A process that maps `questions(count)` and prints how many rows are right. It is killed with the block."""
    return process_of("-m", "support.mapping", url, checkpoint, count, concurrency)


async def main(url: str, checkpoint: str, count: str, concurrency: str) -> None:
    data = questions(int(count))
    frame = await agent_for(url).map(data, checkpoint=checkpoint, concurrency=int(concurrency))
    print((frame["answer"] == "The answer to " + data + ".").sum(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
