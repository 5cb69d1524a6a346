"""Random conversations with all vendors, whatever happens in them: valid for each wire format, and they go on.

Questions with tool loops, troubles and interrupts follow each other, mixed with all that a user may do to a history.
The providers are real, the servers refuse what the vendors refuse. After each step the conversation is held against
every vendor's rules, and a copy of it goes on.
"""

import asyncio
import logging
from contextlib import suppress

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from support.property_tools import PNG, registry
from support.property_vendors import CASES, RULES, Step, Vendors, Wish

from nbagent import Agent, FunctionCall, LLMMessage
from nbagent.core.history.repair import CONTINUE, repair
from nbagent.errors import NbagentError, ProviderError

TOOLS = str.split("add wait fail draw ask_first exclusive hang block")
ARGUMENTS = [
    '{"a": 1}',
    '{"a": 1, "b": 2}',
    '{"a": "many"}',
    "{}",
    "",
    "null",
    "[1]",
    "{cut",
    '"{\\"a\\": 3}"',
    "{'a': 1}",
]
INTERRUPTED = (asyncio.CancelledError, KeyboardInterrupt)

wishes = st.builds(
    Wish,
    st.sampled_from([*TOOLS, *TOOLS, "stop", "clear", "made_up", "functions.add"]),
    st.sampled_from(ARGUMENTS),
    st.sampled_from(["own", "own", "own", "same", "none", "odd"]),
)
steps = st.builds(
    Step,
    text=st.booleans(),
    thinks=st.booleans(),
    calls=st.lists(wishes, max_size=3).map(tuple),
    trouble=st.sampled_from(["", "", "", "", "", "", "error", "end", "overloaded", "rate_limit", "context"]),
    cut=st.sampled_from([False, False, False, True]),
    tokens=st.sampled_from([20, 20, 2_000]),
)
plans = st.lists(steps, max_size=4)
stalling = st.tuples(plans, st.booleans()).map(lambda drawn: [*drawn[0], *[Step(trouble="stall")] * drawn[1]])
indexes = st.integers(0, 99)
texts = st.sampled_from(["Well.", "  \n", "", "Ünïcode 東", "\ud83d"])
contents = texts | st.just([{"type": "text", "text": "Look:"}, PNG])
moments = st.sampled_from([0.0, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016])
calls = st.builds(
    FunctionCall,
    st.sampled_from(["add", "no tool", ""]),
    st.just({"a": 1}),
    st.sampled_from([None, "call_0", "x.1", "y" * 99]),
    st.sampled_from([None, "{cut"]),
)
messages = st.one_of(
    st.builds(LLMMessage, st.sampled_from(["user", "assistant", "system"]), contents),
    st.builds(LLMMessage, st.just("assistant"), texts, tool_calls=st.lists(calls, min_size=1, max_size=2)),
    st.builds(LLMMessage, st.just("tool"), contents, tool_call_id=st.sampled_from([None, "call_0", "x.1", "stray"])),
)


