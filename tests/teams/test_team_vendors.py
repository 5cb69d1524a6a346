"""A team of two vendors, on their wire formats over real HTTP: what each one is sent of the other's turn."""

import json

import pytest
from support.called import called
from support.loopback import Answer, Loopback, claude_said, said, sse

from nbagent import Agent, Team, create_provider


@pytest.fixture
async def servers():
    async with Loopback() as desk, Loopback() as billing:
        yield desk, billing


def team(servers, *order, **options):
    desk, billing = servers
    first = create_provider("open_source", model="m1", base_url=f"{desk.url}/v1", api_key="k")
    second = create_provider("claude", model="claude-sonnet-5", base_url=billing.url, api_key="k")
    bills = Agent(second, system_prompt="Bills.")
    members = {"desk": Agent(first, system_prompt="You are the desk."), "billing": bills}
    return Team(members, *order, **options)


async def test_claude_takes_over_from_another_vendor(servers):
    desk, billing = servers
    handing = sse(called('{"to": "billing"}', "hand_over"), said("", "tool_calls"))
    desk.answers += [Answer(handing), Answer(sse(said("Bye.")))]
    billing.answers += [Answer(claude_said("Paid back."))]
    both = team(servers)
    assert (await both.chat("I paid twice.")).content == "Paid back."
    (request,) = billing.requests
    assert request.json["system"][0]["text"].startswith("Bills.\n\nYou are billing.")
    assert [message["role"] for message in request.json["messages"]] == ["user", "assistant", "user"]
    assert request.json["messages"][1]["content"][0]["type"] == "tool_use"
    assert request.json["messages"][2]["content"][0]["type"] == "tool_result"
    assert [each["name"] for each in request.json["tools"]] == ["hand_over"]
    assert (await both.chat("Thanks.")).content == "Bye."
    sent = desk.requests[-1].json["messages"]
    assert sent[0]["content"].startswith("You are the desk.")
    assert sent[-1] == {"role": "user", "content": "[billing] Paid back.\n\nThanks."}
    for member in both.members.values():
        await member.aclose()


async def test_in_turn_nobody_is_sent_a_conversation_that_ends_with_an_answer(servers):
    desk, billing = servers
    desk.answers += [Answer(sse(said("Draft 1."))), Answer(sse(said("Draft 2.")))]
    billing.answers += [Answer(claude_said("Too long.")), Answer(claude_said("Good."))]
    both = team(servers, "round_robin", rounds=2)
    assert (await both.chat("A poem.")).content == "Good."
    last = [request.json["messages"][-1] for request in (*desk.requests, *billing.requests)]
    assert {message["role"] for message in last} == {"user"}
    assert "name" not in json.dumps([request.json["messages"] for request in billing.requests])
    for member in both.members.values():
        await member.aclose()
