// The stations of the way, how many items are at each, what ended there, and a dot for each item that moves.
import { renderCounts } from "./controls.js";
import { byId, make } from "./dom.js";
import { furthest, items } from "./items.js";

const NAMES = {
  source: ["Source", "a network shows it"],
  envelopes: ["Envelope queue", "SQS"],
  match: ["Match", "verified, wanted?"],
  admission: ["Admission", "within the limits?"],
  pushes: ["Push queues", "SQS, one a channel"],
  dispatch: ["Dispatch", "to the provider"],
  phone: ["Phone", "delivered"],
};
const COUNTED = { source: "items so far at the", phone: "pushes so far at the" };
const MOST_DOTS = 60;
const HOP_MS = 280;

const stations = new Map();
const reached = new Map();
let order = [];
let queueNames = {};
let moving = 0;

export function draw({ stations: stationNames, meanings, queues }) {
  order = stationNames;
  queueNames = queues;
  stations.clear();
  byId("rail").replaceChildren(...stationNames.map((station) => stationOf(station, meanings)));
  const words = Object.entries(meanings).flatMap(([word, meaning]) => [make("dt", {}, word), make("dd", {}, meaning)]);
  byId("meaning-list").replaceChildren(...words);
}

function stationOf(station, meanings) {
  const [name, subtitle] = NAMES[station] ?? [station, ""];
  const parts = {
    stop: make("span", { className: "stop" }, "0"),
    depth: make("span", { className: "depth" }, subtitle),
    ends: make("span", { className: "ends" }),
    meanings,
  };
  const counted = make("span", { className: "hidden" }, COUNTED[station] ?? "items at the");
  const label = make("span", { className: "station-name" }, counted, name, parts.depth);
  const queue = station in queueNames ? " queue" : "";
  const end = { 0: " first", [order.length - 1]: " last" }[order.indexOf(station)] ?? "";
  parts.line = make("li", { className: `station${queue}${end}` }, parts.stop, label, parts.ends);
  parts.line.dataset.station = station;
  stations.set(station, parts);
  return parts.line;
}

// An item that is on its way counts at its furthest station; what waits or has ended counts by its word.
export function renderWay() {
  const here = new Map();
  const ended = new Map();
  const soFar = new Map();
  for (const item of items.values()) {
    const last = furthest(item);
    here.set(last.station, (here.get(last.station) ?? 0) + (last.fate === "under_way" ? 1 : 0));
    for (const mark of item.marks.filter((one) => one.fate !== "under_way")) {
      const words = ended.get(mark.station) ?? ended.set(mark.station, new Map()).get(mark.station);
      add(words, mark, mark.fate === "waiting" ? waiting(item, mark) : mark.count);
      add(soFar, mark, mark.count);
    }
  }
  renderCounts(soFar);
  for (const [station, parts] of stations) {
    const count = station === "source" ? items.size : station === "phone" ? arrivedCount(ended) : (here.get(station) ?? 0);
    parts.stop.textContent = short(count);
    parts.line.classList.toggle("busy", count > 0);
    renderEnds(parts, ended.get(station) ?? new Map());
  }
}

function add(words, { word, fate }, count) {
  if (count > 0) {
    words.set(word, { count: (words.get(word)?.count ?? 0) + count, fate });
  }
}

// A push that waits is tried again, and has a mark for each try: no more wait than were queued and have not ended since.
function waiting(item, mark) {
  const ofChannel = item.marks.filter((one) => one.channel === mark.channel);
  const sum = (some) => some.reduce((total, one) => total + one.count, 0);
  const queued = sum(ofChannel.filter((one) => one.word === "queued"));
  const finished = sum(ofChannel.filter((one) => ["dispatch", "phone"].includes(one.station) && one.fate !== "waiting"));
  return Math.min(mark.count, Math.max(0, queued - finished));
}

const arrivedCount = (ended) => ended.get("phone")?.get("delivered")?.count ?? 0;

const short = (count) => (count < 10_000 ? `${count}` : `${(count / 1000).toFixed(1)}k`);

function renderEnds(parts, words) {
  const shown = JSON.stringify([...words]);
  if (parts.shown !== shown) {
    parts.shown = shown;
    parts.ends.replaceChildren(
      ...[...words].map(([word, { count, fate }]) =>
        make("span", { className: `chip ${fate}`, title: parts.meanings[word] ?? "" }, `${count} ${word}`),
      ),
    );
  }
}

export function renderDepths(queues) {
  for (const [station, names] of Object.entries(queueNames)) {
    const some = queues.filter((queue) => names.includes(queue.name));
    const count = some.reduce((sum, queue) => sum + queue.waiting + queue.in_flight + queue.delayed, 0);
    stations.get(station).depth.textContent = count === 1 ? "SQS: 1 message" : `SQS: ${count} messages`;
  }
}

// From where it was last seen to where it is now. Beside many others a dot would say nothing.
export function move(item) {
  const last = furthest(item);
  const from = reached.get(item.key) ?? "source";
  const stationNames = order.slice(order.indexOf(from), order.indexOf(last.station) + 1);
  reached.set(item.key, last.station);
  if (reached.size > 5000) {
    reached.clear();
  }
  if (stationNames.length < 2 || moving >= MOST_DOTS || document.hidden || reduced.matches) {
    return;
  }
  const dot = make("span", { className: `dot ${last.fate}` });
  byId("dots").append(dot);
  moving += 1;
  const frames = stationNames.map((station) => ({ transform: `translate(${centre(station).join("px, ")}px)`, opacity: 1 }));
  const animation = dot.animate([...frames, { ...frames.at(-1), opacity: 0 }], {
    duration: HOP_MS * (frames.length + 1),
    easing: "ease-in-out",
  });
  animation.onfinish = () => {
    dot.remove();
    moving -= 1;
  };
}

const reduced = matchMedia("(prefers-reduced-motion: reduce)");

function centre(station) {
  const { stop } = stations.get(station);
  const [rail, place] = [byId("track").getBoundingClientRect(), stop.getBoundingClientRect()];
  return [place.x + place.width / 2 - rail.x, place.y + place.height / 2 - rail.y];
}
