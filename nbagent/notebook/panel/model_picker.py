"""The panel's model picker: a button that names the model, and below it a list to search, with abilities.

It consists of ipywidgets. `model_picker.js` adds keys, columns, and a key field whose text is in no widget's state.
What a vendor calls its models is shown as text, never as HTML.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as widgets
from traitlets import Unicode

from nbagent.core.render import markdown as render
from nbagent.errors import AuthenticationError, NbagentError
from nbagent.notebook.known_models import ModelFacts, is_special, known_models, model_facts, models_without_setup
from nbagent.notebook.panel.conversation import PanelConversation
from nbagent.pricing import context_window
from nbagent.providers import provider_names, resolve
from nbagent.providers.catalog import CATALOG, with_keys
from nbagent.text import shortened

log = logging.getLogger("nbagent")

PICKER_STYLE = render.style_html(Path(__file__).with_name("model_picker.css"))
#: Rows that are sent at a time, and characters of a name in them.
MAX_ROWS, MAX_NAME = 50, 80
HEADS = ("Model", "Vendor", "Context", "Tools", "Images", "Thinks")
ABOUT = "A dash means: not known."
UNKNOWN = "–"
USE = "Use "


class KeyField(widgets.Password):
    """What is typed here is not sent back to all front ends, as the text of other fields is."""

    value = Unicode().tag(sync=True, echo_update=False)


class PickerScript(anywidget.AnyWidget):
    """Runs `model_picker.js`. Where it can't run, the picker works with clicks.

    The script sends `{"choose": row}` for a click on a row, `{"enter": text}` for Enter in the search box, `{"key":
    text}` for a typed key, and `{"leave": True}` for Escape. `{"focus": selector}` puts the cursor into a field.
    """

    _esm = Path(__file__).with_name("model_picker.js")


class ModelPicker:
    """`box` stands in the panel's bar: a button that names the model, and the list that it opens.

    `script` can stand anywhere in the panel.
    """

    def __init__(self, conversation: PanelConversation, max_height: str) -> None:
        self._conversation = conversation
        self._agent = conversation.agent
        self._used: dict[str, Any] = {}  # the providers used so far, by `vendor:model`
        self._listed: dict[str, list[str]] = {}  # what vendors said that they offer
        self._models: list[str] = []  # all that can be searched
        self._specs: dict[str, str] = {}  # what a row means, since the picker was opened
        self._shown: tuple[list[str], str | None] | None = None  # the rows in the list, and the one in use
        self._after_key: Callable[[], Awaitable[None]] | None = None  # what waits for a key
        self._typed_key = self._key_vendor = ""
        self._task: asyncio.Task[None] | None = None
        self._is_key_entered = False
        self.script = PickerScript()
        self._make(max_height)
        self._current()  # chosen here, not later on the loop: what the notebook shows of the agent names its model

    def _make(self, max_height: str) -> None:
        self._button = widgets.Button().add_class("nbagent-model")
        layout = {"width": "auto"}
        self._search = widgets.Text(description="Search models", placeholder="Search, or type vendor:model")
        self._search.add_class("nbagent-picker-search").layout = layout
        head = "".join(f"<span>{name}</span>" for name in HEADS)
        self._head = widgets.HTML(f'<div class="nbagent-picker-head {render.NO_TEX}" title="{ABOUT}">{head}</div>')
        self._rows = widgets.ToggleButtons(options=[], layout=layout).add_class("nbagent-picker-rows")
        self._note = widgets.HTML()
        self._list_button = widgets.Button(tooltip="Ask the vendor which models it offers with this key")
        self._foot = widgets.HBox([self._note, self._list_button]).add_class("nbagent-picker-foot")
        self._key_head = widgets.HTML()
        self._key = KeyField(description="Key", continuous_update=False, layout=layout)
        self._use_key = widgets.Button(description="Use key", button_style="primary")
        self._back = widgets.Button(description="Back", tooltip="Choose another model")
        row = widgets.HBox([self._key, self._use_key, self._back])
        self._key_form = widgets.VBox([self._key_head, row]).add_class("nbagent-picker-key")
        self._list = [self._search, self._head, self._rows, self._foot]
        self._popup = widgets.VBox([*self._list, self._key_form]).add_class("nbagent-picker")
        self._popup.layout.display, self._popup.layout.max_height = "none", max_height
        self.box = widgets.HBox([self._button, self._popup]).add_class("nbagent-models")

    def listen(self) -> None:
        """Begin to act on clicks and keys."""
        call = self._conversation.run_on_loop
        self._button.on_click(lambda _: call(self._toggle))
        self._search.observe(lambda change: call(self._show_rows), "value")
        self._rows.on_msg(lambda _, message, buffers: call(self._on_row, self._rows.value))
        self._list_button.on_click(lambda _: call(self._start, self._fetch))
        self._key.observe(lambda change: self._on_key_typed(change["new"]), "value")
        self._key.on_msg(lambda _, message, buffers: setattr(self, "_is_key_entered", True))
        self._use_key.on_click(lambda _: call(self._store_key))
        self._back.on_click(lambda _: call(self._show_list))
        self.script.on_msg(lambda _, message, buffers: call(self._on_script_message, message))

    def update(self, is_locked: bool) -> None:
        """Show the agent's model. It can't be changed while `is_locked`."""
        spec = self._current()
        name = render.printable(spec.partition(":")[2] or spec)
        self._button.description = shortened(name, MAX_NAME) or "Choose a model"
        self._button.tooltip = f"Model: {render.printable(spec)}" if spec else "No model can be used yet"
        self._button.disabled = is_locked
        if is_locked:
            self._close()

    # -- what clicks and keys do, on the background loop --------------------------------------------------------------

    def _on_script_message(self, message: dict[str, Any]) -> None:
        if row := message.get("choose"):
            self._on_row(str(row))
        elif "enter" in message:
            self._start(lambda: self._choose_first(str(message["enter"])))
        elif key := message.get("key"):
            self._typed_key = str(key)
            self._store_key()
        elif message.get("leave"):
            self._close()

    def _toggle(self) -> None:
        (self._open if self._popup.layout.display == "none" else self._close)()

    def _open(self) -> None:
        self._specs.clear()
        self._shown = None
        self._search.value = ""
        self._popup.layout.display = ""
        self._show_list()
        self._start(self._read_models)

    def _close(self) -> None:
        if self._popup.layout.display != "none":
            self._popup.layout.display = "none"
            self._typed_key = ""

    def _show_list(self) -> None:
        self._show_parts(key_form=False)
        self._show_rows()
        self.script.send({"focus": ".nbagent-picker-search input"})

    def _show_parts(self, key_form: bool) -> None:
        self._typed_key, self._is_key_entered = "", False
        for part in (*self._list, self._key_form):
            part.layout.display = "" if (part is self._key_form) == key_form else "none"

    async def _read_models(self) -> None:
        """In a thread: the list is large."""
        self._current()
        self._models = await asyncio.to_thread(all_models, list(self._used), dict(self._listed))
        self._show_rows()

    def _show_rows(self, note: str = "") -> None:
        """Show the models that the search finds, and what else there is to say."""
        found = self._found(self._search.value)
        shown = found[:MAX_ROWS]
        rows = {self._row(spec): spec for spec in shown}
        self._specs.update(rows)
        spec_in_use = self._current()
        current = next((row for row, spec in rows.items() if spec == spec_in_use), None)
        if (list(rows), current) != self._shown:  # or a click that is on its way would be lost
            self._shown = (list(rows), current)
            with self._rows.hold_sync():
                self._rows.options = list(rows)
                self._rows.value = current
        self._rows.layout.display = "" if rows else "none"
        more = len(found) - len(shown)
        note = note or (f"… and {more:,} more: type to narrow" if more else "" if rows else "Nothing found.")
        self._note.value = f'<span class="{render.NO_TEX}" role="status">{render.escape(note)}</span>'
        self._list_button.description = f"Ask {self._vendor_to_ask()} for its list"

    def _found(self, text: str) -> list[str]:
        """The models that fit the words, after the one that was typed in full."""
        return find_models(text, self._models)

    def _row(self, spec: str) -> str:
        if spec not in self._used and spec not in self._models:
            return f"{USE}{plain(spec)}"
        provider = self._used.get(spec)
        vendor, _, name = spec.partition(":")
        facts = model_facts(vendor, name)
        window = context_window(provider) if provider is not None else facts.window
        return row_text(vendor, name, facts, window)

    def _on_row(self, row: str | None) -> None:
        if row in self._specs:
            self._choose(self._specs[row])

    async def _choose_first(self, text: str) -> None:
        """Choose the first model that the text finds; it may have been typed before the list was read."""
        if not self._models:
            await self._read_models()
        if found := self._found(text):
            self._choose(found[0])

    def _choose(self, spec: str) -> None:
        if not self._button.disabled:
            self._start(lambda: self._switch(spec))

    async def _switch(self, spec: str) -> None:
        """In a thread: making a provider may import its vendor's SDK."""
        notice = ""
        try:
            await asyncio.to_thread(setattr, self._agent, "provider", self._used.get(spec, spec))
        except Exception as error:  # a user's factory may raise anything
            if self._needs_key(spec, error):
                self._ask_key(spec, lambda: self._switch(spec))
                return
            log.info("the provider %s can't be made", spec, exc_info=True)
            notice = f"{spec}: {error}"
        self._close()
        self._conversation.show_notice(notice)

    # -- the list of a vendor -----------------------------------------------------------------------------------------

    def _vendor_to_ask(self) -> str:
        """The vendor that the search names, else that of the model in use."""
        words = self._search.value.replace(":", " ").split()
        return next((word for word in words if word in provider_names()), self._current().partition(":")[0])

    async def _fetch(self) -> None:
        """Ask a vendor for the models that it offers."""
        vendor = self._vendor_to_ask()
        self._show_rows(f"Asking {vendor}…")
        try:
            self._listed[vendor] = await self._list_of(vendor)
        except Exception as error:  # a user's provider may raise anything
            if self._needs_key(vendor, error):
                self._ask_key(vendor, self._fetch)
                return
            log.info("the models of %s can't be listed", vendor, exc_info=True)
            self._show_rows(f"{vendor}: {error}")
            return
        await self._read_models()
        self._show_rows(f"{vendor} lists {len(self._listed[vendor]):,} models.")

    async def _list_of(self, vendor: str) -> list[str]:
        current = self._used.get(self._current())
        if current is not None and current.vendor == vendor:
            return list(await current.model_list())
        provider = await asyncio.to_thread(resolve, vendor)
        try:
            return await provider.model_list()
        finally:
            await provider.aclose()

    # -- a key that is missing ----------------------------------------------------------------------------------------

    def _needs_key(self, spec: str, error: Exception) -> bool:
        """Whether the error says that there is no key at all: no vendor answered."""
        return isinstance(error, AuthenticationError) and error.status is None and spec.partition(":")[0] in with_keys()

    def _ask_key(self, spec: str, then: Callable[[], Awaitable[None]]) -> None:
        self._key_vendor, self._after_key = spec.partition(":")[0], then
        variable = CATALOG[self._key_vendor].key_variable()
        what = f"<b>{render.escape(plain(spec))}</b> needs a key of {self._key_vendor}"
        text = f"{what}, <code>{variable}</code>. This kernel keeps it in memory only."
        self._key_head.value = f'<div class="{render.NO_TEX}">{text}</div>'
        self._show_parts(key_form=True)
        self.script.send({"focus": ".nbagent-picker-key input"})

    def _on_key_typed(self, key: str) -> None:
        """Without the script, on the thread of the click: the widget's state is emptied before anything else happens.

        The text comes when the field is left, and after Enter, which is told first.
        """
        if key:
            self._typed_key, self._key.value = key, ""
            if self._is_key_entered:
                self._conversation.run_on_loop(self._store_key)

    def _store_key(self) -> None:
        key, self._typed_key = self._typed_key, ""
        if key.strip() and self._after_key is not None:
            CATALOG[self._key_vendor].keep_key(key)
            self._show_list()
            self._start(self._after_key)

    # -- the rest -----------------------------------------------------------------------------------------------------

    def _start(self, action: Callable[[], Awaitable[None]]) -> None:
        async def act() -> None:
            try:
                await action()
            except Exception as error:  # nobody awaits this task, so the panel and the log report the error
                log.warning("the model picker failed", exc_info=True)
                self._conversation.show_notice(f"{type(error).__name__}: {error}")

        self._task = asyncio.get_running_loop().create_task(act())

    def _current(self) -> str:
        """`vendor:model` of the agent's provider; empty if it can't be made."""
        try:
            provider = self._agent.provider
        except (NbagentError, ImportError) as error:
            self._conversation.notice = str(error)
            return ""
        spec = f"{provider.vendor}:{provider.model_name}"
        self._used[spec] = provider
        return spec


