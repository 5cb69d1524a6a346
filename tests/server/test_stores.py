"""The promises of every conversation store."""

import asyncio
import time

import pytest

from nbagent.core.messages import FunctionCall, LLMMessage
from nbagent.errors import ConfigurationError, TurnLostError
from nbagent.server.conversations.opening import open_store
from nbagent.server.conversations.store import Decision, KeptAnswer, Lease, Spent, WaitingCall

ANNA, BERT = "owner-a", "owner-b"


def turn_of(question, answer="Yes."):
    return [LLMMessage("user", question), LLMMessage("assistant", answer)]


async def add_turn(store, conversation_id, question="Is it?", owner=ANNA, **options):
    async with store.turn(owner, conversation_id) as turn:
        before = turn.conversation.messages if turn.conversation else ()
        await store.save(owner, Spent(0.5, 10), turn=turn, messages=[*before, *turn_of(question)], **options)


def questions(conversation):
    return [m.text for m in conversation.messages if m.role == "user"]


# -- conversations ----------------------------------------------------------------------------------------------------


async def test_a_conversation_is_loaded_as_it_was_saved(store):
    call = FunctionCall("weather", {"city": "Zürich 💩", "n": [1, None]}, "call_1")
    messages = [
        LLMMessage("system", "Be brief."),
        LLMMessage("user", "How is\n the weather?", message_id="message_1"),
        LLMMessage("assistant", "", tool_calls=[call], provider_extras={"provider": "claude", "blocks": [{"a": 1}]}),
        LLMMessage("tool", "snow", name="weather", tool_call_id="call_1", is_error=True),
        LLMMessage("assistant", [{"type": "text", "text": "Snow."}], interrupted=True),
    ]
    began = time.time()
    async with store.turn(ANNA, "c1") as turn:
        assert turn.conversation is None
        await store.save(ANNA, Spent(0.25, 7), turn=turn, messages=messages, recorded={"calls": [{"model": "m"}]})
    found = await store.get(ANNA, "c1")
    assert list(found.messages) == messages
    assert [m.message_id for m in found.messages] == [m.message_id for m in messages]
    assert (found.id, found.owner, found.title) == ("c1", ANNA, "How is the weather?")
    assert (found.message_count, found.spent) == (5, Spent(0.25, 7))
    assert began <= found.created == found.updated <= time.time()
    assert found.recorded == ({"calls": [{"model": "m"}]},)
    async with store.turn(ANNA, "c1") as turn:  # the history was trimmed
        await store.save(ANNA, Spent(), turn=turn, messages=[*messages[1:], *turn_of("On?")], recorded={"calls": []})
    assert [*(await store.get(ANNA, "c1")).recorded] == [{"calls": [{"model": "m"}]}, {"calls": []}]


async def test_a_turn_can_change_and_shorten_the_conversation(store):
    await add_turn(store, "c1", "first")
    await add_turn(store, "c1", "second")
    created = (await store.get(ANNA, "c1")).created
    async with store.turn(ANNA, "c1") as turn:
        begins = turn.conversation.messages[:2]
        await store.save(ANNA, Spent(), turn=turn, messages=[*begins, *turn_of("second, edited")])
    async with store.turn(ANNA, "c1") as turn:
        await store.save(ANNA, Spent(), turn=turn, messages=begins)
    async with store.turn(ANNA, "c1") as turn:
        await store.save(ANNA, Spent(1.0, 1), turn=turn, messages=[*begins, *turn_of("third")])
    found = await store.get(ANNA, "c1")
    assert (questions(found), found.title) == (["first", "third"], "first")
    assert found.created == created < found.updated
    assert found.spent == Spent(2.0, 21)


async def test_owners_cannot_see_each_others_data(store):
    await add_turn(store, "same", "mine")
    await add_turn(store, "same", "theirs", owner=BERT)
    await add_turn(store, "other", owner=BERT, answer=KeptAnswer("key", "f", "body"))
    await store.ask(approval_of("a1"))
    assert questions(await store.get(ANNA, "same")) == ["mine"]
    assert await store.get(ANNA, "other") is None
    assert [info.id for info in (await store.page(ANNA)).conversations] == ["same"]
    assert await store.spent(ANNA) == Spent(0.5, 10)
    assert await store.spent(BERT) == Spent(1.0, 20)
    assert await store.answer(ANNA, "key") is None
    assert await store.approvals(BERT) == []
    assert await store.approval(BERT, "a1") is None
    assert not await store.decide(BERT, "a1", Decision(True))
    assert not await store.delete(ANNA, "other")
    assert await store.delete(ANNA, "same")
    assert questions(await store.get(BERT, "same")) == ["theirs"]


