"""How well the embedded model calls tools, on the Berkeley Function Calling Leaderboard: `make bench-embedded`.

The cases and the checker come from `bfcl-eval` (https://pypi.org/project/bfcl-eval/), version 4 of the leaderboard.
nbagent was tuned on the cases with odd numbers. The even ones judge: the exit status is 1 if they miss a target.
Each case is a question to an agent of its own. The last column is the same model through llama.cpp's own tool calling.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from nbagent import Agent, Limits
from nbagent.providers.base import LLMProvider
from nbagent.providers.local.provider import LocalProvider

#: The share of the even cases that are to be right; of "irrelevance", those without a call.
TARGETS = {"simple_python": 0.60, "multiple": 0.65, "live_simple": 0.30, "parallel": 0.20, "irrelevance": 0.80}
#: Seconds that a call may take at the median, on two idle cores. A question of "parallel" wants two to four calls.
SECONDS = 1.5
#: The leaderboard's names of types, as JSON Schema has them; "any" says nothing.
TYPES = {"dict": "object", "float": "number", "tuple": "array"}


def checker() -> Any:
    """`ast_checker` of bfcl-eval, without the clients of fifty models that it imports only for their names."""
    config = ModuleType("bfcl_eval.constants.model_config")
    config.MODEL_CONFIG_MAPPING = {"nbagent": SimpleNamespace(underscore_to_dot=True)}  # type: ignore[attr-defined]
    sys.modules[config.__name__] = config
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker  # type: ignore[import-not-found]

    return ast_checker


def lines(name: str) -> Iterator[dict[str, Any]]:
    """The rows of one of bfcl-eval's files of data."""
    spec = importlib.util.find_spec("bfcl_eval")
    assert spec is not None
    assert spec.origin is not None
    with (Path(spec.origin).parent / "data" / name).open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def cases(category: str, even: bool) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The cases of a category whose number is even, or odd, with the right calls."""
    file = f"BFCL_v4_{category}.json"
    right = (
        {}
        if category == "irrelevance"
        else {row["id"]: row["ground_truth"] for row in lines(f"possible_answer/{file}")}
    )
    numbered = [(int(re.findall(r"\d+", row["id"])[0]), row) for row in lines(file)]
    return [(row, right.get(row["id"], [])) for number, row in numbered if number % 2 == (not even)]


def json_schema(schema: Any) -> Any:
    """The leaderboard's description of a type as JSON Schema."""
    if isinstance(schema, list):
        return [json_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: json_schema(value) for key, value in schema.items()}
    if isinstance(kind := found.get("type"), str):
        found["type"] = TYPES.get(kind, kind)
        if kind == "any":
            del found["type"]
    return found


def with_floats(value: Any, schema: dict[str, Any]) -> Any:
    """A value with 5.0 for 5 where a number is asked for: the checker tells them apart, JSON does not."""
    if schema.get("type") == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if schema.get("type") == "array" and isinstance(value, list):
        return [with_floats(each, schema.get("items") or {}) for each in value]
    return value


async def calls_of(provider: LLMProvider, case: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls that an agent makes for a case, as `{name: arguments}`."""
    agent = Agent(provider, limits=Limits(max_iterations=1))
    schemas: dict[str, Any] = {}
    for function in case["function"]:
        name, parameters = function["name"].replace(".", "_"), json_schema(function["parameters"])
        schemas[name] = parameters.get("properties") or {}
        agent.register_tool(name, function["description"], parameters, lambda **arguments: "done")
    question = "\n".join(message["content"] for message in case["question"][0])
    result = await agent.chat(question, max_tokens=1)
    return [
        {
            call["name"]: {
                key: with_floats(value, schemas[call["name"]].get(key) or {})
                for key, value in call["arguments"].items()
            }
        }
        for call in result.function_calls
        if call["name"] in schemas
    ]


async def measure(provider: LLMProvider, category: str, even: bool, limit: int | None) -> tuple[int, int, float]:
    """Right answers, cases, and the median of the seconds that a call took, or an answer without one."""
    from bfcl_eval.constants.enums import Language

    check, right, seconds = checker(), 0, list[float]()
    kind = next((kind for kind in ("parallel", "multiple") if kind in category), "simple")
    chosen = cases(category, even)[:limit]
    for case, truth in chosen:
        begun = time.perf_counter()
        calls = await calls_of(provider, case)
        seconds.append((time.perf_counter() - begun) / max(1, len(calls)))
        if category == "irrelevance":
            right += not calls
        elif calls:
            right += check(case["function"], calls, truth, Language.PYTHON, kind, "nbagent")["valid"]
    return right, len(chosen), sorted(seconds)[len(seconds) // 2]


async def main() -> int:
    """Measure all categories -> 0 if all targets are reached, else 1."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("categories", nargs="*", default=list(TARGETS), help="which ones (default: all)")
    parser.add_argument("--limit", type=int, help="the most cases of each category")
    parser.add_argument("--plain", type=int, default=30, help="cases of each for llama.cpp alone")
    wanted = parser.parse_args()
    providers = {"nbagent": LocalProvider(), "llama.cpp": LocalProvider(function_calling=True)}
    for provider in providers.values():
        await provider.prepare()
    is_good = True
    print(f"{'category':16}{'odd':>16}{'even (judges)':>18}{'target':>9}{'a call':>9}   llama.cpp alone")
    for category in wanted.categories:
        odd, even = [await measure(providers["nbagent"], category, half, wanted.limit) for half in (False, True)]
        plain = await measure(providers["llama.cpp"], category, True, wanted.plain)
        shown = [f"{right} of {count} = {right / count:.0%}" for right, count, _ in (odd, even, plain)]
        print(
            f"{category:16}{shown[0]:>16}{shown[1]:>18}{TARGETS[category]:>9.0%}{even[2]:>7.2f} s   {shown[2]}",
            flush=True,
        )
        is_good &= even[0] / even[1] >= TARGETS[category] and even[2] <= SECONDS
    for provider in providers.values():
        await provider.aclose()
    print("all targets reached" if is_good else "below a target")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
