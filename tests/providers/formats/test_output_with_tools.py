"""How each vendor is asked for a typed answer while tools are on offer."""

import json

import pytest
from pydantic import BaseModel
from support.loopback import Answer, claude_said, said, sse

from nbagent import Agent


class City(BaseModel):
    name: str
    people: int


PARIS = '{"name": "Paris", "people": 2100000}'


def people_of(city: str) -> int:
    """How many people live in a city."""
    return 2_100_000


@pytest.mark.parametrize(
    ("vendor", "model", "is_held", "with_tools"),
    [
        ("openai", None, True, True),
        ("claude", None, True, True),
        ("gemini", "gemini-3.7-flash", True, True),
        ("gemini", "gemini-2.5-flash", False, True),
        ("gemini", "gemini-2.5-flash", False, False),
        ("open_source", None, False, True),
        ("deepseek", None, False, False),
    ],
)
async def test_the_vendor_is_held_to_the_schema_with_tools_where_it_can(
    vendor, model, is_held, with_tools, loopback, connect
):
    gemini = sse({"candidates": [{"content": {"parts": [{"text": PARIS}]}, "finishReason": "STOP"}]}, done=False)
    bodies = {"claude": claude_said(PARIS), "gemini": gemini}
    loopback.answers = [Answer(bodies.get(vendor) or sse(said(PARIS)))]
    options = {"model": model} if model else {}
    agent = Agent(connect(vendor, **options), tools=[people_of] if with_tools else [])
    assert (await agent.chat("Which city?", output=City)).data.name == "Paris"
    body = loopback.requests[0].json
    held = (
        body.get("response_format")
        or body.get("output_config")
        or body.get("generationConfig", {}).get("responseJsonSchema")
    )
    assert bool(held) == (is_held or not with_tools)
    assert ("tools" in body) == with_tools
    assert '\\"people\\"' in json.dumps(body), "the instructions tell it, too"
