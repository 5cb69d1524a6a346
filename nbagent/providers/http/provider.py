"""`HTTPProvider`: a codec, an HTTP client and the retry policy. All vendors share its `chat` and `stream`."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from nbagent.core.events import Event, Http, Retry, Text, Thinking
from nbagent.core.messages import LLMResponse
from nbagent.core.model_request import Functions, ModelRequest
from nbagent.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    ImageInputError,
    IncompleteStreamError,
    InvalidResponseError,
    NbagentError,
    ProviderError,
)
from nbagent.providers.base import StreamingProvider
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats.codec import Codec
from nbagent.providers.formats.refused import IMAGES, Changes, refused_field, tool_named
from nbagent.providers.http.address import Target, checked_address, without_credentials
from nbagent.providers.http.errors import provider_error, request_id
from nbagent.providers.http.redaction import SHORTEST_SECRET, is_telling, mask_secret, without_secrets
from nbagent.providers.http.response import Body, drain, read_events, read_up_to
from nbagent.providers.http.retry import RequestRevised, retrying
from nbagent.providers.http.transport import Transport
from nbagent.providers.options.resolved import OptionsResolver, ResolvedOptions
from nbagent.providers.options.settings import check_options, check_settings, setting_names
from nbagent.providers.vendor import Vendor
from nbagent.text import shortened

if TYPE_CHECKING:
    from pydantic import SecretStr

T = TypeVar("T")

#: Characters of a vendor's explanation that an error keeps.
SHOWN_CHARS = 500

#: What decoding raises if an answer is not in the expected form.
_UNREADABLE = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)


class HTTPProvider(StreamingProvider):
    """A provider over HTTP.

    A subclass names its `vendor` (a name of the catalog) and makes its codec and transport.

    - `api_key`: a string or `SecretStr`; by default, `providers.keys` looks for one at each request
    - `timeout`: seconds between two reads; connecting has 10 s of its own
    - `max_retries`: how often a request is sent again (see `retry`)
    - `streaming=False`: ask for one JSON body
    - `client`: your own SDK (or httpx) client; it is used as it is, with its own key and proxies, and never closed
    - `function_calling=False`: describe tools in the prompt
    - `vendor`: another vendor of the catalog, or a name of your own for a server of the same kind
    - `thinking`: None for the vendor's default, False, True, or a level: "minimal", "low", "medium", "high", "xhigh",
      "max". The model's nearest level is used; what the model can't do is an error (see `options.thinking`)
    - `tool_choice`: "auto", "none", "required" or a tool's name (see `options.tool_choice`)
    - `headers`: more HTTP headers; all other options are fields of each request body, such as `max_tokens`
    """

    def __init__(
        self,
        api_key: str | SecretStr | None = None,
        model: str | None = None,
        base_url: str | None = None,
        *,
        timeout: float = 60.0,
        max_retries: int = 3,
        streaming: bool = True,
        client: Any = None,
        function_calling: bool = True,
        headers: dict[str, str] | None = None,
        vendor: str | None = None,
        **options: Any,
    ) -> None:
        check_settings(
            api_key=api_key,
            headers=headers,
            model=model,
            base_url=base_url,
            timeout=timeout,
            max_retries=max_retries,
            streaming=streaming,
            function_calling=function_calling,
        )
        self.vendor = vendor or self.vendor
        self._vendor = CATALOG.get(self.vendor) or replace(CATALOG[type(self).vendor], name=self.vendor)
        self._model = model or self._vendor.model
        self._client = client
        self.base_url, credentials = without_credentials(checked_address(base_url or self._vendor.env_base_url()))
        self.codec = self._make_codec(self._vendor)
        self.base_url = self.base_url.removesuffix(self.codec.path(self._model, streaming))
        self.timeout = timeout
        self.max_retries = max_retries
        self.streaming = streaming
        self.options = options
        self._secret = _secret(api_key)
        self._key_variable = next(iter(self._vendor.key_vars), re.sub(r"\W", "_", f"{self.vendor}_API_KEY").upper())
        self._function_calling = function_calling
        self._headers = {**credentials, **(headers or {})}
        self._options_resolver = OptionsResolver(self._vendor, self.codec.format, self._model)
        checked: dict[str, Any] = {name: options[name] for name in ("thinking", "max_tokens") if name in options}
        self._options_resolver.resolve(ModelRequest([], options=checked))  # wrong options raise here
        #: Notes about options that are left out; each is sent as an event once.
        self._noted: set[str] = set()
        #: By model: the fields that it refused.
        self._refused: dict[str, dict[str, str | None]] = {}
        self._transport = self._make_transport(client)

    @abstractmethod
    def _make_codec(self, vendor: Vendor) -> Codec:
        """The codec for this vendor."""

    @abstractmethod
    def _make_transport(self, client: Any) -> Transport:
        """The transport; `client` is the user's own, or None."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(vendor={self.vendor!r}, model={self.model_name!r}, base_url={self.base_url!r})"

    @property
    def model_name(self) -> str:
        """The name of the model."""
        return self._model

    @property
    def base_url_host(self) -> str | None:
        """The host that requests go to, for the trace."""
        return urlsplit(self.base_url).hostname

    def supports_function_calling(self) -> bool:
        """What the argument `function_calling` said."""
        return self._function_calling

    def output_options(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """See `LLMProvider.output_options`."""
        return self.codec.output_options(name, schema)

    def check(self) -> None:
        """Raise `AuthenticationError` if the vendor needs a key and there is none."""
        self._key()

    async def prepare(self) -> None:
        """Awaited before each request. A subclass may start its server here and set `base_url`."""

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """See `LLMProvider.resolve`. The provider's own options are the defaults of each request."""
        options = request.options
        if misplaced := setting_names(type(self)).intersection(options):
            raise ConfigurationError(
                f"{', '.join(sorted(misplaced))} can't be given for one request: make a provider with it, "
                f"create_provider({self.vendor!r}, …), and assign that to agent.provider."
            )
        unset = {name for name in ("thinking", "tool_choice", "temperature") if options.get(name) is None}
        both = {**self.options, **{name: value for name, value in options.items() if name not in unset}}
        if "tool_choice" in unset and not (request.tools or both.get("tools")):
            both.pop("tool_choice", None)
        resolved = self._options_resolver.resolve(replace(request, options=both), self.streaming)
        return replace(request, effective_options=resolved.effective(), resolved=resolved)

    def stream(self, request: ModelRequest) -> AsyncGenerator[Event | LLMResponse]:
        """The answer in pieces: `Text`, `Thinking`, `ToolCallDelta`, `Retry`, and the `LLMResponse` last."""
        options: ResolvedOptions = request.resolved
        path = self.codec.path(self.model_name, options.stream)
        changes = dict(self._refused.get(self.model_name, {}))
        attempt = partial(self._attempt, path, partial(self._encode, request), self._read, changes, request.tools)
        items = retrying(attempt, self.max_retries)
        if options.left_out and options.left_out not in self._noted:
            self._noted.add(options.left_out)
            return _with_first(Http(options.left_out), items)
        return items

    async def model_list(self) -> list[str]:
        """The names of the models that the vendor offers with this key, sorted. Raises as a request does."""
        attempt = partial(self._attempt, self.codec.models_path, lambda changes: None, _model_names, {})
        async with aclosing(retrying(attempt, self.max_retries)) as items:
            return [name async for name in items if isinstance(name, str)]

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._transport.aclose()

    def _encode(self, request: ModelRequest, changes: Changes) -> bytes:
        """The body of a resolved request; `changes` are the fields that the model refuses."""
        options: ResolvedOptions = request.resolved
        try:
            return self.codec.encode_request(request.messages, options, self.model_name, changes)
        except (TypeError, ValueError):
            check_options(options.extra)
            raise

    async def _attempt(
        self,
        path: str,
        encode: Callable[[Changes], bytes | None],
        read: Callable[[Any], AsyncGenerator[T]],
        changes: dict[str, str | None],
        functions: Functions | None = None,
    ) -> AsyncGenerator[T]:
        """Send one request, and yield what `read` makes of the answer. `changes` are the fields that the model refuses.

        Raises `RequestRevised` if the vendor refuses another field, which then is one of `changes`. All other errors
        are nbagent's own, without the library's exception, which may hold a key.
        """
        await self.prepare()
        body = response = None
        try:
            body = encode(changes)
            response = await self._transport.open(self._target(path), body)
            self._refused.setdefault(self.model_name, {}).update(changes)
            async with aclosing(read(response)) as items:
                async for item in items:
                    yield item
            return
        except (ProviderError, ConfigurationError) as exc:
            failure: NbagentError = exc
        except Exception as exc:  # each HTTP library and SDK has its own errors
            timeout, base_url = (self.timeout, self.base_url) if self._client is None else (None, None)
            known = provider_error(exc, streaming=response is not None, timeout=timeout, base_url=base_url)
            if known is None:
                raise
            failure = known
        finally:
            if response is not None:
                await response.aclose()
        if refused := {} if response else refused_field(failure, body, changes):
            changes |= refused
            with suppress(ImageInputError):  # the question itself holds an image: the vendor's message says more
                encode(changes)
                raise RequestRevised(_refusal_event(refused))
        raise self._explained(failure, response, functions)

    async def _read(self, response: Any) -> AsyncGenerator[Event | LLMResponse]:
        """The events of one answer up to its logical end, then the `LLMResponse`."""
        decoder = self.codec.decoder()
        try:
            async with aclosing(read_events(response)) as events:
                async for event in events:
                    if type(event) is Body:
                        for item in _in_one_piece(self.codec.decode_body(event)):
                            yield item
                        return
                    for piece in decoder.feed(event):
                        if not isinstance(piece.content, str):
                            raise TypeError(f"{piece.content!r:.100} instead of a text")
                        yield piece
                    if decoder.done:
                        await drain(events)
                        break
        except _UNREADABLE as exc:
            raise _undecodable(exc) from None
        except Exception as exc:  # after the terminal marker, a broken connection does no harm
            if not decoder.complete or provider_error(exc, streaming=True) is None:
                raise
        try:
            response = decoder.finish()
        except _UNREADABLE as exc:
            raise _undecodable(exc) from None
        yield response

    def _target(self, path: str) -> Target:
        return Target(self.base_url, path, self._key(), self.timeout, self._headers, self._key_variable)

    def _key(self) -> SecretStr | None:
        """The key for this request. Raises `AuthenticationError` if the vendor needs a key and there is none."""
        secret = self._secret or _secret(self._vendor.api_key())
        if secret is None:
            if self._vendor.keyless or self._client is not None:
                return None
            variables = " or ".join(self._vendor.key_vars)
            raise AuthenticationError(
                f"there is no API key: {variables} is neither set nor in a .env file", vendor=self.vendor
            )
        if not re.fullmatch(r"[!-~]+", secret.get_secret_value()):
            raise AuthenticationError("the API key holds characters that no key may have", vendor=self.vendor)
        return secret

    @property
    def secrets(self) -> list[str]:
        """What must not be shown or written: keys, and headers whose names say that they hold one."""
        named = [value for name, value in self._headers.items() if is_telling(name)]
        known = (self._secret, *map(_secret, (self._vendor.api_key(), self._client_key, *named)))
        return [secret.get_secret_value() for secret in known if secret]

    @property
    def _client_key(self) -> str | None:
        """The key of the user's own client."""
        key = getattr(self._client, "api_key", None)
        return key if isinstance(key, str) else None

    def _explained(self, error: NbagentError, response: Any, functions: Functions | None) -> NbagentError:
        """The error with vendor, model and request id, and without secrets that the vendor repeated."""
        error.__traceback__ = error.__context__ = None  # frames hold the request, and some tools show their variables
        if isinstance(error, ProviderError) and response is not None:
            error.request_id = error.request_id or request_id(response.headers)
        cleaners = [partial(mask_secret, secret=secret) for secret in self.secrets if len(secret) >= SHORTEST_SECRET]
        for clean in (*cleaners, partial(without_secrets, request=getattr(response, "request", None))):
            error.args = tuple(clean(str(arg)) for arg in error.args)
            if isinstance(error, ProviderError) and error.request_id:
                error.request_id = clean(error.request_id)
        if isinstance(error, ProviderError):
            text = shortened(str(error.args[0]), SHOWN_CHARS)
            error.message = tool_named(text, functions) if isinstance(error, BadRequestError) else text
            error.args, error.vendor, error.model = (error.message,), self.vendor, self.model_name
        return error


def _secret(value: str | SecretStr | None) -> SecretStr | None:
    from pydantic import SecretStr

    text = value.get_secret_value() if isinstance(value, SecretStr) else value or ""
    return SecretStr(text.strip()) if text.strip() else None


def _undecodable(exc: Exception) -> IncompleteStreamError:
    return IncompleteStreamError(f"the answer holds something that can't be decoded ({exc!r})")


async def _with_first(first: Event, rest: AsyncGenerator[T]) -> AsyncGenerator[Event | T]:
    yield first
    async with aclosing(rest) as items:
        async for item in items:
            yield item


def _refusal_event(refused: Changes) -> Retry:
    """Says that the request is sent again without a field, or with another name for it."""
    ((name, other),) = refused.items()
    instead = other or ("short descriptions" if name == IMAGES else "the default")
    text = f"This model does not take {name}. Trying again with {instead}."
    details = {"attempt": 1, "wait_s": 0.0, "discard_chars": 0, "error": "BadRequestError", "refused": name}
    return Retry(text, metadata=details)


async def _model_names(response: Any) -> AsyncGenerator[str]:
    """The models in a vendor's list: `data`, `models` or a bare list, of objects with `id` or `name`."""
    try:
        body = json.loads(await read_up_to(response.aiter_bytes()))
        listed = body if isinstance(body, list) else body.get("data") or body.get("models") or []
        names = sorted({str(item.get("id") or item["name"]).removeprefix("models/") for item in listed})
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise InvalidResponseError("expected a list of models", status=response.status_code) from None
    for name in names:
        yield name


def _in_one_piece(response: LLMResponse) -> list[Event | LLMResponse]:
    """A whole answer as the items of a stream."""
    thinking = (response.metadata or {}).get("thinking")
    items: list[Event | LLMResponse] = [Thinking(thinking)] if thinking else []
    return [*items, *([Text(response.content)] if response.content else []), response]
