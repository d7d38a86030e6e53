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
const faults = new Map();
let due = false;

const received = {
  about(about) {
    items.clear();
    forget();
    byId("where").textContent = `${about.title} · ${about.where}`;
    document.title = `${about.title}, live`;
    document.querySelector("main").classList.toggle("deployed", !about.local);
    document.querySelectorAll(".local").forEach((section) => {
      section.hidden = !about.local;
    });
    draw(about.stations, about.meanings);
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
    const shown = [...faults.values()].filter((each) => each);
    byId("faults").hidden = shown.length === 0;
    byId("faults").textContent = shown.join(" ");
  },
};

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
}

const events = new EventSource("events");
events.addEventListener("open", () => connection("live", true));
events.addEventListener("error", () => connection("disconnected, trying again", false));
for (const [name, handle] of Object.entries(received)) {
  events.addEventListener(name, (event) => handle(JSON.parse(event.data)));
}
setInterval(renderCharts, CHARTS_MS);
