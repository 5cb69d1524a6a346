"""A chat panel in a kernel, used as its page does."""

import html
import re

#: What the buttons of a panel do.
DOES = dict(
    zip(
        ("Send", "Stop", "New chat", "Retry", "Previous version", "Next version"),
        ("ask", "stop", "begin", "retry", "version", "version"),
        strict=True,
    )
)


def merged(state, patch):
    """A state after a JSON Merge Patch (RFC 7386)."""
    state = dict(state) if isinstance(state, dict) else {}
    for name, value in patch.items():
        if value is None:
            state.pop(name, None)
        else:
            state[name] = merged(state.get(name), value) if isinstance(value, dict) else value
    return state


class Panel:
    """A page's view of a panel: its state, from the messages in the order they were sent."""

    def __init__(self, kernel, code="nbagent.ChatPanel(agent)"):
        self.kernel = kernel
        self.cell = kernel.ok(code)
        widget, saved = self.cell.of("display_data")[-2:]
        self.root = widget["data"]["application/vnd.jupyter.widget-view+json"]["model_id"]
        #: What readers without a kernel see, as it was first.
        self.bundle = saved["data"]
        self._saved_id = saved["transient"]["display_id"]
        self._state, self._read, self.typed = {}, 0, ""
        self.tell("hello", "en")
        self.until(lambda: "tab" in self.state)

    @property
    def saved(self):
        updates = [m["content"] for m in self.kernel.messages() if m["msg_type"] == "update_display_data"]
        mine = [content["data"] for content in updates if content["transient"]["display_id"] == self._saved_id]
        return [self.bundle, *mine][-1]

    @property
    def state(self):
        messages = self.kernel.told(self.root)
        for message in messages[self._read :]:
            self._state = message.get("state") or merged(self._state, message.get("patch", {}))
        self._read = len(messages)
        return self._state

    def tell(self, do, value=None, *buffers):
        """Send what `panel.js` sends."""
        self.kernel.tell(self.root, buffers, method="custom", content={"do": do, "with": value})

    # -- what is shown ------------------------------------------------------------------------------------------------

    @property
    def turns(self):
        return [self.state["turns"][key] for key in self.state.get("order", ())]

    def html(self):
        parts = [self.state.get("notice", ""), self.state.get("status", ""), self.state.get("trace", "")]
        for turn in self.turns:
            parts += [turn.get("question", ""), "{}/{}".format(*turn["versions"]) if "versions" in turn else ""]
            parts += [turn["pieces"][name].get("html", "") for name in turn["order"]]
        parts += [str(s["value"]) for _, s in self.widgets() if s.get("_model_name") == "HTMLModel" and s["value"]]
        return "\n".join(parts)

    @property
    def text(self):
        page = re.sub(r"<style>.*?</style>", "", self.html(), flags=re.S)
        return html.unescape(re.sub(r"<[^>]*>", "", page))

    @property
    def box(self):
        """The text that the kernel last put into the box."""
        return self.state["box"]["text"]

    @property
    def draft(self):
        """The attachments, and the line below the box."""
        chips, line = self.state["draft"]["chips"], self.state["draft"]["line"]
        return "".join([*("{name} · {about}".format(**chip) for chip in chips), line])

    @property
    def attached(self):
        return [chip["name"] for chip in self.state["draft"]["chips"]]

    @property
    def tools(self):
        """Whether each tool of the Setup tab is offered."""
        return {tool["name"]: tool["on"] for tool in self.state.get("setup", {}).get("tools", ())}

    @property
    def models(self):
        return [row[1] for row in self.state["model"].get("open", {}).get("rows", ())]

    def until(self, condition):
        self.kernel.until(self.cell, condition)
        self.kernel.settle()

    def until_text(self, *texts):
        self.until(lambda: all(text in self.text for text in texts))

    # -- what people do -----------------------------------------------------------------------------------------------

    def type(self, text):
        self.typed = text
        self.tell("typed", text)

    def ask(self, text):
        self.typed = ""
        self.tell("ask", {"text": text, "number": 1})

    def can(self, name):
        state, turns = self.state, self.turns
        return {
            "Send": True,
            "Stop": state.get("pending"),
            "New chat": state.get("can_begin"),
            "Retry": bool(turns) and state["order"][-1] in state["editable"],
            "Previous version": state.get("idle") and any(turn.get("versions", [1])[0] > 1 for turn in turns),
            "Next version": state.get("idle") and any(turn.get("versions", [2, 2])[0] == 1 for turn in turns),
        }[name]

    def click(self, name):
        """Click a button of the panel or of an approval form, once it can be used."""
        if name not in DOES:
            self.kernel.tell(self.usable(description=name), method="custom", content={"event": "click"})
            return
        self.until(lambda: self.can(name))
        if name == "Send":
            self.ask(self.typed)
        elif name.endswith("version"):
            turn = next(key for key in self.state["order"] if "versions" in self.state["turns"][key])
            self.tell("version", [turn, 1 if name == "Next version" else -1])
        else:
            self.tell(DOES[name], self.state["order"][-1] if name == "Retry" else None)

    def edit(self, place):
        """Click *Edit* below the turn at this place."""
        self.until(lambda: self.state["order"][place] in self.state["editable"])
        self.tell("edit", self.state["order"][place])

    def tab(self, name):
        self.tell("tab", name)
        self.until(lambda: self.state["tab"] == name)

    def models_do(self, do, value=None):
        self.tell("models", {"do": do, "value": value})

    def open_models(self):
        self.models_do("open")
        self.until(lambda: len(self.models) > 10)

    def click_model(self, index):
        self.models_do("choose", self.state["model"]["open"]["rows"][index][0])

    def choose_model(self, spec):
        """Open the picker, search for the model, and click on the first row."""
        self.open_models()
        self.models_do("search", spec)
        self.until(lambda: 0 < len(self.models) < 10)
        self.click_model(0)

    # -- the question before a tool runs: ipywidgets ------------------------------------------------------------------

    def widgets(self):
        """`(comm_id, state)` of every displayed widget in the panel, top down."""
        states = self.kernel.widgets()

        def walk(name):
            comm_id = name.removeprefix("IPY_MODEL_")
            state = states.get(comm_id, {})
            layout = states.get(str(state.get("layout", "")).removeprefix("IPY_MODEL_"), {})
            if layout.get("display") != "none":
                yield comm_id, state
                for child in state.get("children", ()):
                    yield from walk(child)

        pieces = [piece for turn in self.turns for piece in turn["pieces"].values()]
        return [each for piece in pieces if "widget" in piece for each in walk(piece["widget"])]

    def find(self, **wanted):
        mine = (comm for comm, s in self.widgets() if wanted.items() <= s.items() and not s.get("disabled"))
        return next(mine, None)

    def usable(self, **wanted):
        """The widget, once it can be used."""
        self.until(lambda: self.find(**wanted))
        return self.find(**wanted)

    def set(self, value, **wanted):
        self.kernel.tell(self.usable(**wanted), method="update", state=value, buffer_paths=[])


def script(kernel, *turns, options=""):
    kernel.ok(f"agent = Agent(ScriptedProvider([{', '.join(turns)}], model='m'), tools=nbagent.live{options})")


def result(kernel, expression):
    """The value of the expression once no run is active: a run ends a little after its last text is shown."""
    kernel.ok("while 'running' in list(agent.trace.runs['status']): await asyncio.sleep(0.01)")
    return kernel.ok(expression).result


def history(kernel):
    return result(kernel, "[(m.role, m.text) for m in agent.conversation_history]")
