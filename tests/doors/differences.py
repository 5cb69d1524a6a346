"""Where a door differs from a case, and why. Without an entry, a door must show the case unchanged.

A key is the start of the door's name, and the case; "*" is every case.
"""

from dataclasses import replace
from typing import Any

from doors.cases import CASES, WIPE, Call, Case, Seen

_UNEDITED = {"calls": (replace(CASES["edit"].seen.calls[0], arguments=WIPE.arguments),)}
_DENIED = CASES["deny"].seen
_NOBODY = "a request of OpenAI's API can't wait for a person, so the call is denied at once"
_SENT = "sent text can't be retracted, so the stream ends with an error"
_LEFT = "a client that leaves before the answer has seen nothing"

_WITHOUT_A_CALL = ("answer", "retry", "limit", "image asked about", "image of the model", "error")

#: `(door, case): why` if the door does not have the case.
MISSING = {
    ("/agent/chat", "image asked about"): "a prompt is a text",
    ("ACP", "edit"): "an editor only approves or denies",
    **{("MCP", name): "its clients have the model, and only call tools" for name in _WITHOUT_A_CALL},
}

#: `(door, case): (why, what is seen instead)`.
DIFFERENT: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
    ("/agent/chat", "*"): ("its JSON has notes instead of images", {"images": ()}),
    ("/agent/chat whole", "interrupt"): (_LEFT, {"text": "", "calls": ()}),
    ("/agent/chat streamed", "deny"): ("its short events show only limits and errors", {"status": "ok"}),
    ("completions", "*"): (
        "clients would run the calls in an answer, and an answer can't contain images",
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
    ("AG-UI", "*"): ("its messages have notes instead of images", {"images": ()}),
    ("AG-UI", "edit"): ("its events can't change arguments; the result mentions the change", _UNEDITED),
    ("AG-UI", "error"): ("the client keeps the failed prompt", {"after": "question 2"}),
    ("ACP", "deny"): ("the protocol has no such stop reason", {"status": "ok"}),
    ("ACP", "retry"): ("sent text can't be retracted", {"text": "It is It is sunny."}),
    ("ACP", "limit"): ("it says so in the text", {"text": "\nThe limit of 2 model requests was reached."}),
    ("ACP", "image of a tool"): ("the image needs no note", {"calls": (Call("draw", {}, ""),)}),
    ("MCP", "*"): ("the conversation is the client's", {"text": "", "after": ""}),
    ("MCP", "deny"): ("the client's result is an error", {"status": "error"}),
    ("MCP", "image of a tool"): ("the image needs no note", {"calls": (Call("draw", {}, ""),)}),
    ("MCP", "edit"): ("the client keeps its arguments; the result mentions the change", _UNEDITED),
    ("responses", "edit"): (_NOBODY, {**vars(_DENIED), "status": "ok"}),
    ("responses whole", "interrupt"): (_LEFT, {"text": "", "calls": ()}),
}


def is_missing(door: str, case: str) -> bool:
    """Whether the door lacks the case."""
    return any(door.startswith(name) and case == of for name, of in MISSING)


def expected(door: str, name: str, case: Case) -> Seen:
    """Return what the door shows for the case."""
    seen = case.seen
    for wanted in (name, "*"):
        for (begins, of), (_, changes) in DIFFERENT.items():
            if door.startswith(begins) and of == wanted:
                seen = replace(seen, **changes)
    return seen
