// -- the server's page, which hosts the panel. This follows `panel.js` in the same script. ----------------------------

const byId = (id) => document.getElementById(id);
for (const each of document.querySelectorAll("label, button, h2")) each.textContent = t(each.textContent);
mark(byId("conversations"), { "aria-label": t("Conversations") });
mark(byId("agent"), { "aria-label": t("Agent") });
document.documentElement.lang = t("en");
const SCROLLED = ".nbagent :is(pre, table, math, .nbagent-tail), .nbagent-you";
const BROKEN = t("The connection to the server broke.");
// Shown below a turn that the server can no longer end. They contain no untrusted text.
const ENDED = {
  stopped: `<div class="nbagent"><div class="nbagent-quiet">${t("You stopped the answer.")}</div></div>`,
  broken: `<div class="nbagent nbagent-error" role="alert"><strong>${t("Failed")}</strong><div>${BROKEN}</div></div>`,
};

// The panel inserts HTML that the server has rendered. No other script runs here, so one policy is enough.
window.trustedTypes?.createPolicy("default", { createHTML: (html) => html });

const dark = matchMedia("(prefers-color-scheme: dark)");
const showTheme = () => document.documentElement.setAttribute("theme", dark.matches ? "dark" : "light");
dark.addEventListener("change", showTheme);
showTheme();

// -- the token: from the address once, then in this tab only --

let token = sessionStorage.getItem("nbagent-token") ?? "";

// The parameters after `#` in the address. A token is removed from it.
function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.has("token")) {
    token = given.get("token");
    given.delete("token");
    history.replaceState(null, "", location.pathname + (given.size ? `#${given}` : ""));
  }
  return given;
}

function askForToken(why) {
  sessionStorage.removeItem("nbagent-token");
  token = "";
  byId("app").hidden = true;
  byId("login").hidden = false;
  byId("refused").textContent = why;
  byId("token").focus();
}

byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  byId("token").value = "";
  open();
});

// -- requests --

// Throws the problem's detail unless the request succeeds.
async function fetched(path, { body, ...options } = {}) {
  const headers = { Authorization: `Bearer ${token}`, ...(body && { "Content-Type": "application/json" }) };
  const asked = { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), ...options };
  const response = await fetch(path, asked).catch((error) => {
    throw error.name === "AbortError" ? error : new Error(t("The server does not answer."));
  });
  if (response.status === 401) askForToken(token ? t("The server does not know that token.") : "");
  if (!response.ok) throw new Error((await response.json().catch(() => ({}))).detail ?? `HTTP ${response.status}`);
  return response;
}

const answerOf = async (path, options) => (await fetched(path, options)).json();

// The patches of a stream of server-sent events.
async function* patchesOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const whole = (rest + value).split("\n\n");
    rest = whole.pop();
    for (const event of whole) if (event.startsWith("data: ")) yield JSON.parse(event.slice(6));
  }
}

// -- the conversation --

const EMPTY = { turns: {}, box: { text: "", filled: 0 }, draft: { chips: [], line: "" }, status: "" };
let conversation = { id: "" }; // a new object whenever another one is shown
let shown = EMPTY;
const asked = new Set(); // prompts without a complete answer

const host = { tell: (name, ...given) => actions[name]?.(...given), embed: () => {}, typeset: () => {}, waiting: "Waiting…" };
const panel = new Panel(byId("panel"), host);
const actions = { ask, stop, decide, attach, detach };

function show(patch = {}) {
  shown = merged(shown, patch);
  panel.show({ ...shown, order: Object.keys(shown.turns), idle: !asked.size, pending: asked.size > 0 });
}

const fail = (error) => show({ notice: error.message });

