"""Parallel runs in a tree exceed their shared budget by one answer together, not by one each."""

import asyncio
import random

import pytest

from nbagent import Agent, Budget, FunctionCall, Limits, LLMResponse, ScriptedProvider, Usage

#: One dollar per million input tokens.
PRICE = {"input": 1.0, "output": 0.0}
#: The tokens of the largest answer.
LARGEST = 100


class Paced(ScriptedProvider):
    """A scripted model whose requests overlap: each answer lets other tasks run first, several times."""

    def __init__(self, script, chance, **options):
        super().__init__(script, **options)
        self.chance = chance
        self.under_way = self.most_under_way = 0

    async def stream(self, request):
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            for _ in range(self.chance.randint(1, 30)):
                await asyncio.sleep(0)
            async for item in super().stream(request):
                yield item
        finally:
            self.under_way -= 1


def answer(text, tokens, *calls):
    return LLMResponse(text, list(calls) or None, metadata={"usage": Usage(tokens - 1, 1)})


def asks(name, count):
    return [FunctionCall(name, {"question": str(n)}, f"{name}{n}") for n in range(count)]


def tree(chance, sizes=lambda: LARGEST, **options):
    """Three agents deep: six parallel children of a boss, with four parallel children each."""

    def level(size, *then):
        def script(messages, functions):
            if messages[-1].role == "tool" or not then:
                return answer("done", sizes())
            return answer("", size(), *then)

        return Paced(script, chance, price=PRICE)

    workers, leads = level(sizes), level(sizes, *asks("worker", 4))
    boss = level(lambda: LARGEST, *asks("lead", 6))  # no other answer is larger
    lead = Agent(leads, tools=[Agent(workers).as_tool("worker", "Does a task.")])
    return Agent(boss, tools=[lead.as_tool("lead", "Leads.")], **options), (boss, leads, workers)


def limit_of(kind, tokens):
    dollars = tokens / 1e6
    return {
        "tokens": {"limits": Limits(max_total_tokens=tokens)},
        "input tokens": {"limits": Limits(max_input_tokens=tokens)},
        "dollars": {"limits": Limits(max_cost=dollars)},
        "a budget": {"budget": Budget(max_cost=dollars)},
    }[kind]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["tokens", "input tokens", "dollars", "a budget"])
async def test_a_tree_exceeds_its_budget_by_less_than_one_answer(kind, seed):
    chance = random.Random(seed)
    tokens = chance.randint(150, 3_000)
    agent, _ = tree(chance, lambda: chance.randint(2, LARGEST), **limit_of(kind, tokens))
    result = await agent.chat("go")
    spent = result.usage.total_tokens if kind == "tokens" else result.usage.input_tokens
    assert spent < tokens + LARGEST
    if result.status == "limit":
        assert spent >= tokens


async def test_no_run_waits_while_enough_budget_is_left():
    agent, (_, leads, workers) = tree(random.Random(1), limits=Limits(max_total_tokens=1_000_000))
    assert (await agent.chat("go")).status == "ok"
    assert leads.most_under_way == 6
    assert workers.most_under_way > 4


async def test_a_request_does_not_wait_for_an_answer_that_is_only_partly_read():
    inner, streamed = (Agent(ScriptedProvider(lambda *_: answer("a b c", 2))) for _ in range(2))

    async def ask() -> str:
        """Ask."""
        async for event in streamed.chat_stream("go"):
            if event.type == "text":
                return (await inner.chat("while another answer comes")).content
        return "nothing came"

    turns = [answer("", LARGEST, FunctionCall("ask", {}, "c1")), answer("end", 2)]
    boss = Agent(ScriptedProvider(turns), tools=[ask], limits=Limits(max_total_tokens=LARGEST + 20))
    result = await boss.chat("go")
    assert (result.status, result.function_calls[0]["result"]) == ("ok", "a b c")
