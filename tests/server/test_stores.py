"""What every store of conversations promises."""

import asyncio
import time

import pytest

from nbagent.core.messages import FunctionCall, LLMMessage
from nbagent.errors import ConfigurationError, StoreError, TurnLostError
from nbagent.server.conversations.opening import open_store
from nbagent.server.conversations.store import Answer, Approval, Decision, Lease, Spent

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


async def test_a_conversation_comes_back_as_it_was_saved(store):
    call = FunctionCall("weather", {"city": "Zürich 💩", "n": [1, None]}, "call_1")
    messages = [
        LLMMessage("system", "Be brief."),
        LLMMessage("user", "How is\n the weather?", message_id="message_1"),
        LLMMessage("assistant", "", tool_calls=[call], provider_extras={"vendor": "claude", "blocks": [{"a": 1}]}),
        LLMMessage("tool", "snow", name="weather", tool_call_id="call_1", is_error=True),
        LLMMessage("assistant", [{"type": "text", "text": "Snow."}], interrupted=True),
    ]
    began = time.time()
    async with store.turn(ANNA, "c1") as turn:
        assert turn.conversation is None
        await store.save(ANNA, Spent(0.25, 7), turn=turn, messages=messages)
        saved = turn.conversation
    found = await store.get(ANNA, "c1")
    assert list(found.messages) == messages
    assert [m.message_id for m in found.messages] == [m.message_id for m in messages]
    assert (found.id, found.owner, found.title) == ("c1", ANNA, "How is the weather?")
    assert (found.message_count, found.spent) == (5, Spent(0.25, 7))
    assert began <= found.created == found.updated <= time.time()
    assert found == saved


async def test_a_turn_changes_and_shortens_what_was_there(store):
    await add_turn(store, "c1", "first")
    await add_turn(store, "c1", "second")
    created = (await store.get(ANNA, "c1")).created
    async with store.turn(ANNA, "c1") as turn:
        edited = [*turn.conversation.messages[:2], *turn_of("second, edited")]
        await store.save(ANNA, Spent(), turn=turn, messages=edited)
        await store.save(ANNA, Spent(), turn=turn, messages=edited[:2])
        await store.save(ANNA, Spent(1.0, 1), turn=turn, messages=[*edited[:2], *turn_of("third")])
    found = await store.get(ANNA, "c1")
    assert questions(found) == ["first", "third"]
    assert found.title == "first"
    assert found.created == created < found.updated
    assert found.spent == Spent(2.0, 21)
    async with store.turn(ANNA, "c1") as turn:
        assert turn.conversation == found
        await store.save(ANNA, Spent(), turn=turn, messages=turn_of("anew"))
    assert questions(await store.get(ANNA, "c1")) == ["anew"]


async def test_a_turn_that_saves_nothing_leaves_nothing(store):
    async with store.turn(ANNA, "c1"):
        pass
    assert await store.get(ANNA, "c1") is None
    assert (await store.page(ANNA)).conversations == []


async def test_a_long_question_makes_a_short_title(store):
    await add_turn(store, "c1", "why " * 100)
    title = (await store.get(ANNA, "c1")).title
    assert title.startswith("why why")
    assert len(title) <= 80


async def test_owners_see_nothing_of_each_other(store):
    await add_turn(store, "same", "mine")
    await add_turn(store, "same", "theirs", owner=BERT)
    await add_turn(store, "other", owner=BERT, answer=Answer("key", "f", "body"))
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


async def test_pages_hold_each_conversation_once_the_last_changed_first(store):
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


async def test_conversations_that_changed_at_the_same_time_are_on_one_page_each(store, monkeypatch):
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    for number in range(5):
        await add_turn(store, f"c{number}")
    found, cursor = [], None
    for _ in range(3):
        page = await store.page(ANNA, 2, cursor)
        found += [info.id for info in page.conversations]
        cursor = page.next
    assert (found, cursor) == (["c4", "c3", "c2", "c1", "c0"], None)


