"""`repair` makes any history valid, is idempotent, and keeps valid messages unchanged."""

import random

import pytest
from support.property_providers import RULES
from support.property_tools import PNG

from nbagent import FunctionCall, LLMMessage
from nbagent.core.history.repair import NO_RESULT, repair
from nbagent.functions.registry import FunctionRegistry


def call(id, name="f"):
    return FunctionCall(name, {}, id)


def asks(*ids):
    return LLMMessage("assistant", "", tool_calls=[call(i) for i in ids])


def gives(id, text="ok"):
    return LLMMessage("tool", text, name="f", tool_call_id=id)


USER = LLMMessage("user", "hello")


def is_valid(messages):
    """An independent check of the roles, and of exactly one result for each call, directly after it and in order."""
    index = 0
    roles = [m.role for m in messages]
    if "system" in roles[1:] or (messages and "user" not in roles):
        return False
    while index < len(messages):
        message = messages[index]
        if message.role == "tool":
            return False
        ids = [c.id for c in message.tool_calls or []]
        results = messages[index + 1 : index + 1 + len(ids)]
        if len(set(ids)) != len(ids) or None in ids:
            return False
        if [m.role for m in results] != ["tool"] * len(ids) or [m.tool_call_id for m in results] != ids:
            return False
        if message.role == "assistant" and not message.content and not ids:
            return False
        index += 1 + len(ids)
    return True


def test_a_valid_history_stays_the_same_objects():
    history = [LLMMessage("system", "s"), USER, asks("a", "b"), gives("a"), gives("b"), LLMMessage("assistant", "x")]
    repaired = repair(history)
    assert all(new is old for new, old in zip(repaired, history, strict=True))


def test_a_missing_result_becomes_an_error_and_results_follow_their_calls():
    repaired = repair([USER, asks("a", "b", "c"), gives("c"), gives("b")])
    assert [(m.tool_call_id, m.is_error) for m in repaired[2:]] == [("a", True), ("b", False), ("c", False)]
    assert repaired[2].content == NO_RESULT


@pytest.mark.parametrize(
    ("history", "roles"),
    [
        ([USER, gives("a")], ["user"]),
        ([USER, asks("a"), gives("a"), gives("a", "again")], ["user", "assistant", "tool"]),
        ([USER, asks("a"), gives("a"), gives("z")], ["user", "assistant", "tool"]),
        ([USER, LLMMessage("assistant", "")], ["user"]),
        ([USER, LLMMessage("system", "s")], ["system", "user"]),
        ([LLMMessage("system", "s")], ["system", "user"]),
        ([USER, asks("a"), USER, gives("a")], ["user", "assistant", "tool", "user"]),
        ([USER, LLMMessage("user", " \n"), LLMMessage("system", ""), LLMMessage("assistant", " ")], ["user"]),
        ([LLMMessage("user", [{"type": "text", "text": ""}]), USER], ["user"]),
        ([LLMMessage("user", [{"type": "image", "url": "https://a.example/b.png"}])], ["user"]),
        ([LLMMessage("assistant", "", provider_extras={"provider": "claude"}), USER], ["assistant", "user"]),
        ([], []),
    ],
)
def test_only_messages_that_providers_reject_are_removed(history, roles):
    assert [m.role for m in repair(history)] == roles


def test_results_with_reused_ids_are_paired_within_their_turn():
    history = [USER, asks("call_0"), gives("call_0", "one"), USER, asks("call_0"), gives("call_0", "two")]
    assert [m.content for m in repair(history) if m.role == "tool"] == ["one", "two"]


@pytest.mark.parametrize("ids", [(None, None), ("a", "a")])
def test_results_without_unique_ids_are_paired_in_order(ids):
    history = [USER, LLMMessage("assistant", "", tool_calls=[call(i, "g") for i in ids])]
    history += [gives(i, text) for i, text in zip(ids, ["one", "two"], strict=True)]
    repaired = repair(history)
    assert is_valid(repaired)
    assert [(m.name, m.content) for m in repaired if m.role == "tool"] == [("g", "one"), ("g", "two")]


def random_history(rng):
    kinds = [
        lambda: USER,
        lambda: LLMMessage("assistant", rng.choice(["", "text"])),
        lambda: asks(*(rng.choice("abcd") for _ in range(rng.randint(1, 3)))),
        lambda: gives(rng.choice("abcde")),
        lambda: LLMMessage("system", "s"),
    ]
    return [rng.choice(kinds)() for _ in range(rng.randint(0, 12))]


@pytest.mark.parametrize("runs", [2_000, pytest.param(20_000, marks=pytest.mark.full)])
def test_any_history_becomes_valid_and_stays_valid(runs):
    rng = random.Random(1)
    for _ in range(runs):
        history = random_history(rng)
        before = list(history)
        once = repair(history)
        assert history == before, "repair must not change its argument"
        systems = sum(m.role == "system" for m in once)
        assert is_valid(once[max(0, systems - 1) :]), history
        assert repair(once) == once
        cut = len(once)
        more = random_history(rng)
        assert repair(once + more, valid=cut) == repair(once + more), "the shortcut must give the same result"


TEXTS = ["Well.", "  \n", "", "Ünïcode 東", "\ud83d"]
CONTENTS = [*TEXTS, [{"type": "text", "text": "Look:"}, PNG]]
IDS = [None, "call_0", "x.1", "y" * 99]


def odd_message(rng):
    """A message as users, other tools or careless models may leave it, with any id, name, content and arguments."""
    kind = rng.choice(["user", "assistant", "system", "calls", "tool"])
    if kind == "tool":
        return LLMMessage("tool", rng.choice(CONTENTS), tool_call_id=rng.choice(IDS))
    if kind != "calls":
        return LLMMessage(kind, rng.choice(CONTENTS))
    names, raws = ["add", "no tool", ""], [None, "{cut"]
    made = [FunctionCall(rng.choice(names), {"a": 1}, rng.choice(IDS), rng.choice(raws)) for _ in range(2)]
    return LLMMessage("assistant", rng.choice(TEXTS), tool_calls=made)


def test_every_provider_accepts_any_repaired_history(providers):
    providers.start_anew()
    tools, rng = FunctionRegistry(), random.Random(1)
    tools.register("add", "", lambda a, b=1: a + b)
    clients = [(case, providers.provider(case)) for case in RULES]
    for _ in range(100):
        history = repair([odd_message(rng) for _ in range(rng.randint(0, 9))])
        assert repair(history) == history
        asked = [*history, USER]
        refusals = [providers.refused_by(case, provider, asked, tools.list_functions()) for case, provider in clients]
        assert not any(refusals), "\n".join(filter(None, refusals))
