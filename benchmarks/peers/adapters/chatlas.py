"""chatlas: ChatOpenAICompletions (its ChatOpenAI speaks the responses API)."""

from chatlas import ChatOpenAICompletions, parallel_chat, parallel_chat_structured
from pydantic import BaseModel

from .base import PROMPT, Base, Stream, Ticks


class Said(BaseModel):
    text: str


class Peer(Base):
    imports = "chatlas"
    structured_rows = True

    def chat(self, model):
        return ChatOpenAICompletions(base_url=self.v1, api_key="x", model=model)

    def stream_text(self, model):
        got = Stream()
        chat = self.kept(model, lambda: self.chat(model))
        chat.set_turns([])
        for text in chat.stream(PROMPT, echo="none"):
            got.add(text)
        return got

    def tool_loop(self, model):
        ticks = Ticks()
        chat = self.chat(model)
        chat.register_tool(ticks.tool())
        ticks.final = str(chat.chat(PROMPT, echo="none", stream=False))
        return ticks

    def parallel_tools(self, model, sleeper, kind):
        chat = self.chat(model)
        chat.register_tool(sleeper.tool(kind))
        if kind == "sync":
            return str(chat.chat(PROMPT, echo="none", stream=False))

        async def main():
            return await (await chat.chat_async(PROMPT, echo="none", stream=False)).get_content()

        return self.run(main())

    def batch(self, model, prompts, concurrency):
        chat = self.chat(model)
        chats = self.run(parallel_chat(chat, list(prompts), max_active=concurrency, rpm=10**9))
        return [c.get_last_turn().text for c in chats]

    # rows: begin
    def rows(self, model, prompts, concurrency):
        chat = self.chat(model)
        rows = self.run(
            parallel_chat_structured(chat, list(prompts), Said, max_active=concurrency, rpm=10**9, on_error="continue")
        )
        return [getattr(getattr(row, "data", None), "text", None) for row in rows]

    # rows: end
