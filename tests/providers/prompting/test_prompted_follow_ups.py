"""Messages after a tool's answer: another argument for the same tool, plain answers, and no endless repetition."""

import pytest
from support.requests import streamed
from support.small_tools import CALL, MEAN_BY, MEANS, TIMER, TOOLS, FakeCompleter, after, user

from nbagent.core.events import Text
from nbagent.core.messages import FunctionCall, LLMMessage
from nbagent.providers.prompting.grounding import ground, likeliest
from nbagent.providers.prompting.provider import PromptedProvider, follow_up
from nbagent.providers.prompting.result_sentences import result_sentence


def quoted_turn(call=CALL, request="What is the mean body_mass_g by species?"):
    """A complete turn that used a tool."""
    answer = result_sentence(call, LLMMessage("tool", MEANS))
    return [*after(call, MEANS, request=request), LLMMessage("assistant", answer)]


@pytest.mark.parametrize(
    ("request_text", "changed"),
    [
        ("And by island?", {"group": ["island"]}),
        ("and flipper_length_mm?", {"column": ["flipper_length_mm"]}),
        ("What about the bill depth?", {"column": ["bill_depth_mm"]}),
        ("Now flipper length per sex, please", {"column": ["flipper_length_mm"], "group": ["sex"]}),
        ("What is an island?", None),
        ("Thank you!", None),
    ],
)
def test_a_follow_up_names_only_another_argument(request_text, changed):
    found = follow_up([*quoted_turn(), user(request_text)], TOOLS)
    if changed is None:
        assert found is None
        return
    assert found == (MEAN_BY, CALL)
    assert ground(request_text, MEAN_BY, optional=True) == [changed]


async def test_a_follow_up_keeps_the_other_arguments():
    call = FunctionCall("set_timer", {"minutes": 3, "label": "tea"}, "call_1")
    said = [*quoted_turn(call, "Set a 3 minute timer called 'tea'"), user("and 5 minutes?")]
    assert likeliest(said[-1].text, [TIMER, MEAN_BY]) is None
    response = await PromptedProvider(FakeCompleter()).chat(said, [TIMER, MEAN_BY])
    assert response.function_calls[0].arguments == {"minutes": 5, "label": "tea"}


@pytest.mark.full
@pytest.mark.local_model
async def test_a_conversation_after_a_tool_s_answer_stays_sane(embedded):
    provider = PromptedProvider(embedded)
    said, calls, answers = [], [], []
    for request in (
        "What is the mean body_mass_g by species?",
        "And by island?",
        "and flipper_length_mm?",
        "What is the capital of France?",
        "Thank you!",
    ):
        said.append(user(request))
        response = await provider.chat(said, TOOLS, temperature=0)
        for call in response.function_calls or ():
            calls.append(tuple(call.arguments.values()))
            said += [LLMMessage("assistant", tool_calls=[call]), LLMMessage("tool", MEANS, tool_call_id=call.id)]
            response = await provider.chat(said, TOOLS, temperature=0)
        said.append(LLMMessage("assistant", response.content))
        answers.append(response.content)
    assert calls == [("body_mass_g", "species"), ("body_mass_g", "island"), ("flipper_length_mm", "island")]
    assert all("**Adelie** 3700.7" in answer for answer in answers[:3])
    assert "Paris" in answers[3]
    for answer in answers[3:]:
        assert not any(char.isdigit() for char in answer)
        assert "**" not in answer
        assert len(answer) < 200


async def test_an_answer_that_repeats_itself_is_ended():
    closed = False

    class Endless(FakeCompleter):
        async def stream(self, request):
            nonlocal closed
            try:
                while True:
                    yield Text("again ")
            finally:
                closed = True

    items = [item async for item in streamed(PromptedProvider(Endless()), [user("Hello!")], TOOLS)]
    assert items[-1].content == "again " * 5 + " …" == "".join(item.content for item in items if isinstance(item, Text))
    assert items[-1].usage.output_tokens == 5
    assert closed
