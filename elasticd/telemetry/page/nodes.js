// The nodes of each pool as a map of load: the fuller, the more of a tile is filled; who gives and takes pods says its sign.

import { h, setAttribute, setText, sync, table } from "./dom.js";
import { amount, clock, counted, sentence } from "./format.js";
import { getJson } from "./stream.js";

const EVERY = 5000;
const MOST = 1000;
export const LEVELS = {
  gives: ["↗", "gives pods away"], high: ["▲", "overloaded, gives nothing yet"], takes: ["↘", "takes pods"], level: ["=", "level"], unknown: ["?", "load not known"],
};

const NONE = ["", ""]; // no strategy of the pool says how a node stands

const percent = (part) => `${Math.round(100 * part)}%`;

// The parts of a node's resources that are used, or where that is not known requested.
function parts(node) {
  const known = Object.entries(node.allocatable).filter(([name, most]) => most && name !== "pods");
  return known.flatMap(([name, most]) => {
    const value = node.used?.[name] ?? node.requested?.[name];
    return value == null ? [] : [[name, value / most, value, most, node.used?.[name] != null]];
  });
}

const loadOf = (node) => Math.max(0, ...parts(node).map(([, part]) => part));

export class Nodes {
  title = "Nodes";

  constructor(root, store) {
    [this.store, this.selected] = [store, null];
    this.pools = h("div");
    this.note = h("p", { class: "dim" }, "Reading the nodes …");
    this.panel = h("section", { class: "panel", "aria-live": "polite", tabindex: "-1", hidden: true });
    const key = Object.entries(LEVELS).map(([level, [sign, word]]) => h("span", { class: "key", "data-level": level }, h("b", { "aria-hidden": "true" }, sign), ` ${word}`));
    root.append(h("h2", {}, "Nodes"), h("p", { class: "legend" }, key), this.note, this.panel, this.pools);
    this.gone = new AbortController();
    this.timer = setInterval(() => this.load(), EVERY);
    this.load();
  }

  leave() {
    this.gone.abort();
    clearInterval(this.timer);
  }

  update() {}

  async load() {
    try {
      const pools = await getJson("nodes", this.gone.signal);
      setText(this.note, pools.length ? "" : "No policy has a [pool]: elasticd looks at no nodes.");
      this.note.hidden = pools.length > 0;
      sync(this.pools, pools, (pool) => pool.pool, createPool, (element, pool) => this.updatePool(element, pool));
    } catch (error) {
      if (!this.gone.signal.aborted) [this.note.hidden, this.note.textContent] = [false, error.message];
    }
  }

  updatePool(element, pool) {
    const levels = pool.nodes.map((node) => node.level?.state);
    const counts = Object.keys(LEVELS).filter((level) => levels.includes(level)).map((level) => `${levels.filter((one) => one === level).length} ${LEVELS[level][1]}`);
    setText(element.querySelector(".sum"), `${counted(pool.nodes.length, "node")}${counts.length ? `: ${counts.join(", ")}` : ""}. ${waitingText(this.store.waiting[pool.pool])}`);
    const { moving } = pool;
    setText(element.querySelector(".moving"), moving ? `Moves: ${moving.summary}${moving.due ? `; looks again at ${clock(moving.due)}` : ""}` : "No strategy of this pool moves pods.");
    sync(element.querySelector("ul"), pool.nodes.slice(0, MOST), (node) => node.node, (node) => this.createTile(node), updateTile);
    const next = moving?.moves.filter((move) => move.decision.pod.name) ?? [];
    const rows = next.map((move) => [`${move.decision.pod.namespace}/${move.decision.pod.name}`, `${move.decision.node} → ${move.decision.target || "?"}`, ...standing(move)]);
    element.querySelector(".next").replaceChildren(...(rows.length ? [h("h4", {}, "Who moves next, and who is held back"), table(`Next moves of ${pool.pool}`, ["pod", "from → to", "", "why"], rows)] : []));
  }

  createTile(node) {
    return h("li", {}, h("button", { type: "button", class: "tile", onclick: () => this.show(node.node) },
      h("span", { class: "fill", "aria-hidden": "true" }), h("b", { class: "sign", "aria-hidden": "true" }), h("span", { class: "node" }, node.node), h("span", { class: "load" })));
  }

