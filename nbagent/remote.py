"""`connect`: use an agent on a server through the Responses API.

On the client, the server's agent takes the place of a model. If one of its tool calls needs approval, the client
decides while the answer arrives.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from nbagent.agent.agent import Agent
from nbagent.agent.options import Approve
from nbagent.checks import check_type
from nbagent.core.events import Approval, Event
from nbagent.core.limits import Limits
from nbagent.core.messages import FunctionCall, LLMResponse
from nbagent.core.model_request import ModelRequest
from nbagent.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    NbagentError,
    ProviderError,
    QuotaError,
    ToolDeniedError,
)
from nbagent.functions.allowances import Allow, as_key
from nbagent.functions.approval import approver_of, ask_approver
from nbagent.functions.executor import ToolExecutor
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry
from nbagent.pricing import NBAGENT_SERVER
from nbagent.providers.formats.codec import dumps
from nbagent.providers.formats.openai_responses import ResponsesCodec, ResponsesDecoder
from nbagent.providers.http.transport import HttpxTransport
from nbagent.providers.http_provider import HTTPProvider
from nbagent.providers.known.openai import PROFILES
from nbagent.providers.provider_facts import ProviderFacts
from nbagent.trace.trace import Trace

if TYPE_CHECKING:
    from pydantic import SecretStr

log = logging.getLogger("nbagent")

_SERVER = ProviderFacts(
    NBAGENT_SERVER,
    model="nbagent",
    key_vars=("NBAGENT_CONNECT_TOKEN",),
    keyless=True,
    profiles=PROFILES[-1:],
    pdfs=True,
)
_REMEDIES: dict[type[NbagentError], str] = {
    AuthenticationError: "Check the token: pass token=..., or set NBAGENT_CONNECT_TOKEN.",
    QuotaError: "",
}


def connect(
    url: str,
    token: str | SecretStr | None = None,
    *,
    trace: Trace | Literal[False] | None = None,
    approve: Approve | None = None,
    timeout: float = 60.0,
    max_retries: int = 3,
) -> Agent:
    """Return an agent whose answers come from an agent on a server (`nbagent serve`).

    The conversation is kept in the returned agent and sent with each prompt. The model and the tools are on the server.
    Nothing is sent before the first prompt.

    Args:
        url: the server's address, such as "https://agents.example.org".
        token: the server's token; by default the environment variable NBAGENT_CONNECT_TOKEN.
        trace: the `Trace` to record into, as for `Agent`. It records each answer with the server's tool calls and the
            run's cost.
        approve: decides on the server's tool calls that need approval, as for `Agent`. In a notebook, the default asks
            you.
        timeout: how many seconds to wait for more data. The server sends a keep-alive every 15 s.
        max_retries: how many times a prompt is sent again if no answer has started.

    Raises `ConfigurationError` for a wrong argument. Prompts raise a `ProviderError` if the server can't be reached or
    refuses them.

    >>> agent = nbagent.connect("http://127.0.0.1:8000", token="...")       # doctest: +SKIP
    >>> agent.chat_sync("Which orders are late?")                           # doctest: +SKIP
    """
    check_type("url", url, str, fix="Pass the server's address, such as 'http://127.0.0.1:8000'.")
    served = ServedAgent(token, None, url, approve=approve, timeout=timeout, max_retries=max_retries)
    limits = Limits()  # limits in environment variables are for agents that run here
    agent = Agent(served, FunctionRegistry(), limits=limits, trace=trace)
    agent.tool_executor = _NoTools(agent.function_registry)
    return agent


class _NoTools(ToolExecutor):
    def with_options(self, *, approve_all: bool = False, **options: Any) -> ToolExecutor:
        if approve_all:
            raise ConfigurationError("The server decides which calls need approval: mark its tools with approve=True.")
        return super().with_options(**options)


class _Decoder(ResponsesDecoder):
    def feed(self, event: dict[str, Any]) -> list[Event]:
        if event.get("type") != "nbagent.approval.asked":
            return super().feed(event)
        return [Approval(event["approval_id"], event["name"], event["arguments"])]


class _Codec(ResponsesCodec):
    decoder_class = _Decoder
    request_path = "/v1/responses"


class ServedAgent(HTTPProvider):
    """A provider whose model is an agent on a server, created by `connect`. It takes the same options as
    `HTTPProvider`.
    """

    provider_name = NBAGENT_SERVER

    def __init__(self, *arguments: Any, approve: Approve | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._approve = approve
        #: Tools allowed for the rest of the session, each with its arguments as JSON, or None for any arguments.
        self._allowed: set[tuple[str, str | None]] = set()

    def stream(self, request: ModelRequest) -> AsyncGenerator[Event | LLMResponse]:
        """See `HTTPProvider.stream`. Approval requests are handled here and not passed on."""
        options = request.resolved
        body = {"waits_for_approval": approver_of(self._approve) is not None, **options.extra_body}
        return self._deciding(super().stream(replace(request, resolved=replace(options, extra_body=body))))

    async def _deciding(self, answer: AsyncGenerator[Event | LLMResponse]) -> AsyncGenerator[Event | LLMResponse]:
        decisions = []
        try:
            async with aclosing(answer) as items:
                async for item in items:
                    if isinstance(item, Approval):
                        decisions.append(asyncio.create_task(self._decide(item)))
                    else:
                        yield item
        finally:
            for decision in decisions:
                decision.cancel()

    async def _decide(self, request: Approval) -> None:
        """Ask the user here, and send the decision to the server. A decision that can't be sent denies the call."""
        decision = await self._decision(request.tool_name or "", request.tool_arguments or {})
        send = partial(self.call, f"/agent/approvals/{quote(request.content, safe='')}", is_repeatable=False)
        try:
            try:
                await send(dumps(decision))
            except (BadRequestError, TypeError) as error:  # edited arguments that don't fit the tool, or JSON
                await send(dumps(_denied(error)))
        except ProviderError as error:  # somebody else decided, or the run is over
            log.warning("the decision on %s did not count: %s", request.tool_name, error)

    async def _decision(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        key = as_key(arguments)
        if not self._allowed.isdisjoint({(name, None), (name, key)}):
            return {"decision": "approve"}
        tool = FunctionDefinition(name, "", {}, lambda **_: None, approve=True)
        try:
            answer = await ask_approver(approver_of(self._approve), FunctionCall(name, arguments), tool)
        except ToolDeniedError as error:
            return _denied(error)
        if isinstance(answer, Allow):
            self._allowed.add((name, None if answer is Allow.TOOL else key))
        if isinstance(answer, dict):
            return {"decision": "approve", "arguments": answer}
        return {"decision": "approve" if answer else "deny"}

    def _find_facts(self) -> ProviderFacts:
        return _SERVER

    def _make_codec(self, facts: ProviderFacts) -> _Codec:
        return _Codec(facts, reasoning=False)

    def _make_transport(self, client: Any) -> HttpxTransport:
        return HttpxTransport(client)

    def _explained(self, error: NbagentError, response: Any) -> NbagentError:
        error = super()._explained(error, response)
        if isinstance(error, ProviderError):
            error.model, error.remedy = "", _REMEDIES.get(type(error), error.remedy)
            if response is not None and response.status_code == 200:
                error.retryable = False  # tools may have run already
        return error


def _denied(error: Exception) -> dict[str, Any]:
    return {"decision": "deny", "reason": str(error.args[0])[:1000]}
