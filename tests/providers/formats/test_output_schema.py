"""Requests for an answer that fits a JSON Schema, for each provider, and their refusal."""

import json
from typing import Literal

import pandas as pd
import pytest
from pydantic import BaseModel, Field
from support.dialects.providers import DIALECTS
from support.dialects.script import reply
from support.dialects.server import KEY, ProviderServer
from support.loopback import Answer, claude_said, said, sse

from nbagent import Agent
from nbagent.providers import OpenAIProvider
from nbagent.providers.formats.strict_schema import strict_schema


class City(BaseModel):
    name: str
    people: int = Field(ge=0)
    river: str = ""


PARIS = {"name": "Paris", "people": 2_100_000, "river": "Seine"}
ANSWER = json.dumps(PARIS)
GEMINI = sse({"candidates": [{"content": {"parts": [{"text": ANSWER}]}, "finishReason": "STOP"}]}, done=False)
BODIES = {"claude": claude_said(ANSWER), "minimax": claude_said(ANSWER), "gemini": GEMINI}
PROPERTIES = {"name": {"type": "string"}, "people": {"type": "integer"}, "river": {"type": "string"}}


def bare(schema):
    """The schema without titles and descriptions."""
    kept = {key: value for key, value in schema.items() if key not in ("title", "default", "minimum")}
    return kept | {"properties": {name: {"type": item["type"]} for name, item in schema["properties"].items()}}


@pytest.mark.parametrize(
    ("provider", "place", "required"),
    [
        ("openai", ("response_format", "json_schema", "schema"), ["name", "people", "river"]),
        ("open_source", ("response_format", "json_schema", "schema"), ["name", "people", "river"]),
        ("claude", ("output_config", "format", "schema"), ["name", "people"]),
        ("gemini", ("generationConfig", "responseJsonSchema"), ["name", "people"]),
    ],
)
async def test_the_schema_goes_where_the_provider_wants_it(provider, place, required, loopback, connect):
    loopback.answers = [Answer(BODIES.get(provider) or sse(said(ANSWER)))]
    agent = Agent(connect(provider))
    own = {place[0]: {"own": 1}}
    assert await agent.extract("Paris has 2.1 million people.", City, extra_body=own) == City(**PARIS)
    sent = loopback.requests[0].json
    assert sent[place[0]]["own"] == 1
    for step in place:
        sent = sent[step]
    closed = {} if provider == "gemini" else {"additionalProperties": False}
    assert bare(sent) == {"type": "object", "properties": PROPERTIES, "required": required, **closed}
    assert ("minimum" in sent["properties"]["people"]) == (provider != "claude")


@pytest.mark.parametrize("provider", ["zhipu", "deepseek", "qwen", "minimax"])
async def test_providers_without_schemas_get_the_schema_in_the_prompt(provider, loopback, connect):
    loopback.answers = [Answer(BODIES.get(provider) or sse(said(ANSWER)))]
    assert await Agent(connect(provider)).extract("Paris …", City) == City(**PARIS)
    body = loopback.requests[0].json
    wanted = {"type": "json_object"} if provider in ("zhipu", "deepseek") else None
    assert body.get("response_format") == wanted
    assert '\\"required\\": [\\"name\\", \\"people\\"]' in json.dumps(body)


def people_of(city: str) -> int:
    """How many people live in a city."""
    return 2_100_000


@pytest.mark.parametrize(
    ("provider", "options", "is_held", "with_tools"),
    [
        ("openai", {}, True, True),
        ("claude", {}, True, True),
        ("gemini", {"model": "gemini-3.7-flash"}, True, True),
        ("gemini", {"model": "gemini-2.5-flash"}, False, True),
        ("gemini", {"model": "gemini-2.5-flash"}, True, False),
        ("open_source", {}, False, True),
    ],
)
async def test_the_schema_is_sent_with_tools_where_both_work(provider, options, is_held, with_tools, loopback, connect):
    loopback.answers = [Answer(BODIES.get(provider) or sse(said(ANSWER)))]
    agent = Agent(connect(provider, **options), tools=[people_of] if with_tools else [])
    assert (await agent.chat("Which city?", output=City)).data == City(**PARIS)
    body = loopback.requests[0].json
    held = ("response_format", "output_config", "responseJsonSchema")
    assert bool({*body, *body.get("generationConfig", ())} & {*held}) == is_held
    assert ("tools" in body) == with_tools
    assert '\\"people\\"' in json.dumps(body), "the instructions tell it, too"


async def test_a_server_that_refuses_the_schema_is_sent_no_schema(loopback, connect):
    """The rows in flight learn it, and later ones know it. The trace has it for each answer."""
    refusal = {"error": {"message": "response_format is not supported", "type": "invalid_request_error"}}
    refused, good = Answer(json.dumps(refusal).encode(), 400), Answer(sse(said(ANSWER)))
    loopback.answer_to = lambda request: refused if b"json_schema" in request.body else good
    agent = Agent(connect())
    frame = await agent.map(pd.Series([f"Paris {n}" for n in range(20)]), output=City, concurrency=8)
    assert frame["people"].tolist() == [2_100_000] * 20
    assert sum(b"json_schema" in request.body for request in loopback.requests) <= 8
    assert await agent.extract("Paris …", City) == City(**PARIS)
    assert agent.trace.calls["refused"].tolist() == ['{"response_format":null}'] * 21
    notes = agent.trace.events.query("type == 'retry'")["content"]
    assert notes.str.contains("refused response_format").sum() == len(notes) <= 8


class Lake(BaseModel):
    kind: Literal["lake"]
    depth: tuple[float, str] = Field((1.0, "m"), description="Where it is deepest.")


class River(BaseModel):
    kind: Literal["river"]
    mouth: "Lake | River | None" = Field(None, discriminator="kind", description="Where it ends.")


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_strict_schema_in_the_providers_dialect(api):
    async with ProviderServer(DIALECTS[f"openai {api}"], [reply('{"kind": "river"}')]) as server:
        agent = Agent(OpenAIProvider(KEY, base_url=server.base_url, api=api))
        assert (await agent.chat("Which one?", output=River)).data.kind == "river"
        assert server.refusals == []
        assert b'"strict":true' in server.asked[0].raw


def test_open_objects_have_no_strict_schema():
    counts = {"type": "object", "additionalProperties": {"type": "integer"}}
    assert strict_schema(counts, all_required=True) is None
    nested = {"type": "object", "properties": {"counts": {"anyOf": [counts, {"type": "null"}]}}}
    assert strict_schema(nested, all_required=True) is None


def test_property_names_are_not_keywords():
    schema = {"type": "object", "properties": {"minimum": {"type": "integer", "minimum": 1}, "type": {"const": "a"}}}
    closed = strict_schema(schema, all_required=True, without=("minimum",))
    assert closed == {
        "type": "object",
        "properties": {"minimum": {"type": "integer"}, "type": {"const": "a"}},
        "additionalProperties": False,
        "required": ["minimum", "type"],
    }
