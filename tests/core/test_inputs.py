"""What a user passes as a message."""

from nbagent import LLMMessage
from nbagent.core.history.repair import repair
from nbagent.core.inputs import as_messages


def test_an_old_history_with_function_messages_is_a_valid_one():
    """The chat API of 2023: `function_call` in the answer, and a message of the role `function`, without ids."""
    old = [
        {"role": "user", "content": "How warm is it?"},
        {"role": "assistant", "content": None, "function_call": {"name": "warmth", "arguments": '{"city": "Bonn"}'}},
        {"role": "function", "name": "warmth", "content": "12"},
        {"role": "assistant", "content": None, "function_call": {"name": "warmth", "arguments": '{"city": "Oslo"}'}},
        {"role": "function", "name": "warmth", "content": "3"},
    ]
    messages = repair(as_messages(old))
    assert [m.role for m in messages] == ["user", "assistant", "tool", "assistant", "tool"]
    calls = [m.tool_calls[0] for m in messages if m.tool_calls]
    assert [call.arguments["city"] for call in calls] == ["Bonn", "Oslo"]
    assert [(m.tool_call_id, m.content) for m in messages if m.role == "tool"] == [
        (calls[0].id, "12"),
        (calls[1].id, "3"),
    ]
    assert as_messages(LLMMessage("function", "12", name="warmth"))[0].role == "tool"
