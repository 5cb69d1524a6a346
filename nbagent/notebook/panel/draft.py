"""The unsent prompt in a panel's box, with its mentions, attachments and cost.

A line below the box shows the tokens of each mention and attachment, and the tokens and cost of the whole request. The
line is updated when typing pauses, and needs no request to the provider.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Any

from nbagent.chat.attachments import Attachment, parts_of, split_attachments, with_attachments
from nbagent.chat.entry import PanelEntry
from nbagent.chat.files import from_bytes, from_image, not_attached
from nbagent.chat.patch import State
from nbagent.core.content.documents import is_document
from nbagent.core.content.images import content_as_text, images_in
from nbagent.core.messages import Content, LLMMessage
from nbagent.core.render import markdown as render
from nbagent.errors import ConfigurationError, NbagentError
from nbagent.notebook.panel.attachments import REMEDY, from_document
from nbagent.notebook.panel.conversation import PanelConversation
from nbagent.notebook.panel.mentions import Mentions, Suggestion, mentioned_words
from nbagent.notebook.panel.skill_mentions import activated, suggest
from nbagent.text import shortened

log = logging.getLogger("nbagent")

#: Characters of an attachment's name, and of a mention's content.
NAME_CHARS, SHOWN_CHARS = 40, 1_000
#: Smaller costs are not shown as numbers.
MIN_COST = 0.0001


class Draft:
    """The draft in a panel's box. `on_change()` is called when `state()` has changed.

    Call all methods on the background loop.
    """

    def __init__(self, conversation: PanelConversation, shell: Any, on_change: Callable[[], None]) -> None:
        self._conversation = conversation
        self._shell = shell
        self._on_change = on_change
        self._mentions = Mentions(shell, conversation.agent)
        self._text = ""
        #: How often the kernel has set the box's text.
        self._n_fills = 0
        #: The turn whose prompt is sent again, in another version.
        self.edited: PanelEntry | None = None
        #: Each attachment with its chip, by number.
        self._attached: dict[int, tuple[Attachment, State]] = {}
        self._numbers = itertools.count()
        self._line = ""
        self._n_changes = 0
        #: The resolved mentions, by word and number of cells that have run.
        self._resolved: dict[tuple[str, int], Attachment] = {}
        self._resolving, self._sending = asyncio.Lock(), asyncio.Lock()

    def state(self) -> State:
        """The box's text, the attachments, the line's HTML and the edited turn's key, as JSON data. Each attachment has
        a number, a name, a description and, if it is an image, a `src`.
        """
        return {
            "box": {"text": self._text, "filled": self._n_fills},
            "draft": {"chips": [chip for _, chip in self._attached.values()], "line": self._line},
            **({"edited": self.edited.key} if self.edited is not None else {}),
        }

    def type(self, text: str) -> None:
        """Record the current text of the box."""
        self._text = text
        self._on_change()

    async def suggest(self, typed: str) -> list[Suggestion]:
        """The completions of a typed `@` or `/` and the characters after it."""
        if typed.startswith("/"):
            return await asyncio.to_thread(lambda: list(suggest(self._conversation.agent, typed)))
        return await asyncio.to_thread(self._mentions.suggest, typed.removeprefix("@"))

    async def attach_file(self, name: str, data: bytes | None) -> None:
        """Attach a pasted or dropped file. `data` is None if the file was too large to send. Raises
        `ConfigurationError` if the file can't be attached.
        """
        if data is None:
            raise not_attached(name, "it is too large. Save it next to the notebook and mention it with @ and its name")
        self._attach(await asyncio.to_thread(from_bytes, name, data, REMEDY))
        self._on_change()

    def detach(self, number: int) -> None:
        """Remove an attachment."""
        self._attached.pop(number, None)
        self._on_change()

    def edit(self, key: str) -> None:
        """Put a turn's prompt into the box, so the user can edit it and send it again."""
        entry = self._conversation.find(key)
        if entry in self._conversation.editable:
            self.edited = entry
            self._attached.clear()
            self._fill(self._restored(entry.message.content))

    def stop_editing(self) -> None:
        """Empty the box if the prompt of an earlier turn is being edited in it."""
        if self.edited is not None:
            self.edited = None
            self._attached.clear()
            self._fill("")

    def give_back(self, content: Content) -> None:
        """Put an unsent prompt back into the box, below the box's current text."""
        self._fill("\n\n".join(filter(str.strip, [self._text, self._restored(content)])))

    def _attach(self, *attachments: Attachment) -> None:
        for attachment in attachments:
            number = next(self._numbers)
            name, about = render.printable(attachment.name), _about(attachment)
            self._attached[number] = attachment, {"number": number, "name": name, "about": about, **_src(attachment)}

    def _restored(self, content: Content) -> str:
        """Attach a prompt's attachments again, and return its text. Mentions in the text are resolved again."""
        own, attachments = split_attachments(content)
        images = [part for part in parts_of(own) if part.get("type") == "image"]
        pictures = [from_image(f"image {number}", part) for number, part in enumerate(images, 1)]
        documents = [from_document(part) for part in parts_of(own) if is_document(part)]
        self._attach(*pictures, *documents, *(each for each in attachments if not each.is_mention))
        return LLMMessage("user", own).text

    def _fill(self, text: str) -> None:
        self._n_fills += 1
        self.type(text)

    async def send(self, text: str) -> None:
        """Send the text and the attachments, with the current content of mentions. Raises `ConfigurationError` if a
        mention can't be attached.
        """
        text, replaced, attached = text.strip(), self.edited, self._attachments
        self._text, self.edited = "", None
        self._attached.clear()
        self.follow()
        async with self._sending:  # in order, however long it takes to read the mentions
            try:
                resolve = self._mentions.resolve
                found = [await asyncio.to_thread(resolve, word) for word in mentioned_words(text)]
                skills = await self._skills(text, replaced)
            except Exception:
                self.edited = replaced
                self.give_back(with_attachments(text, attached))
                raise
            content = with_attachments(text, [*skills, *filter(None, found), *attached])
            self._conversation.ask(content, self.give_back, replaced)

    @property
    def _attachments(self) -> list[Attachment]:
        return [attachment for attachment, _ in self._attached.values()]

    async def _skills(self, text: str, replaced: PanelEntry | None) -> list[Attachment]:
        message = None if replaced is None else replaced.message
        return await asyncio.to_thread(activated, self._conversation.agent, text, message)

    def follow(self) -> None:
        """Update the line after a possible change of the text, the attachments, the history or the model."""
        if self.edited not in self._conversation.editable:
            self.edited = None
        self._n_changes += 1
        if self._text.strip() or self._attached:
            self._conversation.run_on_loop(self._update, self._n_changes)
        else:
            self._resolved.clear()
            self._show("")

    async def _update(self, n_changes: int) -> None:
        async with self._resolving:
            if n_changes != self._n_changes:  # a later update follows
                return
            try:
                page = await self._line_html(self._text)
            except Exception:  # the preview is optional: errors are shown when the prompt is sent
                log.debug("the prompt can't be previewed", exc_info=True)
                page = ""
        if n_changes == self._n_changes:
            self._show(page)

    def _show(self, line: str) -> None:
        if line != self._line:
            self._line = line
            self._on_change()

    async def _line_html(self, text: str) -> str:
        attached, edited = self._attachments, self.edited
        found = await asyncio.to_thread(lambda: [self._resolve(word) for word in mentioned_words(text)])
        skills = await self._skills(text, edited)
        mentioned = [*skills, *(each for each in found if isinstance(each, Attachment))]
        spans = [_span(_summary(each), shows=content_as_text(each.content)) for each in mentioned]
        spans += [_span(each, "nbagent-bad") for each in found if isinstance(each, str)]
        content = with_attachments(text, [*mentioned, *attached])
        replaces = None if edited is None else edited.message
        stream = self._conversation.agent.chat_stream(content, replaces=replaces)
        try:
            preview = await asyncio.to_thread(stream.preview)
        except NbagentError:  # of the model, such as a missing key: mentions are still shown
            return "".join(spans)
        return "".join([*spans, _span(f"about {preview.tokens:,} tokens{_cost(preview.cost)}", "nbagent-sum")])

    def _resolve(self, word: str) -> Attachment | str | None:
        """A word's object, or why it can't be attached. It is converted once after each cell."""
        key = word, getattr(self._shell, "execution_count", 0)
        try:
            found = self._resolved.get(key) or self._mentions.resolve(word)
        except ConfigurationError as error:
            return str(error)
        if found is not None:
            self._resolved[key] = found
        return found


def _src(attachment: Attachment) -> dict[str, str]:
    """The chip's image, if it shows one."""
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