async def test_a_cursor_that_is_none_is_refused(store):
    for cursor in ("", "c1", "x:c1", "nan:c1", "'; DROP TABLE conversations"):
        with pytest.raises(ConfigurationError, match="after"):
            await store.page(ANNA, 3, cursor)


async def test_any_text_can_be_an_id_or_a_key(store):
    name = "a:b {x} * c'1 ü/../x \n %" + "x" * 500
    await add_turn(store, name, answer=Answer(name, "f", "body"))
    await add_turn(store, "plain")
    assert (await store.get(ANNA, name)).id == name
    assert await store.answer(ANNA, name) == Answer(name, "f", "body")
    assert {info.id for info in (await store.page(ANNA)).conversations} == {name, "plain"}
    assert await store.delete(ANNA, name)
    assert await store.get(ANNA, name) is None
    assert (await store.get(ANNA, "plain")).message_count == 2


async def test_a_deleted_conversation_is_gone_and_what_it_cost_stays_counted(store):
    await add_turn(store, "c1", "old")
    assert await store.delete(ANNA, "c1")
    assert not await store.delete(ANNA, "c1")
    assert await store.get(ANNA, "c1") is None
    assert (await store.page(ANNA)).conversations == []
    await add_turn(store, "c1", "new")
    found = await store.get(ANNA, "c1")
    assert (questions(found), found.spent) == (["new"], Spent(0.5, 10))
    assert await store.spent(ANNA) == Spent(1.0, 20)


async def test_deleting_while_a_turn_runs_ends_the_turn_and_keeps_nothing_of_it(store):
    await add_turn(store, "c1", "old")
    async with store.turn(ANNA, "c1") as turn:
        assert await store.delete(ANNA, "c1")
        await turn.lost.wait()
        with pytest.raises(TurnLostError, match="deleted"):
            await store.save(ANNA, Spent(0.25, 1), turn=turn, messages=turn_of("late"))
    assert await store.get(ANNA, "c1") is None
    assert (await store.page(ANNA)).conversations == []
    assert await store.spent(ANNA) == Spent(0.75, 11)


async def test_who_waits_for_a_turn_while_the_conversation_is_deleted_begins_a_new_one(store):
    await add_turn(store, "c1", "old")
    async with store.turn(ANNA, "c1"):
        waiting = asyncio.create_task(add_turn(store, "c1", "new"))
        await asyncio.sleep(0)
        await store.delete(ANNA, "c1")
    await waiting
    assert questions(await store.get(ANNA, "c1")) == ["new"]


async def test_a_conversation_that_was_not_changed_for_long_expires(place):
    store = open_store(place, ttl_s=0.2)
    await store.open()
    await add_turn(store, "c1", "old")
    while await store.get(ANNA, "c1"):
        await asyncio.sleep(0.02)
    assert (await store.page(ANNA)).conversations == []
    assert not await store.delete(ANNA, "c1")
    begin = time.time()
    await add_turn(store, "c1", "new")
    found = await store.get(ANNA, "c1")
    if found is not None:  # a busy machine may have taken longer
        assert questions(found) == ["new"]
        assert found.created >= begin
    assert await store.spent(ANNA) == Spent(1.0, 20)
    await store.aclose()


async def test_a_turn_that_goes_on_past_the_end_of_its_conversation_saves_all_of_it(place):
    store = open_store(place, ttl_s=0.2)
    await store.open()
    await add_turn(store, "c1", "old")
    async with store.turn(ANNA, "c1") as turn:
        before = turn.conversation.messages if turn.conversation else turn_of("old")  # a busy machine was too slow
        while await store.get(ANNA, "c1"):
            await asyncio.sleep(0.02)
        await add_turn(store, "c2")  # sweeps what expired
        store.ttl_s = 3600
        await store.save(ANNA, Spent(0.5, 10), turn=turn, messages=[*before, *turn_of("new")])
    found = await store.get(ANNA, "c1")
    assert questions(found) == ["old", "new"]
    assert found.message_count == len(found.messages) == 4
    assert await store.spent(ANNA) == Spent(1.5, 30)
    await store.aclose()


