// What ipywidgets can't do for the model picker: columns, keys, names for screen readers, and a key field whose text is in
// no widget's state. Text is only ever set as text, never as HTML.

const ROWS = ".nbagent-picker-rows button";
const SEARCH = ".nbagent-picker-search input";
const KEY = ".nbagent-picker-key input";

function render({ model, el }) {
  const ended = new AbortController();
  let picker = null;
  let opener = null; // the button in the bar
  let row = null; // the row that had the focus last

  const rows = () => [...picker.querySelectorAll(ROWS)];
  const isOpen = () => picker.offsetParent !== null;

  function dress() {
    const heads = [...picker.querySelectorAll(".nbagent-picker-head span")].map((head) => head.textContent);
    rows().forEach((each, index) => {
      if (!each.querySelector("span")) addCells(each, heads);
      each.tabIndex = index ? -1 : 0;
      each.setAttribute("aria-current", each.matches(".mod-active"));
    });
    opener.setAttribute("aria-label", `Model: ${opener.textContent}`);
    opener.setAttribute("aria-expanded", isOpen());
    const field = picker.querySelector(KEY);
    if (field && field.offsetParent === null) field.value = ""; // what was typed and not used
    if (row && !row.isConnected) keepFocus();
  }

  // After a new list the focus is on the same model, or in the search box if it is gone.
  function keepFocus() {
    const again = rows().find((each) => each.dataset.value === row.dataset.value);
    row = again ?? null;
    if (again) again.focus({ preventScroll: true });
    else focus(SEARCH);
  }

  function addCells(button, heads) {
    const texts = decodeURIComponent(button.dataset.value).split("\t");
    const cells = texts.map((text) => Object.assign(document.createElement("span"), { textContent: text }));
    const named = texts.map((text, index) => (index < 2 ? text : `${heads[index]} ${text.trim()}`));
    button.replaceChildren(...cells);
    button.setAttribute("aria-label", named.join(", "));
  }

  const focus = (selector) => picker.querySelector(selector)?.focus({ preventScroll: true });

  function onKey(event) {
    if (event.isComposing) return;
    const { target, key } = event;
    if (key === "Escape") {
      opener.focus({ preventScroll: true });
      model.send({ leave: true });
    } else if (key === "Enter" && target.matches(SEARCH)) {
      model.send({ enter: target.value });
    } else if (key === "Enter" && target.matches(KEY)) {
      sendKey();
    } else if (["ArrowUp", "ArrowDown"].includes(key) && target.matches(`${SEARCH}, ${ROWS}`)) {
      const places = [picker.querySelector(SEARCH), ...rows()];
      const next = places[places.indexOf(target) + (key === "ArrowUp" ? -1 : 1)];
      next?.focus();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  function sendKey() {
    const field = picker.querySelector(KEY);
    if (field.value.trim()) model.send({ key: field.value });
    field.value = "";
  }

  function onClick(event) {
    const chosen = event.target.closest(ROWS);
    const usesKey = event.target.closest(".nbagent-picker-key .mod-primary");
    if (!chosen && !usesKey) return;
    event.stopPropagation();
    if (chosen) model.send({ choose: decodeURIComponent(chosen.dataset.value) });
    else sendKey();
  }

  // What is typed as a key never becomes the state of a widget, which a notebook could be saved with.
  function onChange(event) {
    if (event.target.matches(KEY)) event.stopPropagation();
  }

  function onPress(event) {
    if (isOpen() && !event.target.closest(".nbagent-picker, .nbagent-model")) model.send({ leave: true });
  }

  function enter() {
    const found = el.closest(".nbagent-panel")?.querySelector(".nbagent-picker");
    if (!found || found === picker) return;
    if (!picker) model.on("msg:custom", told); // as in panel.js, not before the view is in the page
    picker = found;
    opener = picker.parentElement.querySelector(".nbagent-model");
    const options = { signal: ended.signal, capture: true };
    picker.setAttribute("role", "dialog");
    picker.setAttribute("aria-label", "Choose a model");
    picker.addEventListener("keydown", onKey, options);
    picker.addEventListener("click", onClick, options);
    picker.addEventListener("change", onChange, options);
    picker.addEventListener("focusin", (event) => (row = event.target.closest(ROWS)), options);
    document.addEventListener("pointerdown", onPress, options);
    const watched = { childList: true, subtree: true, attributes: true, attributeFilter: ["style", "class"] };
    changes.observe(picker, watched);
    changes.observe(opener, { childList: true });
    dress();
  }

  const changes = new MutationObserver(dress);
  const arrival = new ResizeObserver(enter); // called once `el` is in the page
  const told = (message) => message.focus && picker && focus(message.focus);

  el.classList.add("nbagent-unseen");
  arrival.observe(el);
  return () => {
    ended.abort();
    arrival.disconnect();
    changes.disconnect();
    model.off("msg:custom", told);
  };
}

export default { render };
