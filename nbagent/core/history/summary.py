"""The request that asks a model to summarise the beginning of a long conversation."""

from __future__ import annotations

from collections.abc import Iterable

from nbagent.core.content.images import content_as_text
from nbagent.core.messages import LLMMessage

PROMPT = """\
Below is the beginning of a conversation between a user and an assistant that calls tools. Summarise it for the
assistant, who will continue the conversation without seeing this part again. Keep everything that may still matter:
what the user wants and has decided, facts, names and numbers, results of tools, and open questions. Be brief. Write
only the summary."""
#: Longer texts are cut in the middle, because a summary needs only the gist.
MAX_CHARS = 4_000


def transcript(messages: Iterable[LLMMessage]) -> str:
    """Return the messages as text.

    >>> print(transcript([LLMMessage("user", "2 + 2?"), LLMMessage("assistant", "4")]))
    User: 2 + 2?
    Assistant: 4
    """
    lines = []
    for message in messages:
        text = _cut(content_as_text(message.content))
        if message.role == "tool":
            lines.append(f"Result of {message.name or 'the tool'}: {text}")
        elif text:
            lines.append(f"{message.role.capitalize()}: {text}")
        lines += [f"Assistant calls {call.name}({_cut(str(call.arguments))})" for call in message.tool_calls or ()]
    return "\n".join(lines)


def _cut(text: str) -> str:
    half = MAX_CHARS // 2
    return text if len(text) <= MAX_CHARS else f"{text[:half]} […] {text[-half:]}"
