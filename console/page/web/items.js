// What the page knows of the newest items, and the list of them.
import { byId, clock, duration, make } from "./dom.js";
import { showWhy } from "./why.js";

const KEPT = 2000;
const LISTED = 50;

export const items = new Map();

export function take(changed) {
  for (const item of changed) {
    items.set(item.key, item);
  }
  for (const key of items.keys()) {
    if (items.size <= KEPT) {
      break;
    }
    items.delete(key);
  }
}

// The last of its marks is the furthest.
export const furthest = (item) => item.marks.at(-1);

export const arrivals = (item) => item.marks.filter((mark) => mark.word === "delivered");

export function renderItems() {
  const newest = [...items.values()].sort((one, other) => other.began - one.began).slice(0, LISTED);
  byId("no-items").hidden = newest.length > 0;
  const list = byId("item-list");
  const known = new Map([...list.children].map((line) => [line.dataset.key, line]));
  newest.forEach((item, place) => {
    const line = known.get(item.key) ?? lineOf(item);
    known.delete(item.key);
    update(line, item);
    if (list.children[place] !== line) {
      list.insertBefore(line, list.children[place] ?? null);
    }
  });
  // Whoever is on a line by the keyboard keeps it.
  known.forEach((line) => line.contains(document.activeElement) || line.remove());
}

function lineOf(item) {
  const button = make("button", { type: "button", className: "item" });
  button.addEventListener("click", () => showWhy(items.get(item.key) ?? item));
  const line = make("li", {}, button);
  line.dataset.key = item.key;
  return line;
}

function update(line, item) {
  const shown = JSON.stringify(item.marks);
  if (line.dataset.shown === shown) {
    return;
  }
  line.dataset.shown = shown;
  const arrived = arrivals(item);
  const took = arrived.length ? duration(Math.max(...arrived.map((mark) => mark.at)) - item.began) : "";
  line.firstChild.replaceChildren(
    make("time", {}, clock(item.began)),
    make("span", {}, `${item.network} `, make("code", {}, item.key.slice(0, 10))),
    make("span", { className: "took" }, took),
    make("span", { className: "words" }, ...chipsOf(item)),
  );
}

// What has been decided last by each channel; before that, of the whole item. One chip for each word.
function chipsOf(item) {
  const last = new Map();
  for (const mark of item.marks) {
    const before = last.get(mark.channel);
    if (!before || before.station !== mark.station || before.at <= mark.at) {
      last.set(mark.channel, mark);
    }
  }
  if (last.size > 1) {
    last.delete(null);
  }
  return [...Map.groupBy(last.values(), (mark) => mark.word).values()].map(chip);
}

function chip(marks) {
  const channels = marks.filter((mark) => mark.channel).map(channelOf);
  const words = channels.length ? `${marks[0].word}: ${channels.join(", ")}` : marks[0].word;
  return make("span", { className: `chip ${marks[0].fate}` }, words);
}

const channelOf = (mark) => (mark.count > 1 ? `${mark.count} ${mark.channel}` : mark.channel);
