"""Recorded conversations, continued: each later request carries what the recorded one carried.

The recordings are those of `test_recorded_traffic`.
"""

import json
from itertools import groupby

import pytest
from test_recorded_traffic import CODECS, FOLDER, answer, load

from nbagent.core.messages import LLMMessage
from nbagent.errors import ProviderError

pytestmark = pytest.mark.skipif(
    not (FOLDER / "dev.jsonl").exists(), reason=f"no recorded traffic in {FOLDER}: set NBAGENT_WIRE to its folder"
)
CODEC = CODECS["openai.responses"]


def speaker(item) -> str:
    if item.get("type") in ("function_call_output", "tool_search_output"):
        return "tool"
    return item.get("role", "user") if item.get("type", "message") == "message" else "assistant"


def carried(items) -> dict:
    """What ties a request to earlier answers: calls, results and encrypted reasoning, in order.

    Some of the recording clients put the response's id before a call's.
    """
    calls = [item for item in items if item.get("type") == "function_call"]
    return {
        "calls": [(item["call_id"].split(":")[-1], json.loads(item["arguments"] or "{}")) for item in calls],
        "results": [item["call_id"].split(":")[-1] for item in items if item.get("type") == "function_call_output"],
        "reasoning": [item["encrypted_content"] for item in items if item.get("encrypted_content")],
    }


def rebuilt(items, answers) -> list[LLMMessage] | None:
    """The recorded history out of our own earlier answers; None where it is not made of these."""
    history, left = [], list(answers)
    for who, group in groupby(items, speaker):
        if who != "assistant":
            history += [
                LLMMessage(who, str(item.get("output", item.get("content"))), tool_call_id=item.get("call_id"))
                for item in group
                if item.get("type") != "tool_search_output"
            ]
        elif left:
            history.append(left.pop(0))
        else:
            return None
    return history if not left else None


def conversations():
    records = [r for r in load("dev.jsonl") if r["api"] == "openai.responses" and r["conversation"] and r["request"]]
    records.sort(key=lambda record: (record["conversation"], record["turn"]))
    return [list(group) for _, group in groupby(records, lambda record: record["conversation"])]


async def test_later_requests_carry_what_the_recorded_ones_did():
    compared, wrong = 0, []
    for records in conversations():
        answers = []
        for record in records:
            recorded = record["request"].get("input")
            history = rebuilt(recorded, answers) if answers and isinstance(recorded, list) else None
            if history:
                sent = carried(json.loads(CODEC.encode_request(history, model="gpt-5"))["input"])
                want = carried(recorded)
                if not want["reasoning"]:  # the recording client dropped it
                    del sent["reasoning"], want["reasoning"]
                compared += 1
                wrong += [record["id"]] if sent != want else []
            try:
                got = await answer(CODEC, record, 1 << 20)
            except ProviderError:
                break
            answers.append(
                LLMMessage("assistant", got.content, tool_calls=got.function_calls, provider_extras=got.raw_response)
            )
    assert compared > 30
    assert not wrong
