"""A `Run` without an agent around it, for tests of the loop and of a turn."""

from contextlib import aclosing

from nbagent import Limits, ScriptedProvider
from nbagent.core.history.history import ContextManager
from nbagent.core.queue import QueueEntry, RunQueue
from nbagent.core.run import Run
from nbagent.core.turn import Turn
from nbagent.pricing import price_at
from nbagent.providers.base import StreamingProvider
from support.tool_runs import executor_of

#: A dollar for each token of an answer.
PRICE = {"input": 0.0, "output": 1e6}


class Streaming(StreamingProvider):
    """Yields the items of its next answer as they stand, calls functions among them, and raises exceptions."""

    model_name = "streaming"
    price = PRICE

    def __init__(self, *answers, **attributes):
        self.answers, self.requests = iter(answers), []
        vars(self).update(attributes)

    def supports_function_calling(self):
        return True

    async def stream(self, request):
        self.requests.append(request)
        for item in next(self.answers):
            if isinstance(item, BaseException):
                raise item
            if callable(item):
                item()
            else:
                yield item


class AskingInTurn(Streaming):
    """Several providers, of which the next one is asked if one fails; `chosen` is called by whoever chooses."""

    async def candidates(self, request):
        self.chosen()
        return self.each


async def no_summary(messages):
    raise AssertionError("no summary is wanted")


def new_run(*turns, tools=(), options=None, messages=(), **fields):
    """A run that nobody else waits for. `turns` are a script, or one provider; `options` are those of the tools."""
    is_provider = len(turns) == 1 and isinstance(turns[0], StreamingProvider)
    settings = {name: fields.pop(name) for name in ("approver", "timeout") if name in fields}
    usual = {"history": ContextManager(), "limits": Limits(), "price": price_at, "summarise": no_summary}
    run = Run(
        provider=turns[0] if is_provider else ScriptedProvider(turns),
        tools=executor_of(*tools, options=options, **settings),
        **{"entry": QueueEntry(RunQueue()), **usual, **fields},
    )
    run.history.messages += messages
    return run


async def all_of(steps):
    async with aclosing(steps) as events:
        return [event async for event in events]


async def take_turn(run):
    with Turn(run) as turn:
        return [event for step in turn.steps() for event in await all_of(step)]


def types(events):
    return [event.type for event in events]


def only(events, kind):
    (found,) = (event for event in events if event.type == kind)
    return found
