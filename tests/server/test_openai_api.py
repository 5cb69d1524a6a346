"""The official `openai` SDK against a real server: models, chat completions, responses, errors."""

import asyncio
import json
import re
from pathlib import Path

import openai
import pytest
from pydantic import BaseModel
from support.openai_answers import checked_event, checked_response
from support.serving import OTHER_TOKEN, TOKEN, served
from support.small_agent import add, call

from nbagent import Agent, LLMResponse, ScriptedProvider, Usage, create_provider
from nbagent.errors import AuthenticationError, RateLimitError, ServerError
from nbagent.server.conversations.opening import open_store
from nbagent.server.routes.openai.response_ids import place_of
from nbagent.server.security import owner_of

MODEL = "nbagent"


def answer(messages, functions):
    """Adds if asked to; tells how many questions there were; repeats what was asked."""
    last, questions = messages[-1], [message.text for message in messages if message.role == "user"]
    if last.role == "tool":
        return f"It is {last.text}."
    if "add" in last.text:
        return call("add", f"c{len(messages)}", a=1, b=2)
    if "think" in last.text:
        return LLMResponse("I am.", None, "stop", {"thinking": "Am I?", "usage": Usage(9, 5, 4, 0, 3)})
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


@pytest.fixture
async def async_client(server):
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=TOKEN, max_retries=0) as made:
        yield made


def asking(text):
    return [{"role": "user", "content": text}]


def requests(server):
    return server.host.agent.provider.requests


# -- models ------------------------------------------------------------------------------------------------------------


def test_models_are_the_agent_and_what_it_may_use(client):
    assert [model.id for model in client.models.list()] == ["nbagent", "scripted:scripted"]
    assert client.models.retrieve("scripted:scripted").owned_by == "nbagent"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("gpt-5.6")
    assert caught.value.code == "model_not_found"


def test_a_model_by_its_own_name(client):
    assert client.responses.create(model="scripted:scripted", input="Hello").model == "scripted:scripted"
    for ask in (
        lambda: client.chat.completions.create(model="gpt-5.6", messages=asking("Hello")),
        lambda: client.responses.create(model="gpt-5.6", input="Hello"),
    ):
        with pytest.raises(openai.NotFoundError) as caught:
            ask()
        assert caught.value.code == "model_not_found"


# -- chat completions --------------------------------------------------------------------------------------------------


def test_a_streamed_completion(client):
    options = {"stream_options": {"include_usage": True}}
    with client.chat.completions.stream(model=MODEL, messages=asking("Please think."), **options) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert kinds == {"chunk", "content.delta", "content.done"}
    assert final.choices[0].message.content == "I am."
    assert final.choices[0].message.reasoning_content == "Am I?"
    assert final.usage.completion_tokens_details.reasoning_tokens == 3
    assert final.usage.prompt_tokens_details.cached_tokens == 4


async def test_many_streams_at_once(async_client):
    async def ask(number):
        stream = await async_client.chat.completions.create(model=MODEL, messages=asking(f"Say {number}"), stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    assert await asyncio.gather(*map(ask, range(20))) == [f"Say {number}" for number in range(20)]


def test_the_client_holds_the_conversation_of_completions(client, server):
    messages = [
        {"role": "system", "content": "Be brief."},
        *asking("One"),
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 1}'}}
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
        {"role": "assistant", "content": [{"type": "text", "text": "Two."}]},
        {"role": "developer", "content": "Speak German."},
        *asking("Three"),
    ]  # fmt: skip
    made = client.chat.completions.create(model=MODEL, messages=messages)
    assert made.choices[0].message.content == "One / Three"
    seen, _ = requests(server)[-1]
    assert [message.role for message in seen] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert seen[0].text == "Be kind.\n\nBe brief.\n\nSpeak German."
    assert (seen[2].tool_calls[0].arguments, seen[3].text) == ({"a": 1, "b": 1}, "2")


