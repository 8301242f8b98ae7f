// The first view: what is wrong, and all workloads in a table of which only the rows in sight are made.

import { alarmsOf, showAlarms } from "./alarms.js";
import { h, setAttribute, setText, sync } from "./dom.js";
import { counted, lasts, sentence } from "./format.js";
import { GRADES } from "./store.js";

const ROW = 52; // pixels, as page.css has it
const SPARE = 8;
const PATIENCE = 3000; // between two orders of the rows, so that none jumps away below a pointer

const ORDERS = {
  state: (a, b) => GRADES[a.grade].rank - GRADES[b.grade].rank,
  workload: () => 0,
  replicas: (a, b) => b.current - a.current,
  age: (a, b) => (b.age ?? -1) - (a.age ?? -1),
};
const byName = (a, b) => (a.text < b.text ? -1 : a.text > b.text ? 1 : a.id - b.id);

// What outlives the view, so that a reader who comes back finds it as it was.
const kept = { filter: "", grades: new Set(), order: "state", scroll: 0 };

export const hrefOf = (row) => `#/workload/${row.workload.split("/").map(encodeURIComponent).join("/")}?policy=${encodeURIComponent(row.policy)}`;

export class Overview {
  title = "Overview";

  constructor(root, store, announce) {
    [this.store, this.announce, this.version, this.ordered, this.order] = [store, announce, -1, 0, []];
    this.alarms = h("ul", { class: "alarms" });
    this.calm = h("p", { class: "calm" });
    this.filter = h("input", { type: "search", id: "filter", placeholder: "name, policy or reason", autocomplete: "off", spellcheck: "false" });
    this.filter.value = kept.filter;
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Show only" });
    this.shown = h("p", { class: "dim", id: "shown" });
    this.body = h("tbody");
    this.table = h("table", { class: "workloads", "aria-describedby": "shown" },
      h("caption", { class: "unseen" }, "Workloads under a policy"), this.head(), this.body);
    root.append(
      h("section", { "aria-labelledby": "wrong" }, h("h2", { id: "wrong" }, "What is wrong"), this.calm, this.alarms),
      h("section", { "aria-labelledby": "all" }, h("h2", { id: "all" }, "Workloads"),
        h("div", { class: "tools" }, h("label", { for: "filter" }, "Filter"), this.filter, this.chips), this.shown, this.table));
    this.listen();
  }

  head() {
    const sortable = (key, text, name) => h("th", { scope: "col", class: name, "data-order": key },
      h("button", { type: "button", onclick: () => this.sort(key) }, text));
    const fixed = (text, name) => h("th", { scope: "col", class: name }, text);
    return h("thead", {}, h("tr", {}, sortable("state", "State", "state"), sortable("workload", "Workload", "name"),
      sortable("replicas", "Replicas", "count"), fixed("Why", "reason"), fixed("Looks", "pace"), sortable("age", "Data", "age")));
  }

  listen() {
    this.filter.addEventListener("input", () => this.choose(() => { kept.filter = this.filter.value; }));
    this.alarms.addEventListener("click", (event) => {
      const grade = event.target.dataset?.grade;
      if (!grade) return;
      this.choose(() => { kept.grades = new Set([grade]); });
      this.table.scrollIntoView();
      this.body.querySelector("a")?.focus({ preventScroll: true });
    });
    this.table.addEventListener("keydown", (event) => this.walk(event));
    this.scrolled = () => this.rows();
    addEventListener("scroll", this.scrolled, { passive: true });
    addEventListener("resize", this.scrolled, { passive: true });
  }

  leave() {
    kept.scroll = scrollY;
    removeEventListener("scroll", this.scrolled);
    removeEventListener("resize", this.scrolled);
  }

  arrive() {
    scrollTo(0, kept.scroll);
  }

  choose(change) {
    change();
    this.version = -1;
    this.update(true);
  }

  sort(key) {
    this.choose(() => { kept.order = key; });
  }

  update(now = false) {
    const { store } = this;
    if (!store.daemon) return;
    const alarms = alarmsOf(store);
    const fresh = showAlarms(this.alarms, alarms);
    if (this.known && fresh.length) this.announce(fresh.map((alarm) => `${alarm.what}: ${alarm.why}`).join(". "));
    this.known = true;
    const wrong = alarms.filter((alarm) => alarm.level !== "note").length;
    this.calm.hidden = wrong > 0;
    setText(this.calm, `Nothing. ${counted(store.rows.size, "workload")} under ${counted(store.daemon.policies.length, "policy")}, all with fresh data.`);
    this.showChips();
    this.title = wrong ? `(${wrong}) Overview` : "Overview";
    const disturbs = this.table.matches(":hover, :focus-within");
    if (this.version !== store.version && (now || !this.order.length || (!disturbs && Date.now() - this.ordered > PATIENCE))) this.reorder();
    this.rows();
  }

