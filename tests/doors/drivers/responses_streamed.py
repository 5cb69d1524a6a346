"""`POST /v1/responses` as a stream of events, by the official SDK."""

import json

from support.openai_answers import checked_event

from doors.cases import Call, Seen
from doors.drivers import responses


class Door(responses.Door):
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
