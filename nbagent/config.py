"""Settings of an agent as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Model requests in one run, unless the call or the configuration sets another number.
DEFAULT_MAX_ITERATIONS = 10
#: How deep agents may ask agents through their tools, and how many requests they all may send.
DEFAULT_MAX_DEPTH = 5
DEFAULT_MAX_REQUESTS = 1000


@dataclass
class AgentConfig:
    """The settings of an agent as one value, for `Agent(AgentConfig(...))`.

    `provider` is a name that `create_provider` knows; None means an OpenAI-compatible server at `base_url` or, without
    one, the vendor that has the model. The limits are those of `Limits`; its docstring says which environment variables
    and arguments override them. The key is in no repr.

    >>> AgentConfig(model="qwen3-235b-instruct", api_key="secret", base_url="http://127.0.0.1:8000/v1").provider is None
    True
    """

    model: str = ""
    api_key: str = field(default="", repr=False)
    base_url: str = ""
    system_prompt: str | None = None
    max_tool_iterations: int = DEFAULT_MAX_ITERATIONS
    temperature: float | None = None
    provider: str | None = None
    max_requests: int | None = None
    max_depth: int | None = None
    max_tool_calls: int | None = None
    max_total_tokens: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    max_cost: float | None = None  # US dollars
    max_seconds: float | None = None
    tool_seconds: float | None = None
    #: Dollars per million tokens, as `create_provider` takes them.
    price: Mapping[str, float] | None = None
