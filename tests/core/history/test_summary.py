"""A history over its limits is summarised by the model instead of dropped."""

from nbagent import Agent, ContextManager, FunctionCall, Limits, LLMMessage, LLMResponse, ScriptedProvider, Usage
from nbagent.core.history.summary import PROMPT, transcript


def agent_of(turns, **limits):
    """An agent whose model answers with `turns`, and whose summary is `Ada has 2 cats`."""
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
    runs = agent.trace.runs
    assert runs["source"].tolist() == ["python"] * 4 + ["summary"]
    assert runs["parent_run_id"].tolist()[4] == runs["run_id"].tolist()[3]
    (summing,) = [messages for messages, _ in asked if messages[0].text == PROMPT]
    assert summing[1].text == "User: question 0\nAssistant: answer 0\nUser: question 1\nAssistant: answer 1"
    assert [event for event in agent.trace.events["content"] if "summarising" in event] == [
        "summarising 4 old messages"
    ]


async def test_a_summary_spends_the_budget_of_its_run():
    def answer(messages, functions):
        tokens = 5_000 if messages[0].text == PROMPT else 10
        return LLMResponse("Ada has 2 cats.", metadata={"usage": Usage(tokens, 1)})

    context, limits = ContextManager(strategy="summarise", max_messages=4), Limits(max_total_tokens=1_000)
    agent = Agent(ScriptedProvider(answer), context=context, limits=limits)
    results = [await agent.chat(f"question {n}") for n in range(3)]
    assert [(each.status, each.limit_reason) for each in results] == [("ok", None), ("ok", None), ("limit", "tokens")]
    assert results[2].usage.total_tokens >= 5_000


async def test_a_summary_is_summarised_again():
    agent, asked = agent_of([f"answer {n}" for n in range(9)], max_messages=4)
    for number in range(6):
        await agent.chat(f"question {number}")
    again = [messages[1].text for messages, _ in asked if messages[0].text == PROMPT][1]
    assert again.startswith("User: Summary of our conversation so far:\n\nAda has 2 cats.\nUser: question")


def step() -> str:
    """One step."""
    return "done"


async def a_long_turn(earlier):
    """An agent that took eight steps for its last question and had to summarise in between."""
    steps = [FunctionCall("step", {}, f"c{number}") for number in range(8)]
    agent, asked = agent_of([f"answer {number}" for number in range(earlier)] + steps + ["after all"], max_messages=6)
    agent.register_function("step", "One step.", step)
    for number in range(earlier):
        await agent.chat(f"question {number}")
    await agent.chat("the long one")
    return agent, asked


async def test_the_summary_of_a_long_turns_beginning_follows_its_question():
    agent, asked = await a_long_turn(earlier=0)
    history = agent.conversation_history
    assert [(m.role, m.text) for m in history[1:3]] == [
        ("user", "the long one"),
        ("user", "Summary of our conversation so far:\n\nAda has 2 cats."),
    ]
    assert [m.is_summary for m in history].count(True) == 1
    again = [messages[1].text for messages, _ in asked if messages[0].text == PROMPT][1]
    assert again.startswith("User: Summary of our conversation so far:\n\nAda has 2 cats.\nAssistant calls step({})")
    assert [m.text for m in agent.undo()][:1] == ["the long one"]
    assert [m.text for m in agent.conversation_history] == ["Hi."]
    assert agent.undo() == []


async def test_turns_before_a_long_turn_get_their_own_summary_which_undo_keeps():
    agent, _ = await a_long_turn(earlier=2)
    texts = [m.text for m in agent.conversation_history]
    summary = "Summary of our conversation so far:\n\nAda has 2 cats."
    assert texts[:4] == ["Hi.", summary, "the long one", summary]
    agent.undo()
    assert [m.text for m in agent.conversation_history] == ["Hi.", summary]
    assert agent.undo() == []
    assert len(agent.conversation_history) == 2


def test_clearing_the_history_meanwhile_leaves_no_summary():
    context = ContextManager()
    context.add_input("question")
    asked = list(context.messages)
    context.clear()
    context.drop(asked, "They asked.")
    assert context.messages == []
    context.add_input("again")
    context.drop(list(context.messages), "They asked.")
    assert [m.is_summary for m in context.messages] == [True]


def test_a_summary_is_saved_as_one():
    message = LLMMessage("user", "Summary", is_summary=True)
    assert LLMMessage.from_dict(message.to_dict()) == message
    assert not message.opens_turn


def test_the_transcript_shows_calls_results_and_long_texts():
    messages = [
        LLMMessage("user", "x" * 5_000),
        LLMMessage("assistant", "", tool_calls=[FunctionCall("f", {"a": 1}, "c1")]),
        LLMMessage("tool", "2", name="f", tool_call_id="c1"),
    ]
    lines = transcript(messages).split("\n")
    assert lines[1:] == ["Assistant calls f({'a': 1})", "Result of f: 2"]
    assert len(lines[0]) < 4_100