def test_an_image_that_the_vendor_fetches(client, server):
    address = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png", "detail": "low"}}
    parts = [{"type": "text", "text": "What?"}, address]
    client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": parts}])
    wanted = [{"type": "text", "text": "What?"}, {"type": "image", "url": "https://example.org/cat.png"}]
    assert requests(server)[-1][0][-1].content == wanted


# -- responses ---------------------------------------------------------------------------------------------------------


def test_a_streamed_response(client):
    with client.responses.stream(model=MODEL, input="Please think.") as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert final.output_text == "I am."
    assert [item.type for item in final.output] == ["reasoning", "message"]
    assert [part.text for part in final.output[0].summary] == ["Am I?"]
    assert final.usage.output_tokens_details.reasoning_tokens == 3
    assert "".join(deltas) == "I am."


def test_a_response_goes_on_from_an_earlier_one_and_branches(client, server):
    first = client.responses.create(model=MODEL, input="One")
    second = client.responses.create(model=MODEL, input="Two", previous_response_id=first.id)
    other = client.responses.create(model=MODEL, input="Other", previous_response_id=first.id)
    third = client.responses.create(model=MODEL, input="Three", previous_response_id=second.id)
    texts = [each.output_text for each in (first, second, other, third)]
    assert texts == ["One", "One / Two", "One / Other", "One / Two / Three"]
    assert third.previous_response_id == second.id
    unstored = client.responses.create(model=MODEL, input="Last", previous_response_id=other.id, store=False)
    assert unstored.output_text == "One / Other / Last"
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model=MODEL, input="More", previous_response_id=unstored.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve("resp_größer_1")


async def test_two_that_go_on_from_the_same_response_at_once(async_client):
    first = await async_client.responses.create(model=MODEL, input="One")
    asked = [f"Two {number}" for number in range(8)]
    made = await asyncio.gather(
        *(async_client.responses.create(model=MODEL, input=text, previous_response_id=first.id) for text in asked)
    )
    assert [each.output_text for each in made] == [f"One / {text}" for text in asked]
    following = await asyncio.gather(
        *(async_client.responses.create(model=MODEL, input="Three", previous_response_id=each.id) for each in made)
    )
    assert [each.output_text for each in following] == [f"One / {text} / Three" for text in asked]


def test_a_conversation_goes_on_by_its_name(client):
    client.responses.create(model=MODEL, input="One", conversation="talk-1")
    second = client.responses.create(model=MODEL, input="Two", conversation={"id": "talk-1"})
    assert second.output_text == "One / Two"
    assert second.conversation.id == "talk-1"
    branch = client.responses.create(model=MODEL, input="Three", previous_response_id=second.id)
    assert branch.output_text == "One / Two / Three"


def test_the_client_may_hold_the_conversation_of_responses(client, server):
    first = client.responses.create(model=MODEL, input="Please add.", store=False)
    items = [*asking("Please add."), *(item.to_dict() for item in first.output), *asking("Two")]
    second = client.responses.create(model=MODEL, input=items, store=False, instructions="Be brief.")
    assert second.output_text == "Please add. / Two"
    seen, _ = requests(server)[-1]
    assert [message.role for message in seen] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert (seen[0].text, seen[3].text) == ("Be kind.\n\nBe brief.", "3")


def test_a_response_can_be_read_again_and_deleted(client, server):
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


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", ["chat/completions", "responses"])
def test_a_repeated_request_gets_the_first_answer(server, api, streamed):
    question = {"input": "Please add."} if api == "responses" else {"messages": asking("Please add.")}
    body, key = {"model": MODEL, "stream": streamed, **question}, {"Idempotency-Key": f"{api} {streamed}"}
    http = server.client()
    first = http.post(f"/v1/{api}", json=body, headers=key)
    before = len(requests(server))
    again = http.post(f"/v1/{api}", json=body, headers=key)
    assert len(requests(server)) == before  # nothing ran
    assert (first.status_code, again.status_code) == (200, 200)
    if not streamed:
        assert again.text == first.text
    else:
        (name,) = set(re.findall(r'"id": "((?:chatcmpl|resp)_[^"]*)"', again.text))
        assert name in first.text
        assert again.text.count("data: ") == first.text.count("data: ")
        assert "It " in again.text
    other = http.post(f"/v1/{api}", json={**body, "user": "ann"}, headers=key)
    assert (other.status_code, other.json()["error"]["code"]) == (400, "idempotency_key_reused")