async def test_pages_have_each_conversation_once_the_last_changed_first(store):
    ids = [f"c{number}" for number in range(7)]
    for conversation_id in [*ids, "c2"]:
        await add_turn(store, conversation_id)
    found, cursor = [], None
    while True:
        page = await store.page(ANNA, 3, cursor)
        found.append([info.id for info in page.conversations])
        if (cursor := page.next) is None:
            break
    assert found == [["c2", "c6", "c5"], ["c4", "c3", "c1"], ["c0"]]
    assert (await store.page(ANNA, 7)).next is None
    info = (await store.page(ANNA, 1)).conversations[0]
    assert (info.message_count, info.spent, info.title) == (4, Spent(1.0, 20), "Is it?")


async def test_an_invalid_cursor_is_refused(store):
    for cursor in ("", "c1", "x:c1", "nan:c1", "'; DROP TABLE conversations"):
        with pytest.raises(ConfigurationError, match="after"):
            await store.page(ANNA, 3, cursor)


async def test_any_text_can_be_an_id_or_a_key(store):
    name = "a:b {x} * c'1 ü/../x \n %" + "x" * 500
    await add_turn(store, name, answer=KeptAnswer(name, "f", "body"))
    await add_turn(store, "plain", "why " * 100)
    assert (await store.get(ANNA, name)).id == name
    assert await store.answer(ANNA, name) == KeptAnswer(name, "f", "body")
    assert {info.id for info in (await store.page(ANNA)).conversations} == {name, "plain"}
    assert await store.delete(ANNA, name)
    assert await store.get(ANNA, name) is None
    left = await store.get(ANNA, "plain")
    assert left.message_count == 2
    assert left.title.startswith("why why")
    assert len(left.title) <= 80


async def test_a_deleted_conversation_is_gone_but_its_cost_still_counts(store):
    await add_turn(store, "c1", "old")
    assert await store.delete(ANNA, "c1")
    assert not await store.delete(ANNA, "c1")
    assert await store.get(ANNA, "c1") is None
    assert (await store.page(ANNA)).conversations == []
    await add_turn(store, "c1", "new")
    found = await store.get(ANNA, "c1")
    assert (questions(found), found.spent) == (["new"], Spent(0.5, 10))
    assert await store.spent(ANNA) == Spent(1.0, 20)


async def test_deleting_during_a_turn_ends_the_turn_and_keeps_nothing(store):
    await add_turn(store, "c1", "old")
    async with store.turn(ANNA, "c1") as turn:
        assert await store.delete(ANNA, "c1")
        await turn.lost
        with pytest.raises(TurnLostError, match="deleted"):
            await store.save(ANNA, Spent(0.25, 1), turn=turn, messages=turn_of("late"))
    assert await store.get(ANNA, "c1") is None
    assert (await store.page(ANNA)).conversations == []
    assert await store.spent(ANNA) == Spent(0.75, 11)


async def test_an_unchanged_conversation_expires(place):
    store = open_store(place, ttl_s=0.2)
    await store.open()
    await add_turn(store, "c1", "old")
    while await store.get(ANNA, "c1"):
        await asyncio.sleep(0.02)
    assert (await store.page(ANNA)).conversations == []
    assert not await store.delete(ANNA, "c1")
    assert await store.spent(ANNA) == Spent(0.5, 10)
    await store.aclose()


# -- turns ------------------------------------------------------------------------------------------------------------


async def test_turns_of_a_conversation_run_in_order(store):
    inside, order = set(), []

    async def take_turn(number):
        async with store.turn(ANNA, "c1") as turn:
            assert inside == set()
            inside.add(number)
            order.append(str(number))
            before = turn.conversation.messages if turn.conversation else ()
            await asyncio.sleep(0)
            await store.save(ANNA, Spent(), turn=turn, messages=[*before, *turn_of(str(number))])
            inside.clear()

    await asyncio.gather(*map(take_turn, range(10)))
    assert sorted(order) == [str(number) for number in range(10)]
    assert questions(await store.get(ANNA, "c1")) == order


async def test_a_cancelled_waiter_does_not_block_others(store):
    async with store.turn(ANNA, "c1"):
        waiting = asyncio.create_task(add_turn(store, "c1"))
        await asyncio.sleep(0.02)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        later = asyncio.create_task(add_turn(store, "c1"))
    await later
    assert (await store.get(ANNA, "c1")).message_count == 2


