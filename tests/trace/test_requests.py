"""Each request is rebuilt from the tables alone, byte for byte, whatever happened to the conversation."""

import asyncio
import json
import random
from contextlib import suppress
from dataclasses import replace

import pytest
from support.dialects.script import Counts
from support.loopback import Answer, Loopback, said, sse
from support.property_providers import CASES, Step, Wish
from support.property_tools import PNG

from nbagent import Agent, LLMMessage, Trace
from nbagent.errors import ConfigurationError, ProviderError
from nbagent.providers import create_provider
from nbagent.providers.options.resolved import ResolvedOptions

extra_body = {"extra_body": {"user_tag": {"a": 1}}}


async def double(x: int) -> int:
    """Twice x."""
    for _ in range(2 * x):
        await asyncio.sleep(0)  # results arrive in another order than the calls
    return 2 * x


def lookup(x: str = "") -> list:
    """Find it."""
    return [f"found {x}", 1.5]


async def converse(agent, providers, plan):
    """Carry out the planned actions with an agent."""
    for kind, *values in plan:
        if kind == "ask":
            steps, shows_image, more = values
            _, text = providers.question(steps)
            with suppress(ProviderError):  # this provider refuses unknown fields
                await agent.chat([text, PNG] if shows_image else text, max_iterations=3, **more)
        else:
            change(agent, kind, values)


def change(agent, kind, values):
    """Changes that a user can make to a conversation; a number selects a message, if it exists."""
    context, history = agent.context, agent.context.messages
    number = values[0] % len(history) if history and values and type(values[0]) is int else None
    if kind == "add":
        history.insert(number or 0, LLMMessage(*values[1:]))
    elif kind == "system":
        agent.system_prompt = values[0]
    elif kind == "limit":
        context.strategy, context.max_messages = values
    else:
        {"edit": context.edit, "pin": context.pin}[kind](number, *values[1:])


def rebuilt(trace, call_id, provider):
    """The body of a call's request, encoded again from the tables."""
    request = trace.request(call_id)
    effective = request.effective_options
    extra = dict(effective["params"])
    temperature, extra_body = extra.pop("temperature"), extra.pop("extra_body", {})
    sent = ResolvedOptions(request.tools, temperature, effective["stream"], extra, extra_body)
    return provider.codec.encode_request(request.messages, sent, provider.model_name, effective["refused"])


def bodies(trace, provider):
    return [rebuilt(trace, call_id, provider) for call_id in trace.calls["call_id"]]


def check(trace, provider, received):
    assert bodies(trace, provider) == received
    rows = trace.rows("messages")
    ids = [row["message_id"] for row in rows]
    assert len(set(ids)) == len(ids)
    assert {row["parent_id"] for row in rows} <= {*ids, None}


PLAN = [
    ("ask", [Step(calls=(Wish("double", '{"x": 9}'), Wish("lookup"), Wish("made_up")))], True, {"tools": ["double"]}),
    ("pin", 1),
    ("ask", [Step(thinks=True, calls=(Wish("lookup"),) * 2)], False, extra_body),
    ("edit", 1, "Other."),
    ("add", 5, "user", "By hand."),
    ("limit", "summarise", 6),
    ("ask", [Step(calls=(Wish("lookup"),))] * 4, False, {}),
    ("system", None),
    ("ask", [], False, {"max_tokens": 900}),
]


@pytest.fixture(scope="module")
def told(providers, tmp_path_factory):
    """A conversation with many changes: its trace, which was also streamed to a file, and the sent bodies."""
    providers.start_anew()
    case = CASES["claude, streaming"]
    provider = providers.provider(case)
    trace = Trace(max_bytes=10_000)
    path = tmp_path_factory.mktemp("trace") / "streamed.sqlite"
    trace.stream_to(path)

    async def talk():
        agent = Agent(provider, tools=[double, lookup], system_prompt="Be brief.", trace=trace)
        await converse(agent, providers, PLAN)
        await provider.aclose()

    asyncio.run(talk())
    received = [request.body for request in providers.servers[case.name].requests]
    check(trace, provider, received)
    check(Trace.load(path), provider, received)
    return trace, provider, received


def test_files_contain_each_request(told, tmp_path):
    trace, provider, received = told
    for suffix in (".sqlite", ".parquet", ".jsonl"):
        trace.save(tmp_path / f"t{suffix}")
        check(Trace.load(tmp_path / f"t{suffix}"), provider, received)
    with pytest.raises(ConfigurationError, match="call_id"):
        trace.request("call_1")


