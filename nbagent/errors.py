"""nbagent's own errors, grouped by what you can do about them.

::

    NbagentError
    ├── ConfigurationError (ValueError)   correct what you passed: a name, an option, a value
    │   └── MissingDependencyError        install the named packages
    ├── ProviderError                     the provider did not answer; `.retryable`: whether to try again later
    │   ├── AuthenticationError           401, 403: correct the key
    │   ├── ModelNotFoundError            404: correct the model's name or base_url
    │   ├── BadRequestError               400, 413, 422: the provider refused the request
    │   │   ├── ContextLengthError        the conversation is longer than the model's window
    │   │   └── ImageInputError           the prompt has an image, and the model does not accept images
    │   ├── RateLimitError                429: wait
    │   ├── QuotaError                    402 and providers' own codes: no credit or quota left; not retried
    │   ├── RegionError                   the provider does not serve the request's country
    │   ├── ServerError                   408, 409, 5xx, 529: the provider failed or is overloaded
    │   ├── ProviderConnectionError       unknown host, refused connection, or failed TLS
    │   ├── ProviderTimeoutError          nothing arrived for `timeout` seconds
    │   ├── IncompleteStreamError         the stream ended before its terminal marker
    │   └── InvalidResponseError          the response is not in the provider's format
    ├── LocalModelError                   the embedded model could not be fetched or loaded
    ├── ToolError                         a tool failed or could not be called (raised only by `ToolExecutor.execute`)
    │   ├── UnknownToolError
    │   ├── ToolArgumentsError
    │   ├── ToolTimeoutError
    │   ├── ToolDeniedError
    │   └── ToolExecutionError            the function raised an exception, which is `__cause__`
    ├── MCPServerError                    an MCP server could not be started or reached, or it exited
    ├── StoreError                        the server's conversations, a checkpoint or notes can't be read or written
    │   └── TurnLostError                 another process took over the turn, or its conversation was deleted
    ├── ReplayError                       the recording has no answer to a request; `.difference` shows why
    ├── ExtractionError                   no answer fit the requested type; `.answer` is the last one
    ├── AnswerRejectedError               no answer passed the agent's validators; `.answer` is the last one
    ├── AgentBusyError                    the new run would deadlock, or the agent is in the middle of an answer
    └── AgentDepthError                   agents called other agents more deeply than `Limits.max_depth` allows

Messages name the wrong value and the remedy. No message, attribute or repr ever contains a key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nbagent.text import without_keys
from nbagent.version import DISTRIBUTION


class NbagentError(Exception):
    """Base of all nbagent errors.

    `partial` is the unfinished `AgentResult` of a failed run, the incomplete DataFrame of a failed map, or None.
    """

    partial: Any = None


class ConfigurationError(NbagentError, ValueError):
    """A name, an option or a setting is wrong. The message never repeats anything that looks like a key."""

    def __init__(self, message: str = "") -> None:
        super().__init__(without_keys(message))


class MissingDependencyError(ConfigurationError):
    """An optional package is not installed. The message contains the command that installs it."""


def missing_extra(what: str, extra: str, otherwise: str = "") -> MissingDependencyError:
    """Return the error for a feature (`what`) whose extra is not installed.

    The packages are read from nbagent's own metadata. If there is no metadata, the message names the extra.

    >>> print(missing_extra("A picture", "plot"))                           # doctest: +ELLIPSIS
    A picture needs packages that are not installed: pip install "matplotlib>=..."
    """
    from importlib.metadata import PackageNotFoundError, requires  # slow to load

    try:
        lines = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        where = f"the packages of the extra {extra!r} in nbagent's pyproject.toml"
        return MissingDependencyError(f"{what} needs {where}{otherwise}")
    packages = [line.partition(";")[0] for line in lines if line.endswith(f"extra == '{extra}'")]
    command = " ".join(f'"{package}"' for package in packages)  # the only quotes that Windows shells understand
    return MissingDependencyError(f"{what} needs packages that are not installed: pip install {command}{otherwise}")


class ProviderError(NbagentError):
    """The provider, or the connection to it, failed.

    Attributes: `provider`, `model`, `status` (HTTP status or None), `code` (the provider's own error code, such as
    "1214" or "insufficient_quota", or None), `request_id`, `retry_after` (seconds or None), `retryable` (whether the
    retry policy sends the request again; the provider's `x-should-retry` takes precedence), `may_fall_back` (whether
    another provider is likely to answer, so `Agent([…])` continues with the next one).
    """

    #: Whether the retry policy sends the request again, unless the provider says otherwise.
    retryable = False
    #: Whether another provider is likely to answer the same request: this one is down, or refuses every request.
    may_fall_back = False
    #: The next step for the user, appended to the message.
    remedy = ""

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        model: str = "",
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        should_retry: bool | None = None,
        may_fall_back: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.provider = provider
        self.model = model
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retry_after = retry_after
        if should_retry is not None:
            self.retryable = should_retry
        if may_fall_back is not None:
            self.may_fall_back = may_fall_back

    def __str__(self) -> str:
        """Return `provider model: message (status 429, request req_1). Remedy.`"""
        who = " ".join(part for part in (self.provider, self.model) if part)
        details = [f"status {self.status}"] if self.status is not None else []
        details += [f"code {self.code}"] if self.code and self.code not in self.message else []
        details += [f"request {self.request_id}"] if self.request_id else []
        details += [f"retry after {self.retry_after:g} s"] if self.retry_after else []
        text = f"{who}: {self.message}" if who else self.message
        text = f"{text.rstrip('.')} ({', '.join(details)})" if details else text
        return f"{text.rstrip('.')}. {self.remedy}" if self.remedy else text


class AuthenticationError(ProviderError):
    """The key is missing or wrong, or lacks permission for this request (401, 403).

    `Agent([…])` continues with the next model only if the key is missing.
    """

    remedy = "Check the key: pass api_key=..., set the provider's environment variable, or type it after %agent key."


class ModelNotFoundError(ProviderError):
    """The model or the address does not exist (404)."""

    remedy = "Check the model name and base_url."


class BadRequestError(ProviderError):
    """The provider refused the request (400, 413, 422 and other 4xx)."""

    remedy = "Change the option, message or tool schema that the provider names."


class ContextLengthError(BadRequestError):
    """The conversation is longer than the model's context window."""

    remedy = "Shorten the conversation with agent.clear_history() or Agent(context=ContextManager(max_tokens=...))."


