"""A tool, and calls of a scripted model, for tests of agents."""

from nbagent import FunctionCall


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def call(name, id="c1", /, **arguments):
    return FunctionCall(name, arguments, id)
