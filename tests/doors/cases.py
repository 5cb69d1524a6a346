"""The cases for each door: the prompt, the scripted model's turns, and what the user must see."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nbagent import Agent, FunctionCall, Limits, LLMResponse, ScriptedProvider, tool
from nbagent.core.content.images import Image, images_in
from nbagent.core.events import Retry, Text
from nbagent.errors import AuthenticationError

GIF = "R0lGODlhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs="
PICTURE = {"type": "image", "media_type": "image/gif", "data": GIF}
#: The prompt after each case, in the same conversation; and prompts of doors whose agent runs in another process.
AFTER, TELL, WAITS = "And now?", "What happened?", "Does it wait?"
#: The result of a call that failed, was denied or was interrupted.
NO_RESULT = "no result"


@dataclass(frozen=True)
class Call:
    """A tool call as the user sees it."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    result: str = NO_RESULT


@dataclass(frozen=True)
class Seen:
    """What the user sees. `trace` has the run's status, the approval of each call, and the number of retries; `wiped`
    has the effects of the tool that needs approval; `after` is the answer to the next prompt."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    status: str = "ok"
    images: tuple[str, ...] = ()
    trace: tuple[Any, ...] = ("ok", (), 0)
    wiped: tuple[Any, ...] = ()
    after: str = "question 2"


@dataclass(frozen=True)
class Case:
    """`turns` are the model's turns, or functions that return one for the last message. `does` is the user's action:
    `approve`, `deny`, `edit` or `interrupt`. `draws`: the prompt has an image."""

    question: str
    turns: tuple[Any, ...]
    seen: Seen
    does: str = ""
    draws: bool = False

    @property
    def call(self) -> FunctionCall:
        """The model's first tool call."""
        turn = self.turns[0]
        return turn.function_calls[0] if isinstance(turn, LLMResponse) else turn


def _so(last: Any) -> str:
    return "It was not done." if last.text.startswith("Error:") else f"So: {last.text.splitlines()[-1]}"


ADD, WIPE = FunctionCall("add", {"a": 1, "b": 2}), FunctionCall("wipe", {"table": "cities", "rows": 3})
#: Edited arguments for WIPE.
EDITED = {"table": "rivers", "rows": 1}
_EDIT_RESULT = f"The user changed the arguments to {json.dumps(EDITED)}.\n1 gone"
_DENIED = Seen("It was not done.", (Call("wipe", WIPE.arguments),), "denied", trace=("denied", ("denied",), 0))

CASES = {
    "answer": Case("How is the weather?", ("It is sunny.",), Seen("It is sunny.")),
    "tool": Case(
        "How much is 1 + 2?",
        (ADD, _so),
        Seen("So: 3", (Call("add", ADD.arguments, "3"),), trace=("ok", ("auto",), 0)),
    ),
    "approve": Case(
        "Wipe the cities.",
        (WIPE, _so),
        Seen(
            "So: 3 gone",
            (Call("wipe", WIPE.arguments, "3 gone"),),
            trace=("ok", ("approved",), 0),
            wiped=(("cities", 3),),
        ),
        "approve",
    ),
    "deny": Case("Wipe what I keep.", (WIPE, _so), _DENIED, "deny"),
    "edit": Case(
        "Wipe the wrong table.",
        (WIPE, _so),
        Seen("So: 1 gone", (Call("wipe", EDITED, _EDIT_RESULT),), trace=("ok", ("edited",), 0), wiped=(("rivers", 1),)),
        "edit",
    ),
    "interrupt": Case(
        "Wait for ever.",
        (LLMResponse("I wait.", [FunctionCall("wait", {})], "tool_calls"),),
        Seen("I wait.", (Call("wait"),), "interrupted", trace=("interrupted", ("auto",), 0)),
        "interrupt",
    ),
    "retry": Case("What breaks off?", ("It is sunny.",), Seen("It is sunny.", trace=("ok", (), 1))),
    "limit": Case(
        "Never stop.",
        (ADD, ADD, ADD),
        Seen("", (Call("add", ADD.arguments, "3"),) * 2, "limit", trace=("limit", ("auto",) * 2, 0)),
    ),
    "image asked about": Case(
        "What is this?",
        (lambda last: f"It is {images_in(last.content)}.",),
        Seen("It is [<Image 1x1 gif, 35 bytes>]."),
        draws=True,
    ),
    "image of a tool": Case(
        "Draw a dot.",
        (FunctionCall("draw", {}), "There."),
        Seen("There.", (Call("draw", {}, "[image: 1x1 gif]"),), images=(GIF,), trace=("ok", ("auto",), 0)),
    ),
    "image of the model": Case(
        "Imagine a dot.",
        (LLMResponse("Here.", None, "stop", {"parts": [{"type": "text", "text": "Here."}, PICTURE]}),),
        Seen("Here.", images=(GIF,)),
    ),
    "error": Case(
        "Who has no key?",
        (AuthenticationError("wrong key", provider="acme"),),
        Seen("", (), "error", trace=("error", (), 0), after="question 1"),
    ),
}