def test_an_odd_line_end_does_not_break_the_stream_of_a_client_that_splits_lines(server):
    text = "one\u2028two\x85three\u2029"
    body = {"model": MODEL, "input": text, "stream": True}
    with server.client().stream("POST", "/v1/responses", json=body) as response:
        lines = [
            line for line in response.iter_lines() if line.startswith("data: ")
        ]  # it splits as str.splitlines does
    assert json.loads(lines[-1].removeprefix("data: "))["response"]["output"][0]["content"][0]["text"] == text


# -- errors ------------------------------------------------------------------------------------------------------------


def test_tools_of_the_client_are_refused(client):
    tool, said = {"type": "function", "name": "f", "parameters": {}}, {"role": "assistant", "content": "B"}
    asks = {
        "tools": lambda: client.responses.create(model=MODEL, input="Hello", tools=[tool]),
        "functions": lambda: client.chat.completions.create(model=MODEL, messages=asking("Hi"), functions=[tool]),
        "n": lambda: client.chat.completions.create(model=MODEL, messages=asking("Hi"), n=2),
        "input": lambda: client.responses.create(
            model=MODEL, input=[*asking("A"), said, *asking("B")], conversation="c"
        ),
        "background": lambda: client.responses.create(model=MODEL, input="Hello", background=True),
    }
    for param, ask in asks.items():
        with pytest.raises(openai.BadRequestError) as caught:
            ask()
        assert (caught.value.param, caught.value.code) == (param, "unsupported_parameter")


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        ([{"role": "user", "content": ""}], None),
        ([*asking("Hi"), {"role": "assistant", "content": "Hello"}], "messages[1].role"),
        ([{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": "/etc/passwd"}]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "image", "path": "/etc/passwd"}]}], "messages.0.content"),
    ],
)
def test_wrong_messages_are_bad_requests(client, messages, param):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=messages)
    assert caught.value.type == "invalid_request_error"
    assert param is None or str(caught.value.param).startswith(param)


def test_errors_are_in_the_envelope_wherever_they_arise(server):
    http = server.client()
    for response, status in (
        (http.post("/v1/chat/completions", content=b"{"), 400),
        (http.post("/v1/responses", json={"model": MODEL}), 400),
        (http.get("/v1/nothing"), 404),
        (http.put("/v1/models"), 405),
        (server.client(token=None).get("/v1/models"), 401),
        (http.post("/v1/responses", json={"model": MODEL, "input": "Hi", "stream": "yes"}), 400),
        (http.post("/v1/responses", json={"model": MODEL, "input": "Hi", "top_p": "0.5"}), 400),
    ):
        assert response.status_code == status
        assert response.json()["error"].keys() == {"message", "type", "param", "code"}


VENDOR_ERRORS = [
    (RateLimitError("slow down", vendor="openai", retry_after=7), openai.RateLimitError, 429),
    (AuthenticationError("wrong key", vendor="openai"), openai.InternalServerError, 502),
    (ServerError("broken", vendor="openai"), openai.InternalServerError, 503),
    (ZeroDivisionError("a secret"), openai.InternalServerError, 500),
]


@pytest.mark.parametrize(
    ("error", "raised", "status", "streamed"), [*((*each, False) for each in VENDOR_ERRORS), (*VENDOR_ERRORS[0], True)]
)
def test_a_failed_run_is_an_http_error_that_the_sdk_does_not_try_again(error, raised, status, streamed):
    provider = ScriptedProvider([error])
    with served(Agent(provider)) as server, openai.OpenAI(base_url=f"{server.url}/v1", api_key=TOKEN) as client:
        with pytest.raises(raised) as caught:
            client.chat.completions.create(model=MODEL, messages=asking("Hi"), stream=streamed)
        assert caught.value.status_code == status
        assert "secret" not in str(caught.value)
    assert len(provider.requests) == 1


