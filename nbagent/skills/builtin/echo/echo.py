"""Returns text unchanged. This is the smallest skill, meant for testing calls."""

from pydantic import BaseModel, ConfigDict, Field


class Input(BaseModel):
    """The text to return. A number becomes text."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    text: str = Field(description="The text to return")


class Output(BaseModel):
    """The same text."""

    text: str


def run(request: Input) -> Output:
    """Return text unchanged, to check that tools can be called."""
    return Output(text=request.text)
