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

function mark(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element?.setAttribute(name, value);
}

const visible = (element) => element.isConnected && !element.disabled && element.offsetParent !== null;

function render({ model, el }) {
  const ended = new AbortController();
  let panel = null;
  let last = null; // the last focused element of the panel
  const opened = new WeakSet(); // the pieces in which the reader opened a block

  function dress() {
    for (const [selector, attributes] of Object.entries(ROLES)) mark(panel.querySelector(selector), attributes);
    const tabs = [...panel.querySelectorAll(".nbagent-tabs button")];
    mark(tabs[0]?.parentElement, { role: "tablist", "aria-label": "What the panel shows" });
    tabs.forEach((tab, index) => {
      const selected = index === model.get("tab");
      mark(tab, { role: "tab", "aria-selected": selected, tabindex: selected ? 0 : -1 });
    });
    // the host's shortcuts, such as D D, which deletes a cell, must not act on typing in the panel
    for (const element of panel.querySelectorAll(FOCUSABLE)) mark(element, { "data-lm-suppress-shortcuts": "true" });
  }

  // A block that the reader opened stays open when its piece is replaced, such as a tool call that gets its result.
  function keepOpen() {
    for (const details of panel.querySelectorAll("details:not([open])")) {
      details.open = opened.has(details.closest(".widget-html"));
    }
  }

  function onToggle({ target }) {
    opened[target.open ? "add" : "delete"](target.closest(".widget-html"));
  }

  // If a pressed button disappears, the focus moves on: to the arguments to edit, or to the question's box.
  function keepFocus() {
    if (!last || visible(last)) return;
    const elsewhere = ![document.body, last, null].includes(document.activeElement);
    const areas = last.closest(".nbagent-ask")?.querySelectorAll("textarea") ?? [];
    last = null;
    if (!elsewhere) ([...areas].find(visible) ?? panel.querySelector(BOX))?.focus({ preventScroll: true });
  }

  function onKey(event) {
    const tab = event.target.closest("[role=tab]");
    if (tab && ["ArrowLeft", "ArrowRight"].includes(event.key)) {
      const next = event.key === "ArrowLeft" ? tab.previousElementSibling : tab.nextElementSibling;
      if (next?.matches("[role=tab]")) next.focus(), next.click();
    }
    if (event.target.matches(BOX) && event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send(event.target);
    }
  }

  function send(box) {
    if (!box.value.trim()) return;
    model.send({ ask: box.value });
    box.value = "";
    box.dispatchEvent(new Event("input", { bubbles: true })); // informs the box's own widget
  }

  function enter() {
    const found = el.closest(".nbagent-panel");
    if (!found || found === panel) return;
    panel = found;
    const options = { signal: ended.signal, capture: true };
    mark(panel, { role: "region", "aria-label": "Chat with an agent" });
    panel.addEventListener("keydown", onKey, options);
    panel.addEventListener("toggle", onToggle, options);
    panel.addEventListener("focusin", (event) => (last = event.target), options);
    panel.addEventListener("focusout", (event) => event.relatedTarget && (last = null), options);
    changes.observe(panel, { childList: true, subtree: true, attributes: true, attributeFilter: ["style", "disabled"] });
    dress();
    model.send({ ready: true });
  }

  const changes = new MutationObserver(() => (dress(), keepOpen(), keepFocus()));
  const arrival = new ResizeObserver(enter); // called once `el` is in the page
  const say = () => (el.textContent = model.get("announcement"));
  const show = () => panel && dress();
  const focus = (message) => message.focus && panel?.querySelector(BOX)?.focus({ preventScroll: true });

  mark(el, { role: "status" });
  el.classList.add("nbagent-unseen");
  arrival.observe(el);
  model.on("change:announcement", say);
  model.on("change:tab", show);
  model.on("msg:custom", focus);
  return () => {
    ended.abort();
    arrival.disconnect();
    changes.disconnect();
    model.off("change:announcement", say);
    model.off("change:tab", show);
    model.off("msg:custom", focus);
  };
}

export default { render };