  reorder() {
    const { store } = this;
    const words = kept.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (row) => (!kept.grades.size || kept.grades.has(row.grade)) && words.every((word) => row.text.includes(word));
    const compare = ORDERS[kept.order];
    const rows = [...store.rows.values()].filter(matches).sort((a, b) => compare(a, b) || byName(a, b));
    this.order = rows.map((row) => row.id);
    [this.version, this.ordered] = [store.version, Date.now()];
    const every = store.rows.size;
    setText(this.shown, rows.length === every ? counted(every, "workload") : `${rows.length} of ${counted(every, "workload")}`);
    setAttribute(this.table, "aria-rowcount", rows.length + 1);
    for (const th of this.table.querySelectorAll("[data-order]")) {
      setAttribute(th, "aria-sort", th.dataset.order === kept.order ? (kept.order === "replicas" || kept.order === "age" ? "descending" : "ascending") : "none");
    }
  }

  showChips() {
    const counts = Object.entries(this.store.counts()).filter(([grade, n]) => n || kept.grades.has(grade));
    sync(this.chips, counts, ([grade]) => grade, ([grade]) => h("button", {
      type: "button", class: `chip ${grade}`, title: GRADES[grade].says,
      onclick: () => this.choose(() => { kept.grades.delete(grade) || kept.grades.add(grade); }),
    }), (chip, [grade, n]) => {
      setText(chip, `${GRADES[grade].sign} ${n} ${GRADES[grade].word}`);
      setAttribute(chip, "aria-pressed", kept.grades.has(grade));
    });
  }

  // Makes the rows in sight; what is above and below them is empty space of their height.
  rows() {
    const top = this.body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / ROW) - SPARE);
    const last = Math.min(this.order.length, Math.ceil((innerHeight - top) / ROW) + SPARE);
    const items = [];
    for (let index = first; index < last; index += 1) {
      const row = this.store.rows.get(this.order[index]);
      if (row) items.push({ key: row.id, row, index });
    }
    const space = (key, count) => ({ key, height: Math.max(0, count) * ROW });
    const focused = this.body.contains(document.activeElement);
    sync(this.body, [space("above", first), ...items, space("below", this.order.length - last)], (item) => item.key, createRow, updateRow);
    if (focused && !this.body.contains(document.activeElement)) this.body.querySelector("a")?.focus({ preventScroll: true });
  }

  walk(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    const row = event.target.closest("tbody tr");
    if (!step || !row) return;
    event.preventDefault();
    const index = Math.min(this.order.length - 1, Math.max(0, Number(row.getAttribute("aria-rowindex")) - 2 + step));
    const top = this.body.getBoundingClientRect().top + index * ROW;
    if (top < 2 * ROW) scrollBy(0, top - 2 * ROW);
    else if (top + 2 * ROW > innerHeight) scrollBy(0, top + 2 * ROW - innerHeight);
    this.rows();
    this.body.querySelector(`tr[aria-rowindex="${index + 2}"] a`)?.focus({ preventScroll: true });
  }
}

function createRow(item) {
  if (!item.row) return h("tr", { class: "space", "aria-hidden": "true" }, h("td", { colspan: 6 }));
  const cell = (name, ...parts) => h("td", { class: name }, parts);
  return h("tr", {}, cell("state", h("span", { class: "badge" })),
    cell("name", h("a", { href: hrefOf(item.row) }), h("span", { class: "sub" }), h("span", { class: "small" })),
    cell("count", h("span", { class: "counts" }), h("span", { class: "sub" })),
    cell("reason", h("span", { class: "first" }), h("span", { class: "sub" })),
    cell("pace", h("span"), h("span", { class: "sub" })), cell("age"));
}

function updateRow(element, { row, index, height }) {
  if (!row) {
    element.firstChild.style.height = `${height}px`;
    element.hidden = !height;
    return;
  }
  const part = (selector, text) => setText(element.querySelector(selector), text);
  const grade = GRADES[row.grade];
  setAttribute(element, "aria-rowindex", index + 2);
  setAttribute(element, "data-grade", row.grade);
  part(".badge", `${grade.sign} ${grade.word}`);
  part(".name a", row.name);
  part(".name .sub", `${row.space} · ${row.kind} · ${row.policy}${row.mode === "observe" ? " (observes)" : ""}`);
  const why = sentence(row.reason, row.message);
  part(".name .small", why);
  part(".counts", row.replicas === row.current ? row.current : `${row.current} → ${row.replicas}`);
  part(".count .sub", row.wish != null && row.wish !== row.replicas ? `wants ${row.wish}` : "");
  part(".reason .first", why);
  setAttribute(element.querySelector(".reason"), "title", why);
  part(".reason .sub", row.refused || row.failures?.map((failure) => failure.join(": ")).join("; ") || row.missing || (row.message && row.limited?.includes(row.message) ? "" : row.limited) || "");
  part(".pace span", row.interval ? `every ${lasts(row.interval)}` : "");
  part(".pace .sub", row.interval_by ? `by ${row.interval_by}` : "");
  part(".age", row.age == null ? "-" : `${lasts(row.age)} old`);
}
