// The chat panel, in a notebook and on the server's page. It shows a state that the kernel or the server keeps, and tells
// what people do. They render what models and tools say as safe HTML; all other text is only ever set as text. What the
// state leaves out, such as `tab` or `editable`, is not offered. `WORDS` has the browser's language (`words.json`).

// Words of ours in the browser's language. In the table, `{}` stands for a number, or else for one of the names.
function t(words, ...names) {
  const said = WORDS[words.replace(/\d[\d,]*/g, "{}")];
  const values = said ? [...(words.match(/\d[\d,]*/g) ?? []), ...names] : names;
  return values.reduce((text, value) => text.replace("{}", () => value), said ?? words);
}

const TABS = { Chat: "", Trace: "What happened", Setup: "Tools, prompt" };
const HEADS = ["Model", "Provider", "Date", "Context", "Images", "Thinks"].map((name) => t(name));
// Pixels above its end at which the conversation counts as scrolled up.
const NEAR_END = 40;
// Milliseconds after a prompt during which the conversation can't be scrolled, so that its end comes into view again.
const JUMP_MS = 150;
// Milliseconds without typing before the kernel hears of the text.
const PAUSE_MS = 300;
// Larger files would end the connection to the kernel.
const MAX_BYTES = 8_000_000;
const ICONS = {
  attach: "M13.5 7.5 8.3 12.7a3.2 3.2 0 0 1-4.6-4.6l5.6-5.5a2.1 2.1 0 0 1 3 3L6.8 11a1 1 0 0 1-1.5-1.4l5-5",
  begin: "M8 3.5v9M3.5 8h9",
  branch: "M8 14V10C8 7 12 8 12 3M10 5l2-2 2 2M8 10C8 7 4 8 4 3M2 5l2-2 2 2",
  edit: "M10.5 3 13 5.5 5.5 13H3v-2.5z",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  retry: "M13 8a5 5 0 1 1-1.5-3.5L13 6M13 2.5V6H9.5",
};
// An @ at the start of a word, with the part of the word typed so far; or a / at the start of the prompt.
const MENTION = /(?:^|[^\w@./+-])(@(?:"[^"\n]*|[^\s"'`,;!?()[\]{}<>|…—]*))$|^\s*(?:\/[a-z0-9-]+\s+)*(\/[a-z0-9-]*)$/;
// What takes keys and is new.
const FOCUSABLE = ":is(a, button, input, select, summary, textarea, [tabindex]):not([data-lm-suppress-shortcuts])";

// -- state ----------------------------------------------------------------------------------------------------------------

// What a JSON Merge Patch (RFC 7386) makes of a state. Parts that it does not change are the same objects.
function merged(state, patch) {
  const next = { ...state };
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete next[name];
    else if (value?.constructor === Object) next[name] = merged(next[name]?.constructor === Object ? next[name] : {}, value);
    else next[name] = value;
  }
  return next;
}

// -- elements -------------------------------------------------------------------------------------------------------------

// An element. Properties with a dash in their name, `role`, `for` and `class` are attributes; `on…` are listeners.
function h(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (/-|^(role|for|class)$/.test(name)) made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children);
  return made;
}

const button = (text, title, act, properties = {}) =>
  h("button", { type: "button", textContent: text, title, onclick: act, ...properties });

// A button with a picture, before a text or in its place.
function iconButton(icon, title, act, properties = {}, ...text) {
  const made = button("", title, act, properties);
  made.innerHTML = `<svg viewBox="0 0 16 16" aria-hidden="true"><path d="${ICONS[icon]}"/></svg>`;
  made.append(...text);
  return made;
}

function mark(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
}

const visible = (element) => element.isConnected && !element.disabled && element.offsetParent !== null;

const noticeOf = (text) =>
  h("div", { class: "nbagent nbagent-error tex2jax_ignore mathjax_ignore", role: "alert", textContent: t(text) });

// Puts the children in this order, without moving those that are in place.
function arrange(parent, children) {
  children.forEach((child, place) => {
    if (parent.children[place] !== child) parent.insertBefore(child, parent.children[place] ?? null);
  });
  while (parent.children.length > children.length) parent.lastElementChild.remove();
}

function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

const isLike = (node, other) => node?.nodeName === other.nodeName && (node.nodeType !== Node.TEXT_NODE || node.data === other.data);

// Changes an element that shows `before` where `after` differs: a selection, what the reader opened, and formulas that
// the host has drawn stay as they are. What others have changed in the element itself is replaced.
function change(element, before, after) {
  const [shown, old, next] = [element, before, after].map((each) => [...each.childNodes]);
  if (!old.every((node, place) => isLike(shown[place], node))) return element.replaceChildren(...next);
  next.forEach((node, place) => {
    const [mine, was] = [shown[place], old[place]];
    if (!was) element.insertBefore(node, shown[old.length] ?? null); // others may have added something at the end
    else if (was.isEqualNode(node)) return;
    else if (mine.nodeName !== node.nodeName) mine.replaceWith(node);
    else if (mine.nodeType === Node.ELEMENT_NODE) changeAttributes(mine, was, node), change(mine, was, node);
    else if (node.data.startsWith(was.data)) mine.appendData(node.data.slice(was.length));
    else mine.data = node.data;
  });
  for (const mine of shown.slice(next.length, old.length)) mine.remove();
}

function changeAttributes(element, before, after) {
  for (const { name } of before.attributes) if (!after.hasAttribute(name)) element.removeAttribute(name);
  for (const { name, value } of after.attributes) if (before.getAttribute(name) !== value) element.setAttribute(name, value);
}

// -- a turn ---------------------------------------------------------------------------------------------------------------

