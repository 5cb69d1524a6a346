"""What the clients of AG-UI check of a run's events."""

from ag_ui.core import Event
from pydantic import TypeAdapter

EVENT = TypeAdapter(Event)


def check_order(events):
    """What `verifyEvents` of `@ag-ui/client` checks: one run, and everything that begins ends in it, once."""
    for event in events:
        assert "null" not in EVENT.validate_python(event).model_dump_json(by_alias=True)
    types = [event["type"] for event in events]
    assert types[0] == "RUN_STARTED"
    assert types.count("RUN_STARTED") == 1
    assert [kind for kind in types if kind in ("RUN_FINISHED", "RUN_ERROR")] == types[-1:]
    opened = set()
    for event in events:
        kind, _, what = event["type"].rpartition("_")
        name = kind, event.get("messageId") if "toolCallId" not in event else event["toolCallId"]
        if what == "START":
            assert name not in opened
            opened.add(name)
        elif what in ("CONTENT", "ARGS"):
            assert name in opened
        elif what == "END":
            opened.remove(name)
    assert not opened
