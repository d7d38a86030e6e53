// The pace: of the last hour by CloudWatch's metrics, or, where it has none, of the last minutes by the page's items.
import uPlot from "../charts/uPlot.esm.js";
import { byId, minute } from "./dom.js";
import { arrivals, items } from "./items.js";

const BINS = 60;
const BIN_S = 5;
const HEIGHT = 150;
const charts = new Map();
let measured = false;

export function renderHistory({ minutes, series }) {
  measured = Object.values(series).some((values) => values.some((value) => value !== null));
  byId("period").textContent = measured ? "hour" : "five minutes";
  byId("seen").textContent = measured ? "envelopes received" : "items";
  byId("slowest").textContent = measured ? "slowest of a hundred" : "slowest";
  if (!measured) {
    return;
  }
  const scaled = (name, by) => series[name].map((value) => (value === null ? null : value / by));
  plot("rate", [minutes, scaled("received", 60), scaled("delivered", 60)]);
  plot("latency", [minutes, scaled("p50", 1000), scaled("p99", 1000)]);
}

export function renderCharts() {
  if (measured) {
    return;
  }
  const newest = Math.floor(Date.now() / 1000 / BIN_S) * BIN_S;
  const times = Array.from({ length: BINS }, (_, place) => newest - (BINS - 1 - place) * BIN_S);
  const [seen, delivered, took] = binned(times);
  plot("rate", [times, seen.map((count) => count / BIN_S), delivered.map((count) => count / BIN_S)]);
  plot("latency", [times, took.map(median), took.map((some) => (some.length ? Math.max(...some) : null))]);
}

function binned(times) {
  const seen = times.map(() => 0);
  const delivered = times.map(() => 0);
  const took = times.map(() => []);
  const binOf = (at) => Math.floor((at / 1000 - times[0]) / BIN_S);
  for (const item of items.values()) {
    if (binOf(item.began) in seen) {
      seen[binOf(item.began)] += 1;
    }
    for (const mark of arrivals(item)) {
      if (binOf(mark.at) in delivered) {
        delivered[binOf(mark.at)] += mark.count;
        took[binOf(mark.at)].push((mark.at - item.began) / 1000);
      }
    }
  }
  return [seen, delivered, took];
}

const median = (some) => (some.length ? [...some].sort((one, other) => one - other)[some.length >> 1] : null);

// What a screen reader says of a chart: what is newest in each of its series.
function describe(place, series) {
  const [first, second] = series.map((values) => values.findLast((value) => value !== null)?.toFixed(1) ?? "none");
  place.ariaLabel = place.id === "rate" ? `Chart: ${first} items, ${second} pushes delivered a second` : `Chart: median ${first} s, slowest ${second} s`;
}

function plot(id, data) {
  const place = byId(id);
  describe(place, data.slice(1));
  if (charts.has(id)) {
    resize(id);
    charts.get(id).setData(data);
  } else {
    charts.set(id, new uPlot(options(widthOf(place)), data, place));
  }
}

const widthOf = (place) => Math.max(place.clientWidth, 100);

const resize = (id) => charts.get(id).setSize({ width: widthOf(byId(id)), height: HEIGHT });

function options(width) {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
  const axis = { stroke: () => colour("--soft"), grid: { stroke: () => colour("--rule"), width: 1 }, font: "12px system-ui" };
  const series = (name, dash) => ({ stroke: () => colour(name), width: 2, dash, spanGaps: false, points: { size: 5 } });
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_, __, most) => [0, 1.1 * Math.max(most ?? 0, 1)] } },
    axes: [
      { ...axis, size: 28, space: 60, incrs: [60, 300, 900], values: (_, times) => times.map(minute) },
      { ...axis, size: 44, space: 24 },
    ],
    series: [{}, series("--accent"), series("--arrived", [6, 4])],
  };
}

addEventListener("resize", () => charts.forEach((_, id) => resize(id)));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.redraw()));
