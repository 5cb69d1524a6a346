"""The official `openai` SDK against a real server: models, chat completions, responses, errors."""

import openai
import pytest
from pydantic import BaseModel
from support.loopback import Answer, Loopback, said, sse
from support.openai_answers import checked_event, checked_response
from support.serving import OTHER_TOKEN, TOKEN, served
from support.small_agent import add, call

from nbagent import Agent, LLMResponse, ScriptedProvider, create_provider
from nbagent.errors import AuthenticationError, RateLimitError, ServerError
from nbagent.server.conversations.opening import open_store
from nbagent.server.routes.openai.items import place_of
from nbagent.server.tokens import owner_of

MODEL = "nbagent"
PLEASE = {"model": MODEL, "input": "Please add."}


def answer(messages, functions):
    """Adds if asked to, counts the prompts, or repeats them."""
    last, questions = messages[-1], [message.text for message in messages if message.role == "user"]
    if last.role == "tool":
        return f"It is {last.text}."
    if "add" in last.text:
        return call("add", f"c{len(messages)}", a=1, b=2)
    return " / ".join(questions)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    store = open_store(str(tmp_path_factory.mktemp("openai") / "conversations.sqlite"))
    with served(Agent(ScriptedProvider(answer), tools=[add], system_prompt="Be kind."), store) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=TOKEN, max_retries=0) as made:
        yield made


def asking(text):
    return [{"role": "user", "content": text}]


def requests(server):
    return server.host.agent.provider.requests


# -- models ------------------------------------------------------------------------------------------------------------


def test_models_are_the_agent_and_its_allowed_models(client):
    assert [model.id for model in client.models.list()] == ["nbagent", "scripted:scripted"]
    assert client.models.retrieve("scripted:scripted").owned_by == "nbagent"
    assert client.responses.create(model="scripted:scripted", input="Hello").model == "scripted:scripted"
    for ask in (
        lambda: client.models.retrieve("gpt-5.6"),
        lambda: client.chat.completions.create(model="gpt-5.6", messages=asking("Hello")),
        lambda: client.responses.create(model="gpt-5.6", input="Hello"),
    ):
        with pytest.raises(openai.NotFoundError) as caught:
            ask()
        assert caught.value.code == "model_not_found"


# -- chat completions --------------------------------------------------------------------------------------------------


def test_the_client_keeps_the_conversation_of_completions(client, server):
    called = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 1}'}}
    image = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png", "detail": "low"}}
    messages = [
        {"role": "system", "content": "Be brief."},
        *asking("One"),
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
        {"role": "assistant", "content": [{"type": "text", "text": "Two."}]},
        {"role": "developer", "content": "Speak German."},
        *asking([{"type": "text", "text": "Three"}, image]),
    ]
    made = client.chat.completions.create(model=MODEL, messages=messages)
    assert made.choices[0].message.content == "One / Three"
    seen, _ = requests(server)[-1]
    assert [message.role for message in seen] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert seen[0].text == "Be kind.\n\nBe brief.\n\nSpeak German."
    assert (seen[2].tool_calls[0].arguments, seen[3].text) == ({"a": 1, "b": 1}, "2")
    assert seen[-1].content[1] == {"type": "image", "url": "https://example.org/cat.png"}  # the provider fetches it


# -- responses ---------------------------------------------------------------------------------------------------------


def test_a_response_continues_an_earlier_one_or_branches_off(client):
    first = client.responses.create(model=MODEL, input="One", conversation="talk-1")
    second = client.responses.create(model=MODEL, input="Two", conversation={"id": "talk-1"})
    other = client.responses.create(model=MODEL, input="Other", previous_response_id=first.id)
    third = client.responses.create(model=MODEL, input="Three", previous_response_id=second.id)
    texts = [each.output_text for each in (first, second, other, third)]
    assert texts == ["One", "One / Two", "One / Other", "One / Two / Three"]
    assert (second.conversation.id, third.previous_response_id) == ("talk-1", second.id)
    unstored = client.responses.create(model=MODEL, input="Last", previous_response_id=other.id, store=False)
    assert unstored.output_text == "One / Other / Last"
    for name in (unstored.id, "resp_größer_1"):
        with pytest.raises(openai.NotFoundError):
            client.responses.create(model=MODEL, input="More", previous_response_id=name)


def test_a_response_can_be_retrieved_and_deleted(client, server):
    first = client.responses.create(model=MODEL, input="Please add.")
    second = client.responses.create(model=MODEL, input="Two", previous_response_id=first.id)
    again = client.responses.retrieve(first.id)
    checked_response(again.to_dict())
    assert again.output_text == first.output_text
    tool, _ = again.output
    assert (tool.type, tool.name, tool.arguments, tool.output) == ("mcp_call", "add", '{"a": 1, "b": 2}', "3")
    stranger = client.with_options(api_key=OTHER_TOKEN)
    for ask in (stranger.responses.retrieve, stranger.responses.delete):
        with pytest.raises(openai.NotFoundError):
            ask(first.id)
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    assert client.responses.retrieve(second.id).output_text == "Please add. / Two"
    client.responses.delete(second.id)
    conversation_id, _ = place_of(first.id)
    assert server.run(server.host.store.get(owner_of(TOKEN), conversation_id)) is None


