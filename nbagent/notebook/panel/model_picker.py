"""The panel's model picker: a button that names the model, and below it a list to search, with abilities.

What a provider calls its models is shown as text, never as HTML. A typed key is in no state that is saved.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from nbagent.chat.patch import State
from nbagent.core.render import markdown as render
from nbagent.errors import AuthenticationError, NbagentError
from nbagent.notebook.known_models import ModelFacts, is_special, known_models, model_facts, models_without_setup
from nbagent.notebook.panel.conversation import PanelConversation
from nbagent.pricing import context_window
from nbagent.providers import provider_names, resolve
from nbagent.providers.catalog import CATALOG, with_keys
from nbagent.text import shortened

log = logging.getLogger("nbagent")

#: Rows that are sent at a time, and characters of a name in them.
MAX_ROWS, MAX_NAME = 50, 80
UNKNOWN = "–"


class ModelPicker:
    """The model of an agent, and the list to choose another one from while it is open.

    `on_change()` is called when `state()` has changed. All is called on the background loop.
    """

    def __init__(self, conversation: PanelConversation, on_change: Callable[[], None]) -> None:
        self._conversation = conversation
        self._agent = conversation.agent
        self._on_change = on_change
        self._used: dict[str, Any] = {}  # the providers used so far, by `vendor:model`
        self._listed: dict[str, list[str]] = {}  # what providers said that they offer
        self._models: list[str] = []  # all that can be searched
        self._is_open = False
        self._searched = self._note = ""
        self._after_key: Callable[[], Awaitable[None]] | None = None  # what waits for a key
        self._key_vendor = ""
        self._key_for: str | None = None  # what needs a key, while it is asked for
        self._current()  # chosen here, not later on the loop: what the notebook shows of the agent names its model

    def state(self) -> State:
        """The model's `name` and `title`; while the list is `open`, its rows, or the key that is asked for."""
        spec = self._current()
        if not self._conversation.is_idle:
            self.close()
        name = render.printable(spec.partition(":")[2] or spec)
        return {
            "name": shortened(name, MAX_NAME) or "Choose a model",
            "title": f"Model: {render.printable(spec)}" if spec else "No model can be used yet",
            **({"open": self._list_state(spec)} if self._is_open else {}),
        }

    def _list_state(self, spec_in_use: str) -> State:
        if self._key_for is not None:
            variable = CATALOG[self._key_vendor].key_variable()
            what = f"{plain(self._key_for)} needs a key of {self._key_vendor}, {variable}."
            return {"key": f"{what} This kernel keeps it in memory only."}
        found = find_models(self._searched, self._models)
        rows = [[spec, *self._row(spec)] for spec in found[:MAX_ROWS]]
        more = len(found) - len(rows)
        note = self._note or (f"… and {more:,} more: type to narrow" if more else "" if rows else "Nothing found.")
        return {"rows": rows, "used": spec_in_use, "note": note, "ask": f"Ask {self._vendor_to_ask()} for its list"}

    # -- what clicks and keys do --------------------------------------------------------------------------------------

    def act(self, do: str, value: Any = None) -> None:
        """Do what a person did in the list: open, close, search, enter, choose, list, key, or back."""
        start = self._conversation.run_on_loop
        match do:
            case "open":
                self._is_open, self._key_for, self._searched, self._note = True, None, "", ""
                start(self._read_models)
            case "close":
                self.close()
            case "search":
                self._searched, self._note = value, ""
            case "enter":  # it may have been typed before the list was read
                start(self._choose_first, value)
            case "choose" if self._conversation.is_idle:
                start(self._switch, value)
            case "list":
                start(self._fetch)
            case "key" if value.strip() and self._after_key is not None:
                CATALOG[self._key_vendor].keep_key(value)
                self._key_for = None
                start(self._after_key)
            case "back":
                self._key_for = None
        self._on_change()

    def close(self) -> None:
        """Show the list no more."""
        self._is_open, self._key_for = False, None

    async def _read_models(self) -> None:
        """In a thread: the list is large."""
        self._current()
        self._models = await asyncio.to_thread(all_models, list(self._used), dict(self._listed))
        self._on_change()

    def _show_note(self, note: str) -> None:
        self._note = note
        self._on_change()

    def _row(self, spec: str) -> list[str]:
        vendor, _, name = spec.partition(":")
        if spec not in self._used and spec not in self._models:
            return [f"Use {plain(spec)}"]
        provider = self._used.get(spec)
        facts = model_facts(vendor, name)
        window = context_window(provider) if provider is not None else facts.window
        return row_cells(vendor, name, facts, window)

    async def _choose_first(self, text: str) -> None:
        if not self._models:
            await self._read_models()
        if (found := find_models(text, self._models)) and self._conversation.is_idle:
            await self._switch(found[0])

    async def _switch(self, spec: str) -> None:
        """In a thread: making a provider may import its SDK."""
        notice = ""
        try:
            await asyncio.to_thread(setattr, self._agent, "provider", self._used.get(spec, spec))
        except Exception as error:  # a user's factory may raise anything
            if self._needs_key(spec, error):
                self._ask_key(spec, lambda: self._switch(spec))
                return
            log.info("the provider %s can't be made", spec, exc_info=True)
            notice = f"{spec}: {error}"
        self.close()
        self._conversation.show_notice(notice)

    # -- the list of a vendor -----------------------------------------------------------------------------------------

    def _vendor_to_ask(self) -> str:
        """The vendor that the search names, else that of the model in use."""
        words = self._searched.replace(":", " ").split()
        return next((word for word in words if word in provider_names()), self._current().partition(":")[0])

    async def _fetch(self) -> None:
        """Ask a vendor for the models that it offers."""
        vendor = self._vendor_to_ask()
        self._show_note(f"Asking {vendor}…")
        try:
            self._listed[vendor] = await self._list_of(vendor)
        except Exception as error:  # a user's provider may raise anything
            if self._needs_key(vendor, error):
                self._ask_key(vendor, self._fetch)
                return
            log.info("the models of %s can't be listed", vendor, exc_info=True)
            self._show_note(f"{vendor}: {error}")
            return
        await self._read_models()
        self._show_note(f"{vendor} lists {len(self._listed[vendor]):,} models.")

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
        self._key_vendor, self._key_for, self._after_key = spec.partition(":")[0], spec, then
        self._on_change()

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


def row_cells(vendor: str, name: str, facts: ModelFacts, window: int | None = None) -> list[str]:
    """The cells of a model's row: its name, the provider, the context window, and whether it takes tools and images and
    thinks.

    >>> row_cells("claude", "claude-x", ModelFacts(thinking=True), 1_000_000)[2:]
    ['1M', '–', '–', '✓']
    """
    needs_key = vendor in CATALOG and not CATALOG[vendor].keyless and not CATALOG[vendor].api_key()
    return [
        plain(name or vendor),
        f"{plain(vendor)}, no key" if needs_key else plain(vendor),
        _size(window),
        *(UNKNOWN if each is None else "✓" if each else "no" for each in (facts.tools, facts.images, facts.thinking)),
    ]


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
