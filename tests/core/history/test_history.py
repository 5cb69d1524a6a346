"""ContextManager: trimming by whole turns, pinning, editing and counting tokens."""

import pytest

from nbagent import ContextManager, FunctionCall, LLMMessage, Usage
from nbagent.core.content.images import Image
from nbagent.errors import ConfigurationError


def turn(number, with_tool=False):
    messages = [LLMMessage("user", f"question {number}")]
    if with_tool:
        messages.append(LLMMessage("assistant", "", tool_calls=[FunctionCall("f", {}, f"c{number}")]))
        messages.append(LLMMessage("tool", "1", name="f", tool_call_id=f"c{number}"))
    return [*messages, LLMMessage("assistant", f"answer {number}")]


def filled(turns, **limits):
    context = ContextManager(**limits)
    context.set_system_message("system")
    for number in range(turns):
        context.messages += turn(number, with_tool=number % 2 == 1)
    return context


def test_trimming_drops_whole_turns_and_keeps_the_system_message():
    context = filled(10, max_messages=12)
    assert "trimmed" in context.prepare()
    assert [m.role for m in context.messages[:2]] == ["system", "user"]
    assert len(context.messages) - 1 <= 12
    assert context.messages[-1].content == "answer 9"
    # trimming leaves room, so the prefix stays the same for a while
    prefix = context.messages[:3]
    context.add_message(LLMMessage("user", "one more"))
    assert context.prepare() == ""
    assert context.messages[:3] == prefix


def test_add_message_trims_the_history_unless_it_is_summarised():
    for strategy in ("trim", "summarise"):
        context = filled(0, max_messages=12, strategy=strategy)
        for number in range(10):
            for message in turn(number):
                context.add_message(message)
        assert (len(context.messages) <= 13) == (strategy == "trim")


def test_trimming_the_last_turn_keeps_its_prompt_and_last_round():
    context = ContextManager(max_messages=4)
    context.add_message(LLMMessage("user", "question"))
    for number in range(9):
        for message in turn(number, with_tool=True)[1:3]:
            context.add_message(message)
    assert context.prepare() == "trimmed 16 old messages"
    assert [m.text or m.tool_calls[0].id for m in context.messages] == ["question", "c8", "1"]
    assert context.prepare() == ""


def test_pinned_messages_stay_with_their_turn():
    context = filled(10, max_messages=8)
    context.pin(5)
    pinned = context.messages[3:7]  # the second turn: prompt, call, result, answer
    assert [m.pinned for m in pinned] == [False, False, True, False]
    context.prepare()
    assert context.messages[1:5] == pinned
    assert LLMMessage.from_dict(pinned[2].to_dict()) == pinned[2]
    context.pin(pinned[2], pinned=False)
    assert not any(m.pinned for m in context.messages)


def test_a_message_is_edited_in_place():
    context = filled(2)
    context.edit(-1, ["Look:", Image(b"GIF89a\3\0\2\0\0\0\0,\0\0\0\0\3\0\2\0\0\2", "image/gif")])
    context.edit(context.messages[1], "another question")
    assert [m.text for m in context.messages[:2]] == ["system", "another question"]
    assert [part["type"] for part in context.messages[-1].content] == ["text", "image"]
    with pytest.raises(ConfigurationError, match="A message can't hold"):
        context.edit(1, 3)
    assert context.messages[1].text == "another question"


def test_tokens_are_the_providers_count_plus_an_estimate_of_later_messages():
    context = filled(2)
    context.record_usage(Usage(input_tokens=900, output_tokens=100))
    assert context.get_tokens() == 1_000
    context.add_message(LLMMessage("user", "x" * 400))
    assert 1_050 < context.get_tokens() < 1_200
    context.replace_history([LLMMessage("user", "x" * 40_000)])
    assert context.get_tokens() > 5_000


def test_estimates_are_scaled_to_the_providers_count():
    """Our estimate for an image is far above some providers' count. A history that fits must not be trimmed."""
    context = ContextManager(max_tokens=500)
    for number in range(4):
        context.add_input([f"question {number}", Image(b"GIF89a\3\0\2\0\0\0\0,\0\0\0\0\3\0\2\0\0\2", "image/gif")])
        context.add_message(LLMMessage("assistant", "answer"))
    context.record_usage(Usage(input_tokens=600))
    assert context.prepare() == "trimmed 4 old messages"
    assert context.get_tokens() == 300
    assert context.prepare() == ""


def test_a_list_of_messages_replaces_the_history_except_the_system_message():
    context = filled(2)
    context.add_input([{"role": "user", "content": "new"}, LLMMessage("assistant", "")])
    assert [(m.role, m.content) for m in context.messages[:2]] == [("system", "system"), ("user", "new")]
    context.add_input(each for each in [LLMMessage("system", "other"), LLMMessage("user", "newer")])
    assert [(m.role, m.content) for m in context.messages] == [("system", "other"), ("user", "newer")]
