"""Recorded conversations as an agent can hold them again: who says what, and tools that return what was recorded."""

import json
from collections import defaultdict
from itertools import groupby, pairwise

from nbagent import FunctionRegistry
from nbagent.core.messages import LLMMessage
from support.histories import Answered, read_request
from support.recordings import failed, load


def conversations(api):
    found = [record for record in load("dev.jsonl") if record["api"] == api and record["conversation"]]
    found.sort(key=lambda record: (record["conversation"], record["turn"]))
    return [list(turns) for _, turns in groupby(found, lambda record: record["conversation"])]


def role(item) -> str:
    return "assistant" if isinstance(item, Answered) else item.role


def scenes(records) -> list[tuple[LLMMessage, int]]:
    """What the user says, each time with the number of answers that follow.

    Empty where no agent can hold the conversation: an answer is not recorded, or went wrong; a tool's result is not
    there as one, or holds more than text; the user speaks twice in a row.
    """
    items = [item for item in read_request(records[-1]) if role(item) not in ("system", "developer")]
    told = [item for item in items if isinstance(item, Answered)]
    results = [item.content for item in items if role(item) == "tool"]
    users = [index for index, item in enumerate(items) if role(item) == "user"]
    holds = [
        len(told) == len(records) - 1,
        not any(map(failed, records[:-1])),
        sum(len(item.calls) for item in told) == len(results),
        all(isinstance(part, str) or part["type"] == "text" for content in results for part in content),
        all(later - earlier > 1 for earlier, later in pairwise(users)),
        users[:1] == [0],
    ]
    parts = [items[start:end] for start, end in pairwise([*users, len(items)])] if all(holds) else []
    answers = [sum(role(item) == "assistant" for item in part) for part in parts]
    # the last answer is in no request
    return [(part[0], count + (part is parts[-1])) for part, count in zip(parts, answers, strict=True)]


class RecordedTools(FunctionRegistry):
    """Functions that return what the recorded ones did."""

    def __init__(self, record):
        super().__init__()
        self.results = defaultdict(list)
        waiting = []
        for item in read_request(record):
            if isinstance(item, Answered):
                waiting = list(item.calls)
                for call in waiting:
                    self._offer(call.name)
            elif item.role == "tool":
                call = next((call for call in waiting if call.id == item.tool_call_id), None)
                call = call or next(call for call in waiting if item.name in (None, call.name))
                waiting.remove(call)
                self.results[call.name, json.dumps(call.arguments, sort_keys=True)].append(item)

    def _offer(self, name):
        async def result(**arguments):  # on the event loop: calls begin in their order, also those that are equal
            item = self.results[name, json.dumps(arguments, sort_keys=True)].pop(0)
            if item.is_error:
                raise RuntimeError(item.text)
            return item.content

        if name not in self:
            self.register(name, "", result, {"type": "object"})