#: The outcome of each ended run; whether the tool waits; and what was wiped.
RUNS: queue.Queue[dict[str, Any]] = queue.Queue()
WAITING = threading.Event()
_wiped: list[tuple[str, int]] = []


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(approve=True)
def wipe(table: str, rows: int = 1) -> str:
    """Delete rows."""
    _wiped.append((table, rows))
    return f"{rows} gone"


async def wait() -> None:
    """Wait forever."""
    WAITING.set()
    await asyncio.Event().wait()


def draw() -> Image:
    """Draw."""
    return Image.from_part(PICTURE)


class Model(ScriptedProvider):
    """Answers according to the last prompt. The first attempt at the case `retry` breaks off."""

    def __init__(self) -> None:
        super().__init__(_turn)

    async def stream(self, request: Any) -> Any:
        if request.messages[-1].text == CASES["retry"].question:
            yield Text("It is ")
            yield Retry("The connection broke.", metadata={"attempt": 1, "wait_s": 0, "discard_chars": 6})
        async for event in super().stream(request):
            yield event


def _turn(messages: list[Any], functions: Any) -> Any:
    questions = [place for place, each in enumerate(messages) if each.role == "user" and each.text != TELL]
    if messages[-1].text == TELL:
        return json.dumps(RUNS.get_nowait())
    if messages[-1].text == WAITS:
        return str(WAITING.is_set())
    asked = messages[questions[-1]].text
    if AFTER in asked:
        return f"question {len(questions)}"
    (case,) = (case for case in CASES.values() if case.question in asked)
    turn = case.turns[sum(message.role == "assistant" for message in messages[questions[-1] :])]
    return turn(messages[-1]) if isinstance(turn, Callable) else turn


def agent(**options: Any) -> Agent:
    """An agent that plays all cases and records their outcomes."""
    made = Agent(Model(), tools=[add, wipe, wait, draw], limits=Limits(max_iterations=2), **options)
    made.trace.observers.append(_note)
    return made


def _note(trace: Any, event: Any) -> None:
    if event.type not in ("done", "error", "interrupted"):
        return
    run = trace.runs.iloc[-1]
    if run["prompt"] in (AFTER, TELL, WAITS) or run["status"] == "running":
        return
    calls = trace.tool_calls
    approvals = calls[calls["run_id"] == run["run_id"]]["approval"].tolist()
    events = trace.events
    retries = int(((events["run_id"] == run["run_id"]) & (events["type"] == "retry")).sum())
    wiped, _wiped[:] = list(_wiped), []
    RUNS.put({"trace": [run["status"], approvals, retries], "wiped": wiped, "source": run["source"]})


def with_facts(seen: Seen, facts: Mapping[str, Any], after: str) -> Seen:
    """What the user saw, with the outcome and the answer to the next prompt."""
    status, approvals, retries = facts["trace"]
    wiped = tuple(tuple(each) for each in facts["wiped"])
    return replace(seen, trace=(status, tuple(approvals), retries), wiped=wiped, after=after)


async def waiting(seen: asyncio.Event | None = None) -> None:
    """Wait until the tool waits and the user has seen it."""
    assert await asyncio.to_thread(WAITING.wait, 60)
    if seen is not None:
        await seen.wait()


async def carried_out(case: Case, asking: Any, seen: asyncio.Event | None = None) -> asyncio.Task[Any]:
    """Run the prompt as a task; a user who interrupts cancels it."""
    task = asyncio.create_task(asking)
    if case.does == "interrupt":
        await waiting(seen)
        task.cancel()
    await asyncio.wait({task})
    return task


def begin() -> None:
    """Clear the state of earlier cases."""
    while not RUNS.empty():
        RUNS.get_nowait()
    WAITING.clear()
    _wiped.clear()


async def run_that_ended() -> dict[str, Any]:
    """Return the outcome of the last run once it has ended."""
    return await asyncio.to_thread(RUNS.get, True, 60)
