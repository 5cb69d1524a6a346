"""The conformance kit, part three: what happens when something fails. See `conformance`."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from nbagent.errors import AuthenticationError, ContextLengthError, IncompleteStreamError
from support.conformance_case import RICH, Case
from support.dialects.script import Failure, Reply, reply

#: Where both stand, the exact one counts.
SHORT_WAIT = (("retry-after-ms", "20"), ("retry-after", "2"))


async def check_error_inside_an_answer(case: Case) -> None:
    """An error in the middle of an answer is retried, and nothing is shown or called twice."""
    await _mends(case, replace(RICH, fault="error"))


async def check_answer_that_breaks_off(case: Case) -> None:
    """An answer without its terminal marker is retried, and nothing is shown or called twice."""
    await _mends(case, replace(RICH, fault="end"))


async def _mends(case: Case, broken: Reply) -> None:
    ran = []

    def find(path: str) -> str:
        ran.append(path)
        return "nothing"

    async with case.talk(broken, replace(RICH, parts=RICH.parts[:3]), reply("Done.")) as talk:
        agent = talk.agent(find)
        text = ""
        async for event in agent.chat_stream("Look"):
            if event.type == "text":
                text += event.content
            elif event.type == "retry":
                text = text[: len(text) - event.metadata["discard_chars"]]
    assert text == "I look.Done."
    assert ran == ["/tmp"]
    assert agent.trace.calls["retries"].tolist() == [1, 0]


async def check_lasting_trouble_is_an_error(case: Case) -> None:
    """An answer that breaks off every time ends in a specific error."""
    async with case.talk(reply("Half", fault="end"), max_retries=1) as talk:
        with pytest.raises(IncompleteStreamError) as caught:
            await talk.ask()
        assert len(talk.server.asked) == 2
    assert (caught.value.provider, caught.value.model) == (talk.provider.provider_name, talk.provider.model_name)


async def check_retry_after(case: Case) -> None:
    """A request is sent again when a busy provider says so, and soon after a failure."""
    async with case.talk(Failure("rate_limit", SHORT_WAIT), Failure("overloaded"), reply("Now.")) as talk:
        assert (await talk.ask()).content == talk.text == "Now."
    assert talk.retries[0].metadata["wait_s"] == 0.02
    assert [item.metadata["error"] for item in talk.retries] == ["RateLimitError", "ServerError"]


async def check_wrong_key(case: Case) -> None:
    """A wrong key is an error that says so. It never contains the key, even if the provider repeated it."""
    async with case.talk(api_key="sk-wrong-0815") as talk:
        with pytest.raises(AuthenticationError) as caught:
            await talk.ask()
        assert len(talk.server.refusals) == 1
        talk.server.refusals.clear()
    assert "sk-wrong-0815" not in f"{caught.value} {caught.value!r} {vars(caught.value)} {talk.provider!r}"
    assert "api_key" in str(caught.value)


async def check_context_overflow(case: Case) -> None:
    """A conversation that is too long raises its own error at once."""
    async with case.talk(Failure("context")) as talk:
        with pytest.raises(ContextLengthError) as caught:
            await talk.ask()
        assert len(talk.server.asked) == 1
    assert caught.value.status == 400
    assert "clear_history" in str(caught.value)


async def check_cancelling(case: Case) -> None:
    """A cancelled request closes its connection at once, and the provider still works."""
    async with case.talk(reply("Half", fault="stall"), reply("Whole.")) as talk:
        task = asyncio.create_task(talk.ask())
        while not talk.server.asked and not task.done():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await talk.server.left.wait()
        assert (await talk.ask()).content == "Whole."
