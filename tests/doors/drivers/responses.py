"""`POST /v1/responses`, whole and in events, with the official SDK. The server keeps the conversation."""

import asyncio
import json

import openai
from support.openai_answers import checked_event, checked_response
from support.serving import TOKEN

from doors.cases import GIF, NO_RESULT, Call, Seen, carried_out, run_that_ended
from nbagent.core.messages import new_id

STATUSES = {"completed": "ok", "incomplete": "limit", "failed": "error"}


class Door:
    source = "http"
    streamed = False
    happened = staticmethod(run_that_ended)

    async def open(self, places):
        client = openai.AsyncOpenAI(base_url=f"{places.server.url}/v1", api_key=TOKEN, max_retries=0)
        self.client = await places.enter_async_context(client)

    async def see(self, case):
        self.begun = asyncio.Event()  # set once the user has seen that the agent waits
        self.conversation = new_id("conv")
        content = [{"type": "input_text", "text": case.question}]
        if case.draws:
            content.append({"type": "input_image", "image_url": f"data:image/gif;base64,{GIF}", "detail": "auto"})
        asking = await carried_out(case, self.ask([{"role": "user", "content": content}]), self.begun)
        return self.interrupted() if asking.cancelled() else asking.result()

    async def ask(self, content):
        try:
            asked = {"input": content, "conversation": self.conversation, "model": "nbagent"}
            return seen(await self.made(asked))
        except openai.APIError:
            return Seen(status="error")

    async def made(self, asked):
        self.begun.set()
        return await self.client.responses.create(**asked)

    def interrupted(self):
        return Seen(status="interrupted")

    async def again(self, question):
        return (await self.ask(question)).text


class Streamed(Door):
    async def made(self, asked):
        self.text, self.calls = "", []
        async for event in await self.client.responses.create(**asked, stream=True):
            checked_event(event.to_dict())
            if event.type == "response.output_text.delta":
                self.text += event.delta
            elif event.type == "response.mcp_call_arguments.done":
                self.calls.append(json.loads(event.arguments))
                self.begun.set()
        assert self.text == event.response.output_text
        return event.response

    def interrupted(self):
        return Seen(self.text, tuple(Call("wait", each) for each in self.calls), "interrupted")


def seen(response):
    checked_response(response.to_dict())
    calls = [each for each in response.output if each.type == "mcp_call"]
    images = [each.result for each in response.output if each.type == "image_generation_call"]
    return Seen(response.output_text, tuple(map(_call, calls)), STATUSES[response.status], tuple(images))


def _call(item):
    return Call(item.name, json.loads(item.arguments), NO_RESULT if item.error else item.output)
