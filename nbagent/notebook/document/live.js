// Lets the kernel read and change the notebook of this page, marks the cells that an agent wrote, and shows what its last
// run changed: *Show changes*, *Undo*, *Keep*. See `live.py` for the messages. Changes go through the shared notebook,
// each in one transaction, and can be asked for twice. What a person types is not overwritten.

const OURS = "nbagent";
// Milliseconds for which a cell is left alone after somebody has typed in it.
const TYPING_MS = 3000;
// Characters of one message: the server closes connections over messages of 10 MB.
const PART = 1_000_000;
// Milliseconds between two looks for the notebook on the page.
const LOOK_MS = 300;
// Milliseconds after which a click says that it waits.
const BUSY_MS = 500;
const WRITTEN = "nbagent-written";
// A cell whose source is covered by a change that waits for approval.
const ASKED = "nbagent-asked";

class Changed extends Error {}

function initialize({ model }) {
  const context = model.widget_manager?.context;
  const notebook = context?.model?.sharedModel;
  if (!notebook?.insertCell || !notebook.cells) return undefined; // a console, or another host
  const page = [...crypto.getRandomValues(new Uint32Array(3))].map((n) => n.toString(36)).join("");
  const send = (message) => model.send({ page, ...message });

  // -- cells --

  const seen = new WeakMap(); // by cell: its version, when somebody typed in it, and how to look away
  let [version, isOurs] = [0, false];
  let known = { version, ids: [] }; // what the kernel was told last

  function watch(cell) {
    if (!seen.has(cell)) {
      const about = { version: ++version, typed: -Infinity };
      const onChange = (events) => {
        about.version = ++version;
        if (!isOurs && events.some((event) => event.target === cell.ysource)) about.typed = performance.now();
      };
      cell.ymodel.observeDeep(onChange);
      about.unwatch = () => cell.ymodel.unobserveDeep(onChange);
      seen.set(cell, about);
    }
    return seen.get(cell);
  }

  const placeOf = (id) => notebook.cells.findIndex((cell) => cell.getId() === id);

  function find(id) {
    const place = placeOf(id);
    if (place < 0) throw new Changed(`there is no cell '${id}': it was deleted. List the cells.`);
    return [notebook.cells[place], place];
  }

  // That a cell is as the agent knows it, and that nobody is typing in it.
  function check(cell, expected) {
    const name = `cell ${placeOf(cell.getId()) + 1} (${cell.getId()})`;
    if (cell.getSource() !== expected) throw new Changed(`${name} changed since you read it. Read it again.`);
    if (performance.now() - watch(cell).typed < TYPING_MS) {
      throw new Changed(`the person is typing in ${name}. Leave it to them, or read it again later.`);
    }
  }

  function mark(cell, metadata) {
    if (metadata[OURS]) cell.setMetadata(OURS, metadata[OURS]);
    else cell.deleteMetadata(OURS);
  }

  // JupyterLab appends a text to one before it, also to one that goes in the same transaction: outputs come in a second.
  let later = [];
  function show(cell, { outputs, start = 0, count }) {
    if (!cell.setOutputs) return;
    if (outputs) {
      cell.updateOutputs(start, cell.outputs.length, []);
      later.push(() => cell.updateOutputs(start, start, outputs));
    }
    if (count !== undefined) cell.execution_count = count;
  }

  const ops = {
    // What changed since the state that the kernel has: cells, and the ids between those that are the same at both ends.
    cells({ since: [of, number] }) {
      const changed = notebook.cells.filter((cell) => watch(cell).version > (of === page ? number : -1));
      const ids = notebook.cells.map((cell) => cell.getId());
      const before = of === page && number === known.version ? known.ids : [];
      const most = Math.min(before.length, ids.length);
      let [start, end] = [0, 0];
      while (start < most && before[start] === ids[start]) start++;
      while (end < most - start && before.at(-1 - end) === ids.at(-1 - end)) end++;
      known = { version: ++version, ids };
      return { now: [page, version], same: [start, end], ids: ids.slice(start, ids.length - end), cells: changed.map((cell) => cell.toJSON()) };
    },
    insert({ place, cell }) {
      if (placeOf(cell.id) < 0) notebook.insertCell(place, cell);
    },
    replace({ expected, cell: { id, source, metadata, outputs, execution_count: count } }) {
      const [cell] = find(id);
      if (source !== expected && cell.getSource() !== source) {
        check(cell, expected);
        cell.setSource(source);
      }
      mark(cell, metadata);
      show(cell, { outputs, count });
    },
    move({ id, place }) {
      const [, from] = find(id);
      if (from !== place) notebook.moveCell(from, place);
    },
    remove({ id, expected }) {
      const place = placeOf(id);
      if (place < 0) return;
      check(notebook.cells[place], expected);
      notebook.deleteCell(place);
    },
    start({ id, expected }) {
      const [cell, place] = find(id);
      check(cell, expected);
      const shown = context.model.cells.get(place);
      if (shown) shown.trusted = true; // as the host does it for what it runs
      if ("executionState" in cell) cell.executionState = "running";
      show(cell, { outputs: [], count: null });
    },
    show({ id, ...shown }) {
      const place = placeOf(id);
      if (place >= 0) show(notebook.cells[place], shown);
    },
    end({ id, ...shown }) {
      const place = placeOf(id);
      if (place < 0) return;
      const cell = notebook.cells[place];
      show(cell, shown);
      if ("executionState" in cell) cell.executionState = "idle";
    },
    propose({ number, ...proposal }) {
      proposals.set(number, { ...proposal, boxes: new Map() });
      soon();
    },
    withdraw({ number }) {
      for (const box of proposals.get(number)?.boxes.values() ?? []) removeBox(box);
      proposals.delete(number);
    },
    note: () => notebook.getMetadata(OURS) ?? {},
    append({ entry, runs: most }) {
      const changes = notebook.getMetadata(OURS)?.changes ?? [];
      if (JSON.stringify(changes.at(-1)) === JSON.stringify(entry)) return;
      const runs = [...new Set([...changes, entry].map((each) => each.run_id).reverse())].slice(0, most);
      notebook.setMetadata(OURS, { changes: [...changes, entry].filter((each) => runs.includes(each.run_id)) });
    },
    set_note({ note }) {
      if (Object.keys(note).length) notebook.setMetadata(OURS, note);
      else notebook.deleteMetadata(OURS);
    },
  };

  function act({ op, ...fields }) {
    [isOurs, later] = [true, []];
    try {
      let value;
      notebook.transact(() => (value = ops[op](fields)));
      for (const put of later) put();
      return { value: value ?? null };
    } catch (error) {
      return error instanceof Changed ? { changed: error.message } : { failed: String(error) };
    } finally {
      isOurs = false;
    }
  }

  function told(message) {
    if (message.page !== page) return;
    if (message.did) return onDid(message);
    const text = JSON.stringify(act(message));
    for (let at = 0; message.ask && at < text.length; at += PART) {
      send({ answer: message.ask, part: text.slice(at, at + PART), more: at + PART < text.length });
    }
  }

  // -- changes that wait for approval, each in its place --

  const proposals = new Map(); // by number: {html, cell_id, adds, source}, and by panel its box

  function makeProposal(number, { html, adds, source }) {
    const box = document.createElement("div");
    box.className = "nbagent-proposal";
    box.dataset.lmSuppressShortcuts = "true";
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "A change that waits for your approval");
    box.innerHTML = '<div></div><textarea aria-label="New source" spellcheck="false" hidden></textarea>'
      + '<div class="nbagent-proposal-row"></div>';
    const [shown, text, row] = box.children;
    shown.innerHTML = html; // safe HTML, made by the kernel
    const decide = (answer) => {
      for (const each of row.children) each.disabled = true;
      send({ decide: number, chosen: answer });
    };
    const edit = button("Edit", "Change the source first", () => {
      [text.value, text.rows] = [source, source.split("\n").length + 1];
      [text.hidden, shown.hidden, edit.hidden] = [false, true, true];
      text.focus();
    });
    edit.hidden = source === null;
    row.append(
      button("Accept", adds ? "Add this cell" : "Make this change", () => decide(text.hidden ? true : text.value)),
      edit,
      button("Reject", "Leave the notebook unchanged, and tell the model", () => decide(false)),
    );
    // the notebook would select the cell, or take the keys
    for (const kind of ["mousedown", "keydown", "dblclick"]) box.addEventListener(kind, (event) => event.stopPropagation());
    return box;
  }

  function removeBox(box) {
    box.parentElement?.classList.remove(ASKED);
    box.remove();
  }

  function paintProposals(panel) {
    for (const [number, proposal] of proposals) {
      const { cell_id: id, adds, boxes } = proposal;
      const place = id ? placeOf(id) : id === null ? notebook.cells.length - 1 : 0;
      const cell = panel.querySelector(`.jp-Cell[data-windowed-list-index="${place}"]`);
      if (!cell) continue;
      if (!boxes.has(panel)) boxes.set(panel, makeProposal(number, proposal));
      const box = boxes.get(panel);
      if (box.parentElement === cell) continue;
      removeBox(box);
      if (adds && id !== "") cell.append(box);
      else cell.prepend(box);
      cell.classList.toggle(ASKED, !adds);
    }
  }

  // -- what the last run changed --

  const bars = new Map(); // by panel of the notebook: its bar
  let [said, busySince, diff] = ["", 0, ""];

  function lastRun() {
    const changes = notebook.getMetadata(OURS)?.changes ?? [];
    const run = changes.at(-1)?.run_id;
    return [run, changes.filter((change) => change.run_id === run)];
  }

  // "3 cells added, 1 edited": each cell counts once.
  function summary(changes) {
    const kinds = new Map();
    for (const { cell_id: id, kind } of changes) kinds.set(id, [...(kinds.get(id) ?? []), kind]);
    const counts = { added: 0, edited: 0, deleted: 0, moved: 0, run: 0 };
    for (const each of kinds.values()) {
      const has = (kind) => each.includes(kind);
      if (has("add") && has("delete")) continue;
      const what = has("add") ? "added" : has("delete") ? "deleted" : has("edit") ? "edited" : has("move") ? "moved" : "run";
      counts[what] += 1;
    }
    const parts = Object.entries(counts).filter(([, n]) => n);
    return parts.map(([what, n], place) => (place ? `${n} ${what}` : `${n} cell${n > 1 ? "s" : ""} ${what}`)).join(", ");
  }

  function ask(action) {
    if (action === "diff" && diff) diff = "";
    else {
      [busySince, said] = [performance.now(), ""];
      soon(BUSY_MS);
      send({ do: action, run: lastRun()[0] });
    }
    paint();
  }

  function onDid({ did, html, kept, failed }) {
    [busySince, said] = [0, failed ?? ""];
    diff = did === "diff" ? html ?? "" : "";
    if (kept?.length) {
      const places = kept.map((id) => placeOf(id) + 1).filter(Boolean).sort((a, b) => a - b);
      const gone = kept.length - places.length;
      const names = [...places.map((place) => `cell ${place}`), ...(gone ? [`${gone} deleted`] : [])].join(", ");
      said = `Not undone, because it was changed since: ${names}.`;
    }
    paint();
  }

  function button(text, title, act) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.title = title;
    made.dataset.lmSuppressShortcuts = "true"; // Enter must not edit a cell
    made.addEventListener("click", act);
    return made;
  }

  function makeBar() {
    const bar = document.createElement("div");
    bar.className = "nbagent-changes";
    bar.setAttribute("role", "region");
    bar.setAttribute("aria-label", "Changed by the agent");
    bar.innerHTML = '<div class="nbagent-changes-diff" tabindex="0"></div><div class="nbagent-changes-row">'
      + '<span class="nbagent-changes-what"></span><span role="status"></span></div>';
    bar.lastElementChild.append(
      button("Show changes", "All changes of the agent's last run", () => ask("diff")),
      button("Undo", "Take back what the agent's last run changed", () => ask("undo")),
      button("Keep", "Keep it, and remove the marks", () => ask("accept")),
    );
    return bar;
  }

  function paintBar(bar, changes) {
    const [shown, row] = bar.children;
    shown.hidden = !diff;
    if (shown.dataset.of !== diff) {
      shown.innerHTML = diff; // safe HTML, made by the kernel
      shown.dataset.of = diff;
    }
    const [what, status, shows, ...others] = row.children;
    what.textContent = summary(changes) || "Nothing changed";
    const waits = busySince && performance.now() - busySince >= BUSY_MS;
    status.textContent = waits ? "Waiting for the kernel…" : said;
    shows.textContent = diff ? "Hide changes" : "Show changes";
    for (const each of [shows, ...others]) each.disabled = busySince > 0;
  }

  // The panels that show this notebook: there is no way from it to them but their tabs, which name its path.
  function panels() {
    const all = [...document.querySelectorAll(".jp-NotebookPanel")];
    if (all.length < 2) return all;
    const path = context.contentsModel?.path ?? context.localPath;
    return all.filter((each) => {
      const tab = document.querySelector(`.lm-TabBar-tab[data-id="${each.id}"]`);
      return tab?.title.split("\n")[1]?.replace(/^[^:：]*[:：]\s*/, "") === path;
    });
  }

  function paint() {
    const [run, changes] = lastRun();
    const { cells } = notebook;
    const marked = cells.map((cell) => cell.getMetadata(OURS)?.run !== undefined);
    const found = panels();
    for (const panel of found) {
      for (const each of panel.querySelectorAll(".jp-Cell[data-windowed-list-index]")) {
        const isMarked = Boolean(marked[each.dataset.windowedListIndex]);
        each.classList.toggle(WRITTEN, isMarked);
        if (isMarked) each.setAttribute("aria-description", "Written by the agent");
        else each.removeAttribute("aria-description");
      }
      paintProposals(panel);
      const viewport = panel.querySelector(".jp-WindowedPanel-viewport");
      if (viewport) cellsShown.observe(viewport, { childList: true });
      if (run === undefined) continue;
      if (!bars.has(panel)) bars.set(panel, panel.appendChild(makeBar()));
      paintBar(bars.get(panel), changes);
    }
    for (const [panel, bar] of bars) {
      if (run !== undefined && found.includes(panel)) continue;
      bar.remove();
      bars.delete(panel);
    }
    if (run === undefined) [said, diff] = ["", ""];
    if ((run !== undefined || proposals.size) && !found.length) soon(LOOK_MS);
  }

  let timer = 0;
  function soon(ms = 0) {
    timer ||= setTimeout(() => {
      timer = 0;
      if (!context.isDisposed) paint();
    }, ms);
  }

  // -- all --

  const cellsShown = new MutationObserver(() => soon());

  function onChanged(_, change) {
    if (change.cellsChange) notebook.cells.forEach(watch);
    if (change.metadataChange && diff && !busySince) send({ do: "diff", run: lastRun()[0] });
    if (change.cellsChange || change.metadataChange) soon();
  }

  const hello = () => send({ hello: context.path, session: context.sessionContext.session?.kernel?.clientId ?? "" });
  const onConnection = (_, status) => status === "connected" && hello();
  const bye = () => {
    send({ bye: true });
    end();
  };

  function end() {
    clearTimeout(timer);
    cellsShown.disconnect();
    model.off("msg:custom", told);
    model.off("comm_live_update", end);
    notebook.changed.disconnect(onChanged);
    context.pathChanged.disconnect(hello);
    context.disposed.disconnect(bye);
    context.sessionContext.connectionStatusChanged.disconnect(onConnection);
    for (const cell of notebook.cells) seen.get(cell)?.unwatch();
    for (const bar of bars.values()) bar.remove();
    for (const { boxes } of proposals.values()) [...boxes.values()].forEach(removeBox);
    for (const each of panels().flatMap((panel) => [...panel.querySelectorAll(`.${WRITTEN}`)])) each.classList.remove(WRITTEN);
  }

  context.ready.then(() => {
    notebook.cells.forEach(watch);
    model.on("msg:custom", told);
    model.on("comm_live_update", end); // the kernel ended
    notebook.changed.connect(onChanged);
    context.pathChanged.connect(hello);
    context.disposed.connect(bye);
    context.sessionContext.connectionStatusChanged.connect(onConnection);
    hello();
    paint();
  });
  return end;
}

export default { initialize };
