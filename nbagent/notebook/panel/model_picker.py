"""The panel's model picker: a button with the model's name, and a searchable list of models with what is known about
each.

A provider's model names are shown as text, never as HTML. A typed key is never part of saved state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from nbagent.chat.patch import State
from nbagent.core.render import markdown as render
from nbagent.errors import AuthenticationError, NbagentError
from nbagent.notebook.known_models import (
    LocalModel,
    all_models,
    find_models,
    local_models,
    measured_speeds,
    model_facts,
)
from nbagent.notebook.panel.conversation import PanelConversation
from nbagent.pricing import context_window
from nbagent.providers import create_provider, provider_names, resolve
from nbagent.providers.base import ListedModel, LLMProvider
from nbagent.providers.catalog import CATALOG, with_keys
from nbagent.text import shortened

log = logging.getLogger("nbagent")

#: Rows sent at a time, and characters of a name in them.
MAX_ROWS, MAX_NAME = 50, 80


class ModelPicker:
    """An agent's current model and, while the picker is open, the list from which the user can choose another model.

    `on_change()` is called when `state()` has changed. Call all methods on the background loop.
    """

    def __init__(self, conversation: PanelConversation, on_change: Callable[[], None]) -> None:
        self._conversation = conversation
        self._agent = conversation.agent
        self._on_change = on_change
        self._used: dict[str, LLMProvider] = {}  # by `provider:model`
        self._listed: dict[str, list[ListedModel]] = {}  # by provider
        self._local: dict[str, LocalModel] = {}
        self._speeds: dict[str, float] = {}
        self._models: list[str] = []  # all searchable models
        self._is_open = False
        self._searched = self._note = ""
        #: The model that needs a key, and the action that continues once there is one.
        self._missing_key: tuple[str, Callable[[], Awaitable[None]]] | None = None
        self._current()  # now, not later on the loop: the notebook's display of the agent names its model

    def state(self) -> State:
        """The model's `name` and `title` and, while the list is open, `open` with the list's rows or a request for a
        key.
        """
        spec = self._current()
        if not self._conversation.is_idle:
            self._close()
        name = render.printable(spec.partition(":")[2] or spec)
        return {
            "name": shortened(name, MAX_NAME) or "Choose a model",
            "title": f"Model: {render.printable(spec)}" if spec else "No model can be used yet",
            **({"open": self._list_state(spec)} if self._is_open else {}),
        }

    def _list_state(self, spec_in_use: str) -> State:
        if self._missing_key is not None:
            spec = self._missing_key[0]
            provider = spec.partition(":")[0]
            what = f"{_plain(spec)} needs a key of {provider}, {CATALOG[provider].key_variable()}."
            return {"key": f"{what} This kernel keeps it in memory only."}
        found = find_models(self._searched, self._models)
        rows = [self._row(spec) for spec in found[:MAX_ROWS]]
        more = len(found) - len(rows)
        note = self._note or (f"… and {more:,} more: type to narrow" if more else "" if rows else "Nothing found.")
        return {"rows": rows, "used": spec_in_use, "note": note, "ask": self._provider_to_ask()}

    def _row(self, spec: str) -> list[str]:
        """`provider:model`, then its cells: the name, memory and speed, the provider, the date, the context window, and
        whether it takes images and thinks. Unknown values are empty. An unknown name has only one cell.
        """
        provider_name, _, name = spec.partition(":")
        if spec not in self._used and spec not in self._models:
            return [spec, f"Use {_plain(spec)}"]
        facts, provider, local = model_facts(provider_name, name), self._used.get(spec), self._local.get(spec)
        needs_key = (
            provider_name in CATALOG and not CATALOG[provider_name].keyless and not CATALOG[provider_name].api_key()
        )
        speed = f"{self._speeds[spec]:.3g} tokens/s here" if local and spec in self._speeds else ""
        listed = next((each for each in self._listed.get(provider_name, ()) if each.name == name), None)
        return [
            spec,
            _plain(name or provider_name),
            ", ".join(filter(None, [local.memory if local else "", speed])),
            f"{_plain(local.title if local else provider_name)}{', no key' * needs_key}",
            str(listed.created) if listed and listed.created else "",
            _size(context_window(provider) if provider is not None else facts.window),
            *("" if each is None else "✓" if each else "no" for each in (facts.images, facts.thinking)),
        ]

    def act(self, do: str, value: Any = None) -> None:
        """Handle the user's action in the picker: open, close, search, enter, choose, list, key or back."""
        start = self._conversation.run_on_loop
        match do:
            case "open":
                self._is_open, self._missing_key, self._searched, self._note = True, None, "", ""
                start(self._read_models)
            case "close":
                self._close()
            case "search":
                self._searched, self._note = value, ""
            case "enter":  # perhaps before the list was read
                start(self._choose_first, value)
            case "choose" if self._conversation.is_idle:
                start(self._switch, value)
            case "list":
                start(self._fetch, value)
            case "key" if value.strip() and self._missing_key is not None:
                spec, go_on = self._missing_key
                CATALOG[spec.partition(":")[0]].keep_key(value)
                self._missing_key = None
                start(go_on)
            case "back":
                self._missing_key = None
        self._on_change()

    def _close(self) -> None:
        self._is_open, self._missing_key = False, None

    async def _read_models(self) -> None:
        self._current()
        await asyncio.to_thread(self._read)
        self._on_change()

    def _read(self) -> None:
        """Find all models. Call it in a thread: the list is large, and local servers are queried."""
        self._local = local_models()
        self._speeds = measured_speeds(self._agent.trace.rows("calls"))
        self._models = all_models(list(self._used), dict(self._listed), self._local)

    async def _choose_first(self, text: str) -> None:
        if not self._models:
            await self._read_models()
        if (found := find_models(text, self._models)) and self._conversation.is_idle:
            await self._switch(found[0])

    async def _switch(self, spec: str) -> None:
        notice = ""
        try:
            await asyncio.to_thread(self._use, spec)  # this may import an SDK
        except Exception as error:  # a user's factory may raise anything
            if self._asks_key(spec, error, lambda: self._switch(spec)):
                return
            log.info("the provider %s can't be made", spec, exc_info=True)
            notice = f"{spec}: {error}"
        self._close()
        self._conversation.show_notice(notice)

    def _use(self, spec: str) -> None:
        local = self._local.get(spec)
        made = create_provider(local.provider, **local.options) if local and spec not in self._used else spec
        self._agent.provider = self._used.get(spec, made)

    def _provider_to_ask(self) -> str:
        """The provider in the search, else the current model's; empty if it can't list models."""
        words = self._searched.replace(":", " ").split()
        provider = next((word for word in words if word in provider_names()), self._current().partition(":")[0])
        return "" if provider in CATALOG and CATALOG[provider].free else provider

    async def _fetch(self, provider: str) -> None:
        """Request a provider's list of models."""
        self._note = f"Asking {provider}…"
        self._on_change()
        try:
            listed = await self._list_of(provider)
            self._listed[provider] = [ListedModel(each) if isinstance(each, str) else each for each in listed]
            self._note = f"{provider} lists {len(self._listed[provider]):,} models."
        except Exception as error:  # a user's provider may raise anything
            if self._asks_key(provider, error, lambda: self._fetch(provider)):
                return
            log.info("the models of %s can't be listed", provider, exc_info=True)
            self._note = f"{provider}: {error}"
        await self._read_models()

    async def _list_of(self, provider_name: str) -> Sequence[ListedModel | str]:
        """The provider's models. A user's own provider may list plain names."""
        current = self._used.get(self._current())
        if current is not None and current.provider_name == provider_name:
            return await current.model_list()
        provider = await asyncio.to_thread(resolve, provider_name)
        try:
            return await provider.model_list()
        finally:
            await provider.aclose()

    def _asks_key(self, spec: str, error: Exception, go_on: Callable[[], Awaitable[None]]) -> bool:
        """Ask for a key if the error says that there is none, rather than that a provider refused it."""
        if not isinstance(error, AuthenticationError) or error.status or spec.partition(":")[0] not in with_keys():
            return False
        self._missing_key = spec, go_on
        self._on_change()
        return True

    def _current(self) -> str:
        """The agent's `provider:model`; empty if the provider can't be created."""
        try:
            provider = self._agent.provider
        except (NbagentError, ImportError) as error:
            self._conversation.notice = str(error)
            return ""
        spec = f"{provider.provider_name}:{provider.model_name}"
        self._used[spec] = provider
        return spec


def _size(tokens: int | None) -> str:
    """A number of tokens as short text.

    >>> _size(1_050_000), _size(128_000), _size(None)
    ('1.05M', '128k', '')
    """
    if not tokens:
        return ""
    return f"{tokens / 1e6:.3g}M" if tokens >= 1e6 else f"{tokens / 1e3:.3g}k"


def _plain(name: str) -> str:
    """A name for a row: on one line, shortened, with visible control characters."""
    return shortened(" ".join(render.printable(name).split()), MAX_NAME)
