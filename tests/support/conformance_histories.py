"""The conformance kit, part two: which conversations a provider accepts, wherever they come from. See `conformance`."""

from __future__ import annotations

from dataclasses import replace

from nbagent.core.history.repair import repair
from nbagent.core.messages import LLMMessage
from support.conformance_case import RICH, TOOLS, Case, answered, catalog_cases, results, user
from support.dialects.script import call, reply, said, thought


async def check_history_of_every_other_provider(case: Case) -> None:
    """A conversation can continue with another provider: calls and results are kept, foreign thinking is omitted."""
    turn = replace(RICH, parts=(RICH.parts[0], said("My turn."), call("find", '{"path": "/mine"}', id="call_mine")))
    async with case.talk(turn, reply(thought("Over.", signature="b3Zlcg=="), "Done."), reply("Bye.")) as talk:
        for provider, history in (await histories(case)).items():
            talk.server.script = [turn, reply("Done."), reply("Bye.")]
            talk.server.issued.clear()
            conversation = [*history, user("Go on")]
            for following in ("", "Thanks", "Bye"):
                response = await talk.ask(repair(conversation), TOOLS)
                conversation += [answered(response), *(results(response) or [user(following)])]
            sent = talk.asked.raw.decode()
            kept = (
                f"{provider} looks",
                f"{provider} found",
                f"{provider} ends",
                "/mine",
                "foreign thought",
                "Zm9yZWlnbg",
            )
            assert [text in sent for text in kept] == [True] * 4 + [False] * 2, provider


_HISTORIES: dict[str, list[LLMMessage]] = {}


async def build_histories() -> None:
    """A conversation with every provider in the catalog, created once for all cases. It takes seconds."""
    if not _HISTORIES:
        _HISTORIES.update({other.name: await _history(other) for other in catalog_cases() if other.streaming})


async def histories(case: Case) -> dict[str, list[LLMMessage]]:
    """A conversation with every provider in the catalog except the case's own."""
    await build_histories()
    own = case.name.split()[0]
    same = {other.name for other in catalog_cases() if type(other.dialect) is type(case.dialect)}
    return {name: history for name, history in _HISTORIES.items() if name.split()[0] != own or name not in same}


async def _history(case: Case) -> list[LLMMessage]:
    """Thinking, text, calls with awkward ids and a made-up name, results, an error."""
    odd = case.dialect.careless
    signature = "Zm9yZWlnbg=="
    calls = [call("find", '{"path": "/1"}', id="functions.find:0" if odd else "call_h1"), call("now", id="call_0")]
    first = reply(thought("foreign thought", signature=signature), f"{case.name} looks", *calls)
    long = call("find", '{"path": "/2"}', id=f"chatcmpl-tool-{1:032}" if odd else "call_h2")
    again = call("open browser tab", id="call_0" if odd else "call_h3")
    last = reply(thought("foreign thought", signature=signature), f"{case.name} ends")
    async with case.talk(first, reply(long, again), last) as talk:
        history = [LLMMessage("system", "Be brief."), user("Look")]
        for _ in range(3):
            response = await talk.ask(repair(history), TOOLS)
            history += [answered(response), *results(response, f"{case.name} found it")]
            if response.function_calls:
                history[-1] = history[-1].replace(content="no such thing", is_error=True)
    return history


async def check_odd_histories(case: Case) -> None:
    """Odd conversations from users and other tools are repaired: empty turns, two prompts, orphans, no prompt."""
    made = {"id": "x.1", "function": {"name": "find it", "arguments": "{cut"}}
    asked = LLMMessage.from_dict({"role": "assistant", "content": None, "tool_calls": [made]})
    orphan = LLMMessage("tool", "", tool_call_id="nobody")
    odd = [
        [LLMMessage("assistant", "How can I help?"), LLMMessage("assistant", "Well?"), user("Hi")],
        [user("One"), user("Two"), LLMMessage("assistant", ""), user("Three")],
        [LLMMessage("system", "Be brief.")],
        [user("Look"), asked, user("Well?")],
        [user("Look"), orphan, asked, orphan.replace(tool_call_id="x.1"), user("Well?")],
        [user("Look"), asked, LLMMessage("tool", "ü", tool_call_id="x.1"), LLMMessage("assistant", " \n "), user("?")],
        [LLMMessage("user", [{"type": "text", "text": ""}, {"type": "text", "text": "Hi"}])],
    ]
    async with case.talk(reply("Yes.")) as talk:
        for history in odd:
            assert (await talk.ask(repair(history), TOOLS)).content == "Yes."