class Conversation(RuleBasedStateMachine):
    """An agent in conversation, and what may happen to it."""

    vendors: Vendors
    loop: asyncio.AbstractEventLoop
    folder = None

    def __init__(self):
        super().__init__()
        self.vendors.start_anew()
        self.complaints = []
        self.loop.set_exception_handler(lambda _, context: self.complaints.append(context))
        self.providers = {}
        self.left = []  # agents that were forked, with their history at that moment
        self.answers = []  # to requests for approval
        self.vendors.history = lambda: self.agent.conversation_history
        self.agent = Agent(self.provider(CASES["claude, streaming"]), self.tools(), "You help.", approve=self.approve)

    def teardown(self):
        for provider in self.providers.values():
            self.run(provider.aclose())
        assert not self.complaints

    # ------------------------------------------------------------------ asking

    @rule(plan=plans, way=st.sampled_from(["chat", "stream", "for", "sync"]), answers=st.lists(st.integers(0, 4)))
    def ask(self, plan, way, answers):
        self.answers = answers
        self.turn(plan, getattr(self, f"by_{way}"))

    @rule(plan=stalling, after=moments)
    def cancel(self, plan, after):
        self.turn(plan, lambda text: self.run(self.cancelled(self.agent.chat(text), after)))

    @rule(plan=plans, events=st.integers(1, 12), way=st.sampled_from(["break", "plain break", "cancel"]))
    def stop_after(self, plan, events, way):
        def by_cancel(text):
            return self.run(self.cancelled_after(text, events))

        ways = {"break": self.by_stream, "plain break": self.by_for}
        self.turn(plan, by_cancel if way == "cancel" else lambda text: ways[way](text, events))

    @rule()
    def show_an_image(self):
        _, text = self.vendors.question()
        with suppress(ProviderError):  # some take no images
            self.run(self.agent.chat([text, PNG]))

    # ------------------------------------------------------------------ changing the conversation

    @rule(vendor=st.sampled_from([*CASES]))
    def switch_vendor(self, vendor):
        self.agent.provider = self.provider(CASES[vendor])

    @rule()
    def undo(self):
        self.agent.undo()

    @rule(go_on=st.booleans())
    def fork(self, go_on):
        fork = self.agent.fork()
        assert fork.conversation_history == self.agent.conversation_history
        if go_on:
            self.agent, fork = fork, self.agent
        self.left.append((fork, list(fork.conversation_history)))

    @rule()
    def clear(self):
        self.agent.clear_history()

    @rule(number=indexes, content=contents)
    def edit(self, number, content):
        if history := self.agent.conversation_history:
            self.agent.context.edit(number % len(history), content)

    @rule(number=indexes, pinned=st.booleans())
    def pin(self, number, pinned):
        if history := self.agent.conversation_history:
            self.agent.context.pin(history[number % len(history)], pinned)

    @rule(number=indexes, count=st.integers(1, 3))
    def delete_messages(self, number, count):
        if history := self.agent.conversation_history:
            del history[number % len(history) :][:count]

    @rule(number=indexes, message=messages)
    def insert_a_message(self, number, message):
        history = self.agent.conversation_history
        history.insert(number % (len(history) + 1), message)

    @rule(number=indexes, place=indexes)
    def repeat_a_message(self, number, place):
        if history := self.agent.conversation_history:
            history.insert(place % len(history), history[number % len(history)])

    @rule(others=st.lists(messages, max_size=4))
    def replace_the_history(self, others):
        self.agent.context.replace_history(others)

    @rule(text=st.sampled_from([None, "", "Be brief.", "  "]))
    def set_system_prompt(self, text):
        self.agent.system_prompt = text

    @rule(
        most=st.sampled_from([None, 1, 4, 10]),
        tokens=st.sampled_from([None, 1, 50, 1_000]),
        strategy=st.sampled_from(["trim", "summarise"]),
    )
    def limit(self, most, tokens, strategy):
        context = self.agent.context
        context.max_messages, context.max_tokens, context.strategy = most, tokens, strategy

    @rule()
    def save_and_load(self):
        path = self.folder / "conversation.json"
        self.agent.save(path)
        repaired = [message.to_dict() for message in repair(self.agent.conversation_history)]
        self.agent = Agent.load(path, self.agent.provider, function_registry=self.tools(), approve=self.approve)
        assert [message.to_dict() for message in self.agent.conversation_history] == repaired

    # ------------------------------------------------------------------ what always holds

    @invariant()
    def every_vendor_takes_it(self):
        history = self.agent.conversation_history
        before = list(history)
        repaired = repair(history)
        assert history == before, "repair must not change its argument"
        assert repair(repaired) == repaired
        assert not self.vendors.refusals, self.vendors.refusals
        asked = [*repaired, LLMMessage("user", "And?")]
        functions = self.agent.tool_executor.list_functions()
        refusals = [self.vendors.refused_by(case, self.provider(case), asked, functions) for case in RULES]
        assert not any(refusals), "\n".join(filter(None, refusals))

    @invariant()
    def the_next_turn_works(self):
        history = self.agent.conversation_history
        before = list(history)
        other = self.agent.fork()
        number, text = self.vendors.question()
        result = self.run(other.chat(text))
        assert (result.status, result.content) == ("ok", self.vendors.finals[number])
        assert not self.vendors.refusals, self.vendors.refusals
        assert all(now is then for now, then in zip(history, before, strict=True)), "a fork must leave it alone"
        self.is_accounted_for(other)

    @invariant()
    def forks_leave_the_others_alone(self):
        for agent, history in self.left:
            assert all(now is then for now, then in zip(agent.conversation_history, history, strict=True))

    def is_accounted_for(self, agent):
        """The trace tells of each run how it ended, and of each call what came of it."""
        assert "running" not in {row["status"] for row in agent.trace.rows("runs")}
        assert all(row.get("is_error") is not None for row in agent.trace.rows("tool_calls"))
        assert all(row.get("duration_s") is not None for row in agent.trace.rows("calls"))

    # ------------------------------------------------------------------ how

    def turn(self, plan, ask):
        """One question, whatever comes of it; what was valid stays so, unless a tool of it clears the history."""
        history = self.agent.conversation_history
        clears = any(wish.name == "clear" for step in plan for wish in step.calls)
        valid = repair(history) == history and not clears
        number, text = self.vendors.question(plan)
        result = None
        with suppress(ProviderError, *INTERRUPTED):
            result = ask(text)
        self.run(self.settled())
        if result is not None and result.status == "ok" and not clears:
            assert result.content == self.vendors.finals[number]
        self.is_accounted_for(self.agent)
        assert not self.vendors.refusals, self.vendors.refusals
        if valid:
            # a question that failed is taken back, and may have been the only one that was left
            assert repair(history) in (history, [*history, CONTINUE]), history

    def by_chat(self, text):
        return self.run(self.agent.chat(text, max_iterations=5))

    def by_sync(self, text):
        return self.agent.chat_sync(text, max_iterations=5)

    def by_stream(self, text, most=0):
        async def read():
            stream = self.agent.chat_stream(text, max_iterations=5)
            number = 0
            async for _ in stream:
                number += 1
                if number == most:
                    return None
            return stream.result()

        return self.run(read())

    def by_for(self, text, most=0):
        stream = self.agent.chat_stream(text, max_iterations=5)
        for number, _ in enumerate(stream, 1):
            if number == most:
                return None
        return stream.result()

    async def cancelled(self, running, after):
        task = asyncio.create_task(running)
        await asyncio.wait([task], timeout=after)
        task.cancel()
        return await task

    async def cancelled_after(self, text, most):
        """Cancelled by itself, at the first wait after so many events."""
        number = 0
        async for event in self.agent.chat_stream(text):
            number += 1
            if number == most:
                asyncio.current_task().cancel()
            if event.type == "done":
                return event.result
        return None

    async def settled(self):
        """A stream that was dropped is closed by the event loop."""
        async with asyncio.timeout(300):
            while "running" in {row["status"] for row in self.agent.trace.rows("runs")}:
                await asyncio.sleep(0.001)

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def provider(self, case):
        key = (case.name, case.streaming)
        if key not in self.providers:
            self.providers[key] = self.vendors.provider(case, max_retries=2)
        return self.providers[key]

    def tools(self):
        return registry(lambda: self.agent.clear_history())

    async def approve(self, call, definition):
        answer = [True, False, {"a": 5}, {"a": "x"}, None][self.answers.pop() if self.answers else 0]
        if answer is None:
            raise NbagentError("nobody is there")
        return answer


@pytest.mark.hypothesis
def test_any_conversation_goes_on_with_any_vendor(vendors, monkeypatch, tmp_path, caplog):
    monkeypatch.setattr("nbagent.providers.http.retry.FIRST_WAIT_S", 0.001)
    caplog.set_level(logging.CRITICAL, "nbagent")  # tools fail here by the thousand
    Conversation.vendors, Conversation.folder = vendors, tmp_path
    Conversation.loop = asyncio.new_event_loop()
    try:
        # moments differ from run to run, so that shrinking would take minutes and find little
        chosen = settings(
            max_examples=min(settings().max_examples, 1_000),
            stateful_step_count=10,
            phases=set(Phase) - {Phase.shrink, Phase.explain},
            suppress_health_check=list(HealthCheck),
        )
        run_state_machine_as_test(Conversation, settings=chosen)
    finally:
        Conversation.loop.run_until_complete(Conversation.loop.shutdown_asyncgens())
        Conversation.loop.close()
