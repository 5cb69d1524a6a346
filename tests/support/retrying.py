"""A model whose first attempt breaks off."""

from nbagent import ScriptedProvider
from nbagent.core.events import Retry, Text, Thinking


class Retrying(ScriptedProvider):
    """Its connection breaks in the middle of the answer, which is then sent again."""

    async def stream(self, request):
        yield Thinking("Wrong thought.")
        yield Text("Wrong ")
        yield Retry("The connection broke.", metadata={"attempt": 1, "wait_s": 0, "discard_chars": 6})
        async for event in super().stream(request):
            yield event
