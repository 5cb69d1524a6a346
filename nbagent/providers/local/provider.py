"""`LocalProvider`: a model on this machine, without a key. The default is a small one from a Python package.

llama.cpp runs in a separate server process (see `server.py`), one for each combination of model file and settings.
Providers with the same combination share a server, and all servers end when this process ends. The first request
downloads and loads the model, in a thread.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, aclosing, nullcontext
from pathlib import Path
from typing import Any

from nbagent.checks import check_number
from nbagent.core.browser import check_possible
from nbagent.core.events import Event, Http
from nbagent.core.messages import LLMResponse
from nbagent.core.model_request import ModelRequest
from nbagent.core.threads import DaemonThreads, run_in_thread
from nbagent.errors import ConfigurationError, IncompleteStreamError
from nbagent.providers.base import ListedModel
from nbagent.providers.formats.errors import error_in_answer
from nbagent.providers.formats.openai_chat import usage_of
from nbagent.providers.http.response import Body, read_events
from nbagent.providers.known.open_source import OpenSourceProvider
from nbagent.providers.larger_models import LARGER_MODELS
from nbagent.providers.local.download import SMOLLM2, cached, pull
from nbagent.providers.local.server import LlamaServer, end_unused, shared_server
from nbagent.providers.prompting.provider import Completion

LOADING = "loading the model"
PULLING = "downloading the model"
ANSWERING = "waiting for the model, which is answering another prompt"
#: Recommended by the default model's card: https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct
TEMPERATURE = 0.2
#: Bytes at the start of a GGUF file that are searched for its chat template. A large vocabulary takes 10 MB.
METADATA_BYTES = 2**25
#: Loading blocks for seconds, and must not delay the end of the process.
_threads = DaemonThreads("nbagent-local-model")


class LocalProvider(OpenSourceProvider):
    """A GGUF model, run by llama.cpp on this machine.

    With the default model, nbagent itself chooses the tool and takes the arguments from your prompt. The answer quotes
    the tool's result. A large model does all of this itself.

    - `model`: None for SmolLM2-135M-Instruct, the name of a model that `nbagent pull` downloaded, such as "qwen3.5-4b",
      or the path of a GGUF file, whose model calls tools itself if its chat template supports this
    - `n_ctx`: the size of the context window in tokens, prompt and answer together

    >>> agent = Agent("local")                                              # doctest: +SKIP
    >>> agent = Agent("local:qwen3.5-4b")                                   # doctest: +SKIP
    """

    provider_name = "local"

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        n_ctx: int = 4096,
        timeout: float = 300.0,
        **options: Any,
    ) -> None:
        check_possible(
            "The embedded model", "another process", "Name a recording, 'replay:run.jsonl', or a provider's model."
        )
        path = Path(model).expanduser().resolve() if model and str(model) != SMOLLM2.name else None
        name = path.stem if path else SMOLLM2.name
        if larger := LARGER_MODELS.get(str(model)):
            path, name = cached(larger), larger.name
            if path is None:
                raise larger.missing()
        if path is not None and not path.is_file():
            raise ConfigurationError(
                f"model: expected the path of a GGUF file, got {str(path)!r}, which does not exist. Correct the path, "
                "or omit model to use the embedded model. `nbagent pull` knows the names "
                f"{', '.join(LARGER_MODELS)}."
            )
        # the default model's template does not support tools
        options.setdefault("function_calling", path is not None and b"tools" in _chat_template(path))
        if path is None:
            options.setdefault("temperature", TEMPERATURE)
        super().__init__(model=name, timeout=timeout, **options)
        # the server keeps a thread for each connection, and a local connection is cheap to open
        self.access.headers["Connection"] = "close"
        check_number("n_ctx", n_ctx, whole=True, above=0)
        self.n_ctx = n_ctx
        self._path = path
        self._server: LlamaServer | None = None

    async def load(self) -> AsyncGenerator[Http]:
        """Load the model. Yields an event before each slow step, and one if another prompt is still being answered."""
        if self._server is None or not self._server.alive:
            yield Http(LOADING if self._path or cached() else PULLING)
            await self.prepare()
            yield Http(f"waiting for {self.model_name}")
        if self._server is not None and self._server.prompts:
            yield Http(ANSWERING)

    async def prepare(self) -> None:
        """Download and load the model if necessary, without blocking the event loop."""
        server = self._server
        if server is None or not server.alive:
            path = str(self._path or await run_in_thread(pull))
            server = await _threads.run(shared_server, path, self.model_name, self.n_ctx, self)
        self._server, self.base_url, self.access.key = server, f"{server.address}/v1", server.secret

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Event | LLMResponse]:
        """See `LLMProvider.stream`. The first events are `Http` events that say what the request is waiting for."""
        counted: AbstractContextManager[None] = nullcontext()
        if not isinstance(
            request.resolved, ModelRequest
        ):  # a `PromptedProvider` may need no model, or calls this again
            with request.timing:
                async for note in self.load():
                    yield note
            if self._server is not None:
                counted = self._server.answering()
        with counted:
            async with aclosing(super().stream(request)) as items:
                async for item in items:
                    yield item

    async def complete(self, prompt: str, *, schema: dict[str, Any] | None = None, max_tokens: int = 256) -> Completion:
        """Complete a prompt at temperature 0, without a chat template. With `schema`, the completion is JSON that fits
        it.

        The request is streamed, because otherwise the server does not notice a cancelled task.
        """
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "stream": True}
        if schema is not None:
            body["json_schema"] = schema
        encoded = json.dumps(body).encode()
        await self.prepare()
        assert self._server is not None
        with self._server.answering():
            async with aclosing(self.read("/completions", _completion, encoded)) as items:
                (completion,) = [item async for item in items]
        return completion

    async def model_list(self) -> list[ListedModel]:
        """Return only this model, without loading it."""
        return [ListedModel(self.model_name)]

    async def aclose(self) -> None:
        """Close the connections, and end the model's process if no other provider uses it."""
        await super().aclose()
        server, self._server = self._server, None
        if server is not None:
            server.users.discard(self)
            end_unused()


async def _completion(response: Any) -> AsyncGenerator[Completion]:
    """The streamed text, in one piece."""
    text = ""
    async with aclosing(read_events(response)) as events:
        async for together in events:
            for event in [together] if isinstance(together, Body) else together:
                if "error" in event:
                    raise error_in_answer(event)
                for choice in event.get("choices", ()):
                    text += choice["text"]
                    if reason := choice["finish_reason"]:
                        yield Completion(text, usage_of(event["usage"]), cut_off=reason == "length")
                        return
    raise IncompleteStreamError("the stream ended without its finish reason")


def _chat_template(path: Path) -> bytes:
    """The chat template in a GGUF file, empty if it has none. Raises `ConfigurationError` for any other file.

    It is in the metadata, before the weights: length of the key, key, type (8: a string), length, text.
    https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
    """
    key = b"tokenizer.chat_template"
    with path.open("rb") as file:
        head = file.read(METADATA_BYTES)
    if not head.startswith(b"GGUF"):
        raise ConfigurationError(
            f"model: {str(path)!r} is not a GGUF file: it starts with {head[:20]!r}. Check the path."
        )
    _, _, rest = head.partition(struct.pack("<Q", len(key)) + key + struct.pack("<I", 8))
    return rest[8 : 8 + int.from_bytes(rest[:8], "little")]
