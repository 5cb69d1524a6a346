"""Branches: versions of this conversation and of earlier ones, each of which can be continued.

A branch is a list of messages. Branches of one conversation share the messages up to the prompt where they diverge.
`ContextManager` undoes a turn by removing it from the branch. To change a prompt, it removes the turn from a copy of
the branch. An agent's fork is a separate history that shares the same messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nbagent.core.messages import LLMMessage
from nbagent.text import shortened

#: Characters of a conversation's first prompt that serve as its name.
TITLE_CHARS = 60


@dataclass(eq=False, slots=True, repr=False)
class Branch:
    """The history of one branch, without the system message. `agent.context.switch(branch)` continues it."""

    conversation_id: str
    messages: list[LLMMessage] = field(default_factory=list)
    #: Its name in `trace.runs`: the id of the run that started it; None if the next run starts one.
    branch: str | None = None
    #: The higher, the more recently it was used.
    used: int = 0

    @property
    def questions(self) -> list[LLMMessage]:
        """The branch's prompts, which are the messages that open turns."""
        return [message for message in self.messages if message.opens_turn]

    @property
    def title(self) -> str:
        """The first prompt, shortened to one line, and the number of prompts.

        >>> Branch("conv_1", [LLMMessage("user", "Why?")]).title
        'Why? · 1 prompt'
        """
        questions = self.questions
        if not questions:
            return "New chat"
        first = shortened(" ".join(questions[0].text.split()), TITLE_CHARS)
        return f"{first} · {len(questions)} prompt{'s' * (len(questions) > 1)}"

    def __repr__(self) -> str:
        return f"<Branch {self.title!r}>"


def parting(one: Branch, other: Branch) -> tuple[LLMMessage | None, LLMMessage | None]:
    """Return the prompts at which two branches diverge, one from each branch. If a branch ends there, its prompt is
    None.
    """
    shared = {id(message) for message in other.messages}
    last = next((message for message in reversed(one.messages) if id(message) in shared), None)
    return _question_after(last, one), _question_after(last, other)


def _question_after(last: LLMMessage | None, branch: Branch) -> LLMMessage | None:
    start = next((index for index, each in enumerate(branch.messages, 1) if each is last), 0)
    return next((message for message in branch.messages[start:] if message.opens_turn), None)


def versions(question: LLMMessage, here: Branch, branches: Sequence[Branch]) -> list[Branch]:
    """Return one branch for each version of a prompt, in the order in which the versions were first sent.

    Other versions are in branches that diverge from `here` at the prompt. If several branches contain a version, the
    most recently used one is returned.
    """
    place = {id(each): index for index, each in enumerate(here.questions)}
    found: dict[int, Branch] = {}
    for branch in branches:
        mine, version = (None, None) if branch is here else parting(here, branch)
        if mine is None or place[id(mine)] > place[id(question)]:  # they diverge later, or not at all
            version = question
        elif mine is not question:
            version = None
        if version is not None and (id(version) not in found or found[id(version)].used < branch.used):
            found[id(version)] = branch
    return list(found.values())
