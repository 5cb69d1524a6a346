"""Activates an agent's skills: for `/name` at the start of a prompt, the skill's instructions are sent with the prompt.

A word that is not the name of a skill, such as a path, is left as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from nbagent.agent.agent import Agent
from nbagent.chat.attachments import Attachment, split_attachments, with_attachments
from nbagent.core.content.images import joined_content
from nbagent.core.messages import Content, LLMMessage
from nbagent.core.render import markdown as render
from nbagent.notebook.panel.mentions import ABOUT_CHARS, Suggestion
from nbagent.skills.disclosure import instructions_of
from nbagent.skills.host import SkillHost
from nbagent.skills.manifest import SkillManifest
from nbagent.text import shortened

_NAMES = re.compile(r"\s*((?:/[^\s/]+(?:\s+|$))+)")
_ABOUT = "skill"


def hosts_of(agent: Agent) -> list[SkillHost]:
    """The skill hosts that the agent uses."""
    return [each for each in agent.toolsets if isinstance(each, SkillHost)]


def skills_of(agent: Agent) -> dict[str, SkillManifest]:
    """The agent's skills by name. If two hosts have a skill with the same name, the skill of the first host is used."""
    return {name: skill for host in reversed(hosts_of(agent)) for name, skill in host.skills.items()}


def activated(agent: Agent, text: str, replaces: LLMMessage | None = None) -> list[Attachment]:
    """The instructions, as currently on disk, of the skills that are named at the start of a prompt.

    Instructions that are already in the conversation are not repeated. `replaces` is the message that the prompt
    replaces, if any.
    """
    match, hosts = _NAMES.match(text), hosts_of(agent)
    if match is None or not hosts:
        return []
    for host in hosts:
        host.reload()
    skills = skills_of(agent)
    names = takewhile(skills.__contains__, (word.removeprefix("/") for word in match[1].split()))
    before = list(takewhile(lambda message: message is not replaces, agent.conversation_history))
    return [Attachment(f"/{name}", _ABOUT, instructions_of(skills[name], before)) for name in dict.fromkeys(names)]


def as_question(content: Content, skills: Sequence[Attachment] = (), cell_id: str | None = None) -> LLMMessage:
    """Create the message for a prompt. A prompt with skill instructions is kept when a long conversation is trimmed."""
    if skills:
        own = [{"type": "text", "text": content}] if isinstance(content, str) else content
        content = joined_content([*own, {"type": "text", "text": f"\n\n{with_attachments('', skills)}"}])
    carried = split_attachments(content)[1]
    is_pinned = any(each.about == _ABOUT and each.name.startswith("/") for each in carried)
    return LLMMessage("user", content, cell_id=cell_id, pinned=is_pinned)


def suggest(agent: Agent, typed: str) -> Iterator[Suggestion]:
    """Completions of `typed`, which starts with a slash."""
    for name, skill in sorted(skills_of(agent).items()):
        if f"/{name}".startswith(typed):
            yield Suggestion(f"/{name}", render.printable(shortened(skill.description, ABOUT_CHARS)))
