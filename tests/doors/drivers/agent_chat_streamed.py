"""`POST /agent/chat`, with the run's events as they come. The event `approval` says what a person is asked."""

import json

from doors.cases import NO_RESULT, Call, Seen
from doors.drivers import agent_chat


class Door(agent_chat.Door):
    accept = "text/event-stream"

    async def ask(self, question):
        self.text, self.calls, self.status = "", {}, "ok"
        body = {"message": question, **self.asked}
        async with self.client.stream("POST", "/agent/chat", json=body) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    event = json.loads(line.removeprefix("data: "))
                    self.see_event(event)
        return self.seen(self.status)

    def see_event(self, event):
        name, text, metadata = event["tool_name"], event["content"], event["metadata"]
        match event["type"]:
            case "text":
                self.text += text
            case "turn_started":
                self.text = ""
            case "retry":
                self.text = self.text[: -metadata["discard_chars"]]
            case "limit" | "error" as status:
                self.status = status
            case "tool_call":
                self.calls[metadata["tool_call_id"]] = Call(name, event["tool_arguments"])
                self.begun.set()
            case "tool_result":
                result = NO_RESULT if metadata["is_error"] else text
                self.calls[metadata["tool_call_id"]] = Call(name, event["tool_arguments"], result)

    def interrupted(self):
        return self.seen("interrupted")

    def seen(self, status):
        return Seen(self.text, tuple(self.calls.values()), status)
