"""A history over its limits, summed up by the model instead of dropped."""

from nbagent import Agent, ContextManager, FunctionCall, LLMMessage, ScriptedProvider
from nbagent.core.summary import PROMPT, transcript
from nbagent.errors import ServerError


def agent_of(turns, **limits):
    """An agent whose model answers as `turns` says, and sums up as `Ada has 2 cats`."""
    answers = iter(turns)
    asked = []

    def answer(messages, functions):
        asked.append((messages, functions))
        return SUMMARY.pop(0) if messages[0].text == PROMPT else next(answers)

    SUMMARY[:] = ["Ada has 2 cats."] * 9
    agent = Agent(ScriptedProvider(answer), context=ContextManager(strategy="summarise", **limits), system_prompt="Hi.")
    return agent, asked


SUMMARY: list = []


async def test_the_oldest_turns_become_a_summary():
    agent, asked = agent_of([f"answer {n}" for n in range(9)], max_messages=6)
    for number in range(4):
        await agent.chat(f"question {number}")
    texts = [m.text for m in agent.conversation_history]
    assert texts == [
        "Hi.",
        "Summary of our conversation so far:\n\nAda has 2 cats.",
        *("question 2", "answer 2", "question 3", "answer 3"),
    ]
    (summing,) = [messages for messages, _ in asked if messages[0].text == PROMPT]
    assert summing[1].text == "User: question 0\nAssistant: answer 0\nUser: question 1\nAssistant: answer 1"
    assert [event for event in agent.trace.events["content"] if "summarising" in event] == [
        "summarising 4 old messages"
    ]


async def test_it_is_a_run_of_its_own_paid_by_the_one_that_needs_it():
    agent, _ = agent_of([f"answer {n}" for n in range(9)], max_messages=6)
    results = [await agent.chat(f"question {n}") for n in range(4)]
    runs = agent.trace.runs
    assert runs["source"].tolist() == ["python"] * 4 + ["summary"]
    assert runs["parent_run_id"].tolist()[4] == results[3].run_id
    assert results[3].usage.total_tokens > results[2].usage.total_tokens


async def test_a_summary_is_summed_up_again():
    agent, asked = agent_of([f"answer {n}" for n in range(9)], max_messages=4)
    for number in range(6):
        await agent.chat(f"question {number}")
    again = [messages[1].text for messages, _ in asked if messages[0].text == PROMPT][1]
    assert again.startswith("User: Summary of our conversation so far:\n\nAda has 2 cats.\nUser: question")


async def test_without_a_summary_the_turns_are_dropped():
    agent, _ = agent_of([f"answer {n}" for n in range(9)], max_messages=6)
    SUMMARY[:] = [ServerError("overloaded")]
    for number in range(4):
        await agent.chat(f"question {number}")
    texts = [m.text for m in agent.conversation_history]
    assert texts == ["Hi.", "question 2", "answer 2", "question 3", "answer 3"]
    contents = agent.trace.events["content"].tolist()
    assert any(text.startswith("no summary: ") and "overloaded" in text for text in contents)
    assert "trimmed 4 old messages" in contents


def test_calls_results_and_long_texts_can_be_read():
    messages = [
        LLMMessage("user", "x" * 5_000),
        LLMMessage("assistant", "", tool_calls=[FunctionCall("f", {"a": 1}, "c1")]),
        LLMMessage("tool", "2", name="f", tool_call_id="c1"),
    ]
    lines = transcript(messages).split("\n")
    assert lines[1:] == ["Assistant calls f({'a': 1})", "Result of f: 2"]
    assert len(lines[0]) < 4_100
