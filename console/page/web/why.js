// Every step of one item, as `clarion why` has it. An open panel is read again whenever its item has changed: the lake
// gets the events of an item out of their order, and those of a retry hours later.
import { byId, duration, make, table } from "./dom.js";

const AGAIN_MS = 2000;
let key = null;
let shown = "";
let reading = false;
let outdated = false;

export function showWhy(item) {
  key = item.key;
  shown = "";
  entitle(item);
  show("", [make("p", { className: "soft" }, "It is being read.")]);
  byId("why").showModal();
  read();
}

export function refreshWhy(changed) {
  const item = changed.find((each) => each.key === key);
  if (item) {
    entitle(item);
    read();
  }
}

export function rereadWhy() {
  if (key !== null) {
    read();
  }
}

byId("why").addEventListener("close", () => {
  key = null;
});

function entitle(item) {
  byId("why-title").textContent = item.envelope_id ? `Envelope 0x${item.envelope_id}` : `Receipt ${item.key}`;
}

// One request at a time; what changes meanwhile is read after it.
async function read() {
  outdated = true;
  if (reading) {
    return;
  }
  reading = true;
  while (outdated && key !== null) {
    outdated = false;
    await readOnce(key);
  }
  reading = false;
}

async function readOnce(asked) {
  try {
    const answer = await fetch(`why/${asked}`);
    const text = answer.status === 404 ? "null" : answer.ok ? await answer.text() : raise(answer.status);
    if (asked === key && text !== shown) {
      show(text, report(JSON.parse(text)));
    }
  } catch (error) {
    if (asked === key) {
      show("", [make("p", { className: "soft" }, `It could not be read (${error instanceof TypeError ? "the program does not answer" : error.message}); it is tried again.`)]);
      setTimeout(rereadWhy, AGAIN_MS);
    }
  }
}

function raise(status) {
  throw new Error(`answer ${status}`);
}

function show(text, parts) {
  shown = text;
  byId("why-parts").replaceChildren(...parts);
}

function report(why) {
  if (why === null) {
    return [make("p", {}, "It is no longer kept.")];
  }
  return [...why.summary.map((words) => make("p", {}, words)), ...why.traces.flatMap(trace)];
}

function trace(found) {
  const sender = found.sender ? `, sender ${found.sender}` : "";
  const parts = [make("h3", {}, `Receipt ${found.receipt}${sender}`)];
  for (const [subscription, steps] of Map.groupBy(found.steps, (step) => step.subscription_id)) {
    const [first] = steps;
    const kind = first.channel ? `${first.channel} subscription` : "The network's own subscription";
    const client = first.client_id ? ` of client ${first.client_id}` : "";
    parts.push(
      table(
        subscription ? `${kind} ${subscription}${client}` : "The envelope",
        ["time (UTC)", "after", "what"],
        steps.map((step) => [step.at.slice(11, 23), duration(step.after_ms), what(step)]),
        [1],
      ),
    );
  }
  return parts;
}

const what = (step) => make("span", {}, step.what, make("span", { className: "detail soft" }, detail(step)));

function detail(step) {
  const details = {
    rule: step.rule,
    attempt: step.attempt,
    status: step.status,
    reason: step.reason,
    "provider's id": step.provider_id,
  };
  return Object.entries(details)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
}
