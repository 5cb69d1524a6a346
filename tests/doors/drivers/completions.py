"""`POST /v1/chat/completions`, whole and in chunks, with the official SDK. The client keeps the conversation."""

import asyncio

import openai
from support.openai_answers import checked_chunk, checked_completion
from support.serving import TOKEN

from doors.cases import GIF, Seen, carried_out, run_that_ended

STATUSES = {"stop": "ok", "length": "limit"}


class Door:
    source = "http"
    happened = staticmethod(run_that_ended)

    async def open(self, places):
        client = openai.AsyncOpenAI(base_url=f"{places.server.url}/v1", api_key=TOKEN, max_retries=0)
        self.client = await places.enter_async_context(client)

    async def see(self, case):
        self.begun = asyncio.Event()  # set once the user has seen that the agent waits
        content = case.question
        if case.draws:
            picture = {"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{GIF}"}}
            content = [{"type": "text", "text": content}, picture]
        self.messages = [{"role": "user", "content": content}]
        asking = await carried_out(case, self.ask(), self.begun)
        seen = self.interrupted() if asking.cancelled() else asking.result()
        self.messages += [{"role": "assistant", "content": seen.text}] if seen.status != "error" else []
        return seen

    async def ask(self):
        self.begun.set()
        try:
            made = await self.client.chat.completions.create(model="nbagent", messages=self.messages)
        except openai.APIError:
            return Seen(status="error")
        (choice,) = checked_completion(made.to_dict()).choices
        assert choice.message.tool_calls is None
        return Seen(choice.message.content, status=STATUSES[choice.finish_reason])

    def interrupted(self):
        return Seen(status="interrupted")

    async def again(self, question):
        self.messages.append({"role": "user", "content": question})
        return (await self.ask()).text


class Streamed(Door):
    async def ask(self):
        self.text, status = "", "error"
        try:
            made = await self.client.chat.completions.create(model="nbagent", messages=self.messages, stream=True)
            async for chunk in made:
                (choice,) = checked_chunk(chunk.to_dict()).choices
                assert choice.delta.tool_calls is None
                self.text += choice.delta.content or ""
                if self.text == "I wait.":
                    self.begun.set()
                status = STATUSES[choice.finish_reason] if choice.finish_reason else status
        except openai.APIError:
            return Seen(status="error")
        return Seen(self.text, status=status)

    def interrupted(self):
        return Seen(self.text, status="interrupted")