def all_models(used: Iterable[str], listed: dict[str, list[str]]) -> list[str]:
    """All models that can be chosen, as `vendor:model`.

    First those used so far, then those that need no setup, then each vendor's default, then all others, those of
    vendors with a key first. What a vendor has `listed` replaces what is known about it.
    """
    ready = [*used]
    ready += [spec for spec in models_without_setup() if not any(known.startswith(f"{spec}:") for known in ready)]
    names = [name for name in provider_names() if name not in CATALOG or known_models(name)]  # without replay, scripted
    names = sorted(dict.fromkeys([*names, *listed]), key=lambda name: name in CATALOG and not CATALOG[name].api_key())
    known = {name: _names(name, listed.get(name)) for name in names}
    defaults = [f"{vendor}:{models[0]}" if models else vendor for vendor, models in known.items()]
    others = [f"{vendor}:{model}" for vendor, models in known.items() for model in models]
    return list(dict.fromkeys([*ready, *defaults, *others]))


def _names(vendor: str, listed: list[str] | None) -> list[str]:
    """The names of a vendor's models, its default first."""
    known = known_models(vendor)
    if not listed:
        return known
    return sorted(listed, key=lambda name: (name not in known[:1], is_special(name)))


def find_models(text: str, models: Iterable[str]) -> list[str]:
    """The models with all of these words in their names, in any order; first one that was typed in full.

    Two words or more name a family: models with no other words than these come next, and those that don't chat last.
    A text that is the name of no known model, but looks like one, comes first.

    >>> find_models("gpt mini", ["openai:gpt-5.1-codex-mini", "openai:gpt-audio-mini", "openai:gpt-5-mini"])
    ['openai:gpt-5-mini', 'openai:gpt-5.1-codex-mini', 'openai:gpt-audio-mini']
    >>> find_models("claude:my-own", ["claude:claude-sonnet-5"])
    ['claude:my-own']
    """
    typed, words = text.strip(), text.lower().split()
    found = [spec for spec in models if all(word in _searched(spec) for word in words)]
    if words:
        found.sort(key=lambda spec: (is_special(spec), len(words) > 1 and not _is_family(spec, words)))
    exact = [spec for spec in found if typed and typed in (spec, spec.partition(":")[2])]
    vendor, colon, name = typed.partition(":")
    if vendor and colon and name and len(words) == 1 and typed not in exact:
        exact.insert(0, typed)
    return list(dict.fromkeys([*exact, *found]))


