"""litellm's completion() with a hand-written loop (it has no agent)."""

import json
import os

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # no download at import

import litellm

from .base import CHAT_TOOLS, PROMPT, HandLoop, Stream, gather_limited


class Peer(HandLoop):
    imports = "litellm"
    prefix = "openai/"

    def __init__(self, url):
        super().__init__(url)
        self.to = {"api_base": self.v1, "api_key": "x"}

    def arguments(self, call):
        return json.loads(call.function.arguments)

    def result(self, call, value):
        return {"role": "tool", "tool_call_id": call.id, "content": str(value)}

    def stream_text(self, model):
        got = Stream()
        for chunk in litellm.completion(
            model=model,
            stream=True,
            stream_options={"include_usage": True},
            messages=[{"role": "user", "content": PROMPT}],
            **self.to,
        ):
            for choice in chunk.choices:
                got.add(choice.delta.content)
        return got

    def rounds(self, model, execute):
        messages = [{"role": "user", "content": PROMPT}]
        while True:
            message = litellm.completion(model=model, messages=messages, tools=CHAT_TOOLS, **self.to).choices[0].message
            messages.append(message)
            if not message.tool_calls:
                return message.content
            messages += execute(message.tool_calls)

    def batch(self, model, prompts, concurrency):
        async def one(prompt):
            reply = await litellm.acompletion(model=model, messages=[{"role": "user", "content": prompt}], **self.to)
            return reply.choices[0].message.content

        return self.run(gather_limited(one, prompts, concurrency))
