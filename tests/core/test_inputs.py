"""What a user passes as a message."""

from nbagent import LLMMessage
from nbagent.core.inputs import as_messages


def test_what_a_user_may_say():
    assert as_messages("hi") == [LLMMessage("user", "hi")]
    assert as_messages([{"role": "user", "content": "hi"}]) == [LLMMessage("user", "hi")]
    assert as_messages([{"type": "text", "text": "hi"}])[0].text == "hi"