def _is_family(spec: str, words: Iterable[str]) -> bool:
    """Whether the model's name has no other words than these, besides its version."""
    vendor, _, name = spec.lower().partition(":")
    return set(re.findall("[a-z]{2,}", name)) == {*words} - {vendor}


def _searched(spec: str) -> str:
    """What a search looks at: the vendor, its other names, and the model."""
    vendor = spec.partition(":")[0]
    aliases = CATALOG[vendor].aliases if vendor in CATALOG else ()
    return " ".join([spec, *aliases]).lower()


def row_text(vendor: str, name: str, facts: ModelFacts, window: int | None = None) -> str:
    """The cells of a model's row, with tabs between them: see `HEADS`.

    >>> row_text("claude", "claude-x", ModelFacts(thinking=True), 1_000_000).split("\\t")[2:]
    ['1M', '–', '–', '✓']
    """
    needs_key = vendor in CATALOG and not CATALOG[vendor].keyless and not CATALOG[vendor].api_key()
    cells = [
        plain(name or vendor),
        f"{plain(vendor)}, no key" if needs_key else plain(vendor),
        _size(window),
        *(UNKNOWN if each is None else "✓" if each else "no" for each in (facts.tools, facts.images, facts.thinking)),
    ]
    return "\t".join(cells)


def _size(tokens: int | None) -> str:
    """Tokens in short.

    >>> _size(1_050_000), _size(128_000), _size(None)
    ('1.05M', '128k', '–')
    """
    if not tokens:
        return UNKNOWN
    return f"{tokens / 1e6:.3g}M" if tokens >= 1e6 else f"{tokens / 1e3:.3g}k"


def plain(name: str) -> str:
    """A name for a row: on one line, with visible control characters, and not too long."""
    return shortened(" ".join(render.printable(name).split()), MAX_NAME)
