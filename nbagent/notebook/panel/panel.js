// What ipywidgets can't do for the chat panel: Shift-Enter, names and roles for screen readers, keyboard focus, and keeping
// opened blocks open. The panel also works without this script. Text is only ever set as text, never as HTML.

const ROLES = {
  ".nbagent-chat": { role: "tabpanel", "aria-label": "Chat", tabindex: "0" },
  ".nbagent-log": { role: "log", "aria-label": "Conversation", "aria-live": "off" }, // complete answers are announced
  ".nbagent-trace": { role: "tabpanel", "aria-label": "Trace", tabindex: "0" },
  ".nbagent-setup": { role: "tabpanel", "aria-label": "Setup" },
  ".nbagent-actions": { role: "group", "aria-label": "The last question" },
  ".nbagent-input textarea": { enterkeyhint: "send" },
};
const FOCUSABLE = "a, button, input, select, summary, textarea, [tabindex]";
const BOX = ".nbagent-input textarea";
// Pixels above its end at which the conversation counts as scrolled up.
const NEAR_END = 40;

function mark(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element?.setAttribute(name, value);
}

const visible = (element) => element.isConnected && !element.disabled && element.offsetParent !== null;

function render({ model, el }) {
  const ended = new AbortController();
  let panel = null;
  let last = null; // the last focused element of the panel
  let recalled = null; // the place of the earlier question that the box shows
  const chosen = new WeakMap(); // by piece, the blocks that the reader opened or closed, by their places in it
  const jump = document.createElement("button"); // to the end of the conversation
  let pressed = null; // a button that leads to another version of a question, with its place
  const held = new Map(); // by number, the questions that the kernel has not taken yet, as they are shown

  function dress() {
    for (const [selector, attributes] of Object.entries(ROLES)) mark(panel.querySelector(selector), attributes);
    const tabs = [...panel.querySelectorAll(".nbagent-tabs button")];
    mark(tabs[0]?.parentElement, { role: "tablist", "aria-label": "What the panel shows" });
    tabs.forEach((tab, index) => {
      const selected = index === model.get("tab");
      mark(tab, { role: "tab", "aria-selected": selected, tabindex: selected ? 0 : -1 });
    });
    // a table that is wider than the panel can be scrolled by keyboard
    for (const table of panel.querySelectorAll(".nbagent-trace table")) mark(table, { tabindex: "0" });
    addPencils();
    showJump();
    // the host's shortcuts, such as D D, which deletes a cell, must not act on typing in the panel
    for (const element of panel.querySelectorAll(FOCUSABLE)) mark(element, { "data-lm-suppress-shortcuts": "true" });
  }

  // A pencil beside each question. It is no widget: several panels show the same ones, and each has a box of its own.
  function addPencils() {
    for (const said of panel.querySelectorAll(".nbagent-entry .nbagent-you")) {
      if (said.parentElement.matches(".nbagent-line")) continue;
      const [line, pencil] = [document.createElement("div"), document.createElement("button")];
      line.className = "nbagent-line";
      pencil.type = "button";
      pencil.className = "nbagent-pencil";
      mark(pencil, { "aria-label": "Edit this question", title: "Edit this question" });
      pencil.addEventListener("click", () => model.send({ edit: entries().indexOf(pencil.closest(".nbagent-entry")) }));
      said.before(line);
      line.append(said, pencil);
    }
  }

  const entries = () => [...panel.querySelectorAll(".nbagent-log > .nbagent-entry")];

  // Moves the panel beside the notebook: into a tab of JupyterLab, or a column of Notebook 7. Elsewhere it stays here.
  async function dock() {
    const [manager, shell] = [model.widget_manager, document.getElementById("main")];
    if (!shell || !manager?.create_view || !manager.context?.addSibling) return;
    const inner = (await manager.create_view(await manager.get_model(model.get("dock")))).luminoWidget;
    if (ended.signal.aborted) return inner.dispose();
    const Panel = Object.getPrototypeOf(inner.constructor); // Lumino's, of which the host's own widgets are made
    const [frame, note, back] = [new Panel(), document.createElement("div"), document.createElement("button")];
    const end = () => frame.dispose();
    frame.addWidget(inner);
    frame.addClass("nbagent-dock");
    Object.assign(frame.title, { label: "Agent", caption: "Chat with an agent", closable: true });
    frame.onCloseRequest = end;
    frame.disposed.connect(() => {
      note.remove();
      panel.classList.remove("nbagent-away");
      window.dispatchEvent(new Event("resize")); // the notebook takes the room back
    });
    note.className = "nbagent-away-note";
    back.type = "button";
    back.textContent = "Show it here";
    back.addEventListener("click", end);
    ended.signal.addEventListener("abort", end);
    note.append("The panel is docked beside the notebook. ", back);
    panel.append(note);
    panel.classList.add("nbagent-away");
    if (shell.matches(".jp-LabShell")) {
      manager.context.addSibling(frame, { mode: "split-right", activate: false });
    } else {
      Panel.attach(frame, document.body);
      window.dispatchEvent(new Event("resize"));
    }
  }

  function addJump() {
    const chat = panel.querySelector(".nbagent-chat");
    jump.type = "button";
    jump.className = "nbagent-latest";
    jump.textContent = "↓ Jump to latest";
    jump.addEventListener("click", () => {
      chat.scrollTop = 0; // the chat is laid out from its end
      panel.querySelector(BOX)?.focus({ preventScroll: true });
    });
    chat.addEventListener("scroll", showJump, { signal: ended.signal });
    panel.querySelector(".nbagent-input-area").append(jump);
  }

  function showJump() {
    jump.hidden = !(panel.querySelector(".nbagent-chat")?.scrollTop <= -NEAR_END);
  }

  // A block that the reader opened stays open when its piece is replaced, such as a tool call that gets its result.
  function keepOpen() {
    for (const piece of panel.querySelectorAll(".widget-html")) {
      const blocks = chosen.has(piece) ? piece.querySelectorAll("details") : [];
      for (const [place, open] of chosen.get(piece) ?? []) {
        if (blocks[place] && blocks[place].open !== open) blocks[place].open = open;
      }
    }
  }

  // Only clicks, also those of keys, are the reader's: blocks of agents that work come open and are folded at the end.
  function onFold({ target }) {
    const block = target.closest("summary")?.parentElement;
    const piece = block?.closest(".widget-html");
    if (!piece) return;
    if (!chosen.has(piece)) chosen.set(piece, new Map());
    chosen.get(piece).set([...piece.querySelectorAll("details")].indexOf(block), !block.open);
  }

  // If a pressed button disappears, the focus moves on: to the arguments to edit, or to the question's box.
  function keepFocus() {
    if (!last || visible(last)) return;
    const elsewhere = ![document.body, last, null].includes(document.activeElement);
    const areas = last.closest(".nbagent-ask")?.querySelectorAll("textarea") ?? [];
    last = null;
    if (!elsewhere) ([...areas].find(visible) ?? panel.querySelector(BOX))?.focus({ preventScroll: true });
  }

  // After a switch to another version the focus is on the same button of that version, or on the other one at the end.
  function keepPicking() {
    if (!pressed || pressed.button.isConnected) return;
    const again = [...(entries()[pressed.place]?.querySelectorAll(".nbagent-versions button") ?? [])].filter(visible);
    const found = again.find((each) => each.matches(pressed.name)) ?? again[0];
    if (!found) return;
    pressed = null;
    found.focus({ preventScroll: true });
  }

  function onKey(event) {
    if (event.target.getAttribute("aria-activedescendant")) return; // `draft.js` suggests something
    const tab = event.target.closest("[role=tab]");
    if (tab && ["ArrowLeft", "ArrowRight"].includes(event.key)) {
      const next = event.key === "ArrowLeft" ? tab.previousElementSibling : tab.nextElementSibling;
      if (next?.matches("[role=tab]")) next.focus(), next.click();
    }
    if (event.target.matches(BOX) && event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send(event.target);
    }
    if (event.target.matches(BOX) && event.key === "Escape" && !event.isComposing) model.send({ leave: true });
    if (event.target.matches(BOX) && ["ArrowUp", "ArrowDown"].includes(event.key)) recall(event);
  }

  function send(box) {
    if (!box.value.trim() && !panel.querySelector(".nbagent-draft button")) return;
    const number = Math.random(); // other views of the panel number theirs, too
    hold(number, box.value.trim());
    model.send({ ask: box.value, number });
    fill(box, "");
  }

  // The Send button sends through this script, too, so that the question is shown and the box is empty at once.
  function onClick(event) {
    const button = event.target.closest(".nbagent-versions button");
    const name = button?.matches(".nbagent-before") ? ".nbagent-before" : ".nbagent-after";
    pressed = button && { button, name, place: entries().indexOf(button.closest(".nbagent-entry")) };
    if (!event.target.closest(".nbagent-row .mod-primary")) return;
    event.stopPropagation();
    send(panel.querySelector(BOX));
  }

  function hold(number, text) {
    const [entry, said, note] = ["div", "div", "div"].map((name) => document.createElement(name));
    entry.className = "nbagent nbagent-said";
    said.className = "nbagent-you";
    note.className = "nbagent-quiet";
    said.textContent = text;
    note.textContent = "Waiting for the kernel…";
    entry.append(said, note);
    ([...held.values()].at(-1) ?? panel.querySelector(".nbagent-log")).after(entry);
    held.set(number, entry);
  }

  function fill(box, text) {
    box.value = text;
    box.dispatchEvent(new Event("input", { bubbles: true })); // informs the box's own widget
  }

  // Up in the empty box shows the question before, Down the one after; a text that was typed or changed stays.
  function recall(event) {
    const box = event.target;
    const asked = [...panel.querySelectorAll(".nbagent-you")].map((each) => each.textContent);
    if (!box.value) recalled = asked.length;
    else if (recalled === null || box.value !== asked[recalled]) return;
    const isUp = event.key === "ArrowUp";
    const passed = isUp ? box.value.slice(0, box.selectionStart) : box.value.slice(box.selectionEnd);
    if (passed.includes("\n") || (isUp && recalled === 0) || (!isUp && recalled === asked.length)) return;
    event.preventDefault();
    recalled += isUp ? -1 : 1;
    fill(box, asked[recalled] ?? "");
  }

  function enter() {
    const found = el.closest(".nbagent-panel");
    if (!found || found === panel) return;
    if (!panel) listen();
    panel = found;
    const options = { signal: ended.signal, capture: true };
    mark(panel, { role: "region", "aria-label": "Chat with an agent" });
    panel.addEventListener("keydown", onKey, options);
    panel.addEventListener("click", onClick, options);
    panel.addEventListener("click", onFold, options);
    panel.addEventListener("focusin", (event) => (last = event.target), options);
    panel.addEventListener("focusout", (event) => event.relatedTarget && (last = null), options);
    changes.observe(panel, { childList: true, subtree: true, attributes: true, attributeFilter: ["style", "disabled"] });
    addJump();
    dress();
    model.send({ ready: true });
    if (model.get("dock") && panel.closest(".jp-Notebook")) dock();
  }

  const changes = new MutationObserver(() => (dress(), keepOpen(), keepFocus(), keepPicking()));
  const arrival = new ResizeObserver(enter); // called once `el` is in the page
  const say = () => (el.textContent = model.get("announcement"));
  const show = () => panel && dress();
  function told(message) {
    if (message.focus) panel?.querySelector(BOX)?.focus({ preventScroll: true });
    held.get(message.taken)?.remove();
    held.delete(message.taken);
  }

  // Not before the view is in the page: anywidget forgets the listeners of a view that it renders again just then.
  function listen() {
    model.on("change:announcement", say);
    model.on("change:tab", show);
    model.on("msg:custom", told);
  }

  mark(el, { role: "status" });
  el.classList.add("nbagent-unseen");
  arrival.observe(el);
  return () => {
    ended.abort();
    jump.remove();
    for (const entry of held.values()) entry.remove();
    arrival.disconnect();
    changes.disconnect();
    model.off("change:announcement", say);
    model.off("change:tab", show);
    model.off("msg:custom", told);
  };
}

export default { render };