  async show(name) {
    this.panel.hidden = false;
    const close = h("button", { type: "button", class: "close", onclick: () => { this.panel.hidden = true; } }, "Close");
    try {
      const views = await getJson(`nodes?node=${encodeURIComponent(name)}`, this.gone.signal);
      this.panel.replaceChildren(close, h("h3", {}, `Node ${name}`), ...views.map(nodeDetail));
    } catch (error) {
      if (!this.gone.signal.aborted) this.panel.replaceChildren(close, h("h3", {}, `Node ${name}`), h("p", { class: "error" }, error.message));
    }
    this.panel.focus();
    this.panel.scrollIntoView({ block: "nearest" });
  }
}

// Whether a pod goes or stays, and why.
function standing({ decision, outcome, underway }) {
  const why = sentence(decision.reason, decision.message);
  if (underway) return [underway.stays ? "stays: taken back" : `is going: ${underway.step}`, why];
  if (decision.refusal === "Leaving") return ["is leaving", why];
  if (decision.verdict === "refuse") return [`stays: ${decision.refusal}`, why];
  if (outcome && outcome.result !== "done") return [`stays: ${outcome.reason || outcome.result}`, sentence(decision.reason, outcome.message)];
  return ["goes", why];
}

const waitingText = (counts = {}) => {
  const total = Object.values(counts).reduce((sum, n) => sum + n, 0);
  return total ? `${counted(total, "pod")} without a node: ${Object.entries(counts).map(([reason, n]) => `${n} ${reason}`).join(", ")}.` : "No pod waits.";
};

function createPool(pool) {
  return h("section", { "aria-label": `Pool ${pool.pool}` }, h("h3", {}, `Pool ${pool.pool}${pool.mode === "observe" ? " (observes)" : ""}`),
    h("p", { class: "sum" }), h("p", { class: "moving dim" }), h("ul", { class: "map" }), h("div", { class: "next" }));
}

function updateTile(element, node) {
  const level = node.level?.state ?? "", load = loadOf(node), tile = element.firstChild;
  const [sign, stands] = LEVELS[level] ?? NONE;
  const ready = node.state.startsWith("ready") ? "" : `, ${node.state}`;
  const amounts = parts(node).map(([name, part]) => `${name} ${percent(part)}`).join(", ") || "load not known";
  setAttribute(tile, "data-level", level);
  setAttribute(tile, "data-full", load > 0.9 ? "high" : load > 0.7 ? "mid" : "low");
  tile.querySelector(".fill").style.height = percent(Math.min(1, load));
  setText(tile.querySelector(".sign"), sign);
  setText(tile.querySelector(".load"), `${amounts}${ready}`);
  setAttribute(tile, "aria-label", `${node.node}: ${amounts}, ${counted(node.pods, "pod")}${stands && `, ${stands}`}${ready}`);
}

function nodeDetail(view) {
  const { node } = view;
  const rows = parts(node).map(([name, part, value, most, used]) => [name, `${amount(name, value)} of ${amount(name, most)}`, percent(part), used ? "used" : "requested"]);
  const pods = [["would go first", view.never], ["", view.on_failure], ["", view.always], ["stays", view.rooted], ["leaves", view.leaving]].flatMap(([, list]) => list ?? []);
  const podRows = pods.map((pod) => [`${pod.namespace}/${pod.name}`, pod.restart, String(pod.priority),
    Object.entries({ ...pod.requested, ...pod.used }).map(([name, value]) => `${name} ${amount(name, value)}`).join(", "),
    pod.turn ? `${pod.turn}. in the eviction order` : sentence(pod.stays || pod.spared, pod.why || pod.spared_why)]);
  const level = node.level ? `${LEVELS[node.level.state][1]}${node.level.message ? `: ${node.level.message}` : ""}. ` : "";
  return h("div", {}, h("p", {}, `Pool ${node.pool}, ${node.state}, ${node.pods} of ${node.most_pods} pods. ${level}${view.rule ? `Its pods give way ${view.rule}.` : ""}`),
    table("Load", ["resource", "amount", "part", ""], rows), h("h4", {}, counted(pods.length, "pod")),
    podRows.length ? table("Pods", ["pod", "restart", "priority", "amounts", "standing"], podRows) : h("p", { class: "dim" }, "none"));
}
