// What `clarion status` says: the funnel, the queues, ingest, and alarms with what to do about them.
import { byId, clock, dateTime, duration, make, table } from "./dom.js";

export function renderStatus(status) {
  const verdict = byId("verdict");
  const unwell = status.troubles.length > 0;
  verdict.textContent = `${unwell ? status.troubles.join("; ") : "all is well"}, as of ${clock(status.at)} UTC`;
  verdict.classList.remove("soft");
  verdict.classList.toggle("unwell", unwell);
  verdict.classList.toggle("well", !unwell);
  const others = make("div", {}, ...measured(status), tasks(status));
  byId("status-parts").replaceChildren(...status.alarms.map(alarm), queues(status), others);
}

function alarm(found) {
  const className = found.premature ? "alarm premature" : "alarm";
  return make("div", { className }, make("h3", {}, `${found.name}, since ${dateTime(found.since)} UTC`), make("p", {}, found.todo));
}

// As on a phone the last columns are out of sight, those that say most come first.
function queues(status) {
  const seconds = (value) => (value === null ? null : duration(value * 1000));
  const rows = status.queues.map((queue) => [
    queue.muted ? `${queue.name} (muted)` : queue.name,
    queue.waiting,
    seconds(queue.oldest_seconds),
    queue.dead,
    queue.in_flight,
    queue.delayed,
    queue.held,
  ]);
  return table("Queues", ["queue", "waiting", "oldest", "dead", "in flight", "delayed", "held"], rows, [1, 2, 3, 4, 5, 6]);
}

function measured(status) {
  const { counts, gauges, nodes } = status.measures;
  const any = [counts, gauges, nodes].some((some) => Object.keys(some).length > 0);
  return any ? [funnel(status), ingest(status)] : [make("p", { className: "soft" }, "CloudWatch has no metrics of this time.")];
}

function funnel(status) {
  const { counts, latency } = status.measures;
  const rows = Object.entries(counts).map(([name, count]) => [name.replaceAll("_", " "), count.toLocaleString("en")]);
  rows.push(["median from observed to delivered", duration(latency.p50)], ["slowest of a hundred", duration(latency.p99)]);
  return table(`Metrics of the last ${status.minutes} minutes`, ["what", "count"], rows, [1]);
}

function ingest(status) {
  const { nodes, gauges } = status.measures;
  const rows = Object.entries(nodes).map(([network, count]) => [`${network}: nodes connected`, count]);
  rows.push(["lag", duration(gauges.ingest_lag)], ["rules behind", duration(gauges.rules_behind)]);
  return table("Ingest", ["what", "now"], rows, [1]);
}

function tasks(status) {
  const rows = status.tasks.map((task) => [task.name, duration(task.renewed_seconds * 1000)]);
  return table("Ingest's tasks", ["task", "renewed its lease"], rows, [1]);
}
