"""The panel's choices: the model, the tools that it offers, the system prompt."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from typing import Any

import ipywidgets as widgets

from nbagent.errors import NbagentError
from nbagent.providers.catalog import CATALOG

log = logging.getLogger("nbagent")
NO_TOOLS = "None yet: decorate a function with @tool, or %agent tools add NAME."


class Setup:
    """`models` is the picker in the panel's bar, `box` the rest. Changes are made on the background loop."""

    def __init__(self, conversation: Any) -> None:
        self._conversation = conversation
        self._agent = conversation.agent
        self._specs: dict[str, Any] = {}
        self._shown: tuple[str, ...] = ()
        self._task: asyncio.Task[None] | None = None
        #: The thread that shows what holds now. What changes there is no wish of the reader's.
        self._updating: int | None = None
        layout = widgets.Layout(width="auto")
        self.models = widgets.Dropdown(options=[], layout=layout, description="Model").add_class("nbagent-model")
        self._other = widgets.Text(description="Another model: Enter switches to it", continuous_update=False)
        self._other.layout, self._other.placeholder = layout, "vendor:model"
        self._prompt = widgets.Textarea(description="System prompt", continuous_update=False, rows=3, layout=layout)
        self._prompt.placeholder = "Who the agent is, what it should know"
        self._tools = widgets.VBox()
        self.box = widgets.VBox(
            [_head("Another model"), self._other, _head("Tools"), self._tools, _head("System prompt"), self._prompt]
        ).add_class("nbagent-setup")

    @property
    def tools(self) -> str:
        """How many tools are offered."""
        known, offered = len(self._agent.function_registry.names()), len(self._agent.offered_tools())
        return f"{f'{offered} of {known}' if offered < known else known} tool{'s' * (known != 1)}"

    def listen(self) -> None:
        """Begin to take changes."""
        self.models.observe(lambda change: self._hand_over(self._switch, change["new"]), "value")
        self._other.observe(lambda change: self._hand_over(self._switch, change["new"].strip()), "value")
        self._prompt.observe(lambda change: self._hand_over(self._set_prompt, change["new"]), "value")

    def _hand_over(self, action: Any, value: Any) -> None:
        if self._updating != threading.get_ident():  # a reader's click comes on another, also in the middle of that
            self._conversation.call(action, value)

    def update(self) -> None:
        """Show what holds now; nothing can be changed while a run goes on."""
        self._updating = threading.get_ident()
        try:
            self._update_models()
            self._update_tools()
            prompt = self._agent.system_prompt or ""
            if self._prompt.value != prompt:
                self._prompt.value = prompt
        finally:
            self._updating = None
        for widget in (self.models, self._other, self._prompt):
            widget.disabled = self._conversation.busy or self._conversation.asking

    def _update_models(self) -> None:
        try:
            provider = self._agent.provider
            current = f"{provider.vendor}:{provider.model_name}"
            self._specs[current] = provider
        except (NbagentError, ImportError) as error:
            current, self._conversation.notice = "", str(error)
        for spec in _known():
            if not any(each.startswith(f"{spec}:") for each in self._specs):
                self._specs.setdefault(spec, spec)
            elif current.startswith(f"{spec}:"):
                self._specs.pop(spec, None)
        options = tuple(self._specs) if current else ("", *self._specs)
        if self.models.options != options:
            self.models.options = options
        if self.models.value != current:
            self.models.value = current

    def _update_tools(self) -> None:
        names = tuple(self._agent.function_registry.names())
        off = self._agent.tools_off
        if names != self._shown:
            self._shown = names
            old, self._tools.children = self._tools.children, tuple(map(self._tool, names))
            for widget in old:
                widget.close()
        for name, box in zip(names, self._tools.children, strict=False):
            if names and box.value == (name in off):
                box.value = name not in off
        if not names and not self._tools.children:
            self._tools.children = (widgets.HTML(f'<div class="nbagent-status">{NO_TOOLS}</div>'),)

    def _tool(self, name: str) -> Any:
        tool = self._agent.function_registry.get_function(name)
        about = tool.description.strip().partition("\n")[0] if tool else ""
        box = widgets.Checkbox(name not in self._agent.tools_off, description=name, indent=False, tooltip=about)
        box.observe(lambda change: self._hand_over(lambda on: self._offer(name, on), change["new"]), "value")
        return box

    def _offer(self, name: str, on: bool) -> None:
        (self._agent.tools_off.discard if on else self._agent.tools_off.add)(name)
        self._conversation.tell(self._conversation.notice)

    def _set_prompt(self, text: str) -> None:
        self._agent.system_prompt = text or None
        self._conversation.tell("")

    def _switch(self, spec: str) -> None:
        if spec and not self._conversation.busy:
            self._task = asyncio.get_running_loop().create_task(self._switched(spec))

    async def _switched(self, spec: str) -> None:
        """Making a provider may import its vendor's SDK: in a thread."""
        notice = ""
        try:
            await asyncio.to_thread(setattr, self._agent, "provider", self._specs.get(spec, spec))
        except Exception as error:  # a factory of the user's may raise anything
            log.info("the provider %s can't be had", spec, exc_info=True)
            notice = f"{spec}: {error}"
        self._conversation.tell(notice)


def _known() -> list[str]:
    """What can be chosen without further ado: what NBAGENT_MODEL names, vendors with a key, the local model."""
    named = [os.environ["NBAGENT_MODEL"]] if os.environ.get("NBAGENT_MODEL") else []
    with_key = [f"{row.name}:{row.model}" for row in CATALOG.values() if not row.keyless and row.api_key()]
    return list(dict.fromkeys([*named, *with_key, "local"]))


def _head(text: str) -> Any:
    return widgets.HTML(f'<div class="nbagent-head">{text}</div>')
