// Adds buttons to each answer that the kernel knows: *Copy* and thumbs in its footer, *Copy* and *Insert below* on its
// code. Adds *Explain and fix* below a failed cell, *Accept* and *Reject* to its correction. Has diagrams drawn. Makes
// the name of the cell that asked a button that goes there. Lets the keyboard scroll what is wider or higher than its
// place, and use the explorer. Takes Python's colours off questions. See `answer_buttons.py` for the messages. Text of
// an answer is only ever read and written as text.

const FOOTERS = ".nbagent-foot[data-nbagent-run]";
// What holds one answer: a turn of a panel, or the outputs of a cell.
const ANSWER = ".nbagent-entry, .jp-OutputArea";
const CODE = ".nbagent pre > code";
// Code that would fail in a cell of Python.
const OTHER = ".nbagent-other-language";
// Diagrams, and the type by which a host's renderer of them is found.
const DIAGRAM = ".nbagent-mermaid";
const MERMAID = "text/vnd.mermaid";
// What takes keys in the explorer. Enter must not edit the cell, and D D must not delete it.
const EXPLORER_KEYS = ".nbagent-explore :is(a, button, input, select, summary, [tabindex])";
const SCROLLED = ".nbagent :is(pre, table, .nbagent-tail), .nbagent-detail > div";
// The words below a failed cell.
const FAILED = "[data-nbagent-failed]";
// What of a running kernel's messages is an output.
const OUTPUTS = ["display_data", "execute_result", "stream", "error"];
// A corrected cell: all of its lines, of which those in <del> are not in the new code.
const DIFF = ".nbagent pre[data-nbagent-cell]";
// The name of the cell that asked.
const ASKED_IN = ".nbagent-panel [data-nbagent-asked-in]";
const BUTTONS = "nbagent-buttons";
const SHEETS = `<svg viewBox="0 0 16 16" aria-hidden="true"><path d="M6 6h7.5v7.5H6zM3.5 10H2.5V2.5H10v1"/></svg>`;
const CHECK = `<svg viewBox="0 0 16 16" aria-hidden="true"><path d="m3 8.5 3.5 3.5L13 4.5"/></svg>`;
const HAND = `<svg viewBox="0 0 16 16" aria-hidden="true"><path d="M5 7H2.2v6.8H5zM5 7l2.7-5.2c1.2 0 1.9.9 1.7
  2L9 6.2h3.6c1 0 1.6.9 1.4 1.8l-1 4.5c-.2.8-.8 1.3-1.6 1.3H5"/></svg>`;
// The source of a cell that asks, and the type that such text has.
const QUESTION = /^%%agent\b/;
const PLAIN = "text/plain";
// Milliseconds for which a button says what it did.
const SAID_MS = 1500;
// Frames within which a host has added a cell.
const MADE_WITHIN_FRAMES = 120;

const answerOf = (element) => element.closest(ANSWER) ?? element.closest(".nbagent");

function button(text, title, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.title = title;
  made.dataset.lmSuppressShortcuts = "true"; // Enter must not edit the cell
  made.addEventListener("click", () => act(made));
  return made;
}

function group(label, ...buttons) {
  const made = document.createElement("span");
  made.className = BUTTONS;
  made.setAttribute("role", "group");
  made.setAttribute("aria-label", label);
  made.append(...buttons);
  return made;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { // without TLS there is no clipboard
    const [box, focused] = [document.createElement("textarea"), document.activeElement];
    box.value = text;
    document.body.append(box);
    box.select();
    const isCopied = document.execCommand("copy");
    box.remove();
    focused?.focus({ preventScroll: true });
    return isCopied;
  }
}

// Says in words what it did; or, in the row of icons below an answer, by `says`.
function copyButton(title, text, says = (made, word) => (made.textContent = word)) {
  const made = button("", title, async () => {
    says(made, (await copy(text())) ? "Copied" : "Not copied");
    setTimeout(() => says(made, "Copy"), SAID_MS);
  });
  says(made, "Copy");
  return made;
}

function byIcon(made, word) {
  made.innerHTML = { Copy: SHEETS, Copied: CHECK }[word] ?? word;
  made.setAttribute("aria-label", word);
}