# -- turns ------------------------------------------------------------------------------------------------------------


async def test_turns_of_one_conversation_follow_each_other_in_order(store):
    inside, order = 0, []

    async def take_turn(number):
        nonlocal inside
        async with store.turn(ANNA, "c1") as turn:
            inside += 1
            assert inside == 1
            order.append(number)
            before = turn.conversation.messages if turn.conversation else ()
            await asyncio.sleep(0)
            await store.save(ANNA, Spent(), turn=turn, messages=[*before, *turn_of(str(number))])
            inside -= 1

    tasks = []
    async with store.turn(ANNA, "c1"):
        for number in range(10):
            tasks.append(asyncio.create_task(take_turn(number)))
            await asyncio.sleep(0.01)  # so that they stand in line one after the other
    await asyncio.gather(*tasks)
    assert sorted(order) == list(range(10))
    assert questions(await store.get(ANNA, "c1")) == [str(number) for number in order]


async def test_turns_of_different_conversations_do_not_wait(store):
    async with store.turn(ANNA, "c1"), store.turn(ANNA, "c2"), store.turn(BERT, "c1"):
        await add_turn(store, "c3")


async def test_who_gives_up_waiting_leaves_the_line(store):
    async with store.turn(ANNA, "c1"):
        waiting = asyncio.create_task(add_turn(store, "c1"))
        await asyncio.sleep(0.02)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        later = asyncio.create_task(add_turn(store, "c1"))
    await later
    assert (await store.get(ANNA, "c1")).message_count == 2


async def test_a_turn_that_fails_goes_to_the_next(store):
    with pytest.raises(ZeroDivisionError):
        async with store.turn(ANNA, "c1"):
            raise ZeroDivisionError
    await add_turn(store, "c1")


async def test_a_long_turn_keeps_its_lease(place):
    store = open_store(place, lease_s=1.0)
    await store.open()
    take, renewals, other_was_first = store._take, 0, asyncio.get_running_loop().create_future()

    async def counted(lease, *, join):
        nonlocal renewals
        is_first = await take(lease, join=join)
        renewals += not join
        if renewals == 4:  # longer than a lease
            other_was_first.set_result(await take(Lease(ANNA, lease.line, "another ticket"), join=True))
        return is_first

    store._take = counted
    async with store.turn(ANNA, "c1") as turn:
        assert not await other_was_first
        assert not turn.lost.is_set()
    await store.aclose()


async def test_a_process_that_was_paused_for_too_long_can_not_overwrite(place, monkeypatch):
    store = open_store(place, lease_s=0.1)
    await store.open()
    monkeypatch.setattr(store, "_renew", lambda *_: asyncio.Event().wait())  # as a paused process does not
    async with store.turn(ANNA, "c1") as paused:
        await add_turn(store, "c1", "quick")
        with pytest.raises(TurnLostError, match="paused"):
            await store.save(ANNA, Spent(0.25, 1), turn=paused, messages=turn_of("slow"))
        assert paused.lost.is_set()
    assert questions(await store.get(ANNA, "c1")) == ["quick"]
    assert await store.spent(ANNA) == Spent(0.75, 11)
    await store.aclose()


async def test_the_heartbeat_tells_that_the_turn_went_to_another(place, monkeypatch):
    store = open_store(place, lease_s=0.2)
    await store.open()
    renew = store._renew
    monkeypatch.setattr(store, "_renew", lambda *_: asyncio.Event().wait())
    async with store.turn(ANNA, "c1") as paused, store.turn(ANNA, "c1"):
        await renew(paused.lease, asyncio.Event())  # the process goes on
        assert paused.lost.is_set()
    await store.aclose()


# -- answers ----------------------------------------------------------------------------------------------------------


async def test_a_repeated_request_gets_the_first_answer(store):
    first = Answer("key", "fingerprint", '{"response": "ü"}')
    async with store.request(ANNA, "key") as found:
        assert found is None
        await add_turn(store, "c1", answer=first)
    async with store.request(ANNA, "key") as found:
        assert found == first
    assert await store.answer(ANNA, "other") is None


