"""For tests of prompting: tools, a call and its result, and an inner provider that remembers its requests."""

import json

from nbagent.core.messages import FunctionCall, LLMMessage, LLMResponse, Usage
from nbagent.providers.base import LLMProvider
from nbagent.providers.prompting.provider import Completion

COLUMNS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]


def tool(name, description, required=None, **properties):
    required = list(properties) if required is None else required
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"name": name, "description": description, "parameters": parameters}


GROUPS = {"enum": ["species", "island", "sex"], "type": "string"}
MEAN = "Mean of a numeric column of `penguins` for each value of a group column."
MEAN_BY = tool("mean_by", MEAN, column={"enum": COLUMNS, "type": "string"}, group=GROUPS)
WEATHER = tool("get_weather", "Get the current weather in a city.", city={"type": "string"})
LABEL = {"type": "string", "default": ""}
TIMER = tool("set_timer", "Set a timer.", ["minutes"], minutes={"type": "integer"}, label=LABEL)
MEDIAN = tool("median", "Median of a list of numbers.", numbers={"type": "array", "items": {"type": "number"}})
CLOCK = tool("current_time", "The current time of day.")
TOOLS = [MEAN_BY, WEATHER, TIMER, MEDIAN, CLOCK]


def user(text):
    return LLMMessage("user", text)


def after(call, content, request="What is the mean body_mass_g by species?"):
    asked = LLMMessage("assistant", "", tool_calls=[call])
    return [user(request), asked, LLMMessage("tool", content, name=call.name, tool_call_id=call.id)]


CALL = FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"}, "call_1")
MEANS = json.dumps({"Adelie": 3700.7, "Chinstrap": 3733.1, "Gentoo": 5076.0})


class FakeCompleter(LLMProvider):
    """An inner provider with a fixed completion that remembers its requests, for replies that no real model gives."""

    model_name = "recorder"
    n_ctx = 1000

    def __init__(self, text="", cut_off=False):
        self.completion = Completion(text, Usage(7, 3), cut_off)
        self.prompts, self.chats = [], []

    def supports_function_calling(self):
        return False

    async def load(self):
        return
        yield

    async def complete(self, prompt, *, schema=None, max_tokens=256):
        self.prompts.append(prompt)
        return self.completion

    async def chat(self, messages, functions=None, temperature=None, **kwargs):
        assert not functions
        self.chats.append(messages)
        return LLMResponse("Plain answer.", None, "stop", {"usage": Usage(1, 1)})
