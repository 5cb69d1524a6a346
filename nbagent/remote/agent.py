"""`connect`: an agent whose questions a server answers. Its cells, panels and traces are those of any agent."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Never
from urllib.parse import urlsplit

from nbagent.agent import Agent, Approve
from nbagent.checks import check_number, check_type
from nbagent.core.events import Event
from nbagent.core.limits import Limits
from nbagent.core.messages import LLMMessage
from nbagent.core.run import Run
from nbagent.errors import ConfigurationError
from nbagent.functions.executor import ToolExecutor
from nbagent.functions.registry import FunctionDefinition
from nbagent.providers.base import LLMProvider
from nbagent.providers.http.address import check_extensible, checked_address, without_credentials
from nbagent.remote.answering import Answering, Mirror
from nbagent.remote.connection import TOKEN_VARIABLE, Connection
from nbagent.trace.trace import Trace

if TYPE_CHECKING:
    from pydantic import SecretStr

_ON_SERVER = "The tools of a remote agent run on its server: give them to the agent that is served there"


def connect(
    url: str,
    token: str | SecretStr | None = None,
    *,
    trace: Trace | Literal[False] | None = None,
    approve: Approve | None = None,
    timeout: float = 60.0,
    max_retries: int = 3,
    **unknown: Never,
) -> RemoteAgent:
    """An agent that lives on a server (`nbagent serve`). Nothing is sent before the first question.

    Args:
        url: the server's address, such as "https://agents.example.org".
        token: the server's token; by default the environment variable NBAGENT_CONNECT_TOKEN.
        trace: the `Trace` to record into, as for `Agent`. It has the server's requests, tool calls and costs.
        approve: who is asked when a tool on the server needs approval, as for `Agent`; in a notebook its user.
        timeout: seconds between two reads. The server sends a sign of life each 15 s.
        max_retries: how often a question is sent again to which no answer began.

    The server keeps the conversation. Where the history here was changed meanwhile, by `undo`, a fork or a cell that
    runs again, it is sent along, and begins another conversation there. Raises `ConfigurationError` for a wrong
    argument, and, at a question, a `ProviderError` if the server can't be reached or refuses.

    >>> agent = nbagent.connect("http://127.0.0.1:8000", token="...")       # doctest: +SKIP
    >>> agent.chat_sync("Which orders are late?")                           # doctest: +SKIP
    """
    from pydantic import SecretStr

    if unknown:
        name = next(iter(unknown))
        if name in ("tools", "function_registry", "functions"):
            raise ConfigurationError(f"connect() takes no {name}. {_ON_SERVER}.")
        raise ConfigurationError(
            f"connect() has no argument {name!r}. It takes url, token, trace, approve, timeout and max_retries; "
            "the model and the system prompt are the server's."
        )
    check_type("url", url, str, fix="Pass the server's address, such as 'http://127.0.0.1:8000'.")
    check_number("timeout", timeout, above=0, fix="Pass seconds.")
    check_number("max_retries", max_retries, whole=True, minimum=0)
    address, credentials = without_credentials(checked_address(url))
    if credentials or not address:
        raise ConfigurationError("url: expected an address without user and password. Pass the server's token=...")
    check_extensible(address)
    text = token.get_secret_value() if isinstance(token, SecretStr) else token or os.environ.get(TOKEN_VARIABLE, "")
    if not isinstance(text, str) or not text.isascii() or not text.isprintable():
        raise ConfigurationError("token: expected printable ASCII characters. Pass the token that the server printed.")
    secret = SecretStr(text.strip()) if text.strip() else None
    return RemoteAgent(Connection(address, secret, timeout, max_retries), trace=trace, approve=approve)


class RemoteModel(LLMProvider):
    """Stands for the server's model. Each call of the trace names the model that answered."""

    vendor = "nbagent"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def model_name(self) -> str:
        """The server's name and port."""
        return urlsplit(self._connection.url).netloc

    def supports_function_calling(self) -> bool:
        """The server sees to it."""
        return True

    @property
    def members(self) -> Sequence[LLMProvider]:
        """None here: the server checks that its models have prices."""
        return ()

    async def chat(self, *_: Any, **__: Any) -> Never:
        """Not possible: a server answers questions to its agent, not to its model."""
        raise ConfigurationError("The model of a remote agent can't be asked directly. Use agent.chat(...).")

    async def aclose(self) -> None:
        """Close the connections to the server."""
        await self._connection.aclose()


class RemoteAgent(Agent):
    """An agent on a server; `connect` makes it. What can only be done on the server is a `ConfigurationError`."""

    def __init__(
        self,
        connection: Connection,
        *,
        trace: Trace | Literal[False] | None = None,
        approve: Approve | None = None,
    ) -> None:
        super().__init__(RemoteModel(connection), trace=trace, approve=approve)
        self.limits = Limits()  # those of the environment hold for the agents that run here
        self._connection = connection
        #: What the server has of the conversations here, by their `conversation_id`.
        self._mirrors: dict[str, Mirror] = {}
        #: The server's tools that asked for approval, by name: what is allowed is allowed for one of these.
        self._asked: dict[str, FunctionDefinition] = {}

    @property
    def provider(self) -> LLMProvider:
        """Stands for the server's model, which the server alone chooses."""
        return super().provider

    @provider.setter
    def provider(self, spec: Any) -> None:
        if not isinstance(spec, RemoteModel):  # that of a fork, or its own
            raise ConfigurationError("The model of a remote agent is chosen by its server: `nbagent serve` tells how.")

    def _answer(self, run: Run, prompt: Sequence[LLMMessage]) -> AsyncGenerator[Event]:
        return Answering(self._connection, run, self.tool_executor, self._mirrors, self._asked).events(prompt)

    def _like_this(self, trace: Trace) -> RemoteAgent:
        return RemoteAgent(self._connection, trace=trace)

    def register_function(self, *_: Any, **__: Any) -> Never:
        """Not possible."""
        raise ConfigurationError(f"{_ON_SERVER}.")

    register_tool = use = route = register_function

    def _executor(
        self, use_tools: bool, names: Iterable[str] | None, approve_all: bool, timeout: float | None
    ) -> ToolExecutor:
        if not use_tools or names is not None:
            raise ConfigurationError("A remote agent can't be told which tools to use: its server decides.")
        if approve_all:
            raise ConfigurationError(
                "A remote agent can't ask about all calls: which ones need approval is decided on its server. Mark the "
                "tools there with approve=True."
            )
        return super()._executor(use_tools, names, approve_all, timeout)
