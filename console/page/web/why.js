// Every step of one item, as `clarion why` has it.
import { byId, duration, make, table } from "./dom.js";

export async function showWhy(item) {
  byId("why-title").textContent = item.envelope_id ? `Envelope 0x${item.envelope_id}` : `Receipt ${item.key}`;
  const parts = byId("why-parts");
  parts.replaceChildren(make("p", { className: "soft" }, "It is being read."));
  byId("why").showModal();
  const answer = await fetch(`why/${item.key}`);
  parts.replaceChildren(...(answer.ok ? report(await answer.json()) : [make("p", {}, "It is no longer kept.")]));
}

function report(why) {
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
        ["time (UTC)", "after", "what", "detail"],
        steps.map((step) => [step.at.slice(11, 23), duration(step.after_ms), step.what, detail(step)]),
        [1],
      ),
    );
  }
  return parts;
}

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
