"""The conformance kit: what a user can rely on with every provider, one function for each behaviour.

Each `check_…` takes a `Case` (see `conformance_case`), raises `AssertionError` where the provider does something else,
and says in its docstring what is promised. `test_conformance` runs all of them for every provider of the catalog.

A provider's dialect refuses requests that the provider would refuse; a check fails where any was refused.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from itertools import pairwise

import pytest

from nbagent.core.events import ToolCallDelta
from nbagent.core.messages import LLMMessage, Usage
from nbagent.errors import ImageInputError
from support import conformance_histories, conformance_trouble
from support.conformance_case import FINDING, LOOKING, ODD_TOOLS, RICH, SECOND, TOOLS, Case, answered, results, user
from support.dialects.base import Asked
from support.dialects.script import Counts, Reply, call, reply, said, thought
from support.requests import streamed

PIECES = ("Grüße ", "aus 東", "京 🗼", "\n\n", "– 終わり.")
WHOLE = "".join(PIECES)
PNG = {"type": "image", "media_type": "image/png", "data": "aWNvbg=="}


async def check_text_in_pieces(case: Case) -> None:
    """Pieces of text are shown one by one and joined unchanged, with spaces, line ends and all scripts."""
    async with case.talk(reply(said(*PIECES))) as talk:
        answer = await talk.ask()
    assert answer.content == talk.text == WHOLE


async def check_empty_answer(case: Case) -> None:
    """An empty answer is an answer, not an error."""
    async with case.talk(reply()) as talk:
        answer = await talk.ask()
    assert (answer.content, answer.function_calls, talk.text) == ("", None, "")


async def check_line_ends_comments_and_new_events(case: Case) -> None:
    """Lines may end with CR or lack the space after a field's name. Comments, pings and new events are ignored."""
    for newline in ("\n", "\r\n", "\r"):
        async with case.talk(reply(said(*PIECES), newline=newline, noise=True, step=7)) as talk:
            answer = await talk.ask()
        assert answer.content == talk.text == WHOLE, repr(newline)
        assert answer.finish_reason == "stop"


async def check_thinking_is_shown(case: Case) -> None:
    """Thinking is shown as it arrives, apart from the text, and kept in the answer's metadata."""
    async with case.talk(reply(thought("Hm, ", "東京?"), "Yes.")) as talk:
        answer = await talk.ask()
    assert talk.thinking == answer.metadata["thinking"] == "Hm, 東京?"
    assert answer.content == talk.text == "Yes."


async def check_thinking_goes_back(case: Case) -> None:
    """Thinking goes back to the same provider, unmodified and in its place, if the provider wants it."""
    closing = reply(thought("Enough.", signature="Y2xvc2luZw=="), "Nothing there.")
    async with case.talk(RICH, closing, reply("Bye.")) as talk:
        first, second = await talk.call_tools()
        history = [user("Look"), answered(first), *results(first), answered(second), user("Thanks")]
        await talk.ask(history, TOOLS)  # the dialect compares
        sent = talk.asked.raw.decode()
        wanted = case.dialect.wants_thinking_back
        assert ("Let me see" in sent or RICH.thoughts[0].signature in sent) is wanted
        reloaded = [LLMMessage.from_dict(json.loads(json.dumps(message.to_dict()))) for message in history]
        await talk.ask(reloaded, TOOLS)
        assert talk.asked.raw.decode() == sent


async def check_one_tool_call(case: Case) -> None:
    """A call has a name, an id and its arguments as a dict. Its result is accepted, as are tools with any schema."""
    async with case.talk(reply(FINDING), reply("Nothing there.")) as talk:
        first, second = await talk.call_tools()
    (made,) = first.function_calls
    assert (made.name, made.arguments, made.raw, bool(made.id)) == ("find", {"path": "/tmp"}, None, True)
    assert second.content == "Nothing there."


async def check_parallel_tool_calls(case: Case) -> None:
    """Several calls in one answer stay separate and in order, with arguments and ids. All results go back."""
    async with case.talk(RICH, reply("Nothing there.")) as talk:
        first, second = await talk.call_tools()
    calls = first.function_calls
    expected = [("find", {"path": "/tmp"}), ("find", {"path": "/ü"}), ("now", {})]
    assert [(made.name, made.arguments) for made in calls] == expected
    assert len({made.id for made in calls}) == 3
    assert second.content == "Nothing there."


_SCHEMAS = ("parameters", "parametersJsonSchema", "input_schema")