// One prompt with its answer. Its pieces are replaced one by one, so that complete ones are not drawn again.
class Turn {
  constructor(panel, key) {
    this.panel = panel;
    this.key = key;
    this.shown = {};
    this.pieces = new Map();
    this.question = h("div", { class: "nbagent-question" });
    this.versions = h("div", { class: "nbagent-versions", hidden: true });
    this.root = h("div", { class: "nbagent-entry", tabIndex: -1 }, this.question, this.versions);
    this.root.addEventListener("animationend", () => this.root.classList.remove("nbagent-found"));
    const act = (icon, name, title, action) => iconButton(icon, t(title), () => action(), { "aria-label": t(name) });
    this.edit = act("edit", "Edit", "", () => panel.edit(key));
    this.actions = h(
      "span",
      { class: "nbagent-actions", role: "group", "aria-label": t("This turn") },
      act("retry", "Retry", "Send this prompt again", () => panel.tell("retry", key)),
      this.edit,
      act("branch", "Branch", "Continue from here in another conversation", () => panel.tell("branch", key)),
    );
  }

  show(turn, isIdle, canEdit, isEdited) {
    if (turn !== this.shown) {
      if (turn.question !== this.shown.question) this.question.innerHTML = turn.question ?? "";
      this.root.classList.toggle("nbagent-live", turn.live);
      this.showPieces(turn);
    }
    if (turn !== this.shown || isIdle !== this.isIdle) this.showVersions(turn.versions, isIdle);
    [this.shown, this.isIdle] = [turn, isIdle];
    this.showActions(canEdit, isEdited);
  }

  // The turn's actions are in the row below its answer.
  showActions(canEdit, isEdited) {
    const row = this.root.querySelector(".nbagent-foot:last-child") ?? this.root;
    if (!canEdit) this.actions.remove();
    else if (this.actions.parentElement !== row) row.append(this.actions);
    const title = t(isEdited ? "Leave the prompt unchanged" : "Edit this prompt and send it again");
    mark(this.edit, { "aria-pressed": Boolean(isEdited), title });
  }

  showVersions(versions, isIdle) {
    this.versions.toggleAttribute("hidden", !versions);
    if (!versions) return;
    const [place, count] = versions;
    if (!this.versions.firstChild) {
      const go = (text, title, step) =>
        button(text, title, () => this.panel.goToVersion(this.key, title, step), { "aria-label": title });
      this.versions.append(
        go("‹", t("Previous version"), -1),
        h("span", { "aria-hidden": "true" }),
        h("span", { class: "nbagent-unseen" }),
        go("›", t("Next version"), 1),
      );
    }
    const [before, number, words, after] = this.versions.children;
    number.textContent = `${place}/${count}`;
    words.textContent = t(`Version ${place} of ${count}`);
    before.disabled = !isIdle || place === 1;
    after.disabled = !isIdle || place === count;
  }

  showPieces({ pieces, order }) {
    for (const name of this.pieces.keys()) if (!pieces[name]) this.removePiece(name);
    for (const name of order) {
      const Kind = pieces[name].widget ? WidgetPiece : pieces[name].ask ? AskPiece : HtmlPiece;
      if (!(this.pieces.get(name) instanceof Kind)) this.removePiece(name);
      if (!this.pieces.has(name)) this.pieces.set(name, new Kind(this.panel));
      this.pieces.get(name).show(pieces[name]);
    }
    const widgets = order.filter((name) => name.startsWith("w"));
    this.root.classList.toggle("nbagent-with-widgets", widgets.length > 0);
    arrange(this.root, [this.question, this.versions, ...order.map((name) => this.pieces.get(name).root)]);
  }

  removePiece(name) {
    this.pieces.get(name)?.end?.();
    this.pieces.get(name)?.root.remove();
    this.pieces.delete(name);
  }

  remove() {
    for (const name of this.pieces.keys()) this.removePiece(name);
    this.root.remove();
  }
}

class HtmlPiece {
  constructor(panel) {
    this.panel = panel;
    this.root = h("div", { class: "nbagent-piece" });
  }

  show(piece) {
    if (piece.html === this.shown) return;
    change(this.root, parsed(this.shown ?? ""), parsed(piece.html));
    this.shown = piece.html;
    if (piece.tex) this.panel.host.typeset(this.root);
  }
}

// What runs says how long it has been running: since a second of the kernel's clock, which `skew` corrects.
let skew = 0;
function showTimes(root) {
  for (const each of root.querySelectorAll("[data-nbagent-since]")) {
    const taken = Math.floor(Date.now() / 1000 - skew - each.dataset.nbagentSince);
    const [minutes, seconds] = [Math.floor(taken / 60), taken % 60];
    const text = minutes > 0 ? t(`${minutes} min ${seconds} s`) : taken > 0 ? t(`${seconds} s`) : "";
    if (each.textContent !== text) each.textContent = text;
  }
}

// A widget of the kernel's: an approval form, or what a tool displayed.
class WidgetPiece {
  constructor(panel) {
    this.panel = panel;
    this.root = h("div", { class: "nbagent-widget" });
    this.isGone = false;
  }

  async show({ widget }) {
    if (widget === this.shown) return;
    this.shown = widget;
    this.view?.dispose();
    const view = await this.panel.host.embed(widget, this.root);
    if (this.isGone) view?.dispose();
    else this.view = view;
  }

  end() {
    this.isGone = true;
    this.view?.dispose();
  }
}

// A call that waits until a person decides, where no widget of the kernel's asks.
class AskPiece {
  constructor(panel) {
    this.panel = panel;
    this.question = h("div", {});
    this.reason = h("input", { type: "text", placeholder: t("why not? the model reads it"), "aria-label": t("Reason") });
    this.approve = button(t("Approve"), t("Run it with these arguments"), () => this.decide(true), { class: "nbagent-first" });
    this.deny = button(t("Deny"), t("Don't run it, and tell the model"), () => this.decide(false));
    const row = h("div", { class: "nbagent-decide" }, this.approve, this.deny, this.reason);
    this.root = h("div", { class: "nbagent-ask", role: "group", "aria-label": t("A tool asks for your approval") }, this.question, row);
  }