def test_a_run_has_its_system_prompt(told):
    trace, *_ = told
    runs = trace.runs.loc[trace.runs["source"] == "python", "run_id"].tolist()
    for run_id, texts in ((runs[0], ["Be brief."]), (runs[1], ["Be brief."]), (runs[-1], [])):
        assert trace.run(run_id)["messages"].query("role == 'system'")["text"].tolist() == texts
        assert ("system: Be brief." in str(trace.transcript(run_id))) is bool(texts)
    assert trace.prompts["hash"].is_unique, "shared texts are kept once"
    assert trace.prompts["kind"].tolist().count("tools") == 2


PRICE = {"input": 3.0, "output": 15.0, "cached": 0.3}


def random_plan(chance, takes_images):
    """Prompts with images, thinking and calls, with changes of the conversation in between."""
    plan = []
    for _ in range(chance.randint(3, 8)):
        wishes = [
            Wish("double", json.dumps({"x": chance.randrange(9)})),
            Wish("lookup"),
            Wish("made_up"),
            Wish("lookup", "{"),
        ]
        steps = [
            Step(chance.random() < 0.8, chance.random() < 0.4, tuple(chance.sample(wishes, chance.randrange(1, 4))))
            for _ in range(chance.randrange(3))
        ]
        more = chance.choice([{}, {}, {"tools": ["double"]}, {"max_tokens": 900}])
        plan.append(("ask", steps, takes_images and chance.random() < 0.2, more))
        others = [
            ("edit", chance.randrange(20), "Other."),
            ("pin", chance.randrange(20)),
            ("system", chance.choice([None, "Be kind.", "Answer in German."])),
            ("limit", chance.choice(["summarise", "trim"]), chance.randint(4, 12)),
        ]
        plan += chance.sample(others, chance.randrange(3))
    return plan


@pytest.mark.full
async def test_five_hundred_random_requests_are_rebuilt_with_tokens_and_dollars(providers, tmp_path, monkeypatch):
    counted, step = [], providers.step

    def noted(case, asked):
        cached = chance.randrange(900)
        counts = Counts(cached + chance.randrange(1, 900), chance.randrange(20, 900), cached)
        counted.append(counts)
        return replace(step(case, asked), counts=counts)

    monkeypatch.setattr(providers, "step", noted)
    told = 0
    for seed in range(10_000):
        if told >= 500:
            break
        providers.start_anew()
        counted.clear()
        chance = random.Random(seed)
        case = CASES[chance.choice(sorted(CASES))]
        provider = providers.provider(case, price=PRICE)
        trace = Trace(max_bytes=10_000)
        agent = Agent(provider, tools=[double, lookup], system_prompt="Be brief.", trace=trace)
        await converse(agent, providers, random_plan(chance, provider.codec.facts.takes_images(provider.model_name)))
        await provider.aclose()
        received = [request.body for request in providers.servers[case.name].requests]
        check(trace, provider, received)
        trace.save(tmp_path / f"{seed}.sqlite")
        check(loaded := Trace.load(tmp_path / f"{seed}.sqlite"), provider, received)
        told += len(received)
        calls = loaded.calls
        assert (calls["input_tokens"].sum(), calls["output_tokens"].sum()) == (
            sum(each.input for each in counted),
            sum(each.output for each in counted),
        ), case.name
        dollars = sum(3 * (each.input - each.cached) + 0.3 * each.cached + 15 * each.output for each in counted) / 1e6
        assert loaded.runs["cost_usd"].sum() == pytest.approx(dollars), case.name
    assert told >= 500


async def test_refused_options_are_rebuilt():
    refusal = json.dumps({"error": {"message": "Unsupported parameter: 'top_p' is not supported."}}).encode()
    async with Loopback() as server:
        server.answers = [Answer(refusal, 400), Answer(sse(said("Hi."))), Answer(sse(said("Hi.")))]
        provider = create_provider("open_source", base_url=server.url, model="m1", top_p=0.5)
        agent = Agent(provider)
        await agent.chat("One")
        await agent.chat("Two")
        await provider.aclose()
    assert bodies(agent.trace, provider) == [request.body for request in server.requests[1:]]
    assert [json.loads(text) for text in agent.trace.calls["refused"]] == [{"top_p": None}] * 2


async def test_requests_of_a_loaded_conversation_are_rebuilt(providers, tmp_path):
    providers.start_anew()
    case = CASES["gemini, streaming"]
    provider = providers.provider(case)
    agent = Agent(provider, tools=[double, lookup], system_prompt="Be brief.")
    await agent.chat(providers.question([Step(thinks=True, calls=(Wish("lookup"),))])[1])
    agent.save(tmp_path / "talk.json")
    other = Agent.load(tmp_path / "talk.json", provider)
    await other.chat(providers.question()[1])
    await provider.aclose()
    check(other.trace, provider, [providers.servers[case.name].requests[-1].body])
