"""An agent's settings as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: How many model requests one run may send.
DEFAULT_MAX_ITERATIONS = 10
#: How many levels deep agents may call other agents through their tools, and how many requests they may send in total.
DEFAULT_MAX_DEPTH = 5
DEFAULT_MAX_REQUESTS = 1000


@dataclass
class AgentConfig:
    """An agent's settings as one value, for `Agent(AgentConfig(...))`.

    - `provider`: the name of a provider, as for `create_provider`. None means an OpenAI-compatible server at `base_url`
      or, without a `base_url`, the provider that the model belongs to.
    - `max_tool_iterations`: the maximum number of model requests in one run. `Limits` describes the other limits, and
      the environment variables and arguments that override them.
    - `price`: dollars per million tokens, as for `create_provider`

    The key never appears in a repr.

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
    price: Mapping[str, float] | None = None