class ImageInputError(BadRequestError):
    """The prompt has an image, and the model does not accept images."""

    remedy = (
        "Send the prompt without the image, or choose a model that accepts images, such as 'claude:claude-sonnet-5', "
        "'openai:gpt-5.6-terra', 'gemini:gemini-3.7-flash' or 'qwen:qwen3.7-plus'."
    )


class RateLimitError(ProviderError):
    """The account has sent too many requests or tokens (429)."""

    retryable = may_fall_back = True
    remedy = "Wait, lower the concurrency, or raise the account's limit."


class QuotaError(ProviderError):
    """The account has no credit or quota left, or its bill is unpaid. Retrying does not help."""

    may_fall_back = True
    remedy = "Add credit or raise the quota in the provider's console, or use another model."


class RegionError(ProviderError):
    """The provider does not serve the country or region that the request came from."""

    may_fall_back = True
    remedy = "Use another provider's model, or pass base_url=... with an address that serves your region."


class ServerError(ProviderError):
    """The provider failed or is overloaded (408, 409, 5xx, 529)."""

    retryable = may_fall_back = True
    remedy = "Try again later, or use another model."


class ProviderConnectionError(ProviderError):
    """The provider could not be reached."""

    retryable = may_fall_back = True
    remedy = "Check the network, the proxy settings and base_url."


class ProviderTimeoutError(ProviderError):
    """Nothing arrived within the time limit."""

    retryable = may_fall_back = True
    remedy = "Raise timeout=..., or try again."


class IncompleteStreamError(ProviderError):
    """A streamed answer ended or broke off before its terminal marker. None of its tool calls ran."""

    retryable = may_fall_back = True
    remedy = "Try again."


class InvalidResponseError(ProviderError):
    """The response is not in the format of the provider's API."""

    may_fall_back = True
    remedy = "Check that base_url points to the API, not to a web page or a proxy."


class LocalModelError(NbagentError):
    """The embedded model could not be fetched, checked or loaded. The message says what to do."""


class MCPServerError(NbagentError):
    """An MCP server could not be started or reached, or it exited. The message has its name and last output."""


class ToolError(NbagentError):
    """A tool failed or could not be called. `tool` is its name."""

    def __init__(self, message: str, *, tool: str = "") -> None:
        super().__init__(message)
        self.tool = tool


class UnknownToolError(ToolError):
    """The model or the caller named a tool that is not registered."""


class ToolArgumentsError(ToolError):
    """The arguments don't fit the tool's schema. The message is the feedback for the model.

    `kind` ("missing", "unexpected", "type", "value" or "json") and `field` (`filters[0].name`) describe the first
    error, and `problems` has a line for each of the first 20.
    """

    def __init__(
        self,
        message: str,
        *,
        tool: str = "",
        kind: str | None = None,
        field: str | None = None,
        problems: Iterable[str] = (),
    ) -> None:
        super().__init__(message, tool=tool)
        self.kind = kind
        self.field = field
        self.problems = tuple(problems)


class ToolTimeoutError(ToolError):
    """The tool did not return in time."""


class ToolDeniedError(ToolError):
    """The call was not approved."""


class ToolExecutionError(ToolError):
    """The tool's function raised an exception, which is `__cause__`."""


class ExtractionError(NbagentError):
    """The model's answer did not fit the requested type, even after corrections. `answer` is its last text."""

    def __init__(self, message: str, *, answer: str = "") -> None:
        super().__init__(message)
        self.answer = answer


class AnswerRejectedError(NbagentError):
    """The model's answer failed one of `Agent(validators=…)`, even after corrections. `answer` is its last text."""

    def __init__(self, message: str, *, answer: str = "") -> None:
        super().__init__(message)
        self.answer = answer


class ReplayError(NbagentError):
    """The recording has no answer to a request. `difference` is a diff with the closest recorded request, if there is
    one.
    """

    def __init__(self, message: str, *, difference: str = "") -> None:
        super().__init__(message)
        self.difference = difference


class StoreError(NbagentError):
    """The server's conversations, a map's checkpoint or an agent's notes can't be read or written.

    The disk may be full, or Redis may be unreachable.
    """


class TurnLostError(StoreError):
    """A turn can't be saved: its conversation was deleted, or another process took over the turn."""


class AgentBusyError(NbagentError):
    """The new run would deadlock: it was started by a tool of the same agent, or by a call that blocks another run.

    Also raised when an agent is asked to switch its conversation or branch while it is answering a prompt.
    """


class AgentDepthError(NbagentError):
    """Agents called other agents through their tools more deeply than `Limits.max_depth` allows."""
