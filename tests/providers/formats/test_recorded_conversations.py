"""Recorded conversations, held once more: each later request carries what the recorded one carried.

Answers come over HTTP from the replay server, through the provider of their vendor. The next request is made of these
answers, and of what the recorded request says besides.
"""

import contextlib
import json

import pytest
from support import recordings
from support.histories import Answered, as_message, read_request
from support.recorded_conversations import conversations
from support.recordings import CODECS, make_provider, replay_library, vendor_of

from nbagent.core.messages import LLMMessage
from nbagent.errors import ProviderError

pytestmark = recordings.needed
#: At least so many later requests; so many that are the recorded ones to the letter.
LEAST = {
    "openai.chat": (110, 100),
    "openai.responses": (30, 28),
    "anthropic.messages": (50, 50),
    "gemini.generateContent": (50, 25),
    "ollama.chat": (3, 1),
}


def history(record, answers: list[LLMMessage]) -> list[LLMMessage]:
    """The conversation of a recorded request. Answers that it repeats are our own, decoded from their recordings."""
    messages, left, ids, waiting = [], list(answers), {}, []
    for item in read_request(record):
        if isinstance(item, Answered):
            own = next((answer for answer in left if item.is_of(answer)), None)
            waiting = list((own.tool_calls if own else item.calls) or [])
            ids |= {theirs.id: ours.id for theirs, ours in zip(item.calls, waiting, strict=True)}
            messages += [own] if own else item.messages()
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
    """An encrypted value in base64's usual alphabet: some of the recording clients used the other one."""
    return str(value).replace("-", "+").replace("_", "/")


def quoted(text: str) -> str:
    """The text as JSON writes it."""
    return json.dumps(text)[1:-1]


def carried(request) -> dict:
    """What ties a request to earlier answers: ids, signatures, and thinking under all its names."""
    links = replay_library().links(request)
    for message in request.get("messages") or []:
        details = message.get("reasoning_details") or []
        links["opaque"] += [item[key] for item in details for key in ("text", "summary") if item.get(key)]
        links["opaque"] += [message[key] for key in ("reasoning", "thinking") if message.get(key)]
    return links


def differences(record, sent, answers: list[LLMMessage]) -> list[str]:
    """What the recorded request carried and ours does not, or ours does though no answer held it.

    What the recording client had invented (ids), lost or changed itself is not asked for.
    """
    want, got = carried(record["request"]), carried(sent)
    heard = plain(json.dumps([answer.provider_extras for answer in answers]))
    made = [call.id for answer in answers for call in answer.tool_calls or []]
    found = []
    if want["call_arguments"] != got["call_arguments"]:
        return [f"arguments: {want['call_arguments']}, sent {got['call_arguments']}"]
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


@pytest.mark.parametrize("api", CODECS)
async def test_later_requests_carry_what_the_recorded_ones_did(api):
    providers, wrong, later, same = {}, [], 0, 0
    with recordings.replay_server() as server:
        for records in conversations(api):
            answers: list[LLMMessage] = []
            for record in records:
                kind = (vendor_of(record), record["stream"])
                provider = providers.setdefault(kind, make_provider(record, server.url, record["stream"]))
                server.default_id = record["id"]
                said = answers[:]
                with contextlib.suppress(ProviderError):  # recorded too: see test_recorded_traffic
                    answers.append(as_message(await provider.chat(history(record, said))))
                if record["turn"] > 1:
                    sent = server.log[-1]["body"]
                    found = differences(record, sent, said)
                    to_the_letter = not server.compare(record["id"], sent)
                    later, same = later + 1, same + to_the_letter
                    wrong += [f"{record['id']}: {line}" for line in found]
    for provider in providers.values():
        await provider.aclose()
    assert not wrong, "\n".join(wrong)
    assert (later >= LEAST[api][0], same >= LEAST[api][1]) == (True, True)
