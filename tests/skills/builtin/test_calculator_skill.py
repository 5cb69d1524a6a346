"""The built-in skills `calculator` and `echo`: exact results, and clear errors."""

import math

import pytest
from pydantic import ValidationError
from support.skills import builtin_skill

calculator, echo = builtin_skill("calculator"), builtin_skill("echo")


def computed(numbers, *operations):
    return calculator.run(calculator.Input(numbers=numbers, operations=list(operations) or ["mean"])).results


def test_operations():
    assert computed([1, 2, 3, 4, 5]) == {"mean": 3}
    found = computed([2, 4, 4, 4, 5, 5, 7, 9], *calculator._FUNCTIONS)
    assert found.pop("std") == pytest.approx(2.138089935)
    assert found.pop("variance") == pytest.approx(32 / 7)
    whole = {"mean": 5, "sum": 40, "min": 2, "max": 9, "median": 4.5, "range": 7, "count": 8, "product": 201600}
    assert found == whole


def test_floats_do_not_lose_digits_and_integers_stay_integers():
    assert computed([0.1] * 10, "sum", "mean") == {"sum": 1.0, "mean": 0.1}
    assert computed([2**70, 1], "sum") == {"sum": 2**70 + 1}
    assert computed([1e308] * 10, "mean") == {"mean": 1e308}
    assert computed(["3", "4.5", "-1e2"], "min") == {"min": -100}


def test_invalid_input():
    for numbers, message in [
        ([], "at least 1 item"),
        ([1, math.nan], "should be a finite number"),
        (["many"], "should be a valid number"),
        ([0] * 100_001, "at most 100000 items"),
    ]:
        with pytest.raises(ValidationError, match=message):
            calculator.Input(numbers=numbers)
    with pytest.raises(ValidationError, match="'mean', 'sum'"):
        calculator.Input(numbers=[1], operations=["mode"])


def test_impossible_results():
    for numbers, operation, message in [
        ([1], "std", "std: stdev requires at least two data points"),
        ([10**400, 2], "product", "too large"),
        ([1e300] * 100_000, "product", "too large"),
        ([1e308] * 10, "sum", "sum: the result for these 10 numbers is too large"),
    ]:
        with pytest.raises(ValueError, match=message):
            computed(numbers, operation)


def test_echo_returns_texts_and_numbers():
    assert echo.run(echo.Input(text="hello\n世界")).text == "hello\n世界"
    assert echo.run(echo.Input(text=123)).text == "123"
