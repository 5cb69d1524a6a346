"""Finds model servers on this machine, on the default ports of Ollama, LM Studio and llama.cpp.

`Agent()` looks for them if no model is named and no key is found. It queries them all at once, and only at loopback
addresses. Another user's server is not chosen: it would see your conversation, and its answers could call your tools.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from nbagent.core.browser import IN_BROWSER
from nbagent.providers.catalog import CATALOG

#: Seconds within which a server must start to respond.
ANSWER_S = 0.05
#: Additional seconds for it to report its models' abilities.
MODELS_S = 1.0
#: User ids below this one belong to the system, such as Ollama's service.
FIRST_USER = 1000

#: Requests a path, with JSON data or without, and returns the JSON data of the response.
Ask = Callable[..., Any]
#: The size of each model's weights in bytes, by name; None if the server does not say.
Sizes = dict[str, int | None]


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A model server that responded."""

    title: str
    #: The name for `create_provider`.
    provider: str
    base_url: str
    #: Its model that can call tools, or why `Agent()` does not choose it.
    model: str = ""
    problem: str = ""
    #: All its models, including models that can't call tools.
    sizes: Sizes = field(default_factory=dict)

    def options(self, model: str = "") -> dict[str, Any]:
        """The options for `create_provider`, with a price of zero and a timeout long enough to load the model."""
        price = {"input": 0.0, "output": 0.0}
        return {"model": model or self.model, "base_url": self.base_url, "timeout": 300.0, "price": price}


def _of_ollama(ask: Ask) -> tuple[str, Sizes]:
    """The most recently pulled model that can call tools and runs here, not in Ollama's cloud."""
    ask("/api/version")  # quick, while a long list of models takes longer
    here = [each for each in ask("/api/tags")["models"] if not each.get("remote_host")]
    sizes = {str(each["name"]): each.get("size") for each in here}
    for each in here:
        abilities = each.get("capabilities") or ask("/api/show", {"model": each["name"]}).get("capabilities")
        if "tools" in (abilities or ()):
            return str(each["name"]), sizes
    return "", sizes


def _of_lm_studio(ask: Ask) -> tuple[str, Sizes]:
    """A loaded model that can call tools, else the first one that could be loaded."""
    models = [each for each in ask("/api/v0/models")["data"] if each.get("type") != "embeddings"]
    sizes: Sizes = {str(each["id"]): None for each in models}
    with suppress(ValueError, LookupError):  # versions before 0.4 don't report it
        sizes |= {each["key"]: each["size_bytes"] for each in ask("/api/v1/models")["models"] if each["key"] in sizes}
    usable = [each for each in models if "tool_use" in each.get("capabilities", ())]
    return str(min(usable, key=lambda each: each.get("state") != "loaded")["id"]) if usable else "", sizes


def _of_llama_cpp(ask: Ask) -> tuple[str, Sizes]:
    """The model that the server was started with, if its template supports tools."""
    properties = ask("/props")
    model, size = str(properties.get("model_alias") or "default"), None
    with suppress(ValueError, LookupError):
        size = ask("/v1/models")["data"][0]["meta"]["size"]
    return model if "tools" in properties["chat_template"] else "", {model: size}


#: Title, provider, address ("" for `_ollama_address`), and a function that returns the model to choose and all sizes.
SERVERS: tuple[tuple[str, str, str, Callable[[Ask], tuple[str, Sizes]]], ...] = (
    ("Ollama", "ollama", "", _of_ollama),
    ("LM Studio", "open_source", "http://127.0.0.1:1234/v1", _of_lm_studio),
    ("llama.cpp", "open_source", "http://127.0.0.1:8080/v1", _of_llama_cpp),
)


def _ollama_address() -> str:
    """The address in OLLAMA_BASE_URL, else Ollama's own OLLAMA_HOST: a host, a port after a colon, or both."""
    host = os.environ.get("OLLAMA_HOST", "").strip().rpartition("://")[2].partition("/")[0]
    name, _, port = host.rpartition(":") if re.search(r":\d+$", host) else (host, "", "")
    name = "127.0.0.1" if name == "0.0.0.0" else name or "localhost"  # noqa: S104 - a server's way to say "anywhere"
    return CATALOG["ollama"].chosen_address() or f"http://{name}:{port or 11434}/v1"


def local_servers(patience: float = 0.0) -> list[LocalServer]:
    """The servers that start to respond within `ANSWER_S` plus `patience` seconds, in the order of `SERVERS`.

    Blocks. Raises `ConfigurationError` if an environment variable does not contain an address.
    """
    if IN_BROWSER:
        return []
    from nbagent.providers.http.address import checked_address, is_loopback

    queries = []
    for title, provider, address, model_of in SERVERS:
        server = LocalServer(title, provider, checked_address(address or _ollama_address()))
        if is_loopback(urlsplit(server.base_url).hostname or ""):
            queries.append(_Query(server, model_of, ANSWER_S + patience))
    until = monotonic() + ANSWER_S + patience + MODELS_S
    for query in queries:
        query.join(max(0.0, until - monotonic()))
    return [query.found for query in queries if query.found]


class _Query(threading.Thread):
    """Queries one server."""

    def __init__(self, server: LocalServer, model_of: Callable[[Ask], tuple[str, Sizes]], timeout: float) -> None:
        super().__init__(name="nbagent-local-server", daemon=True)
        self._server, self._model_of, self._timeout = server, model_of, timeout
        self.found: LocalServer | None = None
        self.start()

    def run(self) -> None:
        try:
            model, sizes = self._model_of(self._ask)
        except (OSError, HTTPException):  # nothing listens there, or not with HTTP
            return
        except (ValueError, LookupError, TypeError, AttributeError):  # another kind of server
            return
        problem = "" if model else "it has no model that can call tools"
        if not _is_trusted(urlsplit(self._server.base_url).port or 80):
            model, problem, sizes = "", "another user runs it", {}
        self.found = replace(self._server, model=model, problem=problem, sizes=sizes)

    def _ask(self, path: str, data: Any = None) -> Any:
        address = urlsplit(self._server.base_url)
        with closing(HTTPConnection(address.hostname or "", address.port or 80, timeout=self._timeout)) as connection:
            body = None if data is None else json.dumps(data)
            path = f"{address.path.removesuffix('/v1')}{path}"
            connection.request("POST" if body else "GET", path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status != 200:
                raise ValueError(response.status)
            answer = json.loads(response.read())
        self._timeout = MODELS_S
        return answer


def _is_trusted(port: int) -> bool:
    """Whether this user or the system listens on the port. Only Linux reports it; elsewhere True."""
    owners = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        # a row: number, local address, remote address, state (0A: listening), …, user
        rows = [line.split() for line in lines]
        owners |= {int(row[7]) for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}")}
    return all(owner < FIRST_USER or owner == os.getuid() for owner in owners)
