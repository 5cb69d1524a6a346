"""Where a door shows something else than the case says, and why: a new door or case needs an entry, or shows the same.

The key is the beginning of the door's name, and the case; "*" is each case.
"""

from dataclasses import replace
from typing import Any

from doors.cases import CASES, WIPE, Call, Case, Seen

_UNEDITED = {"calls": (replace(CASES["edit"].seen.calls[0], arguments=WIPE.arguments),)}
_DENIED = CASES["deny"].seen
_NOBODY = "a request of OpenAI's API can't wait for a person: the call is denied at once"
_SENT = "text that was sent can't be taken back: the stream ends with an error"
_LEFT = "who leaves before the answer is there has seen nothing of it"

_WITHOUT_A_CALL = ("answer", "retry", "limit", "image asked about", "image of the model", "error")

#: `(door, case): why` if the door does not have the case.
MISSING = {
    ("/agent/chat", "image asked about"): "a question is a text",
    ("ACP", "edit"): "an editor answers yes or no",
    **{("MCP", name): "its clients call tools, and have the model" for name in _WITHOUT_A_CALL},
}

#: `(door, case): (why, what is seen instead)`.
DIFFERENT: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
    ("/agent/chat", "*"): ("images are a note in its JSON", {"images": ()}),
    ("/agent/chat whole", "interrupt"): (_LEFT, {"text": "", "calls": ()}),
    ("/agent/chat streamed", "deny"): ("its short events tell of limits and errors only", {"status": "ok"}),
    ("completions", "*"): (
        "clients run whatever calls an answer announces, and an answer has no place for images",
        {"calls": (), "images": ()},
    ),
    ("completions", "approve"): (_NOBODY, {**vars(_DENIED), "status": "ok"}),
    ("completions", "deny"): ("an answer ends with `stop` or `length`", {"status": "ok"}),
    ("completions", "edit"): (_NOBODY, {**vars(_DENIED), "status": "ok"}),
    ("completions whole", "interrupt"): (_LEFT, {"text": ""}),
    ("completions streamed", "retry"): (
        _SENT,
        {"text": "", "status": "error", "after": "question 1", "trace": ("interrupted", (), 1)},
    ),
    ("responses streamed", "retry"): (
        _SENT,
        {"text": "It is ", "status": "error", "trace": ("interrupted", (), 1)},
    ),
    ("responses", "image of a tool"): ("the output of an `mcp_call` is a text", {"images": ()}),
    ("responses", "approve"): (_NOBODY, {**vars(_DENIED), "status": "ok"}),
    ("responses", "deny"): ("a response is complete or not", {"status": "ok"}),
    ("AG-UI", "*"): ("images are a note in its messages", {"images": ()}),
    ("AG-UI", "edit"): ("its events change no arguments: the result tells of it", _UNEDITED),
    ("AG-UI", "error"): ("the client keeps the question that failed", {"after": "question 2"}),
    ("ACP", "deny"): ("the end of a turn has no word for it", {"status": "ok"}),
    ("ACP", "retry"): ("what was said can't be taken back", {"text": "It is It is sunny."}),
    ("ACP", "limit"): ("it says so in the text", {"text": "\nThe limit of 2 model requests was reached."}),
    ("ACP", "image of a tool"): ("the image needs no note", {"calls": (Call("draw", {}, ""),)}),
    ("MCP", "*"): ("the conversation is the client's", {"text": "", "after": ""}),
    ("MCP", "deny"): ("the client's result is an error", {"status": "error"}),
    ("MCP", "image of a tool"): ("the image needs no note", {"calls": (Call("draw", {}, ""),)}),
    ("MCP", "edit"): ("the client keeps its arguments: the result tells of the change", _UNEDITED),
    ("responses", "edit"): (_NOBODY, {**vars(_DENIED), "status": "ok"}),
    ("responses whole", "interrupt"): (_LEFT, {"text": "", "calls": ()}),
}


def is_missing(door: str, case: str) -> bool:
    """Whether the door does not have the case."""
    return any(door.startswith(name) and case == of for name, of in MISSING)


def expected(door: str, name: str, case: Case) -> Seen:
    """What the door shows of the case."""
    seen = case.seen
    for wanted in (name, "*"):
        for (begins, of), (_, changes) in DIFFERENT.items():
            if door.startswith(begins) and of == wanted:
                seen = replace(seen, **changes)
    return seen