async def test_a_client_can_refer_to_stored_items(server):
    """Vercel's AI SDK does this by default: it sends items of a response back as references."""
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=TOKEN) as client:
        for streamed in (False, True):
            if streamed:
                events = [each async for each in await client.responses.create(**PLEASE, stream=True)]
                first = events[-1].response
            else:
                first = await client.responses.create(**PLEASE)
            assert [item.type for item in first.output] == ["mcp_call", "message"]
            listed = await client.responses.input_items.list(first.id)
            assert [(item.role, item.content[0].text) for item in listed.data] == [("user", "Please add.")]
            assert (await client.responses.retrieve(first.id)).output == first.output
            references = [{"type": "item_reference", "id": item.id} for item in [*listed.data, *first.output]]
            asked = [*references, {"type": "item_reference", "id": "rs_1"}, {"role": "user", "content": "Two"}]
            with pytest.raises(openai.NotFoundError, match="'rs_1'"):
                await client.responses.create(model=MODEL, input=asked)
            asked[-2]["id"] = listed.data[0].id.replace("msg_", "rs_", 1)  # thinking, which is not stored
            second = await client.responses.create(model=MODEL, input=asked)
            assert second.output_text == "Please add. / Two"
            with pytest.raises(openai.NotFoundError, match="there is no item"):
                await client.with_options(api_key=OTHER_TOKEN).responses.create(model=MODEL, input=asked)


def test_conversations_are_created_listed_and_deleted(client):
    begun = client.conversations.create(
        items=[{"role": "user", "content": "One"}, {"role": "assistant", "content": "1"}], metadata={"topic": "sums"}
    )
    assert begun.metadata == {"topic": "sums"}
    assert client.responses.create(**PLEASE, conversation=begun.id).output_text == "It is 3."
    items = client.conversations.items.list(begun.id, order="asc", limit=2)
    assert [item.type for item in items] == ["message"] * 3 + ["mcp_call", "message"]  # the SDK fetches further pages
    assert next(iter(client.conversations.items.list(begun.id))).role == "assistant"
    assert client.conversations.retrieve(begun.id).created_at == begun.created_at
    assert client.conversations.delete(begun.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.conversations.items.list(begun.id)
    empty = client.conversations.create()
    assert list(client.conversations.items.list(empty.id)) == []
    with pytest.raises(openai.BadRequestError, match="instructions"):
        client.conversations.create(items=[{"role": "system", "content": "Be brief."}])


def test_input_tokens_are_counted_before_a_prompt_is_sent(client):
    counts = client.responses.input_tokens
    short = counts.count(input="One").input_tokens
    conversation = client.conversations.create(items=[{"role": "user", "content": "word " * 1_000}]).id
    assert 0 < short < 100
    assert 100 < counts.count(model=MODEL, input="word " * 500, instructions="Be brief.").input_tokens < 500 * 2
    assert counts.count(input="One", conversation=conversation).input_tokens > short + 200
    assert client.conversations.items.list(conversation).data[0].content[0].text == "word " * 1_000  # nothing ran


# -- errors ------------------------------------------------------------------------------------------------------------


def test_tools_of_the_client_are_refused(client):
    tool = {"type": "function", "name": "f", "parameters": {}}
    asks = {
        "tools": lambda: client.responses.create(model=MODEL, input="Hello", tools=[tool]),
        "functions": lambda: client.chat.completions.create(model=MODEL, messages=asking("Hi"), functions=[tool]),
        "n": lambda: client.chat.completions.create(model=MODEL, messages=asking("Hi"), n=2),
        "background": lambda: client.responses.create(model=MODEL, input="Hello", background=True),
    }
    for param, ask in asks.items():
        with pytest.raises(openai.BadRequestError) as caught:
            ask()
        assert (caught.value.param, caught.value.code) == (param, "unsupported_parameter")


def test_wrong_messages_are_bad_requests(client):
    image = {"type": "image_url", "image_url": "/etc/passwd"}
    for messages, param in (
        ([], "messages"),
        ([*asking("Hi"), {"role": "assistant", "content": "Hello"}], "messages[1].role"),
        (asking([{"type": "input_audio", "input_audio": {}}]), "messages[0].content[0]"),
        (asking([image]), "messages[0].content[0]"),
        (asking([{"type": "image", "path": "/etc/passwd"}]), "messages[0].content[0]"),
    ):
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model=MODEL, messages=messages)
        assert caught.value.type == "invalid_request_error"
        assert str(caught.value.param).startswith(param)


