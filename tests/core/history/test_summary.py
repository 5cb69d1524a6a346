"""The model summarises a history over its limits, instead of losing messages."""

from nbagent import Agent, ContextManager, FunctionCall, Limits, LLMMessage, LLMResponse, ScriptedProvider, Usage
from nbagent.core.history.summary import PROMPT, transcript


def agent_of(turns, **limits):
    """An agent whose model answers with `turns`, and summarises with `Ada has 2 cats`."""
    answers, asked = iter(turns), []

    def answer(messages, functions):
        asked.append((messages, functions))
        return "Ada has 2 cats." if messages[0].text == PROMPT else next(answers)

    agent = Agent(ScriptedProvider(answer), context=ContextManager(strategy="summarise", **limits), system_prompt="Hi.")
    return agent, asked


SUMMARY = "Summary of our conversation so far:\n\nAda has 2 cats."


async def test_the_oldest_turns_become_a_summary():
    agent, asked = agent_of([f"answer {n}" for n in range(9)], max_messages=6)
    for number in range(4):
        await agent.chat(f"question {number}")
    texts = [m.text for m in agent.conversation_history]
    assert texts == ["Hi.", SUMMARY, "question 2", "answer 2", "question 3", "answer 3"]
    runs = agent.trace.runs
    assert runs["source"].tolist() == ["python"] * 4 + ["summary"]
    assert runs["parent_run_id"].tolist()[4] == runs["run_id"].tolist()[3]
    (summing,) = [messages for messages, _ in asked if messages[0].text == PROMPT]
    assert summing[1].text == "User: question 0\nAssistant: answer 0\nUser: question 1\nAssistant: answer 1"
    told, messages = agent.trace.events.query("type == 'context'"), agent.trace.messages
    assert told["content"].tolist() == ["summarising 4 old messages", "summarised 4 old messages"]
    assert told["data"].fillna("").str.contains("begins").tolist() == [True, False]
    assert messages["text"][messages["trimmed"]].tolist()[:4] == ["question 0", "answer 0", "question 1", "answer 1"]


async def test_a_summary_spends_the_budget_of_its_run():
    def answer(messages, functions):
        tokens = 5_000 if messages[0].text == PROMPT else 10
        return LLMResponse("Ada has 2 cats.", metadata={"usage": Usage(tokens, 1)})

    context, limits = ContextManager(strategy="summarise", max_messages=4), Limits(max_total_tokens=1_000)
    agent = Agent(ScriptedProvider(answer), context=context, limits=limits)
    results = [await agent.chat(f"question {n}") for n in range(3)]
    assert [each.limit_reason for each in results] == [None, None, "tokens"]
    assert results[2].usage.total_tokens >= 5_000


async def test_the_summary_of_a_long_turn_follows_its_prompt():
    steps = [FunctionCall("step", {}, f"c{number}") for number in range(8)]
    agent, asked = agent_of([*steps, "after all"], max_messages=6)
    agent.register_function("step", "One step.", lambda: "done")
    await agent.chat("the long one")
    history = agent.conversation_history
    assert [m.text for m in history[1:3]] == ["the long one", SUMMARY]
    assert [m.is_summary for m in history].count(True) == 1
    again = [messages[1].text for messages, _ in asked if messages[0].text == PROMPT][1]
    assert again.startswith(f"User: {SUMMARY}\nAssistant calls step({{}})")
    assert agent.undo()[0].text == "the long one"
    assert [m.text for m in agent.conversation_history] == ["Hi."]


def test_the_transcript_shows_calls_results_and_long_texts():
    messages = [
        LLMMessage("user", "x" * 5_000),
        LLMMessage("assistant", "", tool_calls=[FunctionCall("f", {"a": 1}, "c1")]),
        LLMMessage("tool", "2", name="f", tool_call_id="c1"),
    ]
    lines = transcript(messages).split("\n")
    assert lines[1:] == ["Assistant calls f({'a': 1})", "Result of f: 2"]
    assert len(lines[0]) < 4_100
