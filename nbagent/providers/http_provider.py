"""`HTTPProvider`: a codec, an HTTP client and the retry policy, shared by all providers over HTTP."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, Unpack

from nbagent.core.admission import admission_of
from nbagent.core.counting import estimated_input
from nbagent.core.current import current
from nbagent.core.events import Context, Event, Http, Retry, Text
from nbagent.core.messages import LLMResponse
from nbagent.core.model_request import Functions, ModelRequest, Timing
from nbagent.core.request_options import RequestOptions
from nbagent.core.threads import run_in_thread
from nbagent.errors import (
    AuthenticationError,
    ConfigurationError,
    ImageInputError,
    InvalidResponseError,
    NbagentError,
    ProviderError,
)
from nbagent.providers.access import Access
from nbagent.providers.base import ListedModel, StreamingProvider
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats.codec import UNREADABLE, Codec, Decoder, undecodable
from nbagent.providers.formats.refused import Changes, refusal_event, refused_field, tool_of
from nbagent.providers.http.address import Target, check_extensible
from nbagent.providers.http.errors import provider_error, request_id
from nbagent.providers.http.response import Body, check_status, drain, read_body, read_events, read_lines
from nbagent.providers.http.retry import RequestRevised, retrying
from nbagent.providers.http.transport import Form, Transport
from nbagent.providers.options.provider_tools import available
from nbagent.providers.options.resolved import OptionsResolver, ResolvedOptions
from nbagent.providers.options.settings import check_access, check_body_options, check_json, check_settings
from nbagent.providers.provider_facts import ProviderFacts
from nbagent.providers.tool_names import Renamed, renamed
from nbagent.text import shortened

if TYPE_CHECKING:
    from pydantic import SecretStr

    from nbagent.providers.prompting.provider import PromptedProvider

T = TypeVar("T")

#: Characters of a provider's explanation, and of its code, that an error keeps, after secrets are removed.
SHOWN_CHARS, CODE_CHARS = 500, 100


class HTTPProvider(StreamingProvider):
    """A provider that is reached over HTTP.

    A subclass sets `provider_name` to a name in the catalog, and creates its codec and transport.

    - `api_key`: a string or `SecretStr`; by default, `providers.keys` looks for a key at each request
    - `timeout`: the longest wait for more data, in seconds; connecting has a separate limit of 10 s
    - `max_retries`: how many times a failed request is sent again (see `retry`)
    - `streaming=False`: request one JSON body
    - `base_url`: may contain a user name and a password, which are then sent instead of a key
    - `region`: the site that the key belongs to, such as "international", if the provider has several
    - `client`: your own SDK or httpx client, used unchanged, with its own key and proxies, and never closed
    - `function_calling=False`: describe tools in the prompt, for a model that can't call them
    - `price`: dollars per million tokens, `{"input": 0.5, "output": 1.5, "cached": 0.05}`; replaces the price list
    - `provider_name`: another name in the catalog, or your own name for a server of the same kind
    - `thinking`: None for the provider's default, False, True, or a level: "minimal", "low", "medium", "high", "xhigh",
      "max". If the model lacks a level, its nearest one is used. False is an error for a model that always thinks (see
      `options.thinking`)
    - `tool_choice`: "auto", "none", "required" or a tool's name (see `options.tool_choice`)
    - `headers`: additional HTTP headers
    - `tools`: tools that the provider itself runs
    - any other option is the default for all requests (`RequestOptions`)
    """

    #: The package of its clients.
    package: ClassVar[str] = "httpx2"
    _made_with: tuple[tuple[Any, ...], dict[str, Any]]

    def __init__(
        self,
        api_key: str | SecretStr | None = None,
        model: str | None = None,
        base_url: str | None = None,
        *,
        region: str | None = None,
        timeout: float = 60.0,
        max_retries: int = 3,
        streaming: bool = True,
        client: Any = None,
        function_calling: bool = True,
        headers: dict[str, str] | None = None,
        provider_name: str | None = None,
        price: Mapping[str, float] | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        **options: Unpack[RequestOptions],
    ) -> None:
        check_body_options(options)
        check_settings(model, timeout, max_retries, streaming, function_calling, price)
        check_access(api_key, base_url, headers)
        self.price = price
        self.provider_name = provider_name or self.provider_name
        self._facts = self._find_facts()
        self._model = model or self._facts.model
        #: Your own client, or None.
        self.client = client
        self.access = Access(self._facts, api_key, base_url, region, headers, client)
        if not self.access.is_portable:
            self._made_with = (), {}  # so that inspecting the provider reveals no key
        elif not (base_url or region) and (chosen := self._facts.chosen_address()):  # from this process's environment
            self._made_with[1]["base_url"] = chosen
        self.codec = self._make_codec(self._facts)
        self.base_url = self.access.address.removesuffix(self.codec.path(self._model, streaming))
        check_extensible(self.access.address)
        self.timeout = timeout
        self.max_retries = max_retries
        self.streaming = streaming
        self.options: Mapping[str, Any] = {**options, "tools": tools} if tools else options
        self._function_calling = function_calling
        self._options_resolver = OptionsResolver(self._facts, self.codec.format, self._model)
        checked = {name: value for name, value in self.options.items() if name in ("thinking", "max_tokens")}
        self._options_resolver.resolve(ModelRequest([]), checked)  # wrong options raise here
        #: The notes about omitted options that were already sent as events.
        self._sent_notes: set[str] = set()
        #: The fields that the model refused.
        self._refused: dict[str, str | None] = {}
        self._transport = self._make_transport(client)

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        """See the class."""
        provider = super().__new__(cls)
        provider._made_with = arguments, options
        return provider

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the constructor's arguments. The process that loads them looks up the key.

        Raises `ConfigurationError` if the user passed a key or client.
        """
        self.access.check_portable()
        arguments, options = self._made_with
        return partial(type(self), *arguments, **options), ()

    def _find_facts(self) -> ProviderFacts:
        """The provider's facts from the catalog. A provider that is not in it overrides this."""
        return CATALOG.get(self.provider_name) or replace(CATALOG[type(self).provider_name], name=self.provider_name)

    @abstractmethod
    def _make_codec(self, facts: ProviderFacts) -> Codec:
        """The codec for this provider."""

    @abstractmethod
    def _make_transport(self, client: Any) -> Transport:
        """The transport; `client` is the user's own, or None."""

    def __repr__(self) -> str:
        model = f"provider_name={self.provider_name!r}, model={self.model_name!r}"
        return f"{type(self).__name__}({model}, base_url={self.base_url!r})"

    @property
    def model_name(self) -> str:
        """The name of the model."""
        return self._model

    @property
    def base_url(self) -> str:
        """The base URL. If neither an address nor a region was chosen, the key decides which one is used (see
        `access`).
        """
        return self.access.base_url

    @base_url.setter
    def base_url(self, address: str) -> None:
        self.access.address = address

    @property
    def secrets(self) -> list[str]:
        """The secrets, which must not be displayed or written."""
        return self.access.secrets

    @property
    def rate_key(self) -> str:
        """See `LLMProvider.rate_key`. It includes the address and a hash of the key."""
        client, key, headers = self.client, self.access.known_key(), self.access.headers
        address, of_client = getattr(client, "base_url", self.base_url), getattr(client, "api_key", "")
        identity = "\n".join(map(str, (address, key.get_secret_value() if key else "", of_client, headers)))
        return f"{super().rate_key} {hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"

    def supports_function_calling(self) -> bool:
        """See `LLMProvider.supports_function_calling`; set by `function_calling`."""
        return self._function_calling

    def output_options(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """See `LLMProvider.output_options`."""
        return self.codec.output_options(name, schema)

    def holds_schema_with_tools(self) -> bool:
        """See `LLMProvider.holds_schema_with_tools`."""
        return self._function_calling and self._facts.holds_schema_with_tools(self._model)

    def can_compact(self, tokens: int) -> bool:
        """See `LLMProvider.can_compact`."""
        return self._options_resolver.compaction(tokens) is not None

    def provider_tools(self) -> list[str]:
        """See `LLMProvider.provider_tools`."""
        return available(self._facts, self.codec.format, self._model) if self._function_calling else []

    def check(self) -> None:
        """Raise `AuthenticationError` if the provider needs a key and there is none."""
        self.access.needed_key()

    async def prepare(self) -> None:
        """Awaited before each request. A subclass may start its server here and set `base_url`."""

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """See `LLMProvider.resolve`. The provider's own options are the defaults for each request."""
        if not self._function_calling and (request.tools or any(each.role == "tool" for each in request.messages)):
            return self._prompted().resolve(request)
        options = request.options
        unset = {name for name in ("thinking", "tool_choice", "temperature") if options.get(name) is None}
        both = {**self.options, **{name: value for name, value in options.items() if name not in unset}}
        if "extra_body" in self.options and isinstance(both["extra_body"], Mapping):
            both["extra_body"] = {**self.options["extra_body"], **both["extra_body"]}
        if "tool_choice" in unset and not (request.tools or both.get("tools")):
            both.pop("tool_choice", None)
        resolved = self._options_resolver.resolve(request, both, self.streaming)
        effective = resolved.effective()
        if self._refused:
            named = {f"tool {tool_of(name)}" if tool_of(name) else name: to for name, to in self._refused.items()}
            effective["refused"] = named
        return replace(request, effective_options=effective, resolved=resolved)

    def stream(self, request: ModelRequest) -> AsyncGenerator[Event | LLMResponse]:
        """Yield the answer in pieces: `Text`, `Thinking`, `ToolCallDelta`, `Retry`, and the `LLMResponse` last."""
        if isinstance(request.resolved, ModelRequest):  # a `PromptedProvider` resolved it
            return self._prompted().stream(request)
        options: ResolvedOptions = request.resolved
        path = self.codec.path(self.model_name, options.stream)
        changes = dict(self._refused)
        encode = partial(self._encode, request)
        read = partial(self._read, names=renamed(options.tools))
        attempt = partial(self._attempt, path, encode, read, options.betas, changes, request.timing, request.tools)
        if current.get().waits is None:
            items = retrying(attempt, self.max_retries)
        else:
            items = retrying(attempt, self.max_retries, admission_of(self.rate_key), estimated_input(request))
        documents = self.codec.left_out(request.messages, self.model_name)
        if not (documents or options.left_out):
            return items
        notes = [Http(options.left_out)] * bool(options.left_out) + [Context(documents)] * bool(documents)
        new = [note for note in notes if note.content not in self._sent_notes]
        self._sent_notes.update(note.content for note in new)
        reading = partial(self.codec.read_documents, request.messages, self.model_name) if documents else None
        return _with_notes(new, reading, items)

    def _prompted(self) -> PromptedProvider:
        from nbagent.providers.prompting.provider import PromptedProvider  # few need it

        return PromptedProvider(self)

    async def model_list(self) -> list[ListedModel]:
        """The models that the provider offers for this key, newest first and retired ones last.

        Raises the same errors as a request.
        """
        body = await self.call(self.codec.models_path)
        try:
            items = body if isinstance(body, list) else body.get("data") or body.get("models") or []
            listed = {model.name: model for model in map(_listed_model, items)}
        except (AttributeError, KeyError, TypeError):
            raise self._explained(InvalidResponseError("expected a list of models"), None) from None
        if len({model.created for model in listed.values()}) == 1:  # some providers write the time of the request
            listed = {name: model._replace(created=None) for name, model in listed.items()}
        newest = sorted(sorted(listed.values()), key=lambda model: model.created or date.min, reverse=True)
        return sorted(newest, key=lambda model: model.is_retired)

    def encoded(self, request: ModelRequest) -> bytes:
        """The body of a resolved request without streaming, for use in a provider's batch."""
        whole = replace(request, resolved=replace(request.resolved, stream=False))
        return self._encode(whole, self._refused)

    async def call(
        self,
        path: str,
        body: bytes | Form | None = None,
        *,
        is_repeatable: bool = True,
        betas: tuple[str, ...] = (),
    ) -> Any:
        """Send a POST request with `body`, or a GET request if `body` is None, and return the JSON response. Raises the
        same errors as a request.

        Use this for requests other than model calls. A request that is not `is_repeatable` is never sent twice. `betas`
        names the API's beta features to enable.
        """
        async with aclosing(self.read(path, read_body, body, is_repeatable, betas)) as items:
            (answer,) = [item async for item in items]
        return answer

    def lines(self, path: str) -> AsyncGenerator[dict[str, Any]]:
        """Download a file of JSON lines, and yield the objects as they arrive. After a broken connection, the download
        starts again from the first line.
        """
        return self.read(path, read_lines)

    async def read(
        self,
        path: str,
        read: Callable[[Any], AsyncGenerator[T]],
        body: bytes | Form | None = None,
        is_repeatable: bool = True,
        betas: tuple[str, ...] = (),
    ) -> AsyncGenerator[T]:
        """Send a request as `call` does, and yield the items that `read` finds in the response. A retry yields them
        again from the start.
        """
        attempt = partial(self._attempt, path, lambda _: body, read, betas)
        async with aclosing(retrying(attempt, self.max_retries if is_repeatable else 0)) as items:
            async for item in items:
                if not isinstance(item, Retry):
                    yield item

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._transport.aclose()

    def _encode(self, request: ModelRequest, changes: Changes) -> bytes:
        """The body of a resolved request. `changes` are the fields that the model refuses."""
        options: ResolvedOptions = request.resolved
        try:
            return self.codec.encode_request(
                request.messages, options, self.model_name, changes, request.reminder_messages
            )
        except (TypeError, ValueError):
            check_json({**options.extra, **options.extra_body})
            raise

    async def _attempt(
        self,
        path: str,
        encode: Callable[[Changes], Any],
        read: Callable[[Any], AsyncGenerator[T]],
        betas: tuple[str, ...],
        changes: dict[str, str | None] | None = None,
        timing: Timing | None = None,
        functions: Functions | None = None,
    ) -> AsyncGenerator[T]:
        """Send one request, and yield the items of `read` for the response.

        `changes` are the fields that the model refuses; None if the request is not for a model. Raises `RequestRevised`
        if the provider refuses another field, which is then added to `changes`. All other errors are nbagent's own.
        """
        timing = timing or Timing()
        with timing:
            await self.prepare()
        body = response = None
        is_good = False
        try:
            body = encode(changes or {})
            response = await self._transport.open(self._target(path, betas), body, timing)
            try:
                await check_status(response)
                is_good = True
                self._refused.update(changes or {})
                async with aclosing(read(response)) as items:
                    async for item in items:
                        yield item
                return
            finally:
                await response.aclose()
        except (ProviderError, ConfigurationError) as exc:
            failure: NbagentError = exc
        except Exception as exc:  # each HTTP library and SDK has its own errors
            timeout, base_url = (self.timeout, self.base_url) if self.client is None else (None, None)
            converted = provider_error(exc, streaming=is_good, timeout=timeout, base_url=base_url)
            if converted is None:
                raise
            failure = converted
        if changes is not None and (refused := {} if is_good else refused_field(failure, body, changes)):
            changes |= refused
            with suppress(ImageInputError):  # for an image in the prompt itself, the provider's error is more specific
                encode(changes)
                raise RequestRevised(refusal_event(refused, self._explained(failure, response), functions))
        raise self._explained(failure, response)

    async def _read(self, response: Any, names: Renamed) -> AsyncGenerator[Event | LLMResponse]:
        """The events of one answer up to its logical end, then the `LLMResponse`. `names` restores tool names."""
        decoder, has_text = self.codec.decoder(), False
        try:
            async with aclosing(read_events(response)) as events:
                async for together in events:
                    if isinstance(together, Body):
                        for item in self.codec.items(together, names):
                            yield item
                        return
                    for piece in _joined(decoder, together):
                        piece.tool_name = names.get(piece.tool_name or "", (piece.tool_name,))[0]
                        has_text = has_text or type(piece) is Text
                        yield piece
                    if decoder.done:
                        await drain(events)
                        break
        except UNREADABLE as exc:
            raise undecodable(exc) from None
        except Exception as exc:  # after the terminal marker, a broken connection is harmless
            if not decoder.complete or provider_error(exc, streaming=True) is None:
                raise
        try:
            answer = self.codec.finish(decoder, names)
        except UNREADABLE as exc:
            raise undecodable(exc) from None
        if answer.content and not has_text:  # it looked like thinking until the end
            yield Text(answer.content)
        yield answer

    def _target(self, path: str, betas: tuple[str, ...]) -> Target:
        access = self.access
        named = [*filter(None, [access.headers.get("anthropic-beta")]), *betas]
        more = {"anthropic-beta": ",".join(named)} if betas else {}
        return Target(self.base_url, path, access.needed_key(), self.timeout, access.headers, more, access.redactor)

    def _explained(self, error: NbagentError, response: Any) -> NbagentError:
        """The error with provider, model and request id, shortened, and without secrets that the provider repeated."""
        sent = () if response is None else (str(response.request.url), response.request.headers)
        clean = self.access.redactor(*sent).text
        error.args = tuple(clean(str(arg)) for arg in error.args)
        if isinstance(error, ProviderError):
            named = request_id(response.headers) if response is not None else None
            error.request_id = clean(named or error.request_id or "") or None
            error.code = shortened(clean(error.code or ""), CODE_CHARS) or None
            error.message = shortened(error.args[0], SHOWN_CHARS)
            error.args, error.provider, error.model = (error.message,), self.provider_name, self.model_name
        if isinstance(error, AuthenticationError) and self.client is None and response is not None:
            error.remedy = f"{self._facts.other_regions(self.base_url)} {error.remedy}".lstrip()
        return error


def _joined(decoder: Decoder, together: Iterable[dict[str, Any]]) -> Iterator[Event]:
    """The pieces of events that arrived together, with adjacent texts joined, since every piece costs CPU downstream.

    Pieces before an undecodable event are not lost.
    """
    texts: list[str] = []
    try:
        for event in together:
            for piece in decoder.feed(event):
                if not isinstance(piece.content, str):
                    raise TypeError(f"{piece.content!r:.100} instead of a string")
                if type(piece) is Text:
                    texts.append(piece.content)
                    continue
                if texts:
                    yield Text("".join(texts))
                    texts.clear()
                yield piece
            if decoder.done:
                break
    except Exception:
        if texts:
            yield Text("".join(texts))
        raise
    if texts:
        yield Text("".join(texts))


async def _with_notes(
    notes: Sequence[Event], read_documents: Callable[[], None] | None, rest: AsyncGenerator[T]
) -> AsyncGenerator[Event | T]:
    """The notes, then the items, after any documents have been read in a thread."""
    for note in notes:
        yield note
    if read_documents is not None:
        await run_in_thread(read_documents)
    async with aclosing(rest) as items:
        async for item in items:
            yield item


def _listed_model(item: dict[str, Any]) -> ListedModel:
    """A model from a list: OpenAI writes `created` in seconds, Anthropic `created_at` in ISO 8601."""
    name = str(item.get("id") or item["name"]).removeprefix("models/")
    time: Any = item.get("created") or item.get("created_at")
    created = None
    with suppress(ValueError, TypeError, OverflowError, OSError):  # unknown
        created = date.fromisoformat(time[:10]) if isinstance(time, str) else datetime.fromtimestamp(time, UTC).date()
    # Mistral writes when a model will be retired, Groq whether it is available; some write 1970 for unknown times
    is_retired = bool(item.get("deprecation") or item.get("archived") or item.get("active") is False)
    return ListedModel(name, created if created and created.year > 1970 else None, is_retired)
