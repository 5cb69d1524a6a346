"""Makes a history valid for all providers: each tool call has exactly one result, and each result has its call.

`repair` is pure and idempotent. It uses neither the clock nor random ids, so a provider's prompt cache still matches.
Messages that need no change remain the same objects.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from nbagent.core.messages import FunctionCall, LLMMessage

#: The result of an interrupted call.
NO_RESULT = "No result: the call was interrupted before it finished."

#: The user message for a history without one.
CONTINUE = LLMMessage("user", "Continue.")


def repair(messages: Sequence[LLMMessage], valid: int = 0) -> list[LLMMessage]:
    """Return the same conversation in a valid form. The first `valid` messages are known to be valid.

    System messages come first. Each call has a unique id. Results follow their call, in the order of the calls. Missing
    results become errors. Results without a call, duplicates and empty messages are removed. If there is no user
    message, one is added.
    """
    if any(m.role == "system" for m in messages[valid:]):
        valid = 0
        messages = sorted(messages, key=lambda m: m.role != "system")  # a stable sort
    repaired, rest = list(messages[:valid]), messages[valid:]
    taken = call_ids(repaired) if any(m.tool_calls for m in rest) else set()
    index = 0
    while index < len(rest):
        message = rest[index]
        index += 1
        if message.role == "tool":
            continue  # it has no call: results with a call are handled below
        if message.role != "assistant" or not message.tool_calls:
            if message.provider_extras or not is_blank(message):
                repaired.append(message)
            continue
        results = []
        while index < len(rest) and rest[index].role == "tool":
            results.append(rest[index])
            index += 1
        paired = _with_results(message, results, len(repaired), taken)
        taken |= call_ids(paired)
        repaired.extend(paired)
    if repaired and not any(m.role == "user" for m in repaired):
        after_system = sum(m.role == "system" for m in repaired)
        repaired.insert(after_system, CONTINUE)
    return repaired


def is_blank(message: LLMMessage) -> bool:
    """Whether the content is only white space, which some providers reject and others drop."""
    if isinstance(message.content, str):
        return not message.content or message.content.isspace()
    return all(part.get("type") == "text" and not part.get("text", "").strip() for part in message.content)


def _with_results(
    message: LLMMessage, results: list[LLMMessage], position: int, taken: Set[str | None]
) -> list[LLMMessage]:
    """An assistant message and one result for each of its calls. Equal ids are paired in order."""
    sent = message.tool_calls or []
    calls = with_unique_ids(sent, prefix=f"call_{position}", taken=taken)
    if calls != sent:
        message = message.replace(tool_calls=calls, message_id=None)
    paired = [message]
    for before, call in zip(sent, calls, strict=True):
        result = next((r for r in results if r.tool_call_id == before.id), None)
        if result is None:
            paired.append(missing_result(call))
            continue
        results = [r for r in results if r is not result]
        fits = result.tool_call_id == call.id and result.name in (None, call.name)
        paired.append(result if fits else result.replace(tool_call_id=call.id, name=call.name, message_id=None))
    return paired


def call_ids(messages: Sequence[LLMMessage]) -> set[str | None]:
    """The ids of all tool calls in a conversation."""
    return {call.id for message in messages if message.tool_calls for call in message.tool_calls}


def with_unique_ids(
    calls: Sequence[FunctionCall], prefix: str, taken: Set[str | None] = frozenset()
) -> list[FunctionCall]:
    """Return the calls, each with a unique id that is not in `taken`. A missing or repeated id becomes `prefix_0`,
    `prefix_1` and so on.

    Some servers start at `call_0` in each answer, but some providers reject a conversation with a repeated id.
    """
    seen: set[str | None] = set()
    unique = []
    for number, call in enumerate(calls):
        is_unique = call.id and call.id not in seen and call.id not in taken
        unique.append(call if is_unique else FunctionCall(call.name, call.arguments, f"{prefix}_{number}", call.raw))
        seen.add(unique[-1].id)
    return unique


def missing_result(call: FunctionCall) -> LLMMessage:
    """The error that replaces a missing tool result."""
    return LLMMessage("tool", NO_RESULT, name=call.name, tool_call_id=call.id, is_error=True)
