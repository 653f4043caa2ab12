// What the pages do in the browser: stay up to date, follow keys, copy commands. Every page also works without this.
//
// A page that is live has the same address as its event stream. Each event is the content of <main>; what differs is
// changed where it stands, so that nothing flickers and neither the place on the page nor what is typed is lost.
"use strict";

const main = document.getElementById("main");
const live = document.getElementById("live");
let stream = null;
let paused = false;

// --- Staying up to date

// A section is known by its title, so that one which appears above another does not take over what that one holds.
const keyOf = (node) =>
  node.nodeType === 1 ? node.id || node.dataset.key || node.getAttribute("aria-labelledby") || "" : "";
const isSame = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

// What a visitor has opened, chosen or made ready to press stays so.
const isVisitors = (element, name) =>
  (name === "open" && element.nodeName === "DETAILS") ||
  (name === "disabled" && element.nodeName === "BUTTON") ||
  (name === "data-prepared") ||
  (name === "class" && element.classList.contains("chosen"));

function change(from, to) {
  if (from.nodeType !== 1) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  if (from.isEqualNode(to)) return;
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !isVisitors(from, name)) from.removeAttribute(name);
  }
  for (const { name, value } of [...to.attributes]) {
    if (from.getAttribute(name) !== value && !isVisitors(from, name)) from.setAttribute(name, value);
  }
  // What a visitor types or has chosen stays as it is until the form is sent.
  if (["INPUT", "SELECT", "TEXTAREA"].includes(from.nodeName)) return;
  changeChildren(from, to);
}

function changeChildren(from, to) {
  const byKey = new Map();
  for (const child of from.children) if (keyOf(child)) byKey.set(keyOf(child), child);
  let place = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    const known = keyOf(wanted) && byKey.get(keyOf(wanted));
    if (known && isSame(known, wanted)) {
      if (known === place) place = place.nextSibling;
      else from.insertBefore(known, place);
      change(known, wanted);
    } else if (place && isSame(place, wanted) && !keyOf(wanted)) {
      const next = place.nextSibling;
      change(place, wanted);
      place = next;
    } else {
      from.insertBefore(document.importNode(wanted, true), place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function show(html) {
  const parsed = new DOMParser().parseFromString(`<main>${html}</main>`, "text/html");
  const focused = document.activeElement;
  changeChildren(main, parsed.querySelector("main"));
  // An element that was moved has lost it, and the next letters would be lost with it.
  if (focused !== document.activeElement && main.contains(focused)) focused.focus({ preventScroll: true });
  prepare();
}

function say(state, text) {
  if (!live) return;
  live.classList.toggle("on", state === "on");
  live.classList.toggle("off", state === "off");
  const words = live.querySelector("[data-live-text]");
  if (words.textContent !== text) words.textContent = text;
}

function listen() {
  stop();
  if (paused || document.hidden || !("live" in document.body.dataset)) return;
  stream = new EventSource(location.pathname + location.search);
  stream.onopen = () => say("on", "Live");
  stream.onmessage = (event) => { say("on", "Live"); show(event.data); };
  stream.onerror = () => say("off", stream && stream.readyState === EventSource.CLOSED ? "As it was" : "Connecting …");
}

function stop() {
  if (stream) stream.close();
  stream = null;
}

document.addEventListener("visibilitychange", listen);
window.addEventListener("pagehide", stop);

// --- Forms and buttons

function prepare() {
  for (const input of main.querySelectorAll("[data-must-equal]:not([data-prepared])")) {
    input.dataset.prepared = "";
    const button = input.form.querySelector("button");
    input.addEventListener("input", () => { button.disabled = input.value !== input.dataset.mustEqual; });
  }
}

let typing = 0;
document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-filter]");
  if (!form) return;
  clearTimeout(typing);
  typing = setTimeout(() => {
    const given = [...new FormData(form)].filter(([, value]) => value !== "");
    const query = new URLSearchParams(given).toString();
    history.replaceState(null, "", location.pathname + (query ? `?${query}` : ""));
    listen();
  }, 200);
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(button.parentElement.querySelector("code"));
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }
  if (event.target.closest("[data-help]")) document.getElementById("help").showModal();
});

// --- Keys

let waitsForPlace = false;

function chooseRow(step) {
  const rows = [...main.querySelectorAll("tbody tr")].filter((row) => row.querySelector("a"));
  if (!rows.length) return;
  const chosen = rows.findIndex((row) => row.classList.contains("chosen"));
  const next = Math.min(Math.max(chosen + step, 0), rows.length - 1);
  rows.forEach((row, at) => row.classList.toggle("chosen", at === next));
  rows[next].scrollIntoView({ block: "nearest" });
  rows[next].querySelector("a").focus({ preventScroll: true });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (waitsForPlace) {
    waitsForPlace = false;
    const place = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
    if (place) place.click();
    return;
  }
  switch (event.key) {
    case "/": {
      const search = main.querySelector("[data-search]");
      if (!search) return;
      search.focus();
      search.select();
      break;
    }
    case "g": waitsForPlace = true; setTimeout(() => { waitsForPlace = false; }, 1500); break;
    case "j": chooseRow(1); break;
    case "k": chooseRow(-1); break;
    case "n": {
      const next = main.querySelector("[data-next]");
      if (!next) return;
      next.click();
      break;
    }
    case "p":
      paused = !paused;
      listen();
      if (paused) say("", "Paused");
      break;
    case "?": document.getElementById("help").showModal(); break;
    default: return;
  }
  event.preventDefault();
});

prepare();
listen();
