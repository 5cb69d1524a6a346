"""A team of two vendors, on their wire formats over real HTTP: what each one is sent of the other's turn."""

from support.called import called
from support.loopback import Answer, Loopback, claude_said, said, sse

from nbagent import Agent, Team, create_provider


async def test_claude_takes_over_from_another_vendor():
    async with Loopback() as desk, Loopback() as billing:
        handing = sse(called('{"to": "billing"}', "hand_over"), said("", "tool_calls"))
        desk.answers += [Answer(handing), Answer(sse(said("Bye.")))]
        billing.answers += [Answer(claude_said("Paid back."))]
        first = create_provider("open_source", model="m1", base_url=f"{desk.url}/v1", api_key="k")
        second = create_provider("claude", model="claude-sonnet-5", base_url=billing.url, api_key="k")
        members = {
            "desk": Agent(first, system_prompt="You are the desk."),
            "billing": Agent(second, system_prompt="Bills."),
        }
        both = Team(members)
        assert (await both.chat("I paid twice.")).content == "Paid back."
        assert (await both.chat("Thanks.")).content == "Bye."
        for member in members.values():
            await member.aclose()
    (request,) = billing.requests
    assert request.json["system"][0]["text"].startswith("Bills.\n\nYou are billing.")
    assert [message["role"] for message in request.json["messages"]] == ["user", "assistant", "user"]
    assert request.json["messages"][1]["content"][0]["type"] == "tool_use"
    assert request.json["messages"][2]["content"][0]["type"] == "tool_result"
    assert [each["name"] for each in request.json["tools"]] == ["hand_over"]
    sent = desk.requests[-1].json["messages"]
    assert sent[0]["content"].startswith("You are the desk.")
    assert sent[-1] == {"role": "user", "content": "[billing] Paid back.\n\nThanks."}
