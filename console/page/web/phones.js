// A card for each phone, with the newest that it shows.
import { byId, clock, make } from "./dom.js";

const SHOWN = 2;
const SAID_MS = 3000;
const cards = new Map();
let newest = "";
let saying = null;

// In this order, whichever got a push first.
export function renderPhones(phones) {
  const lists = phones.map((phone) => cardOf(phone.name, phone.channel, phone.network));
  const inOrder = lists.map((list) => list.parentElement);
  if (inOrder.some((card, place) => byId("phone-cards").children[place] !== card)) {
    byId("phone-cards").prepend(...inOrder);
  }
}

export function show(pushes) {
  for (const push of pushes) {
    const list = cardOf(push.phone, push.channel, push.network);
    const time = make("time", {}, clock(push.at));
    const words = push.reason ? `not taken: ${push.reason}` : push.text;
    list.prepend(make("li", { className: push.reason ? "refused" : "new" }, time, words));
    [...list.children].slice(SHOWN).forEach((old) => old.remove());
    say(`${push.phone}: ${words}`);
  }
}

// To a screen reader, the first at once, and in a flood the newest now and then.
function say(words) {
  newest = words;
  if (saying === null) {
    byId("newest-push").textContent = newest;
    saying = setTimeout(() => {
      saying = null;
      if (byId("newest-push").textContent !== newest) {
        say(newest);
      }
    }, SAID_MS);
  }
}

export function forget() {
  cards.forEach((list) => list.replaceChildren());
}

function cardOf(name, channel, network) {
  const key = `${name} ${channel}`;
  if (!cards.has(key)) {
    const list = make("ol");
    const under = make("p", { className: "soft" }, network ? `${channel} · ${network}` : channel);
    byId("phone-cards").append(make("article", { className: "phone" }, make("h3", {}, name), under, list));
    byId("no-phones").hidden = true;
    cards.set(key, list);
  }
  return cards.get(key);
}
