// The script of the dashboard. Pages work without it; it keeps them current, shows times in the time of the browser,
// and copies commands. Text is only ever set as text: elements are made one by one, from lists of names.

const TAGS = new Set(`a article bdi button code dd details div dl dt form g h2 h3 img input label li p path polyline pre
  rect section select option span strong summary svg table tbody td textarea th thead time title tr ul figure figcaption`
  .split(/\s+/));
const ATTRIBUTES = new Set(`action alt aria-current aria-describedby aria-hidden aria-label aria-labelledby autocomplete
  class colspan data-copy data-key data-live datetime disabled height hidden href id maxlength method name placeholder
  points preserveAspectRatio rel required role scope src tabindex target title type value viewBox width x y`
  .split(/\s+/));
// What the user has changed stays as it is.
const KEPT = new Set(["open", "hidden", "value", "checked", "selected"]);

/** Is this attribute value safe for a page of ours? Links lead to web pages, pictures are in the page. */
function isSafe(name, value) {
  switch (name) {
    case "href": return /^(\/ui\/|https?:\/\/|#)/.test(value);
    case "action": return value.startsWith("/ui/");
    case "src": return /^data:image\/(png|jpeg|gif|webp);base64,/.test(value);
    default: return true;
  }
}

/** A copy of a node of another document, made of known elements and attributes. */
function copyOf(node) {
  if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.data);
  const copy = document.createElementNS(node.namespaceURI, node.localName);
  for (const { name, value } of node.attributes) {
    if (ATTRIBUTES.has(name) && isSafe(name, value)) copy.setAttribute(name, value);
  }
  for (const child of known(node)) copy.append(copyOf(child));
  finish(copy);
  return copy;
}

/** The children of a node that we know. */
function known(node) {
  return [...node.childNodes].filter((it) =>
    it.nodeType === Node.TEXT_NODE || (it.nodeType === Node.ELEMENT_NODE && TAGS.has(it.localName)));
}

const keyOf = (node) => node.getAttribute?.("data-key");

/** Do both stand for the same thing, so that one can become the other? */
function isSame(one, other) {
  return one.nodeType === other.nodeType && one.localName === other.localName && keyOf(one) === keyOf(other);
}

/** Makes an element like another one, and keeps what is the same: focus, selection and open details stay. */
function update(element, wanted) {
  for (const { name } of [...element.attributes]) {
    if (!wanted.hasAttribute(name) && !KEPT.has(name)) element.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    const isNew = ATTRIBUTES.has(name) && isSafe(name, value) && element.getAttribute(name) !== value;
    if (isNew && !(KEPT.has(name) && element.localName !== "button" && element.type !== "hidden")) {
      element.setAttribute(name, value);
    }
  }
  if (element.localName === "time") return finish(element);
  const atEnd = isAtEnd(element);
  updateChildren(element, wanted);
  if (atEnd) element.scrollTop = element.scrollHeight;
}

/** A log that shows its end follows it. */
function isAtEnd(element) {
  return element.classList.contains("log")
    && element.scrollHeight - element.scrollTop - element.clientHeight < 40;
}

function updateChildren(parent, wanted) {
  let next = parent.firstChild;
  for (const child of known(wanted)) {
    const key = keyOf(child);
    let match = next && isSame(next, child) ? next : null;
    if (!match && key) match = [...parent.children].find((it) => isSame(it, child)) ?? null;
    if (!match) {
      parent.insertBefore(copyOf(child), next);
      continue;
    }
    if (match === next) next = next.nextSibling;
    else parent.insertBefore(match, next);
    if (match.nodeType === Node.TEXT_NODE) {
      if (match.data !== child.data) match.data = child.data;
    } else update(match, child);
  }
  while (next) {
    const rest = next.nextSibling;
    next.remove();
    next = rest;
  }
}

const today = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const otherDay = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** Shows a time in the time of the browser, and a button that needs the script. */
function finish(element) {
  if (element.localName === "time") {
    const at = new Date(element.getAttribute("datetime"));
    if (Number.isNaN(at.getTime())) return;
    const isToday = at.toDateString() === new Date().toDateString();
    const text = (isToday ? today : otherDay).format(at);
    if (element.textContent !== text) element.textContent = text;
    element.title = at.toISOString();
  } else if (element.hasAttribute("data-copy")) {
    element.hidden = false;
  }
}

/** Replaces the live sections of an event by what it says. Parsing in a document of its own runs and loads nothing. */
function apply({ sections }) {
  for (const [id, html] of Object.entries(sections)) {
    const section = document.querySelector(`[data-live="${CSS.escape(id)}"]`);
    if (!section) continue;
    const wanted = new DOMParser().parseFromString(`<body>${html}</body>`, "text/html").body;
    const log = section.querySelector(".log");
    const atEnd = log && isAtEnd(log);
    updateChildren(section, wanted);
    if (atEnd) log.scrollTop = log.scrollHeight;
  }
}

let source = null;

/** Follows the events of the page while it is visible. */
function follow() {
  const path = document.body.dataset.events;
  const isWanted = path && document.visibilityState === "visible";
  if (!isWanted) {
    source?.close();
    source = null;
    return;
  }
  if (source && source.readyState !== EventSource.CLOSED) return;
  source = new EventSource(path);
  source.onopen = () => showConnection("");
  source.onmessage = ({ data }) => apply(JSON.parse(data));
  source.onerror = () => {
    const isOver = source?.readyState === EventSource.CLOSED;
    showConnection(isOver ? "Live updates ended. Reload the page." : "Connecting again…");
  };
}

function showConnection(text) {
  const element = document.getElementById("connection");
  if (!element) return;
  element.hidden = text === "";
  element.textContent = text;
}

document.addEventListener("click", async ({ target }) => {
  const button = target.closest?.("[data-copy]");
  const text = button && document.getElementById(button.dataset.copy)?.textContent;
  if (!text) return;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
});

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, textarea, select");
  if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const search = document.querySelector('[data-shortcut="/"]');
  if (!search) return;
  event.preventDefault();
  search.focus();
});

document.addEventListener("visibilitychange", follow);
document.querySelectorAll("time, [data-copy]").forEach(finish);
document.querySelectorAll(".log").forEach((log) => { log.scrollTop = log.scrollHeight; });
// A notice belongs to one view of the page, not to a reload.
const here = new URL(location.href);
if (here.searchParams.has("notice")) {
  here.searchParams.delete("notice");
  history.replaceState(null, "", here);
}
follow();
document.querySelector("form[data-submit]")?.requestSubmit();
