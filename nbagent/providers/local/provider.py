"""`LocalProvider`: a model on this machine, without a key. By default a small one that comes as a Python package.

llama.cpp runs in a process of its own (see `server`), one per model file, shared by all providers of this process
and ended with it. The model is fetched and loaded at the first request, never before, and off the event loop.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib.util
import json
import os
import platform
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import httpx

from nbagent.core.events import Event, Http
from nbagent.core.messages import LLMMessage, LLMResponse, Usage
from nbagent.errors import (
    ConfigurationError,
    IncompleteStreamError,
    LocalModelError,
    MissingDependencyError,
    ServerError,
)
from nbagent.providers.base import Functions
from nbagent.providers.formats import error_message
from nbagent.providers.http.client import CONNECT_TIMEOUT_S, HttpxTransport, Target, read_events
from nbagent.providers.http.connections import Connections
from nbagent.providers.http.errors import provider_error
from nbagent.providers.local.download import SMOLLM2, cached, pull
from nbagent.providers.local.gguf import chat_template
from nbagent.providers.prompting.provider import Completion
from nbagent.providers.vendors.open_source import OpenSourceProvider

LOADING = "loading the model"
PULLING = "fetching the model"
#: A connection breaks a little before the process at its other end counts as ended.
END_S = 0.2
#: A process that could not load its model ends by itself; it is waited for so long.
MOST_S_TO_END = 5
#: More threads than this help no model that fits a notebook's machine.
MOST_THREADS = 8
#: What the default model's card recommends: https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct
TEMPERATURE = 0.2
#: How a process ends that meets an instruction which its processor lacks: by signal, on Windows with this status.
_NO_SUCH_INSTRUCTION = (-signal.SIGILL, 0xC000001D)
T = TypeVar("T")


class LocalProvider(OpenSourceProvider):
    """A GGUF model on llama.cpp, here.

    - `model`: None for SmolLM2-135M-Instruct, else the path of any GGUF file, with the tool template it brings along
    - `n_ctx`: tokens of prompt and answer together
    - `threads`: None for as many as this machine, or container, has processors, less one for everything else
    - `cache_dir`: where the default model is kept, instead of $NBAGENT_CACHE or the user's cache directory

    >>> agent = Agent("local")
    >>> agent = Agent(create_provider("local", model="qwen3-4b.gguf", n_ctx=8192))
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
        path = Path(model).expanduser() if model and str(model) != SMOLLM2.name else None
        if path is not None and not path.is_file():
            raise ConfigurationError(
                f"There is no model file {str(path)!r}. Pass the path of a GGUF file, or no model."
            )
        # the default model's template knows no tools
        options.setdefault("function_calling", path is not None and "tools" in chat_template(path))
        super().__init__(model=path.stem if path else SMOLLM2.name, timeout=timeout, **options)
        self.n_ctx = n_ctx
        self.threads = threads or free_processors()
        self._path = path
        self._cache_dir = cache_dir
        self._server: LlamaServer | None = None

    def waiting(self) -> str | None:
        """What a request now would have to wait for, or None."""
        if self._server is not None and self._server.alive:
            return None
        return LOADING if self._path or cached(cache_dir=self._cache_dir) else PULLING

    async def prepare(self) -> None:
        """Fetch, load and address the model, unless that is done. The event loop goes on meanwhile."""
        if self._server is None or not self._server.alive:
            if self._server is not None:
                self._server.raise_if_broken()
            cancelled = threading.Event()
            try:
                self._server = await in_daemon_thread(lambda: self._load(cancelled))
            finally:
                cancelled.set()
        self._server.users.add(self)
        self.base_url = f"{self._server.address}/v1"
        self._secret = self._server.secret

    def _load(self, cancelled: threading.Event) -> LlamaServer:
        path = self._path or cached(cache_dir=self._cache_dir) or pull(cache_dir=self._cache_dir, cancelled=cancelled)
        return shared_server(path.resolve(), self.model_name, self.n_ctx, self.threads)

    async def stream(
        self,
        messages: list[LLMMessage],
        functions: Functions | None = None,
        temperature: float | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[Event | LLMResponse]:
        """See `LLMProvider.stream`; an `Http` event says first that the model is loaded, where it is not yet."""
        if temperature is None and self._path is None:
            temperature = TEMPERATURE
        if word := self.waiting():
            yield Http(word)
        async with contextlib.aclosing(super().stream(messages, functions, temperature, **kwargs)) as items:
            async for item in items:
                yield item

    async def complete(
        self, prompt: str, *, schema: dict[str, Any] | None = None, max_tokens: int = 256, stop: Sequence[str] = ()
    ) -> Completion:
        """Go on after a bare prompt, at temperature 0; under `schema`, as JSON that fits it.

        It streams under the surface, since only then the server notices that a cancelled task has gone.
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
            raise IncompleteStreamError("the stream has no end", vendor=self.vendor, model=self.model_name)
        cached = end.get("timings", {}).get("cache_n", 0)
        usage = Usage(end.get("tokens_evaluated", 0), end.get("tokens_predicted", 0), cache_read_tokens=cached)
        return Completion(text, usage, cut_off=end["stop_type"] == "limit" or bool(end.get("truncated")))

    async def _completion_events(self, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        assert self._server is not None
        target = replace(self._target("/completion"), base_url=self._server.address)
        try:
            response = await self._transport.open(target, json.dumps(body).encode())
            async with contextlib.aclosing(response), contextlib.aclosing(read_events(response)) as events:
                async for event in events:
                    yield event
        except httpx.HTTPError as exc:
            await asyncio.sleep(END_S)
            self._server.raise_if_broken()
            raise (provider_error(exc, streaming=False) or exc) from None

    async def model_list(self) -> list[str]:
        """The one model, which need not be loaded for this."""
        return [self.model_name]

    async def aclose(self) -> None:
        """Close the connections, and end the model's process where no other provider uses it."""
        await super().aclose()
        server, self._server = self._server, None
        if server is not None:
            server.users.discard(self)
            end_unused()

    def _make_transport(self, client: Any) -> HttpxTransport:
        return _LoopbackTransport(client)


class _LoopbackTransport(HttpxTransport):
    """No connection is used twice: the server keeps a thread for each, and here a new one costs next to nothing."""

    async def _make(self, target: Target) -> tuple[Any, Connections]:
        connections = Connections(httpx, most_kept=0)
        timeout = httpx.Timeout(target.timeout, connect=CONNECT_TIMEOUT_S)
        return connections.plain_client(timeout), connections


# ------------------------------------------------------------------ the model's process


class LlamaServer:
    """A running `server` with one model. Constructing one blocks until the model is loaded."""

    def __init__(self, path: Path, name: str, n_ctx: int, threads: int) -> None:
        from pydantic import SecretStr

        self.secret = SecretStr(secrets.token_urlsafe(24))
        self.users: weakref.WeakSet[LocalProvider] = weakref.WeakSet()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and file
            [sys.executable, "-P", str(Path(__file__).with_name("server.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=os.name != "nt",  # the stop button's signal goes to the kernel's whole process group
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
            | getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        settings = {
            "path": str(path),
            "name": name,
            "n_ctx": n_ctx,
            "threads": threads,
            "key": self.secret.get_secret_value(),
        }
        try:
            self.address = self._start(settings, path)
        except BaseException:
            self.end()
            raise

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def end(self) -> None:
        """End the process; nothing of it needs saving."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def raise_if_broken(self) -> None:
        """`LocalModelError` if the process met an instruction that this processor lacks: no other would fare better."""
        if self._process.poll() in _NO_SUCH_INSTRUCTION:
            raise _broken_engine(self._last_words())

    def _last_words(self) -> str:
        """How the process ended, in words; it has closed its output."""
        status = self._process.wait()
        with contextlib.suppress(ValueError):
            return f"its process was ended by {signal.Signals(-status).name}"
        return f"its process ended with status {status:#x}"

    def _hear(self) -> dict[str, Any]:
        """The next thing that the process says; nothing where it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return dict(json.loads(line)) if line else {}

    def _start(self, settings: dict[str, Any], path: Path) -> str:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already: the answer below is empty
            self._process.stdin.write(json.dumps(settings).encode() + b"\n")
            self._process.stdin.flush()
        engine = self._hear()
        if "imported" not in engine:
            raise _broken_engine(engine.get("broken") or self._last_words())
        answer = self._hear() or {"error": self._last_words()}
        if "address" in answer:
            return str(answer["address"])
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(MOST_S_TO_END)  # then its log is whole
        self.raise_if_broken()
        self._log.seek(0)
        said = [
            text.split(" E ")[-1] for text in self._log.read().decode("utf-8", "replace").splitlines() if " E " in text
        ]
        why = said[0] if said else answer["error"]
        raise LocalModelError(
            f"llama.cpp can't load {path.name}: {why}. Check that the file is a whole GGUF model and fits into memory."
        )


def _broken_engine(why: str) -> LocalModelError:
    return LocalModelError(
        f"llama.cpp (the package xllamacpp) does not run on this machine, {platform.platform()}: {why}. Its wheel is "
        "made for another processor or system. Install another: pip install --force-reinstall xllamacpp (or build it: "
        "--no-binary xllamacpp), use another machine, or use a model with a key (NBAGENT_MODEL)."
    )


_servers: dict[tuple[Any, ...], LlamaServer] = {}
_loading = threading.Lock()


def shared_server(path: Path, name: str, n_ctx: int, threads: int) -> LlamaServer:
    """The process that serves this file with these settings: the running one, else a new one. Blocks."""
    _require_xllamacpp()
    key = (path, name, n_ctx, threads)
    with _loading:
        server = _servers.get(key)
        if server is None or not server.alive:
            if server is not None:
                server.end()
            end_unused()
            server = _servers[key] = LlamaServer(path, name, n_ctx, threads)
        return server


def end_unused(all_of_them: bool = False) -> None:
    """End the processes that no provider uses any more."""
    for key, server in list(_servers.items()):
        if all_of_them or not server.users:
            _servers.pop(key, None)
            server.end()


atexit.register(end_unused, all_of_them=True)


def _require_xllamacpp() -> None:
    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingDependencyError(
            "The embedded model needs xllamacpp: pip install 'nbagent[local]'. It has wheels for Linux, macOS and "
            f"Windows on usual processors; where there is none for {platform.platform()}, use a model with a key."
        )


def free_processors() -> int:
    """The processors that this process may use (its affinity, and the quota of its container), less one.

    llama.cpp's threads wait for each other at every step without sleeping: where one of them has to share its processor
    with other work, all of them stand still, and an answer takes minutes instead of seconds.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        if quota != "max":
            count = min(count, max(1, round(int(quota) / int(period))))
    return max(1, min(count - 1, MOST_THREADS))


async def in_daemon_thread(func: Callable[[], T]) -> T:
    """Run `func` off the event loop, in a thread that never keeps the process from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if future.done():  # nobody waits any more
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast("T", result))

    def run() -> None:
        result, error = None, None
        try:
            result = func()
        except BaseException as exc:  # noqa: BLE001 - it is raised again where it is awaited
            error = exc
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(deliver, result, error)

    threading.Thread(target=run, name="nbagent local model", daemon=True).start()
    return await future
