"""llama.cpp's own server, with `open_source` and a base URL, as its users do."""

import pytest
from support.requests import streamed

from nbagent.core.events import Text
from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.errors import ContextLengthError
from nbagent.providers import create_provider

pytestmark = pytest.mark.local_model
HELLO = [LLMMessage("user", "Say hello.")]
COUNT = [LLMMessage("user", "Count to a million.")]


@pytest.fixture
async def served(embedded_server):
    """Creates providers that talk to the server.

    They retry: under load the server sometimes drops a kept connection before it answers, for any HTTP client.
    """
    made = []

    def make(**options):
        defaults = {"api_key": embedded_server.secret, "model": "any-name"}
        made.append(create_provider("open_source", base_url=f"{embedded_server.address}/v1", **{**defaults, **options}))
        return made[-1]

    yield make
    for provider in made:
        await provider.aclose()


async def test_a_stream_equals_the_whole_answer(served):
    *pieces, response = [item async for item in streamed(served(), HELLO, temperature=0, max_tokens=400)]
    assert isinstance(response, LLMResponse)
    texts = [item.content for item in pieces if isinstance(item, Text)]
    assert len(texts) > 1
    whole = await served(streaming=False).chat(HELLO, temperature=0, max_tokens=400)
    assert "".join(texts) == response.content == whole.content
    assert response.usage.input_tokens == whole.usage.input_tokens > 5
    assert whole.finish_reason == "stop"
    assert response.usage.output_tokens == whole.usage.output_tokens


async def test_the_token_limit_is_a_finish_reason(served):
    response = await served().chat(COUNT, max_tokens=7, extra_body={"ignore_eos": True})
    assert (response.finish_reason, response.usage.output_tokens) == ("length", 7)


async def test_the_error_for_a_conversation_beyond_the_window_has_a_remedy(served):
    with pytest.raises(ContextLengthError, match=r"(?s)4096.*Shorten the conversation") as caught:
        await served().chat([LLMMessage("user", "word " * 6000)])
    assert not caught.value.retryable