  show({ ask }) {
    if (ask.id === this.shown) return;
    this.shown = ask.id;
    this.question.innerHTML = ask.html;
  }

  // The piece disappears once the decision has arrived; if it has not, it can be made again.
  async decide(approve) {
    this.approve.disabled = this.deny.disabled = true;
    const isMade = await this.panel.tell("decide", { id: this.shown, approve, reason: this.reason.value.trim() });
    if (!isMade) this.approve.disabled = this.deny.disabled = false;
  }
}

// -- the list of models -----------------------------------------------------------------------------------------------------

class Models {
  constructor(panel) {
    this.panel = panel;
    const tell = (what, value) => panel.tell("models", { do: what, value: value ?? null });
    this.tell = tell;
    this.opener = button("", "", () => tell(this.root.hidden ? "open" : "close"), { class: "nbagent-model", "aria-expanded": "false" });
    this.search = h("input", { type: "text", placeholder: t("Search, or type provider:model"), "aria-label": t("Search models") });
    this.search.addEventListener("input", () => tell("search", this.search.value));
    const heads = HEADS.map((name) => h("span", { textContent: name }));
    this.heads = h("div", { class: "nbagent-picker-head", title: t("Blank: not known") }, ...heads);
    this.rows = h("div", { class: "nbagent-picker-rows" });
    this.note = h("span", { role: "status" });
    this.list = button("", t("Ask the provider which models it offers with this key"), () => tell("list", this.asked));
    this.foot = h("div", { class: "nbagent-picker-foot" }, this.note, this.list);
    this.key = h("input", { type: "password", autocomplete: "off", "aria-label": t("Key") });
    this.about = h("div", {});
    const use = button(t("Use key"), "", () => this.sendKey(), { class: "nbagent-first" });
    const back = button(t("Back"), t("Choose another model"), () => tell("back"));
    this.form = h("div", { class: "nbagent-picker-key" }, this.about, h("div", {}, this.key, use, back));
    const parts = [this.search, this.heads, this.rows, this.foot, this.form];
    this.root = h("div", { class: "nbagent-picker", role: "dialog", "aria-label": t("Choose a model"), hidden: true }, ...parts);
    this.root.addEventListener("keydown", (event) => this.onKey(event));
    this.opener.addEventListener("keydown", (event) => this.onKey(event));
  }

  show({ name, title, open }, isIdle) {
    if (this.opener.textContent !== name) this.opener.textContent = name;
    mark(this.opener, { title, "aria-label": t("Model: {}", name), "aria-expanded": Boolean(open) });
    this.opener.disabled = !isIdle;
    const [wasOpen, hadKey] = [!this.root.hidden, !this.form.hidden];
    this.root.toggleAttribute("hidden", !open);
    if (!open) {
      this.search.value = this.key.value = "";
      return;
    }
    for (const part of [this.search, this.heads, this.rows, this.foot]) part.hidden = Boolean(open.key);
    this.form.hidden = !open.key;
    if (open.key) {
      this.about.textContent = open.key;
      if (!wasOpen || !hadKey) this.key.focus({ preventScroll: true });
      return;
    }
    this.key.value = "";
    if (!wasOpen || hadKey) this.search.focus({ preventScroll: true });
    this.note.textContent = t(open.note);
    this.asked = open.ask;
    this.list.hidden = !open.ask;
    this.list.textContent = t("Ask {} for its list", open.ask);
    if (JSON.stringify(open.rows) !== this.shown) this.showRows(open.rows);
    for (const row of this.rows.children) mark(row, { "aria-current": row.dataset.spec === open.used });
  }

  showRows(rows) {
    const focused = this.rows.contains(document.activeElement) ? document.activeElement.dataset.spec : null;
    this.shown = JSON.stringify(rows);
    this.root.classList.toggle("nbagent-undated", !rows.some((row) => row[4]));
    this.rows.replaceChildren(
      ...rows.map(([spec, name, about = "", ...cells], place) => {
        const facts = cells.map((text, index) => (index && text ? `${HEADS[index + 1]} ${text}` : text));
        const named = [name, about, ...facts].filter(Boolean).join(", ");
        const row = button("", "", () => this.tell("choose", spec), { "aria-label": named, tabIndex: place ? -1 : 0 });
        const first = h("span", {}, name, ...(about ? [h("small", { textContent: about })] : []));
        row.append(first, ...cells.map((textContent, index) => h("span", { textContent, "data-head": HEADS[index + 1] })));
        row.dataset.spec = spec;
        return row;
      }),
    );
    if (focused !== null) ([...this.rows.children].find((row) => row.dataset.spec === focused) ?? this.search).focus();
  }

  sendKey() {
    if (this.key.value.trim()) this.tell("key", this.key.value);
    this.key.value = "";
  }

  close() {
    if (!this.root.hidden) this.tell("close");
  }

