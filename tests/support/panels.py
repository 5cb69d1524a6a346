"""A chat panel in a kernel, controlled and read like a front end does it."""

import html
import re


class Panel:
    """A front end's view of a panel: the widgets' states, from the messages in the order they were sent."""

    def __init__(self, kernel, code="nbagent.ChatPanel(agent)"):
        self.kernel = kernel
        self.cell = kernel.ok(code)
        widget, saved = self.cell.of("display_data")[-2:]
        self.root = widget["data"]["application/vnd.jupyter.widget-view+json"]["model_id"]
        #: What readers without a kernel see, as it was first.
        self.bundle = saved["data"]
        self._saved_id = saved["transient"]["display_id"]

    @property
    def saved(self):
        updates = [m["content"] for m in self.kernel.messages() if m["msg_type"] == "update_display_data"]
        mine = [content["data"] for content in updates if content["transient"]["display_id"] == self._saved_id]
        return [self.bundle, *mine][-1]

    def states(self):
        return self.kernel.widgets()

    def tree(self):
        """`(comm_id, state)` of every displayed widget of the panel, top down."""
        states = self.states()

        def walk(name):
            comm_id = name.removeprefix("IPY_MODEL_")
            state = states.get(comm_id, {})
            layout = states.get(str(state.get("layout", "")).removeprefix("IPY_MODEL_"), {})
            if layout.get("display") != "none":
                yield comm_id, state
                for child in state.get("children", ()):
                    yield from walk(child)

        return list(walk(self.root))

    def html(self):
        return "\n".join(str(s["value"]) for _, s in self.tree() if s.get("_model_name") == "HTMLModel" and s["value"])

    @property
    def text(self):
        page = re.sub(r"<style>.*?</style>", "", self.html(), flags=re.S)
        return html.unescape(re.sub(r"<[^>]*>", "", page))

    def find(self, **wanted):
        return next((c for c, s in self.tree() if wanted.items() <= s.items()), None)

    def until(self, condition):
        self.kernel.until(self.cell, condition)
        self.kernel.settle()

    def until_text(self, *texts):
        self.until(lambda: all(text in self.text for text in texts))

    def click(self, button):
        self._click(self.usable(description=button))

    def _click(self, comm):
        self.kernel.tell(comm, method="custom", content={"event": "click"})

    def set(self, value, **wanted):
        self.kernel.tell(self.usable(**wanted), method="update", state=value, buffer_paths=[])

    def usable(self, **wanted):
        """The widget, once a user could use it."""
        self.until(lambda: (comm := self.find(**wanted)) and not self.states()[comm].get("disabled"))
        return self.find(**wanted)

    def type(self, text):
        self.set({"value": text}, description="Your question")

    def ask(self, text):
        self.type(text)
        self.click("Send")

    def with_class(self, name):
        return next((comm for comm, state in self.tree() if name in state.get("_dom_classes", ())), None)

    @property
    def models(self):
        rows = self.with_class("nbagent-picker-rows")
        return [row.split("\t")[0] for row in self.states()[rows]["_options_labels"]] if rows else []

    def open_models(self):
        self._click(self.with_class("nbagent-model"))
        self.until(lambda: len(self.models) > 10)

    def click_model(self, index):
        rows = self.with_class("nbagent-picker-rows")
        self.kernel.tell(rows, method="update", state={"index": index}, buffer_paths=[])
        self._click(rows)

    def choose_model(self, spec):
        """Open the picker, search for the model, and click on the first row."""
        self.open_models()
        self.set({"value": spec}, description="Search models")
        self.until(lambda: 0 < len(self.models) < 10)
        self.click_model(0)

    def tab(self, name):
        self.set({"index": ["Chat", "Trace", "Setup"].index(name)}, _model_name="ToggleButtonsModel")


def script(kernel, *turns, options=""):
    kernel.ok(f"agent = Agent(ScriptedProvider([{', '.join(turns)}], model='m'), tools=nbagent.live{options})")


def result(kernel, expression):
    """The value of the expression once no run is active: a run ends a little after its last text is shown."""
    kernel.ok("while 'running' in list(agent.trace.runs['status']): await asyncio.sleep(0.01)")
    return kernel.ok(expression).result


def history(kernel):
    return result(kernel, "[(m.role, m.text) for m in agent.conversation_history]")