async def check_odd_tools(case: Case) -> None:
    """No tool makes a prompt fail, whatever its schema and names. Calls have the tools' original names."""

    def answer(asked: Asked) -> Reply:
        (tools,) = [tool.get("functionDeclarations", asked.body["tools"]) for tool in asked.body["tools"][:1]]
        tool = tools[0].get("function", tools[0])
        (name,) = next(tool[field] for field in _SCHEMAS if field in tool)["properties"]
        made = call(tool["name"], json.dumps({name: "巴黎"}), id="call_a1")
        return reply("Sunny.") if len(asked.turns) > 1 else reply(thought("Hm.", signature="b3Zlcg=="), made)

    async with case.talk_by(answer) as talk:
        first = await talk.ask("Look", ODD_TOOLS)
        assert {item.tool_name for item in talk.items if isinstance(item, ToolCallDelta)} <= {None, "天气"}
        second = await talk.ask([user("Look"), answered(first), *results(first)], ODD_TOOLS)
    assert [(made.name, made.arguments) for made in first.function_calls] == [("天气", {"城市": "巴黎"})]
    assert second.content == "Sunny."


async def check_arguments_in_pieces(case: Case) -> None:
    """The pieces of arguments that were shown, by index, add up to the arguments of the calls."""
    async with case.talk(reply(FINDING, SECOND)) as talk:
        await talk.ask("Look", TOOLS)
    shown = [json.loads(text) for _, text in sorted(talk.arguments.items())]
    assert shown == ([{"path": "/tmp"}, {"path": "/ü"}] if case.streaming else [])


async def check_empty_arguments(case: Case) -> None:
    """A tool without parameters may be called without arguments, which means `{}` and goes back as that."""
    async with case.talk(reply(LOOKING), reply("Noon.")) as talk:
        first, _ = await talk.call_tools()
    assert [(c.name, c.arguments, c.raw) for c in first.function_calls] == [("now", {}, None)]


async def check_ids_are_made_unique(case: Case) -> None:
    """Calls without an id, or with the same id, are kept apart, even in different turns."""
    nameless = [call("find", f'{{"path": "/{n}"}}', id="") for n in range(2)]
    twins = [call("find", f'{{"path": "/{n}"}}', id="call_0") for n in range(2, 4)]
    again = call("find", '{"path": "/4"}', id="call_0")

    def find(path: str) -> str:
        return f"{path} is empty"

    async with case.talk(reply(*nameless), reply(*twins), reply(again), reply("Nothing.")) as talk:
        agent = talk.agent(find)
        result = await agent.chat("Look")
    assert [made["result"] for made in result.function_calls] == [f"/{n} is empty" for n in range(5)]
    ids = [made.id for message in agent.conversation_history for made in message.tool_calls or ()]
    assert len(set(filter(None, ids))) == 5
    assert [made["id"] for made in result.function_calls] == ids


async def check_cut_arguments_do_not_run(case: Case) -> None:
    """A call cut off by the token limit never runs as if it had no arguments, and the model learns why."""

    def now() -> str:
        raise AssertionError("it runs")

    cut = call("now", '{"path": "/', id="call_c1")
    async with case.talk(reply("I will.", cut, finish="length"), reply("Sorry.")) as talk:
        result = await talk.agent(now).chat("Time?")
    (made,) = result.function_calls
    assert (made["is_error"], "it runs" in made["result"], result.content) == (True, False, "Sorry.")


async def check_arguments_that_are_no_json(case: Case) -> None:
    """Calls with numbers that JSON lacks don't run, and the conversation continues without them."""

    def find(path: float) -> str:
        raise AssertionError("it runs")

    odd = [call("find", f'{{"path": {number}}}', id=f"call_{number}") for number in ("NaN", "1e999")]
    async with case.talk(reply(*odd), reply("Sorry.")) as talk:
        result = await talk.agent(find).chat("Look")
    errors = [made["is_error"] and "NaN" in made["result"] for made in result.function_calls]
    assert (errors, result.content) == ([True, True], "Sorry.")


async def check_usage(case: Case) -> None:
    """Input includes cached tokens, output includes reasoning, and later counts replace earlier ones."""
    written = 3 if case.dialect.counts_written else 0
    async with case.talk(reply("Yes.", counts=Counts(120, 50, 100, written, 30))) as talk:
        answer = await talk.ask()
    assert answer.usage == Usage(120, 50, 100, written, 30)
    assert answer.metadata["usage_raw"]


async def check_finish_reasons(case: Case) -> None:
    """`finish_reason` translates the provider's own word, which is kept; None for a new word."""
    words, new = case.dialect.words, case.dialect.new_word
    called = "tool_calls" if "tool_calls" in words else "stop"
    answers = [(reply("Yes.", finish=reason), reason, word) for reason, word in words.items() if reason != "tool_calls"]
    for answer, *expected in [*answers, (reply(LOOKING), called, words[called]), (reply("Yes.", word=new), None, new)]:
        async with case.talk(answer) as talk:
            response = await talk.ask("Hi", TOOLS)
        assert [response.finish_reason, response.metadata["finish_reason_raw"]] == expected


