"""A process that takes turns of conversations, for tests: `with turn_taker("hold", place, "c1") as process: …`."""

import asyncio
import sys

from nbagent.core.messages import FunctionCall, LLMMessage
from nbagent.errors import TurnLostError
from nbagent.server.conversations.opening import open_store
from nbagent.server.conversations.store import ConversationStore, KeptAnswer, Spent
from support.killed import process_of

OWNER = "owner-a"


def turn_of(question: str) -> list[LLMMessage]:
    """A turn with a tool call: half of it is no valid conversation."""
    call = FunctionCall("look", {"at": question}, f"call {question}")
    return [
        LLMMessage("user", question),
        LLMMessage("assistant", "", tool_calls=[call]),
        LLMMessage("tool", "seen", name="look", tool_call_id=call.id),
        LLMMessage("assistant", f"Answer to {question}."),
    ]


async def add_turn(store: ConversationStore, conversation_id: str, question: str) -> None:
    async with store.turn(OWNER, conversation_id) as turn:
        before = turn.conversation.messages if turn.conversation else ()
        await asyncio.sleep(0)
        messages = [*before, *turn_of(question)]
        await store.save(OWNER, Spent(0.5, 1), turn=turn, messages=messages, answer=KeptAnswer(question, "f", question))


async def take_turns(store: ConversationStore, conversation_id: str, name: str, count: str) -> None:
    for number in range(int(count)):
        await add_turn(store, conversation_id, f"{name}-{number}")
    print("done", flush=True)


async def hold(store: ConversationStore, conversation_id: str) -> None:
    """Take a turn, and save it after a line came in. Prints "holding", and how it went."""
    async with store.turn(OWNER, conversation_id) as turn:
        print("holding", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        try:
            await store.save(OWNER, Spent(), turn=turn, messages=turn_of("late"))
            print("saved", flush=True)
        except TurnLostError:
            print("lost", flush=True)


def turn_taker(what: str, place: str, *arguments: str, lease_s: float = 30.0):
    """A process that does one of the above; it is killed with the block."""
    return process_of("-m", "support.store_turns", what, place, lease_s, *arguments)


async def main(what: str, place: str, lease_s: str, *arguments: str) -> None:
    store = open_store(place, lease_s=float(lease_s))
    await store.open()
    await globals()[what](store, *arguments)
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
