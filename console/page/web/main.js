// Listens to the page's events, and draws at most some times a second, however many there are.
import { renderCharts, renderHistory } from "./charts.js";
import { renderControls } from "./controls.js";
import { byId } from "./dom.js";
import { items, renderItems, take } from "./items.js";
import { forget, renderPhones, show } from "./phones.js";
import { renderStatus } from "./status.js";
import { draw, move, renderDepths, renderWay } from "./way.js";
import { refreshWhy, rereadWhy } from "./why.js";

const DRAW_MS = 200;
const CHARTS_MS = 1000;
const RETRY_MS = 5000;
const ENDED_MS = 10000;
const faults = new Map();
const notes = new Map();
let due = false;

const received = {
  about(about) {
    items.clear();
    faults.clear();
    renderFaults();
    note("skipped", "");
    forget();
    byId("where").textContent = `${about.title} · ${about.where}`;
    document.title = `${about.title}, live`;
    document.querySelector("main").className = about.local ? "emulated" : "deployed";
    document.querySelectorAll(".local").forEach((part) => {
      part.hidden = !about.local;
    });
    draw(about);
    rereadWhy();
    plan();
  },
  items(changed) {
    take(changed);
    changed.forEach(move);
    refreshWhy(changed);
    plan();
  },
  status(status) {
    renderStatus(status);
    renderDepths(status.queues);
  },
  history: renderHistory,
  phones: show,
  controls(controls) {
    renderControls(controls);
    renderPhones(controls.phones);
  },
  fault({ event, words }) {
    faults.set(event, words);
    renderFaults();
  },
  lake(gaps) {
    note("lake", gapWords(gaps));
  },
  skipped({ messages }) {
    forget();
    note("skipped", `This tab was too slow: it skipped ${messages} events, and shows what is now.`);
  },
};

function gapWords({ passed_over, unreadable }) {
  const part = passed_over ? `Only part is shown: ${passed_over} files of the lake were not read whole.` : "";
  return unreadable ? `${part} ${unreadable} lines of the lake could not be read.` : part;
}

function note(about, words) {
  notes.set(about, words);
  byId("notes").textContent = [...notes.values()].join(" ");
}

function plan() {
  if (!due) {
    due = true;
    setTimeout(() => {
      due = false;
      renderItems();
      renderWay();
    }, DRAW_MS);
  }
}

function connection(words, live) {
  const shown = byId("connection");
  shown.textContent = words;
  shown.classList.toggle("live", live);
  byId("verdict").classList.toggle("stale", !live);
}

function renderFaults() {
  const shown = [...new Set(faults.values())].filter((each) => each);
  byId("faults").hidden = shown.length === 0;
  byId("faults").textContent = shown.join("\n");
  connection(shown.length ? "live in part" : "live", shown.length === 0);
}

// Words for a program that has answered nothing for a while: its address ended with it.
let ended = null;

function found() {
  clearTimeout(ended);
  ended = null;
  faults.delete("connection");
  renderFaults();
}

function missed() {
  ended ??= setTimeout(() => {
    faults.set("connection", "The program does not answer, or too many tabs are open. If it has ended, start it again: it prints the page's new address.");
    renderFaults();
    connection("disconnected, trying again", false);
  }, ENDED_MS);
}

// Nobody sees a hidden tab: it listens to nothing, so that nothing is read for it.
let events = null;
let retry = null;

function listen() {
  clearTimeout(retry);
  events = new EventSource("events");
  events.addEventListener("open", found);
  events.addEventListener("error", lost);
  for (const [name, handle] of Object.entries(received)) {
    events.addEventListener(name, (event) => handle(JSON.parse(event.data)));
  }
}

// A refused stream is not tried again by the browser.
function lost() {
  connection("disconnected, trying again", false);
  missed();
  if (events?.readyState === EventSource.CLOSED) {
    retry = setTimeout(follow, RETRY_MS);
  }
}

function follow() {
  if (document.hidden) {
    clearTimeout(retry);
    clearTimeout(ended);
    ended = null;
    events?.close();
    events = null;
    connection("paused while hidden", false);
  } else if (events === null || events.readyState === EventSource.CLOSED) {
    listen();
  }
}

document.addEventListener("visibilitychange", follow);
follow();
setInterval(renderCharts, CHARTS_MS);