def test_a_run_that_fails_after_it_began_ends_its_stream():
    turns = [LLMResponse("I add.", [call("add", a=1, b=2)], "tool_calls"), ServerError("broken", vendor="openai")] * 2
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


# -- documents ---------------------------------------------------------------------------------------------------------


def test_the_example_of_the_page_on_serving(server, capsys):
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "serve.md").read_text("utf-8")
    (example,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "{url}/v1" in block)
    names = {"token": TOKEN, "url": server.url}
    exec(example, names)
    names["client"].close()
    first = "And of 3, 4 and 8?"
    assert capsys.readouterr().out.splitlines() == [f"{first} {first} / And of 6 and 6?", "And of 7?"]


# -- other clients -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "streaming"), [("open_source", True), ("chat", False), ("responses", True), ("responses", False)]
)
async def test_another_nbagent_is_a_client(server, api, streaming):
    vendor, options = ("open_source", {}) if api == "open_source" else ("openai", {"api": api})
    provider = create_provider(
        vendor, base_url=f"{server.url}/v1", api_key=TOKEN, model=MODEL, streaming=streaming, **options
    )
    agent = Agent(provider, system_prompt="Be brief.")
    assert (await agent.chat("Please think.")).content == "I am."
    result = await agent.chat("Please add.")
    assert (result.content, result.function_calls) == ("It is 3.", [])
    assert (await agent.chat("Bye")).content == "Please think. / Please add. / Bye"
    assert agent.trace.thinking["text"].tolist() == ["Am I?"]
    assert agent.trace.calls["cache_read_tokens"].iloc[0] == 4
    assert agent.trace.calls["reasoning_tokens"].iloc[0] == 3
    assert requests(server)[-1][0][0].text == "Be kind.\n\nBe brief."
    await agent.aclose()


class Sum(BaseModel):
    value: int


def test_structured_output(server):
    provider = ScriptedProvider(['{"value": 3}', '{"value": 4}', "{}", '{"value": 5}'])
    wanted, seen = [], []
    provider.resolve = lambda request: seen.append(request.options) or request
    with served(Agent(provider)) as other, openai.OpenAI(base_url=f"{other.url}/v1", api_key=TOKEN) as client:
        made = client.chat.completions.parse(model=MODEL, messages=asking("1 + 2?"), response_format=Sum)
        assert made.choices[0].message.parsed == Sum(value=3)
        assert client.responses.parse(model=MODEL, input="2 + 2?", text_format=Sum).output_parsed == Sum(value=4)
        client.responses.create(model=MODEL, input="Any?", text={"format": {"type": "json_object"}})
        provider.output_options = lambda *given: wanted.append(given) or {"response_format": {"type": "json_schema"}}
        assert client.responses.parse(model=MODEL, input="2 + 3?", text_format=Sum).output_parsed == Sum(value=5)
        text = {"format": {"type": "json_schema", "name": "sum", "schema": {"type": "nonsense"}}}
        with pytest.raises(openai.BadRequestError, match="JSON Schema is wrong") as caught:
            client.responses.create(model=MODEL, input="?", text=text)
    assert caught.value.param == "text.format"
    # a vendor that can't be held to a schema is told of it
    told = [messages[0].text for messages, _ in provider.requests[:3]]
    assert all("value" in text and "integer" in text for text in told[:2])
    assert "JSON" in told[2]
    # another one gets the schema as its own option
    assert [(name, schema["properties"]["value"]["type"]) for name, schema in wanted] == [("Sum", "integer")]
    assert seen[3]["response_format"] == {"type": "json_schema"}
    assert provider.requests[3][0][0].role == "user"