def test_all_errors_use_the_envelope(server):
    http = server.client()
    for response, status in (
        (http.post("/v1/chat/completions", content=b"{"), 400),
        (http.post("/v1/responses", json={"model": MODEL}), 400),
        (http.get("/v1/nothing"), 404),
        (http.put("/v1/models"), 405),
        (server.client(token=None).get("/v1/models"), 401),
    ):
        assert response.status_code == status
        assert response.json()["error"].keys() == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("error", "raised", "status"),
    [
        (RateLimitError("slow down", provider="openai", retry_after=7), openai.RateLimitError, 429),
        (AuthenticationError("wrong key", provider="openai"), openai.InternalServerError, 502),
        (ZeroDivisionError("a secret"), openai.InternalServerError, 500),
    ],
)
def test_a_failed_run_is_an_http_error_that_the_sdk_does_not_retry(error, raised, status):
    provider = ScriptedProvider([error] * 2)
    with served(Agent(provider)) as server, openai.OpenAI(base_url=f"{server.url}/v1", api_key=TOKEN) as client:
        for streamed in (False, True):
            with pytest.raises(raised) as caught:
                client.chat.completions.create(model=MODEL, messages=asking("Hi"), stream=streamed)
            assert caught.value.status_code == status
            assert "secret" not in str(caught.value)
    assert len(provider.requests) == 2


def test_a_run_that_fails_midway_ends_its_stream():
    turns = [LLMResponse("I add.", [call("add", a=1, b=2)], "tool_calls"), ServerError("broken", provider="openai")] * 2
    with (
        served(Agent(ScriptedProvider(turns), tools=[add])) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key=TOKEN) as client,
    ):
        stream = client.chat.completions.create(model=MODEL, messages=asking("Hi"), stream=True)
        assert next(stream).choices[0].delta.role == "assistant"
        with pytest.raises(openai.APIError, match="broken"):
            list(stream)
        last = list(client.responses.create(model=MODEL, input="Hi", stream=True))[-1]
    checked_event(last.to_dict())
    assert (last.type, last.response.status, last.response.error.code) == ("response.failed", "failed", "server_error")
    assert [item.status for item in last.response.output] == ["completed", "completed"]


async def test_a_stream_that_sent_text_is_not_retried():
    """If the model's connection breaks after a few words, the request fails at once and is not sent twice."""
    async with Loopback() as upstream:
        upstream.answers = [Answer(sse(said("It is ", None), done=False), end="drop")]
        provider = create_provider("open_source", base_url=f"{upstream.url}/v1", model="m", max_retries=3)
        with served(Agent(provider)) as server:
            async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=TOKEN, max_retries=0) as client:
                events = [each async for each in await client.responses.create(model=MODEL, input="Hi", stream=True)]
                assert "in the middle of the answer" in events[-1].response.error.message
                chunks = await client.chat.completions.create(model=MODEL, messages=asking("Hi"), stream=True)
                with pytest.raises(openai.APIError, match="in the middle of the answer"):
                    assert [chunk async for chunk in chunks] == []
        assert len(upstream.requests) == 2


class Sum(BaseModel):
    value: int


def test_structured_output(server):
    provider = ScriptedProvider(['{"value": 3}', "{}", '{"value": 5}', "{}"])
    wanted, seen = [], []
    provider.resolve = lambda request: seen.append(request.options) or request
    with served(Agent(provider)) as other, openai.OpenAI(base_url=f"{other.url}/v1", api_key=TOKEN) as client:
        made = client.chat.completions.parse(model=MODEL, messages=asking("1 + 2?"), response_format=Sum)
        assert made.choices[0].message.parsed == Sum(value=3)
        client.responses.create(model=MODEL, input="Any?", text={"format": {"type": "json_object"}})
        provider.output_options = lambda *given: wanted.append(given) or {"response_format": {"type": "json_schema"}}
        assert client.responses.parse(model=MODEL, input="2 + 3?", text_format=Sum).output_parsed == Sum(value=5)
        for wrong in ({"type": "nonsense"}, {"$schema": 5}, {"$schema": []}):
            text = {"format": {"type": "json_schema", "name": "sum", "schema": wrong}}
            with pytest.raises(openai.BadRequestError, match="JSON Schema is invalid") as caught:
                client.responses.create(model=MODEL, input="?", text=text)
        more = {"response_format": {"type": "json_object"}, "frequency_penalty": 0, "presence_penalty": 0.5}
        client.chat.completions.create(model=MODEL, messages=asking("?"), **more)
    assert caught.value.param == "text.format"
    # a provider that can't enforce a schema reads it in the instructions
    schema, any_json, question, _ = (messages[0] for messages, _ in provider.requests)
    assert "value" in schema.text
    assert "integer" in schema.text
    assert "JSON" in any_json.text
    # others receive it as an option
    assert [(name, schema["properties"]["value"]["type"]) for name, schema in wanted[:1]] == [("Sum", "integer")]
    assert seen[2]["extra_body"]["response_format"] == {"type": "json_schema"}
    assert seen[3]["extra_body"] == {"response_format": {"type": "json_schema"}, "presence_penalty": 0.5}
    assert question.role == "user"
