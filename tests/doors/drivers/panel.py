"""The chat panel in a real kernel, through the messages of a front end."""

import json

from support.panels import Panel

from doors.cases import EDITED
from doors.drivers import cell
from doors.drivers.page import seen_in


class Door(cell.Door):
    source = "panel"

    async def see(self, case):
        self.begin()
        self.panel = Panel(self.kernel)
        self.panel.ask(f"{case.question}{' @dot' * case.draws}")
        if case.does == "interrupt":
            self.panel.until_text("wait()", "running…")
            self.panel.click("Stop")
        if case.does == "edit":
            self.panel.click("Edit")
            self.panel.set({"value": json.dumps(EDITED)}, description="Arguments, as JSON")
        if case.does in cell.BUTTONS:
            self.panel.click(cell.BUTTONS[case.does])
        return self.answer(1)

    def answer(self, number):
        """Return what the panel shows for the answer with this number, once it is complete."""

        def is_over():
            return not self.panel.can("Stop") and self.panel.html().count('class="nbagent-foot') == number

        self.panel.until(is_over)
        return seen_in(self.panel.html().split("Agent:</div>")[number])

    async def again(self, question):
        self.panel.ask(question)
        return self.answer(2).text
