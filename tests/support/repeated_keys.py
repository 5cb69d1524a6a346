"""A key, and good answers of a hostile server that repeat it in every place."""

import json

from support.loopback import said, sse

KEY = 'sk-proj-MARKER/0123+456789"&<abcdef'


def chunk(**delta):
    return said("", None) | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def called(arguments, name="f", call_id="c1"):
    """A chunk with a tool call, or a piece of its arguments."""
    function = {"name": name, "arguments": arguments}
    return chunk(tool_calls=[{"index": 0, "id": call_id, "type": "function", "function": function}])


#: Where an answer may hold a text.
PLACES = {
    "text": lambda text: sse(said(f"It is {text}.")),
    "pieces of text": lambda text: sse(*[said(char, None) for char in f"It is {text}."], said("")),
    "thinking": lambda text: sse(*[chunk(reasoning_content=char) for char in text], said("")),
    "model": lambda text: sse(said("Good.", model=text)),
    "finish": lambda text: sse(said("Good.", finish=text)),
    "argument": lambda text: sse(called(json.dumps({"a": [{text: text}]})), said("", "tool_calls")),
    "pieces of an argument": lambda text: sse(*map(called, json.dumps({"a": text})), said("", "tool_calls")),
    "name of a tool": lambda text: sse(called("{}", name=text), said("", "tool_calls")),
    "id of a call": lambda text: sse(called("{}", call_id=text), said("", "tool_calls")),
    "body": lambda text: json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).encode(),
}
