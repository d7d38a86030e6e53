// Senders and switches, over an emulated run alone.
import { byId, make } from "./dom.js";

let senders = [];

export function renderControls(controls) {
  renderSenders(controls.senders);
  renderSwitches(controls.troubles);
}

function renderSenders(given) {
  senders = given;
  const select = byId("sender");
  if (select.children.length !== given.length) {
    select.replaceChildren(...given.map((each) => make("option", { value: each.name }, each.title)));
  }
  renderButton();
}

function renderButton() {
  const chosen = senders.find((each) => each.name === byId("sender").value);
  const button = byId("send-button");
  byId("sender-way").textContent = chosen?.way ?? "";
  if (chosen) {
    byId("text").maxLength = chosen.longest;
  }
  button.disabled = !chosen?.ready;
  button.textContent = chosen?.ready ? chosen.button : (chosen?.failure ? `its phones could not be registered: ${chosen.failure}` : "its phones are being registered …");
}

function renderSwitches(troubles) {
  const place = byId("switches");
  if (place.children.length !== troubles.length) {
    place.replaceChildren(...troubles.map(switchOf));
  }
  for (const trouble of troubles) {
    const box = byId(`trouble-${trouble.name}`);
    if (!isBusy(box)) {
      box.checked = trouble.on;
    }
  }
}

// Disabled, it would lose the focus of whoever uses it by the keyboard.
const isBusy = (box) => box.ariaDisabled === "true";

function switchOf(trouble) {
  const box = make("input", { type: "checkbox", id: `trouble-${trouble.name}`, role: "switch" });
  const answer = make("p", { id: `answer-${trouble.name}` }, trouble.answer);
  box.setAttribute("aria-describedby", answer.id);
  const refusal = make("p", { className: "refusal", role: "status" });
  box.addEventListener("click", (event) => isBusy(box) && event.preventDefault());
  box.addEventListener("change", async () => {
    const on = box.checked;
    box.ariaDisabled = "true";
    refusal.textContent = await act("switch", { trouble: trouble.name, on });
    box.ariaDisabled = "false";
    box.checked = refusal.textContent ? !on : on;
  });
  const counts = trouble.words.map((word) => make("span", { className: "chip" }, `0 ${word}`));
  counts.forEach((chip, place) => {
    chip.dataset.word = trouble.words[place];
  });
  const label = make("label", { htmlFor: box.id }, trouble.title, box);
  return make("div", { className: "switch" }, label, answer, ...counts, refusal);
}

// What the troubles have come to so far, by the words of the decisions.
export function renderCounts(ended) {
  for (const chip of document.querySelectorAll("#switches [data-word]")) {
    const { count, fate } = ended.get(chip.dataset.word) ?? { count: 0, fate: "" };
    chip.className = `chip ${fate}`;
    chip.textContent = `${count} ${chip.dataset.word}`;
  }
}

async function act(name, asked) {
  try {
    const answer = await fetch(`actions/${name}`, { method: "POST", body: JSON.stringify(asked) });
    return answer.ok ? "" : ((await answer.json().catch(() => null))?.words ?? `it failed with ${answer.status}`);
  } catch {
    return "the program does not answer";
  }
}

byId("sender").addEventListener("change", renderButton);

byId("send").addEventListener("submit", async (event) => {
  event.preventDefault();
  answer("sending …", false);
  const words = await act("send", { sender: byId("sender").value, text: byId("text").value });
  answer(words || "sent", words !== "");
});

function answer(words, refused) {
  byId("send-answer").textContent = words;
  byId("send-answer").classList.toggle("refusal", refused);
}
