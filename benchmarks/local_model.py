"""How well the embedded model calls tools: `python benchmarks/local_model.py`. Exit code 1 below the targets.

Requests that a tool fits (right tool, exact arguments) and those that no tool fits (no tool called) are counted apart.
A call whose arguments do not fit the tool's schema is invalid; there must be none.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import jsonschema
from local_model_requests import FIRST, FIRST_TOOLS, FRESH, FRESH_TOOLS, HELD_OUT, HELD_OUT_TOOLS, Request

from nbagent.core.messages import LLMMessage
from nbagent.functions.schema.function_schema import schema_of
from nbagent.providers.local.provider import LocalProvider
from nbagent.providers.prompting.provider import PromptedProvider

SETS = (("first", FIRST_TOOLS, FIRST), ("held out", HELD_OUT_TOOLS, HELD_OUT), ("fresh", FRESH_TOOLS, FRESH))
TARGETS = {"right tool": 0.95, "exact arguments": 0.90, "no tool": 0.80}


@dataclass
class Score:
    """Counts over one set of requests."""

    fitting: int = 0
    right: int = 0
    exact: int = 0
    unfitting: int = 0
    none_called: int = 0
    invalid: int = 0
    seconds: list[float] = field(default_factory=list)

    def shares(self) -> dict[str, float]:
        """The measures that have targets."""
        return {
            "right tool": self.right / self.fitting,
            "exact arguments": self.exact / self.fitting,
            "no tool": self.none_called / self.unfitting,
        }


def described(functions: Sequence[Callable[..., Any]]) -> list[dict[str, Any]]:
    """The functions as a provider receives them."""
    schemas = [(function.__name__, schema_of(function)) for function in functions]
    return [{"name": name, "description": s.description, "parameters": s.parameters} for name, s in schemas]


async def measure(
    provider: PromptedProvider, functions: Sequence[Callable[..., Any]], requests: list[Request]
) -> Score:
    """Send each request in a conversation of its own."""
    tools, score = described(functions), Score()
    by_name = {tool["name"]: tool for tool in tools}
    for request, name, arguments in requests:
        begun = time.perf_counter()
        response = await provider.chat([LLMMessage("user", request)], tools, max_tokens=16)
        score.seconds.append(time.perf_counter() - begun)
        call = response.function_calls[0] if response.function_calls else None
        if call and list(jsonschema.Draft202012Validator(by_name[call.name]["parameters"]).iter_errors(call.arguments)):
            score.invalid += 1
        if name is None:
            score.unfitting += 1
            score.none_called += call is None
            ok = call is None
        else:
            score.fitting += 1
            score.right += call is not None and call.name == name
            ok = call is not None and call.name == name and call.arguments == arguments
            score.exact += ok
        if not ok:
            print(f"  {request!r}\n    wanted {name} {arguments}\n    got    {call and (call.name, call.arguments)}")
    return score


async def main() -> int:
    """Measure all sets -> 0 if all targets are reached, else 1."""
    inner = LocalProvider()
    provider, good = PromptedProvider(inner), True
    await inner.prepare()
    for title, functions, requests in SETS:
        print(f"{title} set: {len(requests)} requests, {len(functions)} tools")
        score = await measure(provider, functions, requests)
        counts = f"{score.right}/{score.fitting}, {score.exact}/{score.fitting}, {score.none_called}/{score.unfitting}"
        shares = ", ".join(f"{name} {share:.0%}" for name, share in score.shares().items())
        seconds = sorted(score.seconds)
        print(
            f"  {shares} ({counts}); invalid calls {score.invalid}; seconds each: "
            f"median {seconds[len(seconds) // 2]:.2f}, mean {sum(seconds) / len(seconds):.2f}, max {seconds[-1]:.2f}"
        )
        good &= not score.invalid and all(score.shares()[name] >= least for name, least in TARGETS.items())
    await provider.aclose()
    print("all targets reached" if good else "below the targets")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
