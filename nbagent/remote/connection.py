"""`Connection`: the HTTP requests to an nbagent server, with its token, and its failures as nbagent's errors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from nbagent.core.events import Retry
from nbagent.core.json_text import json_text
from nbagent.core.messages import new_id
from nbagent.core.model_request import Timing
from nbagent.errors import AuthenticationError, ModelNotFoundError, NbagentError, ProviderError, QuotaError
from nbagent.providers.http.address import Target
from nbagent.providers.http.errors import provider_error
from nbagent.providers.http.response import read_events, read_up_to
from nbagent.providers.http.retry import retrying
from nbagent.providers.http.transport import HttpxTransport

if TYPE_CHECKING:
    from pydantic import SecretStr

#: The token if `connect` is given none.
TOKEN_VARIABLE = "NBAGENT_CONNECT_TOKEN"  # noqa: S105  its name

_REMEDIES: dict[type[NbagentError], str] = {
    AuthenticationError: f"Check the token: pass token=..., or set {TOKEN_VARIABLE}.",
    ModelNotFoundError: "Check the address: it is that of `nbagent serve`, without a path.",
    QuotaError: "",  # the server's own words tell whom to ask
}


class Connection:
    """The way to a server. `timeout`: seconds between two reads. `max_retries`: of requests that were not answered."""

    def __init__(self, url: str, token: SecretStr | None, timeout: float, max_retries: int) -> None:
        self.url = url
        self._token = token
        self._timeout = timeout
        self._max_retries = max_retries
        self._transport = HttpxTransport()

    async def events(self, path: str, data: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any] | Retry]:
        """The events that answer a POST request. It is sent again only as long as no event came.

        All attempts have one idempotency key, so that the server answers the question once.
        """
        headers = {"Accept": "text/event-stream", "Idempotency-Key": new_id("request")}
        async with aclosing(retrying(partial(self._attempt, path, data, headers), self._max_retries)) as items:
            async for item in items:
                yield item

    async def post(self, path: str, data: Mapping[str, Any]) -> None:
        """Send a request once. Raises a `ProviderError`."""
        async with aclosing(self._attempt(path, data, {})) as items:
            async for _ in items:
                pass

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._transport.aclose()

    async def _attempt(
        self, path: str, data: Mapping[str, Any], headers: Mapping[str, str]
    ) -> AsyncGenerator[dict[str, Any]]:
        target = Target(self.url, path, self._token, self._timeout, headers, TOKEN_VARIABLE)
        response, has_begun = None, False
        try:
            response = await self._transport.open(target, json_text(data).encode(), Timing())
            try:
                if "Accept" not in headers:
                    await read_up_to(response.aiter_bytes())
                    return
                async with aclosing(read_events(response)) as events:
                    async for event in events:
                        has_begun = True
                        yield event
                return
            finally:
                await response.aclose()
        except NbagentError as error:
            failure = error
        except Exception as error:  # the HTTP library has its own
            known = provider_error(error, streaming=response is not None, timeout=self._timeout, base_url=self.url)
            if known is None:
                raise
            failure = known
        raise _explained(failure, has_begun)


def _explained(error: NbagentError, has_begun: bool) -> NbagentError:
    """The error with what can be done about it."""
    if isinstance(error, ProviderError):
        error.vendor = "nbagent server"
        error.remedy = _REMEDIES.get(type(error), error.remedy.replace("base_url", "the address"))
        if has_begun:
            error.retryable = False
    return error