async def check_system_prompt(case: Case) -> None:
    """The system prompt reaches the model as the provider wants it."""
    async with case.talk(reply("Yes.")) as talk:
        await talk.ask([LLMMessage("system", "Be brief, ü."), user("Hi")])
        assert talk.asked.system == "Be brief, ü."


async def check_images(case: Case) -> None:
    """Images in messages and tool results reach the model. A text-only model refuses a prompt with one."""
    shown = [LLMMessage("user", [{"type": "text", "text": "See:"}, PNG])]
    async with case.talk(reply(FINDING), reply("A plot."), reply("An icon.")) as talk:
        first = await talk.ask("Look", TOOLS)
        result = results(first)[0].replace(content=[{"type": "text", "text": "a plot"}, {**PNG, "data": "cGxvdA=="}])
        await talk.ask([user("Look"), answered(first), result], TOOLS)
        assert talk.asked.images == (["cGxvdA=="] if case.dialect.sees else [])
        if case.dialect.sees:
            await talk.ask(shown)
            assert talk.asked.images == ["aWNvbg=="]
        else:
            with pytest.raises(ImageInputError, match="does not accept images"):
                await talk.ask(shown)


async def check_temperature(case: Case) -> None:
    """`temperature` is sent if the model accepts one, raised to the provider's minimum, and omitted if refused."""
    async with case.talk(reply("Yes.")) as talk:
        await talk.ask(temperature=1.0)
        assert talk.asked.temperature == (1.0 if case.dialect.takes_temperature else None)
        await talk.ask(temperature=0.0)
        assert talk.asked.temperature == (case.dialect.least_temperature if case.dialect.takes_temperature else None)


async def check_output_limit(case: Case) -> None:
    """`max_tokens` limits the output, whatever the provider calls it, for all requests or for one."""
    async with case.talk(reply("Yes."), max_tokens=50) as talk:
        await talk.ask()
        assert talk.asked.limit == 50
        await talk.ask(max_tokens=70)
        assert talk.asked.limit == 70


async def check_further_fields(case: Case) -> None:
    """The fields in `extra_body` become fields of the request, for all requests or for one."""
    name, value = case.dialect.extra
    for always, once in [({"extra_body": {name: value}}, {}), ({}, {"extra_body": {name: value}})]:
        async with case.talk(reply("Yes."), **always) as talk:
            await talk.ask(**once)
            assert talk.asked.body[name] == value
            await talk.ask()
            assert (name in talk.asked.body) is bool(always)


async def check_unknown_model(case: Case) -> None:
    """A model newer than this package works: its name is sent unchanged."""
    async with case.talk(RICH, reply("Nothing there."), model="some-model-of-2031") as talk:
        await talk.call_tools(max_tokens=50)
        assert talk.asked.model == talk.provider.model_name == "some-model-of-2031"


async def check_prefix_is_stable(case: Case) -> None:
    """Each request starts byte for byte with the previous one, on which the providers' caches depend."""
    async with case.talk(RICH, reply("Nothing."), reply("You are welcome."), reply("Bye.")) as talk:
        history = [LLMMessage("system", "Be brief."), user("Look")]
        for following in ("", "Thanks", "Bye"):
            response = await talk.ask(history, TOOLS)
            history += [answered(response), *(results(response) or [user(following)])]
        await talk.ask(history, TOOLS)
        bodies = [case.dialect.without_marks(asked.raw) for asked in talk.server.asked]
    for before, after in pairwise(bodies):
        assert before.endswith(b"]}")
        assert after.startswith(before[:-2])


async def check_the_provider_is_stateless(case: Case) -> None:
    """Two concurrent conversations on one provider do not mix."""

    def echo(asked: Asked) -> Reply:
        topic = "alpha" if b"alpha" in asked.raw else "omega"
        if b"nothing of" in asked.raw:
            return reply(thought(f"{topic} again", signature=f"{topic}=="), f"No {topic}.")
        calls = call("find", json.dumps({"path": topic}), id=f"c_{topic}")
        return reply(thought(f"On {topic}", signature=f"{topic}+"), f"See {topic}.", calls)

    async with case.talk_by(echo) as talk:

        async def converse(topic: str, other: str) -> None:
            history = [user(f"Find {topic}")]
            for _ in range(2):
                async with aclosing(streamed(talk.provider, history, TOOLS)) as stream:
                    async for item in stream:
                        await asyncio.sleep(0)  # let the other one go on
                        last = item
                assert other not in last.content
                history += [answered(last), *results(last, f"nothing of {topic}")]
            assert last.content == f"No {topic}."

        await asyncio.gather(converse("alpha", "omega"), converse("omega", "alpha"))
        assert not any(b"alpha" in asked.raw and b"omega" in asked.raw for asked in talk.server.asked)


CHECKS = [
    check
    for part in (globals(), vars(conformance_histories), vars(conformance_trouble))
    for name, check in sorted(part.items())
    if name.startswith("check_")
]
