// What is wrong, the worst first: a line each, with what to look at next.

import { counted, lasts, seconds, sentence } from "./format.js";
import { h, setAttribute, setText, sync } from "./dom.js";

const LEVELS = { bad: ["✕", "wrong"], warn: ["!", "warning"], note: ["i", "note"] };
const ORDER = Object.keys(LEVELS);
const NAMED = 3;
const MOST = 15;

// Workloads in a few words: their names, or how many there are.
function named(rows) {
  const names = rows.slice(0, NAMED).map((row) => `${row.space}/${row.name}`);
  return rows.length > NAMED ? `${names.join(", ")} and ${rows.length - NAMED} more` : names.join(", ");
}

function grouped(rows, keyOf) {
  const groups = new Map();
  for (const row of rows) {
    for (const key of keyOf(row)) {
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(row);
    }
  }
  return [...groups].sort((a, b) => b[1].length - a[1].length);
}

function* ofDaemon({ daemon, link }, now) {
  if (link.state === "lost") yield { key: "link", level: "bad", what: "Connection lost", why: `${link.why}: what you see is old` };
  if (daemon.faults.length) {
    const more = daemon.faults.length > NAMED ? `; and ${daemon.faults.length - NAMED} more` : "";
    const what = `${counted(daemon.faults.length, "evicted pod")} not running again`;
    yield { key: "faults", level: "bad", what, why: daemon.faults.slice(0, NAMED).join("; ") + more, href: "#/moves" };
  }
  if (daemon.unready) yield { key: "unready", level: "bad", what: "Not ready", why: daemon.unready };
  for (const problem of daemon.problems) {
    if (!daemon.unready.includes(problem)) yield { key: `problem ${problem}`, level: "warn", what: "Cluster", why: problem };
  }
  if (!daemon.leading) {
    const why = daemon.leader ? `${daemon.leader} leads; this one is on standby` : "nobody is known to lead";
    yield { key: "lead", level: daemon.leader ? "note" : "bad", what: "Does not act", why };
  }
  if (daemon.kept) yield { key: "kept", level: "warn", what: "Policies not reloaded", why: daemon.kept };
  if (daemon.memory) yield { key: "memory", level: "warn", what: "Memory", why: daemon.memory };
  for (const source of daemon.sources) {
    if (source.health !== "ok" && !source.quiet) {
      const age = source.age == null ? "" : `; its newest sample is ${lasts(source.age)} old`;
      const level = source.age != null || source.failures ? "bad" : "warn"; // one that has never given anything is missed by nobody yet
      yield { key: `source ${source.name}`, level, what: `Source ${source.name}`, why: source.health + age, href: "#/sources" };
    }
  }
  for (const move of daemon.moves.filter((one) => one.fault && !daemon.faults.includes(one.fault))) {
    const what = `Move of ${move.pod.namespace}/${move.pod.name}`;
    yield { key: `move ${move.uid}`, level: "warn", what, why: `${move.step} for ${lasts(now - seconds(move.since))}: ${move.fault}`, href: "#/moves" };
  }
  if (daemon.dry_run) yield { key: "dry", level: "note", what: "Dry run", why: "decides and explains, writes nothing to the cluster" };
}

function* ofWorkloads(store) {
  const by = (grade) => [...store.rows.values()].filter((row) => row.grade === grade);
  for (const [why, rows] of grouped(by("blind"), (row) => [row.missing || row.reason])) {
    yield { key: `blind ${why}`, level: "bad", what: `${counted(rows.length, "workload")} without data`, why: `${why}: ${named(rows)}`, grade: "blind" };
  }
  const plugins = grouped(by("failing").filter((row) => row.failures?.length), (row) => row.failures.map((failure) => failure[0]));
  for (const [plugin, rows] of plugins) {
    const message = rows[0].failures.find((failure) => failure[0] === plugin)[1];
    yield { key: `plugin ${plugin}`, level: "bad", what: `Plugin ${plugin} fails`, why: `${message}: ${named(rows)}`, grade: "failing" };
  }
  for (const [refused, rows] of grouped(by("failing").filter((row) => row.refused), (row) => [row.refused.split(":").slice(0, 2).join(":")])) {
    yield { key: `refused ${refused}`, level: "bad", what: `${counted(rows.length, "change")} not made`, why: `${rows.length > 1 ? refused : rows[0].refused}: ${named(rows)}`, grade: "failing" };
  }
  const late = by("late");
  if (late.length) {
    yield { key: "late", level: "bad", what: `${counted(late.length, "workload")} overdue`, why: `nothing was decided for three times as long as it should take: ${named(late)}`, grade: "late" };
  }
  for (const [reason, rows] of grouped(by("held"), (row) => [row.reason])) {
    yield { key: `held ${reason}`, level: "warn", what: `${counted(rows.length, "workload")} held`, why: `${sentence(reason, rows[0].message)}: ${named(rows)}`, grade: "held" };
  }
  for (const [limit, rows] of grouped(by("limited"), (row) => [(row.limited || row.reason).split(":")[0]])) {
    const short = rows.filter((row) => row.wish > row.replicas).length;
    const what = `${counted(rows.length, "workload")} limited`;
    const [{ message, wish, replicas }] = rows;
    const why = rows.length > 1 ? `${limit}: ${named(rows)}` : `${named(rows)} wants ${wish} and gets ${replicas}: ${sentence(limit, message)}`;
    yield { key: `limited ${limit}`, level: short ? "warn" : "note", what, why, grade: "limited" };
  }
}

function* ofPods(waiting) {
  for (const [policy, counts] of Object.entries(waiting)) {
    const total = Object.values(counts).reduce((sum, n) => sum + n, 0);
    const why = Object.entries(counts).map(([reason, n]) => `${n} ${reason}`).join(", ");
    if (total) yield { key: `waiting ${policy}`, level: "warn", what: `${counted(total, "pod")} without a node`, why: `pool ${policy}: ${why}`, href: "#/nodes" };
  }
}

export function alarmsOf(store) {
  if (!store.daemon) return [];
  const alarms = [...ofDaemon(store, store.now()), ...ofWorkloads(store), ...ofPods(store.waiting)];
  alarms.sort((a, b) => ORDER.indexOf(a.level) - ORDER.indexOf(b.level));
  const more = alarms.length - MOST;
  return more > 0 ? [...alarms.slice(0, MOST), { key: "more", level: "note", what: `${more} more`, why: "the table below has all workloads" }] : alarms;
}

function create(alarm) {
  const [sign, word] = LEVELS[alarm.level];
  return h("li", { "data-level": alarm.level },
    h("span", { class: "sign", "aria-hidden": "true" }, sign), h("span", { class: "unseen" }, `${word}: `),
    h("strong"), h("span", { class: "why" }),
    alarm.grade ? h("button", { type: "button", class: "show", "data-grade": alarm.grade }, "Show")
      : alarm.href ? h("a", { href: alarm.href, class: "show" }, "Show") : null);
}

function update(element, alarm) {
  setText(element.querySelector("strong"), alarm.what);
  setText(element.querySelector(".why"), alarm.why);
  const show = element.querySelector(".show");
  if (show) setAttribute(show, "aria-label", `Show: ${alarm.what}`);
}

// Shows the alarms in a list; gives those that are new since it was last shown.
export function showAlarms(list, alarms) {
  const before = new Set([...list.children].map((child) => child.syncKey));
  sync(list, alarms, (alarm) => `${alarm.level} ${alarm.key}`, create, update);
  return alarms.filter((alarm) => alarm.level !== "note" && !before.has(`${alarm.level} ${alarm.key}`));
}
