"""The prompt in the panel's box before it is sent: its mentions, attachments and cost.

One line below the box shows each mention and attachment with its tokens, and the whole request's tokens and cost. It is
updated when the typing pauses. Nothing is sent for it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any

from nbagent.chat.attachments import Attachment, split_attachments, with_attachments
from nbagent.chat.patch import State
from nbagent.core.content.documents import is_document
from nbagent.core.content.images import content_as_text, images_in
from nbagent.core.messages import Content, LLMMessage
from nbagent.core.render import markdown as render
from nbagent.errors import ConfigurationError, NbagentError
from nbagent.notebook.panel.attachments import from_bytes, from_document, from_image, not_attached
from nbagent.notebook.panel.conversation import PanelConversation
from nbagent.notebook.panel.mentions import Mentions, Suggestion, words_in
from nbagent.notebook.panel.skill_mentions import activated, suggest
from nbagent.text import shortened

log = logging.getLogger("nbagent")

#: Characters of an attachment's name, and of a mention's content.
NAME_CHARS, SHOWN_CHARS = 40, 1_000
#: Smaller costs are not shown as numbers.
MIN_COST = 0.0001


class Draft:
    """The draft in a panel's box. `on_change()` is called when `state()` has changed.

    Call everything on the background loop.
    """

    def __init__(self, conversation: PanelConversation, shell: Any, on_change: Callable[[], None]) -> None:
        self._conversation = conversation
        self._shell = shell
        self._on_change = on_change
        self._mentions = Mentions(shell, conversation.agent)
        #: By number, each with what is shown of it.
        self._attached: dict[int, tuple[Attachment, State]] = {}
        self._numbers = itertools.count()
        self._line = ""
        self._newest: tuple[str, LLMMessage | None] = ("", None)
        #: The meaning of looked-up words, and the number of cells at that time.
        self._known: dict[tuple[str, int], Attachment] = {}
        self._looking = asyncio.Lock()

    def state(self) -> State:
        """The attachments, each with number, name, description and, for an image, a `src`; and the line's HTML."""
        return {"chips": [chip for _, chip in self._attached.values()], "line": self._line}

    async def suggest(self, typed: str) -> list[Suggestion]:
        """Candidates after a typed `@` or `/`."""
        return await asyncio.to_thread(self._suggested, typed)

    async def attach_file(self, name: str, data: bytes | None) -> None:
        """Attach a pasted or dropped file; without data it was too large to be sent. Raises `ConfigurationError`."""
        if data is None:
            raise not_attached(name, "it is too large. Save it next to the notebook and mention it with @ and its name")
        self.attach(await asyncio.to_thread(from_bytes, name, data))

    def _suggested(self, typed: str) -> list[Suggestion]:
        if typed.startswith("/"):
            return list(suggest(self._conversation.agent, typed))
        return self._mentions.suggest(typed.removeprefix("@"))

    # -- attachments and sending ---------------------------------------------------------------------------------

    def attach(self, *attachments: Attachment) -> None:
        """Add these to the prompt."""
        for each in attachments:
            number = next(self._numbers)
            chip = {"number": number, "name": render.printable(each.name), "about": _about(each), **_thumbnail(each)}
            self._attached[number] = each, chip
        self.follow(*self._newest)
        self._on_change()

    def detach(self, number: int) -> None:
        """Remove an attachment."""
        self._attached.pop(number, None)
        self.follow(*self._newest)
        self._on_change()

    def take(self) -> list[Attachment]:
        """The attachments, which leave the draft with its text."""
        taken = [each for each, _ in self._attached.values()]
        self._attached.clear()
        self.follow("")
        return taken

    def restore(self, content: Content) -> str:
        """Attach a prompt's attachments again, and return its text. Mentions in the text are resolved again."""
        own, attachments = split_attachments(content)
        images = [part for part in own if part.get("type") == "image"] if isinstance(own, list) else []
        pictures = [from_image(f"image {number}", part) for number, part in enumerate(images, 1)]
        documents = [from_document(part) for part in own if is_document(part)] if isinstance(own, list) else []
        self.attach(*pictures, *documents, *(each for each in attachments if not each.is_mention))
        return LLMMessage("user", own).text

    async def content(self, text: str, attached: Sequence[Attachment], replaces: LLMMessage | None = None) -> Content:
        """The content of a question, with what its text mentions as of now. Raises `ConfigurationError`."""
        found = [await asyncio.to_thread(self._mentions.resolve, word) for word in words_in(text)]
        skills = await asyncio.to_thread(activated, self._conversation.agent, text, replaces)
        return with_attachments(text, [*skills, *filter(None, found), *attached])

    # -- the line -----------------------------------------------------------------------------------------------------

    def follow(self, text: str, replaces: LLMMessage | None = None) -> None:
        """The box now has this text. The prompt will replace the one in `replaces`."""
        self._newest = (text, replaces)
        if text.strip() or self._attached:
            self._conversation.run_on_loop(self._update, self._newest)
        else:
            self._known.clear()
            self._show("")

    async def _update(self, newest: tuple[str, LLMMessage | None]) -> None:
        async with self._looking:
            if newest is not self._newest:  # the box has changed
                return
            try:
                page = await self._page(*newest)
            except Exception:  # the line is only a help: errors are shown when the prompt is sent
                log.debug("the question can't be previewed", exc_info=True)
                page = ""
        if newest is self._newest:
            self._show(page)

    def _show(self, page: str) -> None:
        if page != self._line:
            self._line = page
            self._on_change()

    async def _page(self, text: str, replaces: LLMMessage | None) -> str:
        attached = [each for each, _ in self._attached.values()]
        found = await asyncio.to_thread(lambda: [self._looked_up(word) for word in words_in(text)])
        skills = await asyncio.to_thread(activated, self._conversation.agent, text, replaces)
        mentioned = [*skills, *(each for each in found if isinstance(each, Attachment))]
        spans = [_span(_summary(each), shows=content_as_text(each.content)) for each in mentioned]
        spans += [_span(each, "nbagent-bad") for each in found if isinstance(each, str)]
        content = with_attachments(text, [*mentioned, *attached])
        stream = self._conversation.agent.chat_stream(content, replaces=replaces)
        try:
            preview = await asyncio.to_thread(stream.preview)
        except NbagentError:  # of the model, such as a missing key: mentions are still shown
            return "".join(spans)
        return "".join([*spans, _span(f"about {preview.tokens:,} tokens{_cost(preview.cost)}", "nbagent-sum")])

    def _looked_up(self, word: str) -> Attachment | str | None:
        """A word's object, or why it can't be attached. It is converted once after each cell."""
        key = word, getattr(self._shell, "execution_count", 0)
        try:
            found = self._known.get(key) or self._mentions.resolve(word)
        except ConfigurationError as error:
            return str(error)
        if found is not None:
            self._known[key] = found
        return found


def _thumbnail(attachment: Attachment) -> dict[str, str]:
    image = next(iter(images_in(attachment.content)), None)
    return {} if image is None else {"src": f"data:{image.media_type};base64,{image.to_base64()}"}


def _summary(attachment: Attachment) -> str:
    return f"{render.printable(shortened(attachment.name, NAME_CHARS))} · {_about(attachment)}"


def _about(attachment: Attachment) -> str:
    return render.printable(f"{attachment.about} · about {attachment.tokens:,} tokens")


def _span(text: str, kind: str = "nbagent-chip", shows: str = "") -> str:
    """A piece of the line; `shows` appears on hover."""
    title = f' title="{render.escape(shortened(shows, SHOWN_CHARS))}"' if shows else ""
    return f'<span class="{kind} {render.NO_TEX}"{title}>{render.escape(text)}</span>'


def _cost(dollars: float | None) -> str:
    """The price in words: "" for a free model."""
    if dollars is None:
        return " · price unknown"
    if dollars and dollars < MIN_COST:
        return f" · less than ${MIN_COST:g}"
    return f" · about ${dollars:.4f}" if dollars else ""
