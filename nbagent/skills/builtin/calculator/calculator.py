"""Statistics of a list of numbers, exact where floats allow it."""

import math
import statistics
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

Number = int | float
Operation = Literal["mean", "sum", "min", "max", "median", "std", "variance", "range", "count", "product"]

MAX_NUMBERS = 100_000
#: `std` and `variance` are those of a sample, which divide by n - 1.
_FUNCTIONS: dict[Operation, Callable[[list[Number]], Number]] = {
    "mean": statistics.mean,
    "sum": lambda numbers: sum(numbers) if all(isinstance(each, int) for each in numbers) else math.fsum(numbers),
    "min": min,
    "max": max,
    "median": statistics.median,
    "std": statistics.stdev,
    "variance": statistics.variance,
    "range": lambda numbers: max(numbers) - min(numbers),
    "count": len,
    "product": math.prod,
}
_SAMPLE = ("std", "variance")


def _finite(value: Any) -> Any:
    """Refuse what is not a finite number of a float's size. Other types are left to pydantic."""
    if isinstance(value, bool):
        raise ValueError("expected a number, got a boolean")
    if isinstance(value, str):
        value = value.strip()[:400]
        try:
            value = float(value) if not value.lstrip("+-").isdecimal() else int(value)
        except ValueError:
            raise ValueError(f"expected a number, got {value[:40]!r}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {value}; leave it out or replace it")
    if isinstance(value, int) and value.bit_length() > 1000:
        raise ValueError(f"expected a number below 1e300, got one of about {value.bit_length() * 3 // 10} digits")
    return value


#: To a model, integers are numbers like others.
_Finite = Annotated[Number, BeforeValidator(_finite), WithJsonSchema({"type": "number"})]


class Input(BaseModel):
    """The numbers, and what to compute of them."""

    numbers: list[_Finite] = Field(description="The numbers, at least one", min_length=1, max_length=MAX_NUMBERS)
    operations: list[Operation] = Field(
        default=["mean"], description="What to compute, one or more", min_length=1, max_length=len(_FUNCTIONS)
    )


class Output(BaseModel):
    """The value of each operation."""

    results: dict[str, Number]
    count: int = Field(description="How many numbers there were")


def run(request: Input) -> Output:
    """Compute mean, sum, min, max, median, std and more of numbers.

    Raises ValueError for a result that no float can hold, and for `std` or `variance` of one number.

    >>> run(Input(numbers=[1, 2, 3, 4, 5], operations=["mean", "max"])).results
    {'mean': 3, 'max': 5}
    """
    results: dict[str, Number] = {operation: _computed(operation, request.numbers) for operation in request.operations}
    return Output(results=results, count=len(request.numbers))


def _computed(operation: Operation, numbers: list[Number]) -> Number:
    if operation in _SAMPLE and len(numbers) < 2:
        raise ValueError(f"{operation}: expected at least two numbers, got {len(numbers)}. Ask for another operation.")
    too_large = f"{operation}: the result of these {len(numbers)} numbers is too large. Scale them down."
    if operation == "product" and sum(map(_bits, numbers)) > 1000:
        raise ValueError(too_large)
    try:
        value = _FUNCTIONS[operation](numbers)
        if math.isfinite(value):
            return value
    except OverflowError:
        pass
    raise ValueError(too_large)


def _bits(number: Number) -> int:
    """About how many bits a number has before its point; negative for a small fraction."""
    return math.frexp(number)[1]