async def test_a_pause_beyond_the_lease_loses_nothing_if_no_other_continues(place):
    store = open_store(place, lease_s=0.1)
    await store.open()
    store._renew = lambda lease: asyncio.sleep(600)  # a paused process renews nothing
    async with store.turn(ANNA, "c1") as turn:
        await asyncio.sleep(0.3)
        await store.save(ANNA, Spent(), turn=turn, messages=turn_of("Is it?"))
    async with store.turn(ANNA, "c1") as turn:
        await asyncio.sleep(0.3)
        assert await store._take(Lease(ANNA, turn.name, "another ticket"))
        with pytest.raises(TurnLostError):
            await store.save(ANNA, Spent(), turn=turn, messages=turn_of("late"))
    assert questions(await store.get(ANNA, "c1")) == ["Is it?"]
    await store.aclose()


async def test_a_long_turn_keeps_its_lease(place):
    store = open_store(place, lease_s=1.0)
    await store.open()
    renew, renewals, other_took_it = store._renew, 0, asyncio.get_running_loop().create_future()

    async def counted(lease):
        nonlocal renewals
        is_ours = await renew(lease)
        renewals += 1
        if renewals == 4:  # longer than a lease
            other_took_it.set_result(await store._take(Lease(ANNA, lease.name, "another ticket")))
        return is_ours

    store._renew = counted
    async with store.turn(ANNA, "c1") as turn:
        assert not await other_took_it
        assert not turn.lost.done()
    await store.aclose()


# -- answers ----------------------------------------------------------------------------------------------------------


async def test_a_concurrent_repeat_waits_for_the_first_answer(store):
    async def repeat():
        async with store.request(ANNA, "key") as found:
            return found

    async with store.request(ANNA, "key"):
        second = asyncio.create_task(repeat())
        await asyncio.sleep(0.02)
        assert not second.done()
        await store.save(ANNA, Spent(), answer=KeptAnswer("key", "f", "body"))
    assert await second == KeptAnswer("key", "f", "body")


async def test_a_failed_request_can_be_repeated(store):
    with pytest.raises(ZeroDivisionError):
        async with store.request(ANNA, "key"):
            raise ZeroDivisionError
    async with store.request(ANNA, "key") as found:
        assert found is None


async def test_a_second_answer_saves_nothing(store):
    await add_turn(store, "c1", "first", answer=KeptAnswer("key", "f", "first"))
    with pytest.raises(TurnLostError):
        await add_turn(store, "c1", "second", answer=KeptAnswer("key", "f", "second"))
    assert questions(await store.get(ANNA, "c1")) == ["first"]
    assert (await store.answer(ANNA, "key")).body == "first"
    assert await store.spent(ANNA) == Spent(1.0, 20)


# -- approvals --------------------------------------------------------------------------------------------------------


def approval_of(name, *, conversation_id="c1", seconds=600.0):
    now = time.time()
    facts = {
        "run_id": "run_1",
        "tool_call_id": "call_1",
        "tool": "delete",
        "arguments": {"path": "/tmp/\ud800 ü", "n": None},
        "created": now,
    }
    return WaitingCall(id=name, owner=ANNA, conversation_id=conversation_id, expires=now + seconds, **facts)


async def test_approvals_wait_until_decided(store):
    waiting = [approval_of("b"), approval_of("a", conversation_id="c2", seconds=300.0)]
    for each in waiting:
        await store.ask(each)
    assert await store.approvals(ANNA) == waiting
    assert await store.approvals(ANNA, "c2") == waiting[1:]
    decision = Decision(True, {"path": "/tmp/y"}, "only this one")
    assert await store.decide(ANNA, "a", decision)
    assert await store.approvals(ANNA) == waiting[:1]
    assert (await store.approval(ANNA, "a")).decision == decision
    assert (await store.approval(ANNA, "b")).decision is None
    assert await store.decision(waiting[1]) == decision
    assert not await store.decide(ANNA, "a", Decision(False))
    assert not await store.decide(ANNA, "unknown", Decision(True))
    assert (await store.approval(ANNA, "a")).decision == decision


async def test_an_undecided_approval_expires(store):
    await store.ask(approval := approval_of("a1", seconds=0.1))
    assert await store.decision(approval) is None
    while await store.approval(ANNA, "a1"):
        await asyncio.sleep(0.01)
    assert await store.approvals(ANNA) == []
    assert not await store.decide(ANNA, "a1", Decision(True))
    assert await store.decision(approval_of("never asked")) is None