async function ask({ text, number }) {
  const [here, one] = [conversation, { key: "", connection: new AbortController(), text, chips: shown.draft.chips }];
  asked.add(one);
  show({ notice: null, draft: { chips: [] } });
  try {
    const files = one.chips.map(({ name, url }) => ({ name, data: url.split(",")[1] ?? "" }));
    const body = { message: text.trim(), files, conversation_id: here.id, waits_for_approval: true, max_tool_calls: 1000 };
    if (byId("agent").value) body.model = byId("agent").value;
    const response = await fetched("page/chat", { body, signal: one.connection.signal });
    for await (const { now, ...patch } of patchesOf(response)) {
      if (now) skew = Date.now() / 1000 - now;
      if (here === conversation) place(one, patch, number);
    }
    if (!one.key || shown.turns[one.key]?.live) throw new Error(BROKEN);
  } catch (error) {
    if (here === conversation) end(one, error);
    panel.receive({ taken: number });
  }
  asked.delete(one);
  show();
  showList().catch(fail);
}

function place(one, patch, number) {
  show({ ...patch, greeting: null });
  if (one.key) return;
  [one.key] = Object.keys(patch.turns);
  panel.receive({ taken: number });
  setAddress(conversation.id);
}

// Puts a prompt that the server did not accept back into the input, or marks an answer that broke off.
function end({ key, connection, text, chips }, error) {
  const isStopped = connection.signal.aborted;
  if (key) {
    const html = isStopped ? ENDED.stopped : ENDED.broken;
    show({ turns: { [key]: { live: false, pieces: { end: { html } }, order: [...shown.turns[key].order, "end"] } } });
    return;
  }
  const box = { text: [panel.box.value, text].filter(Boolean).join("\n\n"), filled: shown.box.filled + 1 };
  show({ box, draft: { chips: [...chips, ...shown.draft.chips] }, ...(!isStopped && { notice: error.message }) });
}

// Puts waiting prompts back into the input. The server ends the run, and its stream reports the end. If another process
// has the run, this closes the stream, which also ends the run.
async function stop() {
  const all = [...asked];
  for (const { key, connection } of all) if (!key) connection.abort();
  const running = all.filter(({ key }) => key);
  if (!running.length) return;
  const body = { conversation_id: conversation.id };
  const { stopped } = await answerOf("page/stop", { body }).catch(() => ({ stopped: 0 }));
  if (!stopped) for (const { connection } of running) connection.abort();
}

async function decide({ id, approve, reason }) {
  const body = approve ? { decision: "approve" } : { decision: "deny", reason };
  return fetched(`agent/approvals/${id}`, { body }).then(() => true, fail);
}

// -- the next prompt's files --

async function attach(name, [data]) {
  const reader = new FileReader();
  const isImage = /\.(gif|jpe?g|png|webp)$/i.test(name);
  reader.readAsDataURL(new Blob(data && [data], { type: isImage ? "image/png" : "" }));
  await new Promise((done) => (reader.onload = done));
  const all = shown.draft.chips.reduce((sum, { size }) => sum + size, data?.byteLength ?? Infinity);
  if (!data || all > shown.max_bytes) {
    const most = Math.floor((shown.max_bytes ?? 0) / 1e6);
    return show({ notice: t(`Attach at most ${most} MB of files, and no folders: {} was left out.`, name) });
  }
  const [size, url] = [data.byteLength, reader.result];
  const about = size < 1000 ? t("{} bytes", size) : `${Math.round(size / 1000).toLocaleString()} kB`;
  const chip = { number: Math.random(), name, about, size, url, src: isImage && url };
  show({ notice: null, draft: { chips: [...shown.draft.chips, chip] } });
}

function detach(number) {
  show({ draft: { chips: shown.draft.chips.filter((chip) => chip.number !== number) } });
}

// -- conversations --

const setAddress = (id) => history.replaceState(null, "", location.pathname + (id ? `#conversation=${encodeURIComponent(id)}` : ""));

// Shows a conversation, or starts one without an id. Prompts in the previous one are stopped.
async function go(id = "") {
  setMenu(false);
  if (id === conversation.id && asked.size) return; // already shown and running
  for (const { connection } of asked) connection.abort();
  const here = (conversation = { id: id || `page-${crypto.getRandomValues(new Uint32Array(3)).join("-")}` });
  setAddress(id);
  markList();
  show((shown = { ...EMPTY, draft: shown.draft, max_bytes: shown.max_bytes }));
  panel.focus();
  const path = id ? `page/state?conversation_id=${encodeURIComponent(id)}` : `page/state?agent=${encodeURIComponent(byId("agent").value)}`;
  const state = await answerOf(path).catch(({ message }) => ({ notice: message }));
  if (here === conversation) show(state);
}

