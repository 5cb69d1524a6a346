"""Replaying tool results, and each model's own answers if several received the same request."""

import pytest

import nbagent
from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.core.content.images import Image
from nbagent.errors import ReplayError

GIF = Image(b"GIF89a\3\0\2\0\0\0\0,\0\0\0\0\3\0\2\0\0\2", "image/gif")
ASKED = [FunctionCall("draw", {"n": 1}), FunctionCall("draw", {"n": 1}), FunctionCall("fail", {})]


class Tools:
    """Tools whose results differ at each call."""

    def __init__(self):
        self.ran = 0

    def draw(self, n: int) -> str:
        """The next number."""
        self.ran += n
        return f"number {self.ran}"

    def fail(self) -> str:
        """Fails."""
        self.ran += 1
        raise ValueError("no luck")

    def picture(self) -> Image:
        """A picture."""
        return GIF

    def agent(self, turns):
        return Agent(ScriptedProvider(turns), tools=[self.draw, self.fail, self.picture])


async def test_results_are_replayed_and_no_tool_runs(path):
    first = Tools()
    recorded = first.agent([ASKED, FunctionCall("draw", {"n": 1}), "Three."])
    with nbagent.record(path):
        await recorded.chat("Draw")
    assert first.ran == 4
    again = Tools()
    playing = again.agent([])
    with nbagent.replay(path, run_tools=False):
        result = await playing.chat("Draw")
    assert again.ran == 0
    assert result.content == "Three."
    assert [call["result"] for call in result.function_calls][:2] == ["number 1", "number 2"]
    said = [(message.role, message.content, message.is_error) for message in recorded.conversation_history]
    assert [(message.role, message.content, message.is_error) for message in playing.conversation_history] == said
    same = ["name", "args", "result_text", "is_error"]
    assert playing.trace.tool_calls[same].equals(recorded.trace.tool_calls[same])
    assert playing.trace.tool_calls["is_error"].tolist() == [False, False, True, False]


async def test_tools_run_if_the_model_itself_answers(path):
    tools = Tools()
    with nbagent.record(path):
        await tools.agent([FunctionCall("draw", {"n": 1}), "old"]).chat("Draw")
    with nbagent.replay(path, mode="new", run_tools=False):
        mixed = tools.agent([FunctionCall("draw", {"n": 5}), "new"])
        await mixed.chat("Draw")
        assert tools.ran == 1
        await mixed.chat("Again")
    assert tools.ran == 6
    assert mixed.trace.tool_calls["result_text"].tolist() == ["number 1", "number 6"]


async def test_a_result_that_is_not_recorded_is_an_error(path):
    tools = Tools()
    with nbagent.record(path):
        await tools.agent([FunctionCall("draw", {"n": 1})]).chat("Draw", max_iterations=1)
    with nbagent.replay(path, run_tools=False), pytest.raises(ReplayError, match=r'no result for draw\({"n": 1}\)'):
        await tools.agent([]).chat("Draw")
    assert tools.ran == 1


async def test_recorded_images_cannot_be_replayed(path):
    with nbagent.record(path):
        await Tools().agent([FunctionCall("picture", {}), "nice"]).chat("Show")
    with nbagent.replay(path, run_tools=False), pytest.raises(ReplayError, match="picture returned an image"):
        await Tools().agent([]).chat("Show")


async def test_each_model_gets_its_own_answer(path):
    models = ("one", "other", "third")
    with nbagent.record(path):
        for model in models:
            await Agent(ScriptedProvider([f"I am {model}", f"still {model}"], model=model)).chat("Who?")
    with nbagent.replay(path):
        for model in reversed(models):
            agent = Agent(ScriptedProvider([], model=model))
            assert str(await agent.chat("Who?")) == f"I am {model}"
            assert agent.trace.calls["model"].tolist() == [model]
        assert str(await Agent(ScriptedProvider([], model="new")).chat("Who?")) == "I am one"
