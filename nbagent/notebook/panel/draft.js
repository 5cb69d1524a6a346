// The question's box of the chat panel: suggests what can follow an @, and skills after a / at its beginning, and attaches
// what is pasted or dropped. Text is only ever set as text, never as HTML.

const BOX = ".nbagent-input textarea";
// An @ at the beginning of a word, with what is typed of the word; or a / at the beginning of the question.
const TYPED = /(?:^|[^\w@./+-])(@(?:"[^"\n]*|[^\s"'`,;!?()[\]{}<>|…—]*))$|^\s*(?:\/[a-z0-9-]+\s+)*(\/[a-z0-9-]*)$/;
// Larger files would end the connection to the kernel.
const MAX_BYTES = 8_000_000;

function render({ model, el }) {
  const ended = new AbortController();
  const list = document.createElement("div");
  let panel = null;
  let box = null;
  let awaited = null; // what was typed when the kernel was asked
  let refused = null; // what was typed when the reader closed the list
  let selected = -1;

  // What is typed of a mention before the cursor, or null.
  function typed() {
    if (box.selectionStart !== box.selectionEnd) return null;
    const found = TYPED.exec(box.value.slice(0, box.selectionStart));
    return found?.[1] ?? found?.[2];
  }

  function onInput(event) {
    if (!event.target.matches(BOX) || !event.isTrusted) return;
    const text = typed() ?? null;
    if (text === null || !text.startsWith(refused)) refused = null;
    if (text === null || refused !== null) return close();
    if (awaited === null) ask(text);
  }

  function ask(text) {
    awaited = text;
    model.send({ complete: text });
  }

  function onAnswer(message) {
    if (!message.suggestions || !panel) return;
    awaited = null;
    const text = typed() ?? null;
    if (text === null || refused !== null || document.activeElement !== box) return close();
    if (text !== message.typed) return ask(text);
    show(message.suggestions, text);
  }

  function show(suggestions, text) {
    list.replaceChildren(
      ...suggestions.map(([name, about], index) => {
        const [option, what, note] = ["div", "b", "span"].map((tag) => document.createElement(tag));
        what.textContent = name;
        note.textContent = about;
        option.id = `${list.id}-${index}`;
        option.setAttribute("role", "option");
        option.append(what, note);
        return option;
      }),
    );
    list.hidden = suggestions.length === 0;
    // what is complete already needs no Enter
    select(suggestions.some(([name]) => name === text) ? -1 : 0);
  }

  function select(index) {
    selected = index;
    [...list.children].forEach((option, place) => option.setAttribute("aria-selected", place === index));
    const option = list.hidden ? null : list.children[index];
    option?.scrollIntoView({ block: "nearest" });
    if (option) box.setAttribute("aria-activedescendant", option.id);
    else box.removeAttribute("aria-activedescendant");
  }

  function close() {
    list.hidden = true;
    if (box) select(-1);
  }

  function take(option) {
    const name = option.firstChild.textContent;
    const [start, end] = [box.selectionStart - typed().length, box.selectionStart];
    const goesOn = name.endsWith("/");
    const space = goesOn || /^\s/.test(box.value.slice(end)) ? "" : " ";
    box.setRangeText(name + space, start, end, "end");
    box.dispatchEvent(new Event("input", { bubbles: true })); // informs the box's own widget
    close();
    if (goesOn) ask(typed());
  }

  function onKey(event) {
    if (event.target !== box || list.hidden || event.isComposing) return;
    const count = list.children.length;
    if (event.key === "ArrowDown") select((selected + 1) % count);
    else if (event.key === "ArrowUp") select(selected > 0 ? selected - 1 : count - 1);
    else if (["Enter", "Tab"].includes(event.key) && !event.shiftKey && selected >= 0) take(list.children[selected]);
    else if (event.key === "Escape") (refused = typed()), close();
    else {
      if (["ArrowLeft", "ArrowRight", "Home", "End", "Enter", "Tab"].includes(event.key)) close();
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation(); // the panel's own keys have another meaning
  }

  async function attach(event, files) {
    event.preventDefault();
    event.stopPropagation();
    for (const file of files) {
      const name = file.name || "file";
      if (file.size > MAX_BYTES) model.send({ attach: name });
      else model.send({ attach: name }, undefined, [await file.arrayBuffer()]);
    }
  }

  // What comes as text, too, such as a part of a table, is pasted as text.
  function onPaste(event) {
    const { files, types } = event.clipboardData;
    if (event.target === box && files.length && !types.includes("text/plain")) attach(event, [...files]);
  }

  const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");

  function onDrag(event) {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    event.stopPropagation();
    panel.classList.add("nbagent-dropping");
  }

  function onDragEnd(event) {
    if (!panel.contains(event.relatedTarget)) panel.classList.remove("nbagent-dropping");
  }

  function onDrop(event) {
    panel.classList.remove("nbagent-dropping");
    if (holdsFiles(event)) attach(event, [...event.dataTransfer.files]);
    box.focus({ preventScroll: true });
  }

  function enter() {
    const found = el.closest(".nbagent-panel");
    box = found?.querySelector(BOX);
    if (!box || found === panel) return;
    if (!panel) model.on("msg:custom", onAnswer); // as in panel.js, not before the view is in the page
    panel = found;
    const options = { signal: ended.signal, capture: true };
    list.id = `nbagent-suggestions-${model.model_id ?? ""}-${document.querySelectorAll(".nbagent-suggestions").length}`;
    for (const [name, value] of [["aria-autocomplete", "list"], ["aria-haspopup", "listbox"], ["aria-controls", list.id]])
      box.setAttribute(name, value);
    panel.querySelector(".nbagent-input-area").append(list);
    panel.addEventListener("keydown", onKey, options);
    panel.addEventListener("input", onInput, options);
    panel.addEventListener("paste", onPaste, options);
    panel.addEventListener("dragover", onDrag, options);
    panel.addEventListener("dragleave", onDragEnd, options);
    panel.addEventListener("drop", onDrop, options);
    box.addEventListener("blur", close, options);
    box.addEventListener("click", close, options);
  }

  list.className = "nbagent-suggestions";
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "What to mention");
  list.addEventListener("mousedown", (event) => event.preventDefault()); // the box keeps the focus
  list.addEventListener("click", (event) => take(event.target.closest("[role=option]")));
  const arrival = new ResizeObserver(enter); // called once `el` is in the page
  el.classList.add("nbagent-unseen");
  arrival.observe(el);
  return () => {
    ended.abort();
    list.remove();
    arrival.disconnect();
    model.off("msg:custom", onAnswer);
  };
}

export default { render };
