"""A tool, calls of a scripted model, and a short conversation, for tests of agents."""

from nbagent import Agent, FunctionCall, ScriptedProvider


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def call(name, id="c1", /, **arguments):
    return FunctionCall(name, arguments, id)


def after_three_questions(answer):
    """An agent that was asked "one", "two" and "three"; a function answers."""
    agent = Agent(ScriptedProvider(answer), system_prompt="Be brief.")
    for question in ("one", "two", "three"):
        agent.chat_sync(question)
    return agent
