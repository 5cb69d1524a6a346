"""Recorded conversations, held once more: each later request carries what the recorded one carried.

Answers come over HTTP from the replay server, through the provider of their vendor. The next request is made of these
answers, and of what the recorded request says besides.
"""

import contextlib
import json
from itertools import groupby

import pytest
import recordings
from histories import Answered, as_message, read_request
from recordings import CODECS, count, load, make_provider, opaque, replay_library, vendor_of

from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.errors import ProviderError

pytestmark = recordings.needed
#: How many later requests were recorded, at least, and how many of ours are to be the same without any allowance.
LATER = {
    "openai.chat": (110, 100),
    "openai.responses": (30, 28),
    "anthropic.messages": (50, 50),
    "gemini.generateContent": (50, 25),
    "ollama.chat": (3, 1),
}


def conversations(api):
    """The conversations of one API, each a list of records in their order."""
    found = [record for record in load("dev.jsonl") if record["api"] == api and record["conversation"]]
    found.sort(key=lambda record: (record["conversation"], record["turn"]))
    return [list(turns) for _, turns in groupby(found, lambda record: record["conversation"])]


def history(record, answers: list[LLMResponse]) -> list[LLMMessage]:
    """The conversation of a recorded request, made of our own answers where they are those that it repeats."""
    messages, left, ids, waiting = [], list(answers), {}, []
    for item in read_request(record):
        if isinstance(item, Answered):
            own = next((answer for answer in left if item.is_of(answer)), None)
            waiting = list((own.function_calls if own else item.calls) or [])
            ids |= {theirs.id: ours.id for theirs, ours in zip(item.calls, waiting, strict=True)}
            messages += [as_message(own)] if own else item.messages()
            if own:
                left.remove(own)
        elif item.role == "tool":
            # a result without an id belongs to the next call, by name where it has one
            call = next((call for call in waiting if item.name in (None, call.name)), None)
            known = ids.get(item.tool_call_id, item.tool_call_id)
            messages.append(item.replace(tool_call_id=known or call.id))
            if call and not item.tool_call_id:
                waiting.remove(call)
        else:
            messages.append(item)
    return messages


def plain(value) -> str:
    """A sealed value in base64's usual alphabet: some of the recording clients wrote it in the other."""
    return str(value).replace("-", "+").replace("_", "/")


def carried(request) -> dict:
    """What ties a request to earlier answers, all the names included that thinking goes by."""
    links = replay_library().links(request)
    for message in request.get("messages") or []:
        details = message.get("reasoning_details") or []
        links["opaque"] += [item[key] for item in details for key in ("text", "summary") if item.get(key)]
        links["opaque"] += [message[key] for key in ("reasoning", "thinking") if message.get(key)]
    return links


def differences(record, sent, answers: list[LLMResponse]) -> list[str]:
    """What the recorded request carried and ours does not, or ours does though no answer held it.

    What the recording client had invented (ids), lost or changed itself is not asked for.
    """
    want, got = carried(record["request"]), carried(sent)
    heard = plain(json.dumps([answer.raw_response for answer in answers]))
    made = [call.id for answer in answers for call in answer.function_calls or []]
    found = []
    if want["call_arguments"] != got["call_arguments"]:
        found.append(f"arguments: {want['call_arguments']}, sent {got['call_arguments']}")
    ids = list(zip(want["tool_use_ids"], got["tool_use_ids"], strict=True))
    found += [f"id {theirs!r}, sent {ours!r}" for theirs, ours in ids if theirs != ours and theirs in made]
    answered = sorted(str(ours) for theirs, ours in ids if theirs in want["tool_result_ids"])
    if answered != sorted(map(str, got["tool_result_ids"])) and None not in want["tool_result_ids"]:
        found.append(f"results of {answered}, sent {got['tool_result_ids']}")
    ours = [plain(value) for value in got["opaque"]]
    for value in map(plain, want["opaque"]):
        if quoted(value) in heard and not any(value in mine for mine in ours):
            found.append(f"{value[:80]!r} is not sent")
    asked = [plain(value) for value in want["opaque"]]
    found += [f"{mine[:80]!r} is sent" for mine in ours if mine not in asked and quoted(mine) not in heard]
    return found


def quoted(text: str) -> str:
    """The text as it stands in JSON."""
    return json.dumps(text)[1:-1]


@pytest.mark.parametrize("api", CODECS)
async def test_later_requests_carry_what_the_recorded_ones_did(api):
    providers, wrong, later, same = {}, [], 0, 0
    with recordings.replay_server() as server:
        for records in conversations(api):
            answers: list[LLMResponse] = []
            for record in records:
                kind = (vendor_of(record), record["stream"])
                provider = providers.setdefault(kind, make_provider(record, server.url, record["stream"]))
                server.default_id = record["id"]
                with contextlib.suppress(ProviderError):  # recorded too: see test_recorded_traffic
                    answer = await provider.chat(history(record, answers))
                if record["turn"] > 1:
                    sent = server.log[-1]["body"]
                    found = differences(record, sent, answers)
                    later, same = later + 1, same + (not server.compare(record["id"], sent))
                    count(record, "next request", not found)
                    wrong += [f"{record['id']}: {line}" for line in found]
                answers.append(answer)
    for provider in providers.values():
        await provider.aclose()
    assert not wrong, "\n".join(wrong)
    print(api, later, same)
    assert (later, same) >= LATER[api]
