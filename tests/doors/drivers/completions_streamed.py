"""`POST /v1/chat/completions` in chunks, by the official SDK."""

import openai
from support.openai_answers import checked_chunk

from doors.cases import Seen
from doors.drivers import completions


class Door(completions.Door):
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
                status = completions.STATUSES[choice.finish_reason] if choice.finish_reason else status
        except openai.APIError:
            return Seen(status="error")
        return Seen(self.text, status=status)

    def interrupted(self):
        return Seen(self.text, status="interrupted")
