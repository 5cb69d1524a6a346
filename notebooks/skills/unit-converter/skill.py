"""Converts values between units of the same kind."""

from typing import Literal

from pydantic import BaseModel, Field, FiniteFloat

Unit = Literal["mm", "cm", "m", "km", "in", "ft", "mi", "mg", "g", "kg", "t", "oz", "lb", "C", "F", "K"]

#: How to get from a unit to the first one of its kind: value * factor + offset.
KINDS: dict[str, dict[str, tuple[float, float]]] = {
    "length": {
        "m": (1, 0),
        "mm": (0.001, 0),
        "cm": (0.01, 0),
        "km": (1000, 0),
        "in": (0.0254, 0),
        "ft": (0.3048, 0),
        "mi": (1609.344, 0),
    },
    "mass": {
        "g": (1, 0),
        "mg": (0.001, 0),
        "kg": (1000, 0),
        "t": (1_000_000, 0),
        "oz": (28.349523125, 0),
        "lb": (453.59237, 0),
    },
    "temperature": {"K": (1, 0), "C": (1, 273.15), "F": (5 / 9, 459.67 * 5 / 9)},
}


class Input(BaseModel):
    """Values, and the two units."""

    values: list[FiniteFloat] = Field(description="The values to convert", min_length=1, max_length=10_000)
    from_unit: Unit = Field(description="The unit that they are in")
    to_unit: Unit = Field(description="The unit that is wanted")


class Output(BaseModel):
    """The values in the other unit."""

    values: list[float]
    unit: Unit
    kind: str


def run(request: Input) -> Output:
    """Convert values from one unit to another of the same kind."""
    for kind, units in KINDS.items():
        if request.from_unit in units and request.to_unit in units:
            (factor, offset), (to_factor, to_offset) = units[request.from_unit], units[request.to_unit]
            exact = [(value * factor + offset - to_offset) / to_factor for value in request.values]
            values = [float(f"{value:.12g}") for value in exact]  # 0.1 + 0.2 is 0.3 here
            return Output(values=values, unit=request.to_unit, kind=kind)
    raise ValueError(f"{request.from_unit} can't be converted to {request.to_unit}: they measure different things")
