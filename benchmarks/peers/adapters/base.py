"""The interface that every peer is measured through: one file `adapters/NAME.py` with `class Peer(Base)`.

Conversations start anew at each call; clients, agents and the event loop are kept, so that a second call is warm. A
method that raises NotImplementedError is shown as `-`. A peer is used in its own documented way: its own tool loop, its
own batch if it has one.
"""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

PROMPT = "Please go."
FINAL = "All done."
#: For peers that take raw schemas.
ADD_SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "description": "the first number"},
        "b": {"type": "integer", "description": "the second number"},
    },
    "required": ["a", "b"],
}
#: … as chat completions have them.
CHAT_TOOLS = [
    {"type": "function", "function": {"name": "add", "description": "Add two numbers.", "parameters": ADD_SCHEMA}}
]


class Stream:
    """Text deltas as the caller sees them; `first` is when the first one came."""

    def __init__(self):
        self.first = None
        self.parts = []

    def add(self, text):
        if text:
            if self.first is None:
                self.first = time.perf_counter()
            self.parts.append(text)


class Ticks:
    """When (wall and CPU) the tool was called, round by round."""

    def __init__(self):
        self.wall, self.cpu, self.final = [], [], None

    def tool(self, kind="sync"):
        """A fresh tool add(a, b) that ticks."""

        def add(a: int, b: int) -> int:
            """Add two numbers.

            Args:
                a: the first number
                b: the second number
            """
            self.wall.append(time.perf_counter())
            self.cpu.append(time.process_time())
            return a + b

        sync_add = add

        async def add(a: int, b: int) -> int:
            return sync_add(a, b)

        add.__doc__ = sync_add.__doc__
        return sync_add if kind == "sync" else add


class Sleeper:
    """Tools add(a, b) that sleep, sync or async; counts calls and peak overlap."""

    def __init__(self, seconds):
        self.seconds, self.calls, self.now, self.peak = seconds, 0, 0, 0
        self.lock = threading.Lock()

    def enter(self):
        with self.lock:
            self.calls += 1
            self.now += 1
            self.peak = max(self.peak, self.now)

    def leave(self):
        with self.lock:
            self.now -= 1

    def tool(self, kind):
        def add(a: int, b: int) -> int:
            """Add two numbers.

            Args:
                a: the first number
                b: the second number
            """
            self.enter()
            time.sleep(self.seconds)
            self.leave()
            return a + b

        sync_add = add

        async def add(a: int, b: int) -> int:
            self.enter()
            await asyncio.sleep(self.seconds)
            self.leave()
            return a + b

        add.__doc__ = sync_add.__doc__
        return sync_add if kind == "sync" else add


class Base:
    """A peer. `url` is the server's, `http://127.0.0.1:PORT`."""

    #: What to write after `import` for it; a peer whose modules can't be found is not installed.
    imports = ""
    #: Before the model's name (litellm wants "openai/").
    prefix = ""
    #: The peer ends its loop on a tool call final_answer(...) alone.
    final_tool = False
    #: `rows` wants the answers as JSON.
    structured_rows = False

    def __init__(self, url):
        self.url = url
        self.v1 = url + "/v1"
        self.loop = asyncio.new_event_loop()
        self.cache = {}

    def run(self, coroutine):
        """Run on the adapter's one event loop, which stays alive as in a notebook."""
        return self.loop.run_until_complete(coroutine)

    def kept(self, key, make):
        """An object made once per key and kept: a client, an agent."""
        if key not in self.cache:
            self.cache[key] = make()
        return self.cache[key]

    def close(self):
        """Close what is open."""
        self.loop.close()

    def stream_text(self, model):
        """One streamed answer -> a `Stream`, given each text delta as it comes."""
        raise NotImplementedError

    def tool_loop(self, model):
        """The agent with the tool of a `Ticks`, until its final text -> those `Ticks`."""
        raise NotImplementedError

    def parallel_tools(self, model, sleeper, kind):
        """The agent with `sleeper.tool(kind)` (kind: sync or async) -> its final text."""
        raise NotImplementedError

    def batch(self, model, prompts, concurrency):
        """A list of final texts, one for each prompt."""
        raise NotImplementedError

    def rows(self, model, prompts, concurrency):
        """The same as the library's user writes it, on a server that fails: None, or an error, for a lost row.

        The lines between `# rows: begin` and `# rows: end` are counted.
        """
        raise NotImplementedError


class HandLoop(Base):
    """A peer that is no agent: the loop is written here, by hand."""

    def rounds(self, model, execute):
        """Ask until there are no calls -> the final text. `execute(calls)` gives the calls' results as messages."""
        raise NotImplementedError

    def arguments(self, call):
        """A call's arguments, as a dict."""
        return json.loads(call["function"]["arguments"])

    def result(self, call, value):
        """The message with a call's result."""
        return {"role": "tool", "tool_call_id": call["id"], "content": str(value)}

    def called(self, tool, call):
        """The message with what the tool returned."""
        return self.result(call, tool(**self.arguments(call)))

    def tool_loop(self, model):
        ticks = Ticks()
        add = ticks.tool()
        ticks.final = self.rounds(model, lambda calls: [self.called(add, call) for call in calls])
        return ticks

    def parallel_tools(self, model, sleeper, kind):
        tool = sleeper.tool(kind)
        if kind == "sync":
            with ThreadPoolExecutor(32) as pool:
                return self.rounds(model, lambda calls: list(pool.map(lambda call: self.called(tool, call), calls)))

        async def one(call):
            return self.result(call, await tool(**self.arguments(call)))

        async def all_of(calls):
            return await asyncio.gather(*map(one, calls))

        return self.rounds(model, lambda calls: self.run(all_of(calls)))


async def gather_limited(make, items, concurrency):
    """[await make(item)] for all the items, at most `concurrency` at a time."""
    gate = asyncio.Semaphore(concurrency)

    async def one(item):
        async with gate:
            return await make(item)

    return await asyncio.gather(*map(one, items))


def threads(make, items, concurrency):
    """[make(item)] for all the items, in as many threads."""
    with ThreadPoolExecutor(concurrency) as pool:
        return list(pool.map(make, items))
