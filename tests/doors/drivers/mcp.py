"""The notebook's tools as an MCP server, with the official client. A person decides in a form in the notebook."""

import asyncio
import json

from mcp_types import Implementation
from support.mcp_sessions import configured, session, text_of

from doors.cases import EDITED, NO_RESULT, Call, Seen
from doors.drivers import cell


class Door(cell.Door):
    source = "mcp-client:editor"

    async def open(self, places):
        await super().open(places)
        self.cell = self.kernel.ok("%agent serve --mcp")
        self.server = configured(self.cell.text)
        self.box = self.kernel.widget(self.cell, _model_name="VBoxModel")
        self.kernel.tell(self.box, method="update", state={"_view_count": 1}, buffer_paths=[])

    async def see(self, case):
        self.kernel.ok("cases.begin()\nagent = cases.agent()")
        call = case.call
        async with session(self.server, client_info=Implementation(name="editor", version="1")) as client:
            calling = asyncio.create_task(client.call_tool(call.name, call.arguments))
            if case.does == "interrupt":
                while not self.kernel.value("cases.WAITING.is_set()"):
                    await asyncio.sleep(0)  # let the client send
                calling.cancel()
            elif case.does:
                await self.decide(case.does)
            await asyncio.wait({calling})
        if calling.cancelled():
            return Seen("", (Call(call.name, call.arguments),), "interrupted")
        result = calling.result()
        told = Call(call.name, call.arguments, NO_RESULT if result.is_error else text_of(result))
        images = [block.data for block in result.content if block.type == "image"]
        return Seen("", (told,), "error" if result.is_error else "ok", tuple(images))

    async def decide(self, does):
        kernel = self.kernel
        while not kernel.widgets()[self.box]["children"]:
            kernel.ok("None")
            await asyncio.sleep(0)
        if does == "edit":
            area = self.newest(_model_name="TextareaModel")
            kernel.tell(area, method="update", state={"value": json.dumps(EDITED)}, buffer_paths=[])
        assert any("mcp-client:editor calls a tool" in str(each.get("value")) for each in kernel.widgets().values())
        kernel.tell(self.newest(description=cell.BUTTONS[does]), method="custom", content={"event": "click"})

    def newest(self, **state):
        return [comm for comm, shown in self.kernel.widgets().items() if state.items() <= shown.items()][-1]

    async def again(self, question):
        return ""
