// One workload: its chart, every decision on it, and why each was made.

import { described, draw, HEIGHT } from "./chart.js";
import { h, setAttribute, setText, svg, sync } from "./dom.js";
import { explanation, headline } from "./explanation.js";
import { amount, clock, counted, day, lasts, lastTime, seconds, sentence, zone } from "./format.js";
import { GRADES } from "./store.js";
import { follow, getJson } from "./stream.js";

const RANGES = { "15 min": 900, "1 h": 3600, "6 h": 21600, "24 h": 86400 };
const USUAL = 3600;
const ROWS = 100;

const EDGES = {
  journal: "The journal has nothing older.",
  patience: "To read further back takes too long here: elasticd history shows all of the journal.",
};

export class WorkloadView {
  constructor(root, store, announce, parts, query) {
    [this.store, this.name, this.policy] = [store, parts.join("/"), query.get("policy") ?? ""];
    [this.range, this.points, this.decisions, this.series] = [Number(query.get("range")) || USUAL, [], [], ""];
    this.title = parts.at(-1);
    this.gone = new AbortController();
    this.build(root, parts);
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.figure);
    this.load(query.get("at"));
  }

  build(root, [space, kind, name]) {
    this.badge = h("span", { class: "badge" });
    this.tiles = ["actual", "wanted", "allowed"].map((key) => h("div", {}, h("dt", {}, key), h("dd", {})));
    this.why = h("p", { class: "now" });
    this.ranges = h("div", { class: "chips", role: "group", "aria-label": "Time shown" }, Object.entries(RANGES).map(([text, range]) =>
      h("button", { type: "button", class: "chip", "data-range": range, onclick: () => this.choose(range) }, text)));
    this.pick = h("select", { id: "series", onchange: () => { this.series = this.pick.value; this.draw(); } });
    this.svg = svg("svg", { role: "img", "aria-labelledby": "described", height: HEIGHT });
    this.legend = h("p", { class: "legend" },
      h("span", { class: "key actual" }, "actual"), h("span", { class: "key wanted" }, "wanted"), h("span", { class: "key demand" }, h("label", { for: "series" }, "demand"), this.pick),
      h("span", { class: "key mark" }, "count changed"), h("span", { class: "key lane" }, "held"));
    this.reading = h("p", { class: "reading", "aria-hidden": "true" });
    this.figure = h("figure", { tabindex: "0", "aria-label": "Chart; the arrow keys go through the decisions", onkeydown: (event) => this.walk(event) },
      this.svg, this.reading, h("figcaption", { id: "described", class: "unseen" }));
    this.time = h("input", { id: "ask", placeholder: "03:12", size: 8, autocomplete: "off", "aria-describedby": "zone" });
    this.asked = h("p", { class: "error", role: "alert" });
    this.panel = h("section", { class: "panel", "aria-live": "polite", tabindex: "-1", hidden: true });
    this.rows = h("tbody");
    this.note = h("p", { class: "dim" });
    root.append(
      h("p", {}, h("a", { href: "#/" }, "← All workloads")),
      h("h2", { class: "subject" }, h("bdi", {}, name), h("span", { class: "sub" }, `${space} · ${kind}${this.policy ? ` · policy ${this.policy}` : ""}`)),
      h("div", { class: "facts" }, this.badge, h("dl", { class: "tiles" }, this.tiles)), this.why,
      h("div", { class: "tools" }, this.ranges, this.form()), this.asked,
      this.legend, this.figure, this.panel,
      h("section", { "aria-labelledby": "decisions" }, h("h3", { id: "decisions" }, "Decisions"),
        h("table", { class: "plain decisions" }, h("caption", { class: "unseen" }, "Decisions, the newest first"),
          h("thead", {}, h("tr", {}, ["When", "What", "Why", "Outcome"].map((head) => h("th", { scope: "col" }, head)))), this.rows), this.note));
    this.svg.addEventListener("pointermove", (event) => this.read(event));
    this.svg.addEventListener("pointerleave", () => setText(this.reading, ""));
    this.svg.addEventListener("click", (event) => this.click(event));
  }

  form() {
    const explain = (event) => {
      event.preventDefault();
      const at = lastTime(this.time.value, this.store.now());
      setText(this.asked, at ? "" : "The time must be as 03:12 or 03:12:30.");
      if (at) this.explain(at);
    };
    return h("form", { class: "ask", onsubmit: explain }, h("label", { for: "ask" }, "Why at"), this.time,
      h("span", { id: "zone", class: "dim" }, zone()), h("button", {}, "Explain"));
  }

  async load(at) {
    const { signal } = this.gone;
    const query = `workload=${encodeURIComponent(this.name)}&policy=${encodeURIComponent(this.policy)}`;
    setText(this.note, "Reading the journal …");
    try {
      const past = await getJson(`history?${query}&seconds=${this.range}`, signal);
      this.points = past.points.map((point) => ({ ...point, at: seconds(point.at) }));
      this.decisions = past.decisions.map(rowOf);
      this.since = seconds(past.since);
      setText(this.note, EDGES[past.ends] ?? "");
    } catch (error) {
      if (signal.aborted) return;
      setText(this.note, error.message);
    }
    this.show();
    if (at) this.explain(Number(at));
    if (!this.following) {
      this.following = true;
      follow(`events?workload=${encodeURIComponent(this.name)}`, (event, data) => event === "points" && this.take(data), () => {}, signal);
    }
  }

  take(fresh) {
    for (const made of fresh.filter((one) => !this.policy || one.policy === this.policy)) {
      if (made.point.at <= (this.points.at(-1)?.at ?? 0)) continue;
      this.points.push(made.point);
      const decision = { ...made, at: made.point.at, until: made.point.at, count: 1, ...made.point };
      const last = this.decisions.at(-1);
      if (last && last.verdict !== "scale" && same(last, decision)) Object.assign(last, { until: decision.at, count: last.count + 1 });
      else this.decisions.push(decision);
    }
    const begin = this.store.now() - this.range;
    this.points = this.points.filter((point, index) => point.at >= begin || this.points[index + 1]?.at >= begin);
    this.decisions = this.decisions.filter((one) => one.until >= begin);
    this.show();
  }

  choose(range) {
    this.range = range;
    this.load();
  }

  ask(query) {
    if (query.get("at")) this.explain(Number(query.get("at")));
  }

  leave() {
    this.gone.abort();
    this.observer.disconnect();
  }

  update() {
    const row = this.store.of(this.name, this.policy);
    if (!row) {
      if (this.store.daemon) setText(this.why, "No policy governs this workload now: what follows is its past.");
      return;
    }
    const grade = GRADES[row.grade];
    setText(this.badge, `${grade.sign} ${grade.word}`);
    setAttribute(this.badge.parentElement, "data-grade", row.grade);
    [row.current, row.wish ?? "unknown", row.replicas].forEach((count, index) => setText(this.tiles[index].lastChild, count));
    const parts = [sentence(row.reason, row.message), row.limited && `limited by ${row.limited}`, row.missing && `not trusted: ${row.missing}`, row.refused,
      ...(row.failures ?? []).map((failure) => failure.join(": "))];
    const pace = `Looks every ${lasts(row.interval)}${row.interval_by ? ` (${row.interval_by})` : ""}; data ${row.age == null ? "of unknown age" : `${lasts(row.age)} old`}.`;
    setText(this.why, `${parts.filter(Boolean).join("; ")}. ${row.mode === "observe" ? "Observes only. " : ""}${pace}`);
    if (Date.now() - (this.drawn ?? 0) > 900) this.draw();
  }

  show() {
    const names = [...new Set(this.points.flatMap((point) => Object.keys(point.demand ?? {})))].sort();
    if (!names.includes(this.series)) this.series = names[0] ?? "";
    sync(this.pick, names, (name) => name, (name) => h("option", { value: name }, name));
    this.pick.value = this.series;
    this.legend.querySelector(".demand").hidden = !names.length;
    for (const chip of this.ranges.children) setAttribute(chip, "aria-pressed", Number(chip.dataset.range) === this.range);
    sync(this.rows, this.decisions.slice(-ROWS).reverse(), (one) => one.at, (one) => this.createRow(one), (element, one) => this.updateRow(element, one));
    this.draw();
  }

  createRow(one) {
    return h("tr", { "data-verdict": one.verdict }, h("td", {}, h("button", { type: "button", onclick: () => this.explain(one.at + 0.002, one) }, clock(one.at)), h("span", { class: "sub" })),
      h("td", {}, headline(one)), h("td", { class: "reason" }, h("span", { class: "first" }, sentence(one.reason, one.message))), h("td", {}));
  }

  updateRow(element, one) {
    const span = one.until > one.at ? `for ${lasts(one.until - one.at)}` : "";
    setText(element.querySelector(".sub"), [day(one.at) === day(this.store.now()) ? "" : day(one.at), span, one.count > 1 ? `${one.count} times` : ""].filter(Boolean).join(", "));
    setText(element.lastChild, one.result ?? (one.verdict === "scale" ? "…" : ""));
    setAttribute(element.querySelector("button"), "aria-pressed", this.chosen === one.at);
  }

  draw() {
    const width = Math.round(this.figure.clientWidth);
    if (!width) return;
    this.drawn = Date.now();
    const end = this.store.now(), begin = end - this.range;
    const shown = { points: this.points, decisions: this.decisions, begin: Math.max(begin, Math.min(this.since || begin, end - 60)), end, series: this.series, selected: this.selected };
    this.timeAt = draw(this.svg, width, shown);
    setText(this.figure.querySelector("figcaption"), described(shown));
  }

  pointed(event) {
    return this.timeAt?.(event.clientX - this.svg.getBoundingClientRect().left);
  }

  read(event) {
    const at = this.pointed(event);
    const point = at && this.points.findLast((one) => one.at <= at);
    if (!point) return setText(this.reading, "");
    const demand = point.demand?.[this.series];
    setText(this.reading, `${clock(at)}  actual ${point.current}, wanted ${point.wish ?? "unknown"}${demand == null ? "" : `, ${this.series} ${amount(this.series, demand)}`}`);
  }

  click(event) {
    const mark = event.target.closest?.(".mark");
    const at = mark ? Number(mark.dataset.at) + 0.002 : this.pointed(event);
    if (at) this.explain(at);
  }

  walk(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Enter" && this.selected) this.panel.focus();
    if (!step || !this.decisions.length) return;
    event.preventDefault();
    const last = this.decisions.length - 1;
    const present = this.selected ? this.decisions.findLastIndex((one) => one.at <= this.selected) : last + 1;
    const one = this.decisions[Math.max(0, Math.min(last, present + step))];
    this.explain(one.at + 0.002, one);
  }

  async explain(at, one = this.decisions.findLast((other) => other.at <= at)) {
    [this.selected, this.chosen] = [at, one?.at];
    this.show();
    this.panel.hidden = false;
    const query = `workload=${encodeURIComponent(this.name)}&policy=${encodeURIComponent(this.policy)}&at=${at}`;
    const close = h("button", { type: "button", class: "close", onclick: () => this.close() }, "Close");
    const title = h("h3", {}, `Why it was so at ${clock(at)}`);
    try {
      const found = await getJson(`explain?${query}`, this.gone.signal);
      if (this.selected === at) this.panel.replaceChildren(close, title, explanation(found));
    } catch (error) {
      if (!this.gone.signal.aborted) this.panel.replaceChildren(close, title, h("p", { class: "error" }, error.message));
    }
    if (this.panel.getBoundingClientRect().top > innerHeight - 80) this.panel.scrollIntoView({ block: "nearest" });
  }

  close() {
    [this.selected, this.chosen, this.panel.hidden] = [null, null, true];
    this.show();
    this.figure.focus();
  }
}

const rowOf = (row) => ({ ...row, at: seconds(row.at), until: seconds(row.until), count: row.decisions });

const same = (a, b) => a.policy === b.policy && a.verdict === b.verdict && a.reason === b.reason && a.current === b.current && a.replicas === b.replicas;