function initialize({ model }) {
  const known = new Map(); // by run: {good: 1, 0 or null, text, cell}
  const asked = new Set();

  // -- thumbs --

  function thumb(run, value, label) {
    const judge = () => model.send({ run, good: known.get(run).good === value ? null : value });
    const made = button("", label, judge);
    made.innerHTML = HAND;
    made.setAttribute("aria-label", label);
    made.dataset.good = value;
    return made;
  }

  function dressFooter(footer, run) {
    if (!footer.querySelector(`.${BUTTONS}`)) {
      const text = () => known.get(run).text;
      const all = [thumb(run, 1, "Good answer"), thumb(run, 0, "Bad answer")];
      const copies = text() ? [copyButton("Copy the answer as Markdown", text, byIcon)] : [];
      footer.insertBefore(group("This answer", ...copies, ...all), footer.querySelector(".nbagent-actions"));
    }
    for (const each of footer.querySelectorAll("[data-good]")) {
      const pressed = String(known.get(run).good === Number(each.dataset.good));
      if (each.ariaPressed !== pressed) each.ariaPressed = pressed;
    }
  }

  // -- code --

  // The cells of the notebook, in hosts that let a widget change them: JupyterLab and Notebook 7.
  function notebook() {
    const shared = model.widget_manager?.context?.model?.sharedModel;
    return shared?.insertCell && shared.cells ? shared : null;
  }

  const placeOf = (id) => notebook()?.cells.findIndex((cell) => cell.getId() === id) ?? -1;

  // The cell at this place, in the notebook that `near` or any of the answers is in, or else in the one that is shown.
  function cellAt(place, near) {
    const answers = [...document.querySelectorAll(FOOTERS)].filter((foot) => known.has(foot.dataset.nbagentRun));
    const shown = [...document.querySelectorAll(".jp-Notebook")].filter((each) => each.offsetParent);
    const page = [near, ...answers, ...shown].map((each) => each?.closest(".jp-Notebook")).find(Boolean);
    return page?.querySelector(`.jp-Cell[data-windowed-list-index="${place}"]`);
  }

  // Puts the cursor into a cell, once it is there.
  function enter(place) {
    requestAnimationFrame(() => {
      const cell = cellAt(place);
      cell?.scrollIntoView({ block: "nearest" });
      cell?.querySelector(".cm-content")?.focus({ preventScroll: true });
    });
  }

  // A new cell below the one that asked. From a panel it stands below the cell that ran last, where the user works.
  function insert(code, below) {
    const [{ cells }, place] = [notebook(), placeOf(below) + 1];
    notebook().insertCell(place || cells.length, { cell_type: "code", source: code, metadata: {} });
    return place || cells.length - 1;
  }

  // Whether the person is typing something, elsewhere than in this cell.
  function isTyping(id) {
    const focused = document.activeElement;
    const isText = focused?.matches(".cm-content, input, textarea") && (focused.value ?? focused.textContent);
    return Boolean(isText) && !cellAt(placeOf(id))?.contains(focused);
  }

  const madeBelow = (id, code) => notebook().cells.findIndex((cell, at) => at > placeOf(id) && cell.getSource() === code);

  // The cell that `below` has made gets other code, if nobody has edited it; otherwise a new cell gets it.
  function put({ code, below, before }) {
    if (placeOf(below) < 0) return; // another notebook of this kernel
    const made = before === null ? -1 : madeBelow(below, before);
    if (made >= 0) notebook().cells[made].setSource(code);
    const place = made < 0 ? insert(code, below) : made;
    if (!isTyping(below)) enter(place);
  }

  // The cell that `below` has just made gets the cursor; the host may still be adding it.
  function enterMade({ code, below }, frames = MADE_WITHIN_FRAMES) {
    if (placeOf(below) < 0 || isTyping(below)) return;
    const place = madeBelow(below, code);
    if (place >= 0) enter(place);
    else if (frames) requestAnimationFrame(() => enterMade({ code, below }, frames - 1));
  }

  const cellOf = (id) => notebook()?.cells.find((cell) => cell.getId() === id);

  // A row of buttons above a block of code.
  function place(block, ...buttons) {
    const row = document.createElement("div");
    row.className = "nbagent-on-code";
    row.append(group("This code", ...buttons));
    block.before(row);
  }

  const isDressed = (block) => block.previousElementSibling?.matches(".nbagent-on-code");
  // as shown: nothing is hidden
  const textOf = (parts) => parts.map((part) => part.textContent).join("").replace(/\n$/, "");
  const insertButton = (text, below) => button("Insert below", "Insert a cell", (made) => {
    if (isInOther(made)) made.textContent = "Not inserted: this is another notebook";
    else enter(insert(text(), below()));
  });

  function dressCode(code, run) {
    const block = code.parentElement;
    if (isDressed(block)) return;
    const text = () => textOf([code]);
    const below = () => (block.closest(".nbagent-panel") ? model.get("newest_cell") : known.get(run).cell);
    const inserts = notebook() && !code.matches(OTHER) ? [insertButton(text, below)] : [];
    place(block, copyButton("Copy the code", text), ...inserts);
    if (code.matches(DIAGRAM)) draw(code, block);
  }

  // The host draws a diagram as an image, in which no script runs, in the colours of its theme.
  async function drawing(code) {
    const host = model.widget_manager._rendermime;
    if (!host?.mimeTypes?.includes(MERMAID)) return null;
    const drawn = host.createRenderer(MERMAID);
    await drawn.renderModel({ data: { [MERMAID]: code.textContent }, metadata: {}, trusted: false, setData() {} });
    const image = drawn.node.querySelector("img");
    if (image) image.alt ||= "Diagram; its source follows";
    return image;
  }

  // Its source folds; it stays where nothing can be drawn.
  async function draw(code, block) {
    const image = await drawing(code);
    if (!image || !block.isConnected) return;
    const [figure, source] = [document.createElement("figure"), document.createElement("details")];
    figure.className = "nbagent-diagram";
    figure.append(image);
    source.innerHTML = '<summary>Source</summary><div class="nbagent-body"></div>';
    block.previousElementSibling.before(figure, source);
    source.lastElementChild.append(block.previousElementSibling, block);
  }

  async function redrawAll() {
    for (const figure of document.querySelectorAll(".nbagent-diagram")) {
      const image = await drawing(figure.nextElementSibling.querySelector(DIAGRAM));
      if (image) figure.replaceChildren(image);
    }
  }

  const themes = new MutationObserver(redrawAll);
  themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-name"] });

  // -- a failed cell --

  const compared = new Map(); // by number, the diffs that wait for another one

  function dressDiff(block) {
    if (isDressed(block)) return;
    const id = block.dataset.nbagentCell;
    const text = () => textOf([...block.children].filter((line) => line.tagName !== "DEL"));
    const copies = copyButton("Copy the code", text);
    if (!cellOf(id)) return place(block, copies, ...(notebook() ? [insertButton(text, () => id)] : []));
    const rejects = button("Reject", "Fold this; the cell stays as it is", () => settle(block, "Rejected"));
    const accepts = button("Accept", "Put this code into the cell; it does not run", () => accept(block, id, text()));
    accepts.className = "nbagent-accept";
    place(block, copies, rejects, accepts);
  }

  // Whether this is in the tab of another notebook: a copy has cells of the same ids. The tab's title has the path.
  function isInOther(element) {
    const tab = document.getElementById(element.closest(".jp-NotebookPanel")?.getAttribute("aria-labelledby"));
    return Boolean(tab?.title) && !tab.title.split("\n").some((line) => line.endsWith(`: ${model.widget_manager.context.localPath}`));
  }

  // What the person has changed since is not lost: the kernel shows what would change now.
  function accept(block, id, after) {
    if (isInOther(block)) return settle(block, "Not accepted: this is another notebook; run its cell first");
    const cell = cellOf(id);
    const before = cell?.getSource();
    if (!cell) return;
    if (before !== JSON.parse(block.dataset.nbagentBefore) && before !== after) {
      const number = compared.size + 1;
      compared.set(number, block);
      model.send({ compare: number, cell: id, before, after });
      return;
    }
    cell.setSource(after);
    settle(block, "Accepted: the cell has not run");
    goTo(id, block);
  }

  function settle(block, said) {
    const fold = block.closest("details");
    fold.open = false;
    fold.querySelector(".nbagent-side").textContent = said;
    fold.firstElementChild.focus({ preventScroll: true });
  }

  function showCompared({ compared: number, page }) {
    const body = compared.get(number)?.parentElement;
    if (body) body.innerHTML = page;
  }

  const explaining = new Map(); // by cell, what the button says

  // Those of other kernels are left alone: a copy of this notebook has cells of the same ids.
  const idOf = (words) => model.get("failed")[words.dataset.nbagentFailed];
  const allFailed = () => [...document.querySelectorAll(FAILED)].filter(idOf);

  function dressFailed(words) {
    const id = idOf(words);
    if (!outputsOf(id) || isInOther(words)) return; // another notebook of this kernel, or a copy
    const asks = words.previousElementSibling?.matches(".nbagent-fix") ? words.previousElementSibling : null;
    words.hidden = Boolean(kernel());
    if (!words.hidden) return asks?.remove();
    const made = asks ?? button("", "Ask the agent, as %agent fix does", () => (isInOther(words) ? undressFailed(words) : explain(id)));
    made.classList.add("nbagent-fix");
    made.disabled = explaining.has(id);
    const text = explaining.get(id) ?? "Explain and fix";
    if (made.textContent !== text) made.textContent = text;
    if (!asks) words.before(made);
  }

  // Leaves only the words.
  function undressFailed(words) {
    words.hidden = false;
    if (words.previousElementSibling?.matches(".nbagent-fix")) words.previousElementSibling.remove();
  }

  const dressAllFailed = () => allFailed().forEach(dressFailed);
  const kernel = () => model.widget_manager.context?.sessionContext?.session?.kernel;
  const outputsOf = (id) => [...(cellModels?.cells ?? [])].find((cell) => cell.sharedModel.getId() === id)?.outputs;

  function sayOf(id, text) {
    if (text) explaining.set(id, text);
    else explaining.delete(id);
    dressAllFailed();
  }

  // The kernel runs `%agent fix` as part of the failed cell, so its output appears below the error.
  async function explain(id) {
    const outputs = outputsOf(id);
    const all = outputs.toJSON();
    const hint = all.findIndex((each) => [each.data?.["text/html"]].flat().join("").includes("data-nbagent-failed"));
    if (hint + 1 < all.length) outputs.fromJSON(all.slice(0, hint + 1)); // what it said before
    const places = new Map(); // of displays that are updated
    const asked = kernel().requestExecute({ code: "%agent fix", store_history: false }, true, { cellId: id });
    asked.onIOPub = ({ header, content: { transient, ...content } }) => {
      if (header.msg_type === "status") return sayOf(id, "Explaining…");
      const place = places.get(transient?.display_id);
      if (OUTPUTS.includes(header.msg_type)) {
        const length = outputs.add({ output_type: header.msg_type, ...content });
        if (transient?.display_id) places.set(transient.display_id, length - 1);
      } else if (header.msg_type === "update_display_data" && place !== undefined) {
        outputs.set(place, { output_type: "display_data", ...content });
      }
    };
    asked.onStdin = async ({ header, content }) => {
      const value = await askTyped(id, content);
      kernel().sendInputReply({ status: "ok", value }, header);
    };
    sayOf(id, "Waiting for the kernel…");
    try {
      await asked.done;
    } catch { // the kernel ended
    }
    sayOf(id, "");
    typedAnswers.get(id)?.remove();
  }

  const typedAnswers = new Map(); // by cell, where its question is answered

  // What the kernel asks for as text, as where it takes no clicks: the host does this for what it runs itself only.
  function askTyped(id, { prompt, password }) {
    const row = document.createElement("label");
    row.innerHTML = '<pre></pre><input autocomplete="off">';
    const [text, box] = row.children;
    text.textContent = prompt;
    if (password) box.type = "password";
    box.dataset.lmSuppressShortcuts = "true";
    typedAnswers.set(id, row);
    allFailed().find((words) => idOf(words) === id)?.after(row);
    box.focus();
    return new Promise((answer) => {
      box.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" || event.isComposing) return;
        row.remove();
        answer(box.value);
      });
    });
  }

  // -- the cell that asked --

  function goTo(id, from) {
    const cell = cellAt(placeOf(id), from);
    cell?.scrollIntoView({ block: "center" });
    cell?.focus({ preventScroll: true }); // selects it
  }

  function dressCellName(name) {
    const id = name.dataset.nbagentAskedIn;
    if (name.firstElementChild || !cellOf(id)) return;
    const link = button(name.textContent, "Go to this cell", () => goTo(id, name));
    link.className = "nbagent-link";
    name.replaceChildren(link);
  }

  // -- the colours of questions --

  const cellModels = notebook() && model.widget_manager.context.model;
  const typeBefore = new Map(); // of the cells that ask; a type belongs to this page, and is not saved

  function showAsText() {
    for (const cell of cellModels?.cells ?? []) {
      if (cell.type === "code" && QUESTION.test(cell.sharedModel.getSource())) {
        if (cell.mimeType !== PLAIN) typeBefore.set(cell, cell.mimeType);
        cell.mimeType = PLAIN;
      } else {
        showAsCode(cell);
      }
    }
  }

  function showAsCode(cell) {
    if (typeBefore.has(cell)) cell.mimeType = typeBefore.get(cell);
    typeBefore.delete(cell);
  }

  // -- what a reader unfolds in a cell, whose output the host draws again while it changes; from the second answer on --

  const folds = new WeakMap(); // by output: of the blocks that the reader opened or closed, by their places, which

  function noteFold({ target }) {
    const block = target.closest?.(".nbagent summary")?.parentElement;
    const output = block?.closest(".jp-OutputArea-output:not(:has(.nbagent-panel))");
    if (!output) return;
    const place = [...output.querySelectorAll("details")].indexOf(block);
    folds.set(output, { ...folds.get(output), [place]: !block.open });
  }

  function restoreFolds(output) {
    if (!folds.has(output)) return;
    const blocks = output.querySelectorAll("details");
    for (const [place, open] of Object.entries(folds.get(output))) if (blocks[place]) blocks[place].open = open;
  }

  // -- all --

  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const hides = target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight;
      if (hides) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });

  const measured = new WeakSet(); // to observe again would measure again

  function measure(each) {
    if (!measured.has(each)) sizes.observe(each);
    measured.add(each);
  }

  // What is new in these parts of the page, each of which holds an answer as a whole.
  function dress(parts = [document.body]) {
    const all = (selector) => parts.flatMap((part) => [...part.querySelectorAll(selector)]);
    all(SCROLLED).forEach(measure);
    all(ASKED_IN).forEach(dressCellName);
    all(FAILED).filter(idOf).forEach(dressFailed);
    for (const each of all(EXPLORER_KEYS)) each.dataset.lmSuppressShortcuts = "true";
    const unknown = new Set();
    for (const footer of all(FOOTERS)) {
      const run = footer.dataset.nbagentRun;
      if (!known.has(run)) {
        if (!asked.has(run)) unknown.add(run);
        continue;
      }
      dressFooter(footer, run);
      const answer = answerOf(footer);
      for (const code of answer.querySelectorAll(CODE)) if (answerOf(code) === answer) dressCode(code, run);
      answer.querySelectorAll(DIFF).forEach(dressDiff);
    }
    for (const run of unknown) asked.add(run);
    if (unknown.size) model.send({ shown: [...unknown] });
  }

  function remove(run) {
    known.delete(run);
    for (const footer of document.querySelectorAll(FOOTERS)) {
      if (footer.dataset.nbagentRun !== run) continue;
      for (const each of answerOf(footer).querySelectorAll(`.nbagent-on-code, .${BUTTONS}`)) each.remove();
    }
  }

  function told(message) {
    for (const [run, about] of Object.entries(message.runs ?? {})) known.set(run, about);
    if (message.gone) remove(message.gone);
    if (message.compared) showCompared(message);
    if (message.put) put(message.put);
    if (message.enter) enterMade(message.enter);
    showAsText(); // what the host has coloured since, as with a new kernel
    dress();
  }

  function end() {
    changes.disconnect();
    themes.disconnect();
    document.removeEventListener("click", noteFold);
    sizes.disconnect();
    model.off("msg:custom", told);
    model.off("comm_live_update", end);
    model.off("change:failed", dressAllFailed);
    cellModels?.contentChanged.disconnect(showAsText);
    [...typeBefore.keys()].forEach(showAsCode);
    for (const run of [...known.keys()]) remove(run);
    allFailed().forEach(undressFailed);
  }

  const changes = new MutationObserver((records) => {
    const grown = records.filter((record) => record.addedNodes.length);
    grown.forEach((record) => restoreFolds(record.target));
    if (model.widget_manager?.context?.isDisposed) end(); // the notebook was closed
    else if (grown.length) dress([...new Set(grown.map(({ target }) => target.closest(ANSWER) ?? target))]);
  });
  changes.observe(document.body, { childList: true, subtree: true });
  document.addEventListener("click", noteFold);
  model.on("msg:custom", told);
  model.on("comm_live_update", end); // the kernel ended
  model.on("change:failed", dressAllFailed);
  if (notebook()) model.send({ notebook: true });
  cellModels?.contentChanged.connect(showAsText);
  showAsText();
  dress();
  return end;
}

export default { initialize };
