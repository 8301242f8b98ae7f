// Moves in flight, step by step.

import { h, setAttribute, setText, sync } from "./dom.js";
import { lasts, seconds } from "./format.js";

// The steps of each way to move a pod; a step that is not among them is out of the ordinary and shown by itself.
const WAYS = {
  anew: ["recreated under its name", ["leaving", "gone", "waiting for a node", "starting"]],
  surge: ["another pod first", ["up", "wait", "down", "leaving"]],
  evicted: ["evicted, its controller makes another", ["leaving"]],
};
const WORDS = {
  leaving: "the pod ends", gone: "it is gone; a copy is created", "waiting for a node": "the copy waits for a node", starting: "the copy starts",
  up: "one replica more is requested", wait: "the other pod becomes ready", down: "one replica fewer is requested", out: "the pod is evicted", back: "taken back: the pod stays",
};

export class Moves {
  constructor(root, store) {
    this.store = store;
    this.calm = h("p", { class: "calm" });
    this.list = h("ul", { class: "moves" });
    root.append(h("h2", {}, "Moves in flight"), this.calm, this.list,
      h("p", { class: "dim" }, "Who moves next, and who is held back and why: ", h("a", { href: "#/nodes" }, "Nodes"), "."));
  }

  update() {
    const moves = this.store.daemon?.moves;
    if (!moves) return;
    this.title = moves.length ? `(${moves.length}) Moves` : "Moves";
    this.calm.hidden = moves.length > 0;
    setText(this.calm, "No pod is being moved now.");
    sync(this.list, moves, (move) => move.uid, create, (element, move) => update(element, move, this.store.now()));
  }
}

function create(move) {
  return h("li", { class: "move" }, h("h3", {}, h("bdi", {}, `${move.pod.namespace}/${move.pod.name}`)), h("p", { class: "sub" }), h("ol", { class: "steps" }), h("p", { class: "why" }));
}

function update(element, move, now) {
  const [way, usual] = WAYS[move.how];
  const from = move.node ? `from ${move.node}, ` : "";
  setText(element.querySelector(".sub"), `${from}${way}${move.why ? `: ${move.why}` : ""}`);
  const step = move.ends ? "leaving" : move.step;
  const found = usual.findIndex((one) => step.startsWith(one));
  const [steps, index] = found < 0 ? [[step], 0] : [usual, found];
  sync(element.querySelector("ol"), steps.map((text, place) => ({ text, place })), ({ text }) => text, () => h("li"), (item, { text, place }) => {
    const word = WORDS[text] ?? WORDS[text.split(":")[0]] ?? text;
    setText(item, place === index ? `${word}, for ${lasts(Math.max(0, now - seconds(move.since)))}` : word);
    setAttribute(item, "data-step", place < index ? "done" : place === index ? "now" : "later");
    if (place === index) setAttribute(item, "aria-current", "step");
    else item.removeAttribute("aria-current");
  });
  setAttribute(element, "data-fault", Boolean(move.fault));
  const said = move.ends || steps.includes(move.step) ? "" : move.step;
  setText(element.querySelector(".why"), [move.stays ? "the pod stays after all" : "", said, move.fault || move.waits].filter(Boolean).join("; "));
}
