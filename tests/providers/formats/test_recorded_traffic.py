"""Recorded answers of many vendors, read over HTTP in pieces and compared with what their official SDKs read."""

import pytest
from support import recordings
from support.recordings import CODECS, judge, make_provider, records, vendor_of
from support.requests import streamed

from nbagent.core.events import Text, Thinking
from nbagent.core.messages import LLMMessage
from nbagent.errors import ProviderError

pytestmark = recordings.needed


@pytest.fixture(scope="module")
def replay():
    with recordings.replay_server() as server:
        yield server


def differences(record, expected, items, failure) -> list[str]:
    """As `judge`; and the pieces that were shown make up the answer."""
    if failure or expected["error"]:
        return judge(record, expected, failure or items[-1])
    *shown, got = items
    found = judge(record, expected, got)
    text = "".join(item.content for item in shown if isinstance(item, Text))
    thinking = "".join(item.content for item in shown if isinstance(item, Thinking))
    if (text, thinking) != (got.content, got.metadata.get("thinking", "")) and "</think" not in text:
        found.append(f"shown: {text!r} and {thinking!r}")
    return found


@pytest.mark.parametrize("api", CODECS)
async def test_read_over_http_by_the_provider_of_each_vendor(api, replay):
    providers, wrong = {}, []
    for record, expected in records(api):
        kind = (vendor_of(record), record["stream"])
        provider = providers.setdefault(kind, make_provider(record, replay.url, record["stream"]))
        replay.default_id, replay.chunk = record["id"], f"seed:{len(replay.log)}"
        items, failure = [], None
        try:
            items = [item async for item in streamed(provider, [LLMMessage("user", "Hello.")])]
        except ProviderError as exc:
            failure = exc
        found = differences(record, expected, items, failure)
        wrong += [f"{record['id']}: {line}" for line in found]
    for provider in providers.values():
        await provider.aclose()
    assert not wrong, "\n".join(wrong)
