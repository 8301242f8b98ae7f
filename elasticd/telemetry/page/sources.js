// Where samples come from, which plugins there are, and how they are.

import { h, setAttribute, setText, sync, table } from "./dom.js";
import { counted, lasts } from "./format.js";
import { getJson } from "./stream.js";

export class Sources {
  title = "Sources";

  constructor(root, store) {
    this.store = store;
    this.rows = h("tbody");
    this.plugins = h("div", { class: "plugins" }, h("p", { class: "dim" }, "Reading the plugins …"));
    this.failing = h("ul", { class: "alarms" });
    this.policies = h("p");
    const heads = ["Source", "Health", "Newest sample", "Renewed", "Reads", "Takes", "Samples", "Series"];
    root.append(h("h2", {}, "Sources"),
      h("table", { class: "plain sources" }, h("caption", { class: "unseen" }, "Sources, in the order in which they are asked"), h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), this.rows),
      h("h2", {}, "Policies"), this.policies, h("h2", {}, "Plugins"), this.failing, this.plugins);
    this.gone = new AbortController();
    this.load();
  }

  leave() {
    this.gone.abort();
  }

  async load() {
    try {
      const plugins = await getJson("plugins", this.gone.signal);
      const rows = plugins.map((plugin) => [plugin.name, plugin.kind, plugin.distribution, plugin.summary]);
      this.plugins.replaceChildren(table("Installed plugins", ["Name", "Kind", "From", "What it does"], rows));
    } catch (error) {
      if (!this.gone.signal.aborted) this.plugins.replaceChildren(h("p", { class: "error" }, error.message));
    }
  }

  update() {
    const { daemon, rows } = this.store;
    if (!daemon) return;
    sync(this.rows, daemon.sources, (source) => source.name, () => h("tr", {}, Array.from({ length: 8 }, () => h("td"))), updateSource);
    const observing = daemon.policies.filter((policy) => policy.mode === "observe").length;
    const pools = daemon.policies.filter((policy) => policy.pool).map((policy) => policy.policy);
    setText(this.policies, `${counted(daemon.policies.length, "policy")} in force${observing ? `, of which ${observing} only observe` : ""}${pools.length ? `; of pools: ${pools.join(", ")}` : ""}.`);
    const failures = new Map();
    for (const row of rows.values()) for (const [plugin, message] of row.failures ?? []) failures.set(plugin, [message, (failures.get(plugin)?.[1] ?? 0) + 1]);
    sync(this.failing, [...failures], ([plugin]) => plugin, () => h("li", { "data-level": "bad" }), (element, [plugin, [message, count]]) => setText(element, `✕ ${plugin} fails for ${counted(count, "workload")}: ${message}`));
  }
}

function updateSource(element, source) {
  const ok = source.health === "ok";
  const health = source.quiet ? `– ${source.quiet}` : `${ok ? "✓" : "✕"} ${source.health}`;
  setAttribute(element, "data-grade", ok || source.quiet ? "steady" : "blind");
  const texts = [source.type === source.name ? source.name : `${source.name} (${source.type})`, health,
    source.age == null ? "-" : `${lasts(source.age)} old`, source.resolution == null ? "-" : `every ${lasts(source.resolution)}`,
    `${source.reads}${source.failures ? `, ${source.failures} failed` : ""}`, source.reads ? `${Math.round(source.seconds * 1000)} ms` : "-", String(source.samples),
    source.series.length > 8 ? `${source.series.slice(0, 8).join(", ")} and ${source.series.length - 8} more` : source.series.join(", ") || "-"];
  texts.forEach((text, index) => setText(element.children[index], text));
}
