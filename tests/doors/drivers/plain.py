"""`agent.chat_stream` in plain Python."""

from doors.cases import EDITED, NO_RESULT, PICTURE, Call, Seen, agent, carried_out, run_that_ended
from nbagent.core import events
from nbagent.core.content.images import content_as_text, images_in

DECISIONS = {"approve": True, "deny": False, "edit": EDITED}


class Door:
    source = "python"
    happened = staticmethod(run_that_ended)

    async def open(self, places):
        pass

    async def see(self, case):
        self.text, self.calls, self.images = "", {}, []
        self.agent = agent(approve=lambda call, definition: DECISIONS[case.does])
        stream = self.agent.chat_stream([case.question, PICTURE] if case.draws else case.question, raise_errors=False)
        reading = await carried_out(case, self.read(stream))
        status = "interrupted" if reading.cancelled() else reading.result()
        return Seen(self.text, tuple(self.calls.values()), status, tuple(self.images))

    async def read(self, stream):
        async for event in stream:
            match event:
                case events.TurnStarted():
                    self.text = ""
                case events.Text():
                    self.text += event.content
                case events.Retry():
                    self.text = self.text[: -event.metadata["discard_chars"]]
                case events.ToolCall():
                    self.calls[event.metadata["tool_call_id"]] = Call(event.tool_name, event.tool_arguments)
                case events.ToolResult():
                    self.calls[event.metadata["tool_call_id"]] = self.call(event.outcome)
                case events.Error():
                    return "error"
        assert stream.result().content == self.text
        self.images += [image.to_base64() for image in stream.result().images]
        return stream.result().status

    def call(self, outcome):
        self.images += [image.to_base64() for image in images_in(outcome.content)]
        result = NO_RESULT if outcome.is_error else content_as_text(outcome.content)
        return Call(outcome.call.name, outcome.call.arguments, result)

    async def again(self, question):
        return (await self.agent.chat(question)).content
