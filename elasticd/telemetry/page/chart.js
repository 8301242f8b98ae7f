// Two plots over the same time: replicas (actual and wanted) with the decisions on them, and a series of demand.

import { setAttribute, svg } from "./dom.js";
import { amount, clock, lasts } from "./format.js";

const [LEFT, RIGHT, TOP, REPLICAS, GAP, DEMAND, AXIS] = [44, 12, 14, 170, 26, 80, 22];
export const HEIGHT = TOP + REPLICAS + GAP + DEMAND + AXIS;
const STEPS = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

// A round number of at least this: 1, 2 or 5 times a power of ten.
function round(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= value - 1e-9);
}

function scale(low, high, from, to) {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}

// A line that stays as it is until the next point; where nothing is known it is broken.
function steps(points, x, y, valueOf, end) {
  let path = "", open = false;
  for (const point of points) {
    const value = valueOf(point);
    if (value == null) {
      if (open) path += `H${x(point.at).toFixed(1)}`;
      open = false;
    } else {
      path += open ? `H${x(point.at).toFixed(1)}V${y(value).toFixed(1)}` : `M${x(point.at).toFixed(1)} ${y(value).toFixed(1)}`;
      open = true;
    }
  }
  return open ? `${path}H${x(end).toFixed(1)}` : path;
}

function grid(left, right, y, top, name) {
  const step = Math.max(name === "replicas" ? 1 : 0, round((top || 1) / 4));
  const lines = [];
  for (let value = 0; value <= top + 1e-9; value += step) {
    lines.push(svg("line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }),
      svg("text", { class: "tick", x: left - 6, y: y(value) + 4, "text-anchor": "end" }, amount(name, value)));
  }
  return lines;
}

function timeAxis(begin, end, x, bottom) {
  const step = STEPS.find((one) => (end - begin) / one <= Math.max(3, (x(end) - x(begin)) / 90)) ?? 86400;
  const shift = new Date(begin * 1000).getTimezoneOffset() * 60;
  const ticks = [];
  for (let at = Math.ceil((begin - shift) / step) * step + shift; at <= end; at += step) {
    ticks.push(svg("line", { class: "grid", x1: x(at), x2: x(at), y1: TOP, y2: bottom }),
      svg("text", { class: "tick", x: x(at), y: bottom + 16, "text-anchor": "middle" }, clock(at, step >= 60)));
  }
  return ticks;
}

const TRIANGLES = { up: "M0 -6L6 5H-6Z", down: "M0 6L6 -5H-6Z" };

// Draws into an <svg>; gives x -> time, so that a pointer can be asked what it is above.
export function draw(root, width, { points, decisions, begin, end, series, selected }) {
  const right = width - RIGHT, base = TOP + REPLICAS, floor = base + GAP + DEMAND;
  const x = scale(begin, end, LEFT, right);
  const most = Math.max(1, ...points.map((point) => Math.max(point.current, point.wish ?? 0, point.replicas)));
  const y = scale(0, most * 1.08, base, TOP);
  const used = points.map((point) => point.demand?.[series]).filter((value) => value != null);
  const peak = Math.max(...used, 0) || 1;
  const d = scale(0, peak * 1.08, floor, base + GAP);
  const demandOf = (point) => point.demand?.[series];
  const actual = steps(points, x, y, (point) => point.current, end);
  const held = decisions.filter((one) => one.verdict === "hold").map((one) => svg("rect", {
    class: one.blind ? "lane blind" : "lane", x: x(Math.max(begin, one.at)), width: Math.max(2, x(one.until) - x(Math.max(begin, one.at))), y: 2, height: 6,
  }));
  const marks = decisions.filter((one) => one.verdict === "scale").map((one) => svg("path", {
    class: "mark", "data-at": one.at, d: TRIANGLES[one.replicas > one.current ? "up" : "down"],
    transform: `translate(${x(one.at).toFixed(1)} ${y(one.replicas).toFixed(1)})`,
  }));
  root.replaceChildren(
    svg("g", { "aria-hidden": "true" }, grid(LEFT, right, y, most, "replicas"), series ? grid(LEFT, right, d, peak, series) : [], timeAxis(begin, end, x, floor),
      held,
      svg("path", { class: "area", d: actual && `${actual}V${base}H${points.length ? x(points[0].at).toFixed(1) : LEFT}Z` }),
      svg("path", { class: "actual", d: actual }),
      svg("path", { class: "wanted", d: steps(points, x, y, (point) => point.wish, end) }),
      svg("path", { class: "demand", d: steps(points, x, d, demandOf, end) }),
      selected ? svg("line", { class: "selected", x1: x(selected), x2: x(selected), y1: 0, y2: floor }) : null,
      marks));
  setAttribute(root, "viewBox", `0 0 ${width} ${HEIGHT}`);
  setAttribute(root, "height", HEIGHT);
  return (place) => begin + ((place - LEFT) / (right - LEFT)) * (end - begin);
}

// What the chart shows, in a sentence, for those who do not see it.
export function described({ points, decisions, begin, end, series }) {
  if (!points.length) return "Nothing was decided in this time.";
  const counts = points.map((point) => point.current), last = points.at(-1);
  const scaled = decisions.filter((one) => one.verdict === "scale").length;
  const demand = last.demand?.[series] == null ? "" : ` ${series} is ${amount(series, last.demand[series])} now.`;
  return `Replicas over the last ${lasts(end - begin)}: between ${Math.min(...counts)} and ${Math.max(...counts)}, ${last.current} now, ` +
    `${last.wish ?? "an unknown number"} wanted. The count was changed ${scaled} times.${demand} The decisions are in the table below.`;
}