const list = byId("list");
function markList() {
  for (const each of list.querySelectorAll("button")) mark(each, { "aria-current": each.dataset.id === conversation.id });
}

async function showList(after) {
  const page = await answerOf(`page/conversations${after ? `?after=${encodeURIComponent(after)}` : ""}`);
  const items = page.conversations.map(([id, title]) => {
    const made = h("button", { type: "button", onclick: () => go(id) }, h("span", { textContent: title || t("Untitled") }));
    made.dataset.id = id;
    return h("li", {}, made);
  });
  list.replaceChildren(...(after ? list.children : []), ...items);
  byId("earlier").hidden = !list.children.length;
  byId("more").hidden = !page.next;
  byId("more").onclick = () => showList(page.next).catch(fail);
  markList();
  return page;
}

async function open() {
  try {
    const { agents } = await showList();
    byId("agent").replaceChildren(...agents.map((name) => h("option", { textContent: name })));
    byId("agent").hidden = !agents.length;
  } catch (error) {
    if (!token) return;
    byId("login").hidden = false;
    byId("refused").textContent = error.message;
    return;
  }
  sessionStorage.setItem("nbagent-token", token);
  byId("login").hidden = true;
  byId("app").hidden = false;
  await go(readAddress().get("conversation") ?? "");
}

// -- Copy, on complete answers and code; not available without TLS --

Object.assign(ICONS, { copy: "M6 6h7.5v7.5H6zM3.5 10H2.5V2.5H10v1", copied: "m3 8.5 3.5 3.5L13 4.5" });

function copyButton(title, text) {
  const say = (icon, name) => (made.querySelector("path").setAttribute("d", ICONS[icon]), mark(made, { "aria-label": t(name) }));
  const copied = () => (say("copied", "Copied"), setTimeout(() => say("copy", title), 1500));
  const made = iconButton("copy", t(title), () => navigator.clipboard.writeText(text).then(copied, fail), { "aria-label": t(title) });
  return made;
}

const complete = new WeakSet(); // turns that already have the buttons

function addCopies() {
  for (const [key, turn] of Object.entries(navigator.clipboard ? shown.turns : {})) {
    if (turn.live || complete.has(turn)) continue;
    complete.add(turn);
    const { root } = panel.turns.get(key);
    const foot = turn.text && root.querySelector(".nbagent-foot");
    if (foot) foot.append(h("span", { class: "nbagent-actions" }, copyButton("Copy the answer as Markdown", turn.text)));
    for (const code of root.querySelectorAll(".nbagent > pre > code")) {
      const copies = copyButton("Copy the code", code.textContent.replace(/\n$/, ""));
      code.parentElement.before(h("div", { class: "on-code nbagent-actions" }, copies));
    }
  }
}

// -- keys and buttons --

function setMenu(opened) {
  byId("conversations").classList.toggle("open", opened);
  mark(byId("menu"), { "aria-expanded": opened });
}

// runs before the panel's own handler
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.isComposing) return;
  if (byId("conversations").classList.contains("open")) setMenu(false);
  else stop();
}, true);
byId("new").addEventListener("click", () => go());
byId("agent").addEventListener("change", () => Object.keys(shown.turns).length || go());
byId("menu").addEventListener("click", () => setMenu(byId("menu").getAttribute("aria-expanded") !== "true"));
document.querySelector("main").addEventListener("click", () => setMenu(false));

// Elements that overflow can be scrolled with the keyboard.
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const isTall = target.scrollHeight > target.clientHeight && target.localName !== "math";
    if (isTall || target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
const measured = new WeakSet(); // observing again would measure again
const news = new MutationObserver(() => {
  for (const each of panel.log.querySelectorAll(SCROLLED)) if (!measured.has(each)) measured.add(each), sizes.observe(each);
  addCopies();
});
news.observe(panel.log, { childList: true, subtree: true });

addEventListener("hashchange", () => (readAddress(), open()));
readAddress();
if (token) open();
else askForToken("");