  onKey(event) {
    if (event.isComposing || this.root.hidden) return;
    const { target, key } = event;
    const places = [this.search, ...this.rows.children];
    if (key === "Escape") this.opener.focus({ preventScroll: true }), this.close();
    else if (key === "Enter" && target === this.search) this.tell("enter", target.value);
    else if (key === "Enter" && target === this.key) this.sendKey();
    else if (["ArrowUp", "ArrowDown"].includes(key) && places.includes(target)) {
      places[places.indexOf(target) + (key === "ArrowUp" ? -1 : 1)]?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

// -- what can follow an @ or a / -----------------------------------------------------------------------------------------

class Suggestions {
  constructor(panel, box, id) {
    Object.assign(this, { panel, box, awaited: null, refused: null, selected: -1 });
    this.list = h("div", { class: "nbagent-suggestions", role: "listbox", "aria-label": t("What to mention"), id, hidden: true });
    mark(box, { "aria-autocomplete": "list", "aria-haspopup": "listbox", "aria-controls": id });
    this.list.addEventListener("mousedown", (event) => event.preventDefault()); // the box keeps the focus
    this.list.addEventListener("click", (event) => this.take(event.target.closest("[role=option]")));
    box.addEventListener("blur", () => this.close());
    box.addEventListener("click", () => this.close());
  }

  // What is typed of a mention before the cursor, or null.
  typed() {
    const { box } = this;
    if (box.selectionStart !== box.selectionEnd) return null;
    const found = MENTION.exec(box.value.slice(0, box.selectionStart));
    return found?.[1] ?? found?.[2] ?? null;
  }

  follow() {
    const text = this.typed();
    if (text === null || !text.startsWith(this.refused)) this.refused = null;
    if (text === null || this.refused !== null) this.close();
    else if (this.awaited === null) this.ask(text);
  }

  ask(text) {
    this.awaited = text;
    this.panel.tell("complete", text);
  }

  answer({ typed, suggestions }) {
    this.awaited = null;
    const text = this.typed();
    if (text === null || this.refused !== null || document.activeElement !== this.box) this.close();
    else if (text !== typed) this.ask(text);
    else this.show(suggestions, text);
  }

  show(suggestions, text) {
    this.list.replaceChildren(
      ...suggestions.map(([name, about], index) =>
        h("div", { role: "option", id: `${this.list.id}-${index}` }, h("b", { textContent: name }), h("span", { textContent: about })),
      ),
    );
    this.list.hidden = suggestions.length === 0;
    // what is complete already needs no Enter
    this.select(suggestions.some(([name]) => name === text) ? -1 : 0);
  }

  select(index) {
    this.selected = index;
    [...this.list.children].forEach((option, place) => mark(option, { "aria-selected": place === index }));
    const option = this.list.hidden ? null : this.list.children[index];
    option?.scrollIntoView({ block: "nearest" });
    if (option) mark(this.box, { "aria-activedescendant": option.id });
    else this.box.removeAttribute("aria-activedescendant");
  }

  close() {
    this.list.hidden = true;
    this.select(-1);
  }

  take(option) {
    const { box } = this;
    const name = option.firstChild.textContent;
    const [start, end] = [box.selectionStart - this.typed().length, box.selectionStart];
    const goesOn = /[/:]$/.test(name); // a folder, or an MCP server whose resources follow
    box.setRangeText(name + (goesOn || /^\s/.test(box.value.slice(end)) ? "" : " "), start, end, "end");
    this.panel.onTyped();
    this.close();
    if (goesOn) this.ask(this.typed());
  }

  // Whether the key was meant for the list.
  takesKey(event) {
    if (this.list.hidden || event.isComposing) return false;
    const { key } = event;
    const count = this.list.children.length;
    if (key === "ArrowDown") this.select((this.selected + 1) % count);
    else if (key === "ArrowUp") this.select(this.selected > 0 ? this.selected - 1 : count - 1);
    else if (["Enter", "Tab"].includes(key) && !event.shiftKey && this.selected >= 0) this.take(this.list.children[this.selected]);
    else if (key === "Escape") (this.refused = this.typed()), this.close();
    else {
      if (["ArrowLeft", "ArrowRight", "Home", "End", "Enter", "Tab"].includes(key)) this.close();
      return false;
    }
    event.preventDefault();
    return true;
  }
}

// -- the panel ------------------------------------------------------------------------------------------------------------

let made = 0;

// Shows a conversation in `root`. `host` tells what people do (`tell(name, value, buffers)`), embeds widgets, typesets
// formulas, and says what a prompt is waiting for (`waiting`). It keeps the reader's `place` for the next panel. Call
// `show(state)` for each new state, and `receive(message)` for other messages of the kernel.
class Panel {
  constructor(root, host) {
    Object.assign(this, { root, host, tell: host.tell, turns: new Map(), held: new Map(), recalled: null, pause: null });
    this.ended = new AbortController();
    mark(root, { role: "region", "aria-label": t("Chat with an agent") });
    root.classList.add("nbagent-panel");
    this.makeBar();
    this.makeChat();
    this.makeBox();
    this.notice = h("div", { class: "nbagent-notice" });
    this.said = h("div", { class: "nbagent-unseen", role: "status" });
    root.append(this.bar, this.notice, this.chat, this.trace, this.setup, this.area, this.said);
    this.listen();
    const hasEnded = () => this.root.matches(".jupyter-widgets-disconnected"); // the kernel
    this.ticking = setInterval(() => hasEnded() || showTimes(this.log), 1000);
  }

  makeBar() {
    const choose = (name) => (this.openMore(false), this.tell("tab", name));
    this.tabs = Object.entries(TABS).map(([name, title]) => button(t(name), t(title), () => choose(name), { role: "tab", value: name }));
    const tabs = h("div", { class: "nbagent-tabs", role: "tablist", "aria-label": t("What the panel shows") }, ...this.tabs);
    this.models = new Models(this);
    const begin = () => (this.tell("begin"), this.focus());
    const about = { class: "nbagent-begin", "aria-label": t("New chat") };
    this.begin = iconButton("begin", t("Start another conversation; this one is kept"), begin, about, h("span", { textContent: t("New chat") }));
    const go = () => (this.openMore(false), this.tell("conversation", this.list.value));
    this.list = h("select", { "aria-label": t("Conversations"), hidden: true, onchange: go });
    this.tools = button("", t("Choose the tools to offer"), () => choose("Setup"), { class: "nbagent-tools" });
    const allow = () => (this.openMore(false), this.tell("mode", this.mode.value));
    this.mode = h("select", { "aria-label": t("What the agent may do in the notebook"), hidden: true, onchange: allow });
    this.meter = h("div", { class: "nbagent-meter-place" });
    // in the bar, or where that is narrow in a menu below its last button
    this.more = h("div", { class: "nbagent-more", id: `nbagent-more-${(made += 1)}` }, this.list, this.mode, this.tools, this.meter);
    const opens = { class: "nbagent-opens", "aria-label": t("More"), "aria-expanded": "false", "aria-controls": this.more.id };
    this.opens = iconButton("more", t("Conversations, tools, and what was spent"), () => this.openMore(), opens);
    this.bar = h("div", { class: "nbagent-top" }, tabs, this.models.opener, this.begin, this.opens, this.more, this.models.root);
  }

  openMore(isOpen = !this.bar.classList.contains("nbagent-open")) {
    this.bar.classList.toggle("nbagent-open", isOpen);
    mark(this.opens, { "aria-expanded": isOpen });
  }

  makeChat() {
    this.log = h("div", { class: "nbagent-log", role: "log", "aria-label": t("Conversation"), "aria-live": "off" });
    this.greeting = h("div", { class: "nbagent-greeting", hidden: true });
    const inner = h("div", { class: "nbagent-inner" }, this.greeting, this.log);
    const tab = { role: "tabpanel", tabIndex: 0 };
    this.chat = h("div", { class: "nbagent-chat", "aria-label": t("Chat"), ...tab }, inner);
    this.trace = h("div", { class: "nbagent-other nbagent-trace", "aria-label": t("Trace"), hidden: true, ...tab });
    this.setup = h("div", { class: "nbagent-other nbagent-setup", role: "tabpanel", "aria-label": t("Setup"), hidden: true });
    const system = { "aria-label": t("System prompt"), placeholder: t("Who the agent is and what it should know") };
    this.prompt = h("textarea", { rows: 3, ...system, onchange: () => this.tell("prompt", this.prompt.value) });
    this.checks = h("div", {});
    const head = (words) => h("div", { class: "nbagent-head", textContent: t(words) });
    this.setup.append(head("Tools"), this.checks, head("System prompt"), this.prompt);
  }

  makeBox() {
    this.box = h("textarea", { rows: 1, placeholder: t("Ask anything"), "aria-label": t("Your prompt") });
    mark(this.box, { enterkeyhint: "send" });
    const choose = () => (this.attach([...this.files.files]), (this.files.value = ""));
    this.files = h("input", { type: "file", multiple: true, hidden: true, tabIndex: -1, "aria-label": t("Files to attach"), onchange: choose });
    const clip = { class: "nbagent-attach", "aria-label": t("Attach files") };
    this.clip = iconButton("attach", t("Attach files"), () => this.files.click(), clip);
    this.sends = button(t("Send"), t("Ask the agent"), () => (this.stops ? this.tell("stop") : this.send()), { class: "nbagent-first" });
    this.chips = h("div", { class: "nbagent-chips", hidden: true });
    this.row = h("div", { class: "nbagent-row" }, this.chips, this.clip, this.files, this.box, this.sends);
    this.status = h("div", { class: "nbagent-status" });
    this.draft = h("div", { class: "nbagent-draft", "data-hint": t("Shift-Enter for a new line") });
    const below = h("div", { class: "nbagent-below" }, this.status, this.draft);
    const jump = () => ((this.chat.scrollTop = 0), this.focus()); // the chat is laid out from its end
    this.latest = button(t("↓ Jump to latest"), "", jump, { class: "nbagent-latest", hidden: true });
    this.suggestions = new Suggestions(this, this.box, `nbagent-suggestions-${(made += 1)}`);
    this.map = h("div", { class: "nbagent-map", hidden: true });
    const parts = [this.map, this.row, below, this.latest, this.suggestions.list];
    this.area = h("div", { class: "nbagent-input-area" }, ...parts);
  }

  listen() {
    const options = { signal: this.ended.signal };
    this.root.addEventListener("keydown", (event) => this.onKey(event), options);
    this.box.addEventListener("input", () => (this.onTyped(), this.suggestions.follow()), options);
    this.box.addEventListener("paste", (event) => this.onPaste(event), options);
    this.trace.addEventListener("click", ({ target }) => {
      if (target.closest("[data-notebook]")) this.tell("notebook");
      this.wanted = target.closest("[data-turn]")?.dataset.turn;
      if (this.wanted) this.tell("tab", "Chat");
    }, options);
    this.chat.addEventListener("scroll", () => (this.latest.hidden = this.chat.scrollTop > -NEAR_END), options);
    this.chat.addEventListener("scrollend", () => (this.host.place = this.place()), options);
    for (const kind of ["dragover", "dragleave", "drop"]) this.root.addEventListener(kind, (event) => this.onDrag(event), options);
    this.root.addEventListener("focusin", (event) => (this.last = event.target), options);
    this.root.addEventListener("focusout", (event) => event.relatedTarget && (this.last = null), options);
    document.addEventListener("pointerdown", ({ target }) => {
      if (!target.closest(".nbagent-picker, .nbagent-model")) this.models.close(); // of any view: they share what is open
      if (!target.closest(".nbagent-more, .nbagent-opens, .nbagent-tabs")) this.openMore(false);
    }, options);
    this.changes = new MutationObserver(() => this.keepFocus());
    this.changes.observe(this.root, { childList: true, subtree: true, attributes: true, attributeFilter: ["style", "disabled", "hidden"] });
  }

  end() {
    this.ended.abort();
    clearInterval(this.ticking);
    this.changes.disconnect();
    if (this.pause !== null) this.tell("typed", this.box.value);
    this.endPause();
    for (const turn of this.turns.values()) turn.remove();
  }

  // -- what is shown --

  show(state) {
    const before = this.state ?? {};
    this.state = state;
    this.log.classList.toggle("nbagent-busy", !state.idle);
    this.root.classList.toggle("nbagent-kept", Boolean(state.is_kept));
    this.showTurns(state);
    if (!before.order?.length && this.host.place) this.goTo(...this.host.place);
    this.showBar(state, before);
    this.showTab(state, before);
    this.showBox(state, before);
    if (state.notice !== before.notice) this.notice.replaceChildren(...(state.notice ? [noticeOf(state.notice)] : []));
    const said = state.status ? t(state.status) : state.said || "";
    if (this.said.textContent !== said) this.said.textContent = said;
    this.keepFocus();
    // the host's shortcuts, such as D D, which deletes a cell, must not act on typing in the panel
    for (const each of this.root.querySelectorAll(FOCUSABLE)) each.dataset.lmSuppressShortcuts = "true";
  }

  showTurns({ turns = {}, order = [], idle, editable = [], edited, greeting }) {
    for (const [key, turn] of this.turns) if (!turns[key]) turn.remove(), this.turns.delete(key);
    for (const key of order) {
      if (!this.turns.has(key)) this.turns.set(key, new Turn(this, key));
      this.turns.get(key).show(turns[key], idle, editable.includes(key), edited === key);
    }
    arrange(this.log, order.map((key) => this.turns.get(key).root));
    showTimes(this.log);
    this.log.after(...this.held.values());
    this.showGreeting(this.held.size ? null : greeting);
  }

  showGreeting(greeting) {
    this.greeting.toggleAttribute("hidden", !greeting);
    if (!greeting || JSON.stringify(greeting) === this.greeted) return;
    this.greeted = JSON.stringify(greeting);
    const line = ([name, about]) => h("li", {}, h("code", { textContent: name }), h("span", { textContent: about }));
    const listed = (title, lines) => (lines.length ? [h("p", { textContent: t(title) }), h("ul", {}, ...lines.map(line))] : []);
    const more = greeting.more_tools ? [["…", t(`and ${greeting.more_tools} more`)]] : [];
    const prompts = greeting.prompts.map((text) => button(text, t("Ask this"), () => this.ask(text)));
    this.greeting.replaceChildren(
      h("strong", { textContent: t("What would you like to know?") }),
      h("p", { textContent: t(greeting.about) }),
      ...listed("Tools that this agent can use", [...greeting.tools, ...more]),
      ...listed("Data in this notebook, which you can mention", greeting.variables),
      h("div", { class: "nbagent-prompts" }, ...prompts),
    );
  }

  showBar(state, before) {
    this.bar.toggleAttribute("hidden", !state.tab); // a host can have its own
    if (!state.tab) return;
    if (state.conversations !== before.conversations) {
      this.list.replaceChildren(...(state.conversations ?? []).map(([value, textContent]) => h("option", { value, textContent })));
    }
    this.list.value = state.conversation;
    this.list.toggleAttribute("hidden", (state.conversations ?? []).length < 2);
    this.list.disabled = !state.idle;
    this.begin.disabled = !state.can_begin;
    this.models.show(state.model ?? { name: "" }, state.idle);
    if (this.tools.textContent !== t(state.tools)) this.tools.textContent = t(state.tools);
    this.showMode(state.mode);
    if (state.meter !== before.meter) this.meter.innerHTML = state.meter;
  }

  showMode(mode) {
    this.mode.toggleAttribute("hidden", !mode);
    if (!mode) return;
    const option = ([value, about]) => h("option", { value, textContent: t("Cells: {}", t(value)), title: t(about) });
    if (!this.mode.length) this.mode.append(...Object.entries(mode.all).map(option));
    this.mode.value = mode.now;
    this.mode.title = t("In the notebook, {}", t(mode.all[mode.now]));
  }

  showTab(state, before) {
    this.tabs.forEach((tab) => {
      const selected = tab.value === state.tab;
      mark(tab, { "aria-selected": selected, tabindex: selected ? 0 : -1 });
    });
    for (const [name, part] of [["Chat", this.chat], ["Trace", this.trace], ["Setup", this.setup]]) part.toggleAttribute("hidden", (state.tab ?? "Chat") !== name);
    if (state.trace !== undefined && state.trace !== before.trace) {
      this.trace.innerHTML = state.trace;
      for (const table of this.trace.querySelectorAll("table")) table.tabIndex = 0; // so that the keyboard scrolls it
    }
    if (state.setup) this.showSetup(state.setup, before.setup ?? {}, state.idle);
    if (state.tab === "Chat" && this.wanted) this.goToTurn(this.wanted);
  }

  showSetup(setup, before, isIdle) {
    this.prompt.disabled = !isIdle;
    if (setup.prompt !== before.prompt) this.prompt.value = setup.prompt;
    if (setup.tools === before.tools && setup.note === before.note) return;
    const names = setup.tools.map(({ name }) => name).join("\n");
    if (names !== this.toolNames || setup.note) {
      this.toolNames = names;
      this.checks.replaceChildren(...(setup.note ? [h("div", { class: "nbagent-status", textContent: t(setup.note) })] : setup.tools.map((tool) => this.check(tool))));
    }
    for (const { name, on } of setup.tools) {
      const box = [...this.checks.querySelectorAll("input")].find((each) => each.dataset.name === name);
      if (box) box.checked = on;
    }
  }

  check({ name, about, asks }) {
    const box = h("input", { type: "checkbox", onchange: () => this.tell("offer", [name, box.checked]) });
    box.dataset.name = name;
    const notes = [about, asks ? t("asks before it runs") : ""].filter(Boolean).join(" · ");
    return h("label", { class: "nbagent-tool" }, box, h("code", { textContent: name }), h("span", { textContent: notes }));
  }

  showBox(state, before) {
    const { text, filled } = state.box;
    this.map.toggleAttribute("hidden", !state.bar);
    if (state.bar !== before.bar) this.map.innerHTML = state.bar ?? "";
    const isFilled = before.box !== undefined && filled !== before.box.filled;
    // what another view of the panel has comes here, too, unless something else is typed here
    const follows = this.box.value === (before.box?.text ?? "") && this.pause === null && !this.held.size;
    if (isFilled) this.endPause();
    if (isFilled || follows) this.box.value = text;
    if (isFilled && state.edited) this.focus();
    const { chips, line } = state.draft;
    if (chips !== before.draft?.chips) this.chips.replaceChildren(...chips.map((chip) => this.chip(chip)));
    this.chips.toggleAttribute("hidden", !chips.length);
    if (line !== before.draft?.line) this.draft.innerHTML = line;
    if (this.status.textContent !== t(state.status)) this.status.textContent = t(state.status);
    // One button: it stops what is under way, and Enter still sends.
    this.stops = Boolean(state.pending);
    const [name, title] = this.stops ? [t("Stop"), t("Stop the answer; its text stays. Enter still sends")] : [t("Send"), t("Ask the agent")];
    if (this.sends.textContent !== name) Object.assign(this.sends, { textContent: name, title });
    this.sends.classList.toggle("nbagent-first", !this.stops);
  }

  chip({ number, name, about, src }) {
    const image = src ? [h("img", { src, alt: "" })] : [];
    const text = h("span", { title: name }, h("b", { textContent: name }), h("small", { textContent: about }));
    const removes = button("✕", t("Remove {}", name), () => this.tell("detach", number), { "aria-label": t("Remove {}", name) });
    return h("div", { class: "nbagent-attached" }, ...image, text, removes);
  }

  // The turn at the upper edge and where it begins below that; null at the end of the conversation.
  place() {
    if (this.latest.hidden) return null;
    const edge = this.chat.getBoundingClientRect().top;
    const turn = [...this.turns.values()].find(({ root }) => root.getBoundingClientRect().bottom > edge);
    return turn ? [turn.key, Math.round(turn.root.getBoundingClientRect().top - edge)] : null;
  }

  goTo(key, below) {
    const turn = this.turns.get(key)?.root.getBoundingClientRect();
    if (turn) this.chat.scrollTop += turn.top - this.chat.getBoundingClientRect().top - below;
  }

  // If a pressed button disappears, the focus moves on: to the arguments to edit, or to the prompt's box.
  keepFocus() {
    const { last } = this;
    if (!last || visible(last)) return;
    const elsewhere = ![document.body, last, null].includes(document.activeElement);
    const areas = last.closest(".nbagent-ask")?.querySelectorAll("textarea") ?? [];
    const isVersion = last.closest(".nbagent-versions") && this.turns.get(this.state.order[this.pressed.place]);
    const others = isVersion ? [...isVersion.versions.querySelectorAll("button")].filter(visible) : [];
    const version = others.find((each) => each.title === this.pressed.title) ?? others[0];
    this.last = null;
    if (!elsewhere) (version ?? [...areas].find(visible) ?? this.box).focus({ preventScroll: true });
  }

  focus() {
    this.box.focus({ preventScroll: true });
  }

  receive(message) {
    if (message.suggestions) this.suggestions.answer(message);
    if (message.taken) {
      this.held.get(message.taken)?.remove();
      this.held.delete(message.taken);
      if (this.state) this.showGreeting(this.held.size ? null : this.state.greeting);
    }
  }

  // -- what people do --

  // Shows the turn of a step that was chosen in the trace, and gives it the focus.
  goToTurn(key) {
    this.wanted = null;
    const root = this.turns.get(key)?.root;
    if (!root) return;
    this.goTo(key, 0);
    root.classList.add("nbagent-found");
    root.focus({ preventScroll: true });
  }

  edit(key) {
    if (this.state.edited === key) this.tell("leave");
    else this.tell("edit", key), this.focus();
  }

  goToVersion(key, title, step) {
    this.pressed = { place: this.state.order.indexOf(key), title };
    this.tell("version", [key, step]);
  }

  onTyped() {
    this.endPause();
    this.pause = setTimeout(() => (this.endPause(), this.tell("typed", this.box.value)), PAUSE_MS);
  }

  endPause() {
    clearTimeout(this.pause);
    this.pause = null;
  }

  send() {
    if (this.box.value.trim() || this.state.draft.chips.length) this.ask(this.box.value);
  }

  ask(text) {
    this.endPause();
    const number = Math.random(); // other views of the panel number theirs, too
    const note = h("div", { class: "nbagent-quiet", textContent: t(this.host.waiting) });
    const said = h("div", { class: "nbagent nbagent-said" }, h("div", { class: "nbagent-you", textContent: text.trim() }), note);
    this.held.set(number, said);
    ([...this.held.values()].at(-2) ?? this.log).after(said);
    this.greeting.hidden = true;
    this.tell("ask", { text, number });
    this.box.value = "";
    this.chat.classList.add("nbagent-jump");
    setTimeout(() => this.chat.classList.remove("nbagent-jump"), JUMP_MS);
  }

  onKey(event) {
    const { target, key } = event;
    if (target === this.box && this.suggestions.takesKey(event)) return event.stopPropagation();
    if (key === "Escape" && this.bar.classList.contains("nbagent-open")) this.openMore(false), this.opens.focus();
    const tab = this.tabs.indexOf(target);
    if (tab >= 0 && ["ArrowLeft", "ArrowRight"].includes(key)) {
      const next = this.tabs[tab + (key === "ArrowLeft" ? -1 : 1)];
      next?.focus(), next?.click();
    }
    event.stopPropagation(); // the notebook would take Shift-Enter for its own
    if (target !== this.box || event.isComposing) return;
    if (key === "Enter" && !event.shiftKey) event.preventDefault(), this.send();
    if (key === "Escape") this.tell("leave");
    if (["ArrowUp", "ArrowDown"].includes(key)) this.recall(event);
  }

  // Up in the empty box shows the previous prompt, and Down the next one. Typed or changed text stays.
  recall(event) {
    const { box } = this;
    const asked = [...this.log.querySelectorAll(".nbagent-you")].map((each) => each.textContent);
    if (!box.value) this.recalled = asked.length;
    else if (this.recalled === null || box.value !== asked[this.recalled]) return;
    const isUp = event.key === "ArrowUp";
    const passed = isUp ? box.value.slice(0, box.selectionStart) : box.value.slice(box.selectionEnd);
    if (passed.includes("\n") || (isUp && this.recalled === 0) || (!isUp && this.recalled === asked.length)) return;
    event.preventDefault();
    this.recalled += isUp ? -1 : 1;
    box.value = asked[this.recalled] ?? "";
    this.onTyped();
  }

  // A file is told without its content if it is too large, or can't be read, such as a folder.
  async attach(files) {
    for (const file of files) {
      const isSmall = file.size <= (this.state?.max_bytes ?? MAX_BYTES);
      const data = isSmall && (await file.arrayBuffer().catch(() => null));
      this.tell("attach", file.name || "file", data ? [data] : []);
    }
    this.focus();
  }

  // What comes as text, too, such as a part of a table, is pasted as text.
  onPaste(event) {
    const { files, types } = event.clipboardData;
    if (!files.length || types.includes("text/plain")) return;
    event.preventDefault();
    this.attach([...files]);
  }

  onDrag(event) {
    if (event.type === "dragleave") {
      if (!this.root.contains(event.relatedTarget)) this.root.classList.remove("nbagent-dropping");
      return;
    }
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    event.stopPropagation();
    this.root.classList.toggle("nbagent-dropping", event.type === "dragover");
    if (event.type === "drop") this.attach([...event.dataTransfer.files]);
  }
}

// -- in a notebook --------------------------------------------------------------------------------------------------------

// One model follows the kernel, however many views show it, and also while none does.
function initialize({ model }) {
  const told = ({ state, patch, now }) => {
    if (now) skew = Date.now() / 1000 - now;
    if (state) model.set("state", state);
    if (patch) model.set("state", merged(model.get("state"), patch));
  };
  model.on("msg:custom", told);
  model.send({ do: "hello", with: navigator.language });
  return () => model.off("msg:custom", told);
}

function render({ model, el }) {
  const place = h("div", {});
  place.innerHTML = model.get("look");
  el.append(place);
  const host = {
    tell: (name, value, buffers) => model.send({ do: name, with: value ?? null }, undefined, buffers),
    embed: (id, into) => embed(model.widget_manager, id, into),
    typeset: (element) => typeset(model.widget_manager, element),
    waiting: "Waiting for the kernel…",
    get place() {
      return model.get("place");
    },
    set place(value) {
      model.set("place", value);
      model.save_changes();
    },
  };
  let panel = null;
  let frame = null;
  const show = () => model.get("state")?.order && panel.show(model.get("state"));
  const told = (message) => panel.receive(message);
  const ended = () => el.classList.add("jupyter-widgets-disconnected"); // the kernel has ended

  // Not before the view is in the page: anywidget forgets the listeners of a view that it renders again just then.
  const arrival = new ResizeObserver(async () => {
    if (panel || !el.isConnected) return;
    for (let at = el.closest(".jp-LinkedOutputView") && el.parentElement; at?.closest(".jp-OutputArea"); at = at.parentElement) at.classList.add("nbagent-around");
    panel = new Panel(el, host);
    for (const each of [panel.chat, panel.trace, panel.setup]) each.style.height = model.get("height");
    panel.models.root.style.maxHeight = model.get("height");
    model.on("change:state", show);
    model.on("msg:custom", told);
    model.on("comm_live_update", ended);
    show();
    if (model.get("dock") && el.closest(".jp-Notebook")) frame = await dock(model, panel);
  });
  arrival.observe(el);
  return () => {
    arrival.disconnect();
    panel?.end();
    frame?.dispose();
    model.off("change:state", show);
    model.off("msg:custom", told);
    model.off("comm_live_update", ended);
  };
}

// A view of another widget, in an element that is in the page.
async function embed(manager, id, into) {
  const { luminoWidget } = await manager.create_view(await manager.get_model(id));
  if (into.isConnected) luminoWidget.constructor.attach(luminoWidget, into);
  return luminoWidget;
}

// Formulas, with the host's typesetter.
function typeset(manager, element) {
  const typesetter = manager?._rendermime?.latexTypesetter;
  if (typesetter) typesetter.typeset(element);
  else window.MathJax?.typesetPromise?.([element]) ?? window.MathJax?.Hub?.Queue(["Typeset", window.MathJax.Hub, element]);
}

// Shows the panel beside the notebook: in a tab of JupyterLab, or a column of Notebook 7. Elsewhere it stays in its cell.
async function dock(model, panel) {
  const [manager, shell] = [model.widget_manager, document.getElementById("main")];
  if (!shell || !manager?.create_view || !manager.context?.addSibling) return null;
  const inner = (await manager.create_view(await manager.get_model(model.get("dock")))).luminoWidget;
  if (panel.ended.signal.aborted) return inner.dispose();
  const frame = new (Object.getPrototypeOf(inner.constructor))(); // Lumino's, which the host can lay out
  const arrival = new ResizeObserver(() => {
    if (!inner.isAttached && frame.node.isConnected) inner.constructor.attach(inner, frame.node);
  });
  arrival.observe(frame.node);
  const back = button(t("Show it here"), "", () => frame.dispose());
  const note = h("div", { class: "nbagent-away-note" }, t("The panel is docked beside the notebook.") + " ", back);
  frame.addClass("nbagent-dock");
  Object.assign(frame.title, { label: t("Agent"), caption: t("Chat with an agent"), iconClass: "nbagent-tab-icon", closable: true });
  frame.onCloseRequest = () => frame.dispose();
  frame.disposed.connect(() => {
    arrival.disconnect();
    inner.dispose();
    note.remove();
    panel.root.classList.remove("nbagent-away");
    shell.classList.remove("nbagent-beside");
    window.dispatchEvent(new Event("resize")); // the notebook takes the room back
  });
  panel.root.append(note);
  panel.root.classList.add("nbagent-away");
  if (shell.matches(".jp-LabShell")) {
    manager.context.addSibling(frame, { mode: "split-right", activate: false });
  } else {
    frame.constructor.attach(frame, document.body);
    shell.classList.add("nbagent-beside");
    window.dispatchEvent(new Event("resize"));
  }
  return frame;
}

export { Panel, merged };
export default { initialize, render };
