"""The `%%agent` cell in a real kernel, through the messages of a front end."""

import json
from dataclasses import replace

import pytest

from doors.cases import EDITED
from doors.drivers.page import seen_in

#: The buttons of a form.
BUTTONS = {"approve": "Approve", "deny": "Deny", "edit": "Approve"}


class Door:
    source = "magic"

    async def open(self, places):
        self.kernel = places.kernel

    def begin(self):
        """Create another agent, without the messages of earlier cases."""
        self.kernel.forget()
        self.kernel.ok("cases.begin()\nagent = cases.agent()")

    async def see(self, case):
        if case.does in BUTTONS and not self.kernel.takes_clicks:
            pytest.skip("kernels before ipykernel 7 take clicks between cells only")
        self.begin()
        cell = self.kernel.send(f"%%agent\n{case.question}{' {dot}' * case.draws}", cell_id=case.question)
        if case.does in BUTTONS:
            box = self.kernel.widget(cell, _model_name="VBoxModel")
            self.kernel.tell(box, method="update", state={"_view_count": 1}, buffer_paths=[])
            area = self.kernel.widget(cell, _model_name="TextareaModel")
            if case.does == "edit":
                self.kernel.tell(area, method="update", state={"value": json.dumps(EDITED)}, buffer_paths=[])
            button = self.kernel.widget(cell, _model_name="ButtonModel", description=BUTTONS[case.does])
            self.kernel.tell(button, method="custom", content={"event": "click"})
        if case.does == "interrupt":
            self.kernel.until(cell, lambda: "running…" in cell.html)
            self.kernel.interrupt()
        self.kernel.wait(cell)
        seen, error = seen_in(cell.html), cell.reply["content"].get("ename")
        assert (error == "KeyboardInterrupt") == (seen.status == "interrupted")
        return replace(seen, status="error") if error == "AuthenticationError" else seen

    async def happened(self):
        return self.kernel.value("await asyncio.to_thread(cases.RUNS.get, True, 60)")

    async def again(self, question):
        return seen_in(self.kernel.ok(f"%%agent\n{question}").html).text