async def test_a_request_repeated_meanwhile_waits_for_the_first_answer(store):
    async def repeat():
        async with store.request(ANNA, "key") as found:
            return found

    async with store.request(ANNA, "key"):
        second = asyncio.create_task(repeat())
        await asyncio.sleep(0.02)
        assert not second.done()
        await store.save(ANNA, Spent(), answer=Answer("key", "f", "body"))
    assert await second == Answer("key", "f", "body")


async def test_a_request_that_failed_is_answered_when_it_is_repeated(store):
    with pytest.raises(ZeroDivisionError):
        async with store.request(ANNA, "key"):
            raise ZeroDivisionError
    async with store.request(ANNA, "key") as found:
        assert found is None


async def test_a_second_answer_saves_nothing_of_its_turn(store):
    await add_turn(store, "c1", "first", answer=Answer("key", "f", "first"))
    with pytest.raises(TurnLostError):
        await add_turn(store, "c1", "second", answer=Answer("key", "f", "second"))
    assert questions(await store.get(ANNA, "c1")) == ["first"]
    assert (await store.answer(ANNA, "key")).body == "first"
    assert await store.spent(ANNA) == Spent(1.0, 20)


async def test_an_answer_expires(place):
    store = open_store(place, answer_ttl_s=0.1)
    await store.open()
    await store.save(ANNA, Spent(), answer=Answer("key", "f", "first"))
    while await store.answer(ANNA, "key"):
        await asyncio.sleep(0.02)
    await store.save(ANNA, Spent(), answer=Answer("key", "f", "second"))
    await store.aclose()


async def test_spending_adds_up_without_a_conversation(store):
    assert await store.spent(ANNA) == Spent()
    await asyncio.gather(*(store.save(ANNA, Spent(0.125, 3)) for _ in range(20)))
    assert await store.spent(ANNA) == Spent(2.5, 60)
    assert (await store.page(ANNA)).conversations == []


# -- approvals --------------------------------------------------------------------------------------------------------


def approval_of(name, *, conversation_id="c1", seconds=600.0, owner=ANNA):
    now = time.time()
    return Approval(
        id=name,
        owner=owner,
        conversation_id=conversation_id,
        run_id="run_1",
        tool="delete",
        arguments={"path": "/tmp/\ud800 ü", "n": None},
        created=now,
        expires=now + seconds,
    )


async def test_approvals_wait_until_they_are_decided(store):
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


async def test_only_the_first_of_many_decisions_counts(store):
    await store.ask(approval_of("a1"))
    waiting = asyncio.create_task(store.decision(approval_of("a1")))
    decisions = [Decision(number % 2 == 0, reason=str(number)) for number in range(20)]
    first = await asyncio.gather(*(store.decide(ANNA, "a1", each) for each in decisions))
    assert sum(first) == 1
    assert await waiting == decisions[first.index(True)]


async def test_an_approval_that_nobody_decides_expires(store):
    await store.ask(approval := approval_of("a1", seconds=0.1))
    assert await store.decision(approval) is None
    while await store.approval(ANNA, "a1"):
        await asyncio.sleep(0.01)
    assert await store.approvals(ANNA) == []
    assert not await store.decide(ANNA, "a1", Decision(True))
    assert await store.decision(approval_of("never asked")) is None


# -- opening ----------------------------------------------------------------------------------------------------------


async def test_a_store_that_is_not_open_says_so(shared_place):
    store = open_store(shared_place)
    with pytest.raises(StoreError, match="open"):
        await store.get(ANNA, "c1")
    await store.open()
    await store.aclose()
    await store.aclose()
    with pytest.raises(StoreError, match="open"):
        await store.get(ANNA, "c1")


def test_times_are_positive():
    for option in ("lease_s", "ttl_s", "answer_ttl_s"):
        with pytest.raises(ConfigurationError, match=option):
            open_store("memory:", **{option: 0})
