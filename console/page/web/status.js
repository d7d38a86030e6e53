// What `clarion status` says: the funnel, the queues, ingest, and alarms with what to do about them.
import { byId, clock, dateTime, duration, make, table } from "./dom.js";

export function renderStatus(status) {
  const verdict = byId("verdict");
  const unwell = status.troubles.length > 0;
  verdict.textContent = `${unwell ? status.troubles.join("; ") : "all is well"}, as of ${clock(status.at)} UTC`;
  verdict.classList.remove("soft");
  verdict.classList.toggle("unwell", unwell);
  verdict.classList.toggle("well", !unwell);
  const parts = [queues(status), funnel(status), tasks(status), ingest(status)];
  byId("status-parts").replaceChildren(...status.alarms.map(alarm), ...parts);
}

function alarm(found) {
  const className = found.premature ? "alarm premature" : "alarm";
  return make("div", { className }, make("h3", {}, `${found.name}, since ${dateTime(found.since)} UTC`), make("p", {}, found.todo));
}

function queues(status) {
  const seconds = (value) => (value === null ? null : duration(value * 1000));
  const rows = status.queues.map((queue) => [
    queue.muted ? `${queue.name} (muted)` : queue.name,
    queue.waiting,
    queue.in_flight,
    queue.delayed,
    queue.held,
    seconds(queue.oldest_seconds),
    queue.dead,
  ]);
  return table("Queues", ["queue", "waiting", "in flight", "delayed", "held", "oldest", "dead"], rows, [1, 2, 3, 4, 5, 6]);
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
