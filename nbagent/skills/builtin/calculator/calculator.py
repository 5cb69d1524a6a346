"""Statistics of a list of numbers, as exact as floats allow."""

import math
import statistics
from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, Field, FiniteFloat

Operation = Literal["mean", "sum", "min", "max", "median", "std", "variance", "range", "count", "product"]

#: `std` and `variance` are for a sample: they divide by n - 1.
_FUNCTIONS: dict[Operation, Callable[[list[Any]], float]] = {
    "mean": statistics.mean,
    "sum": lambda numbers: sum(numbers) if all(isinstance(number, int) for number in numbers) else math.fsum(numbers),
    "min": min,
    "max": max,
    "median": statistics.median,
    "std": statistics.stdev,
    "variance": statistics.variance,
    "range": lambda numbers: max(numbers) - min(numbers),
    "count": len,
    # as floats first, since the exact product of many large integers could take minutes
    "product": lambda numbers: math.prod(numbers) if math.isfinite(math.prod(map(float, numbers))) else math.inf,
}


class Input(BaseModel):
    """The numbers, and what to compute."""

    numbers: list[int | FiniteFloat] = Field(description="The numbers, at least one", min_length=1, max_length=100_000)
    operations: list[Operation] = Field(default=["mean"], description="What to compute, one or more", min_length=1)


class Output(BaseModel):
    """The value of each operation."""

    results: dict[str, int | float]
    count: int = Field(description="How many numbers there were")


def run(request: Input) -> Output:
    """Compute mean, sum, min, max, median, std, variance, range, count or product of a list of numbers.

    >>> run(Input(numbers=[1, 2, 3, 4, 5], operations=["mean", "max"])).results
    {'mean': 3, 'max': 5}
    """
    results: dict[str, int | float] = {name: _computed(name, request.numbers) for name in request.operations}
    return Output(results=results, count=len(request.numbers))


def _computed(operation: Operation, numbers: list[int | float]) -> int | float:
    try:
        if math.isfinite(value := _FUNCTIONS[operation](numbers)):
            return value
    except statistics.StatisticsError as error:
        raise ValueError(f"{operation}: {error}. Choose another operation.") from None
    except OverflowError:
        pass
    raise ValueError(f"{operation}: the result for these {len(numbers)} numbers is too large. Scale them down.")
