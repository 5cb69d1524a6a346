"""Chunks of chat completions with tool calls."""

from support.loopback import said


def chunk(**delta):
    return said("", None) | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def called(arguments, name="f", call_id="c1"):
    """A chunk with a tool call, or a piece of its arguments."""
    function = {"name": name, "arguments": arguments}
    return chunk(tool_calls=[{"index": 0, "id": call_id, "type": "function", "function": function}])
