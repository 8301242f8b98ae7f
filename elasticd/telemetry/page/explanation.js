// Why a decision was made: everything it was made of, in the order in which it was made, as `elasticd explain` prints it.

import { h, table } from "./dom.js";
import { amount, clock, counted, day, lasts, number, seconds, sentence } from "./format.js";

export function headline(decision) {
  const { verdict, current, replicas, wish } = decision;
  if (verdict === "scale") return `${current} → ${replicas} replicas`;
  const wanted = verdict === "hold" && wish != null && wish !== current ? ` (wanted ${wish})` : "";
  return `${verdict} ${counted(current, "replica")}${wanted}`;
}

const section = (title, note, ...parts) => h("section", {}, h("h4", {}, title), parts.length ? parts : h("p", { class: "dim" }, note));

function samples(decision) {
  const at = seconds(decision.at);
  const rows = decision.series.map((series) => {
    const values = series.samples ?? [];
    const total = values.reduce((sum, sample) => sum + sample.value, 0);
    return [series.name, series.source || "-", series.quality, String(values.length), values.length ? amount(series.name, total) : "-",
      series.measured ? lasts(Math.max(0, at - seconds(series.measured))) : "-", series.message ?? ""];
  });
  return rows.length ? [table("Samples", ["series", "source", "quality", "samples", "total", "age", ""], rows)] : [];
}

function wanted(decision) {
  const rows = [];
  for (const one of decision.recommendations) {
    const count = one.abstains ? "-" : one.replicas ?? "unknown";
    rows.push([one.strategy, String(count), sentence(one.reason, one.message)]);
    for (const measure of one.measures ?? []) {
      const aim = measure.target ? `, target ${measure.target}` : "";
      const why = sentence(measure.reason, measure.message);
      rows.push(["", measure.replicas == null ? "" : String(measure.replicas), `${measure.metric} ${measure.current || "-"}${aim}${why && `: ${why}`}`]);
    }
  }
  return rows.length ? [table("Wanted", ["strategy", "replicas", "why"], rows)] : [];
}

function limits(decision) {
  const range = ({ lowest, highest }) => `${lowest ?? "…"} to ${highest ?? "…"}`;
  const rows = decision.limits.map((limit) => [limit.name || limit.reason, range(limit), limit.bound ? "stopped here" : "", sentence(limit.name ? limit.reason : "", limit.message)]);
  return rows.length ? [table("Limits", ["limit", "allows", "", "why"], rows)] : [];
}

function done(decision, outcome) {
  if (!decision.action) return "nothing to do";
  if (decision.mode === "observe") return "nothing is done: mode is observe";
  if (!outcome) return "no outcome in the journal yet";
  const took = outcome.seconds ? `, took ${lasts(outcome.seconds)}` : "";
  return `${outcome.result}${took}${outcome.code ? `, status ${outcome.code}` : ""}${outcome.message ? `: ${outcome.message}` : ""}`;
}

export function explanation({ decision, outcome }) {
  const cut = decision.limits.some((limit) => limit.bound) && decision.wish != null && decision.wish !== decision.replicas;
  const failures = decision.failures.map((failure) => [failure.plugin, failure.hook, failure.message]);
  const conditions = decision.conditions.map((one) => [one.type, String(one.status), sentence(one.reason, one.message)]);
  return h("div", { class: "explanation" },
    h("p", { class: "headline" }, h("strong", {}, headline(decision)), " ", sentence(decision.reason, decision.message)),
    h("p", { class: "dim" }, `policy ${decision.policy} (${decision.mode}), ${day(decision.at)} ${clock(decision.at)}`),
    section(`Samples: ${counted(decision.pods, "pod")}`, "no series was read", ...samples(decision)),
    section(decision.wish == null ? "Wanted" : `Wanted: ${counted(decision.wish, "replica")}`, "no strategy was asked", ...wanted(decision)),
    section(cut ? `Limits: ${decision.wish} became ${decision.replicas}` : "Limits", "none", ...limits(decision)),
    conditions.length ? section("Conditions", "", table("Conditions", ["condition", "status", "why"], conditions)) : null,
    failures.length ? section("Plugin failures", "", table("Plugin failures", ["plugin", "hook", "what"], failures)) : null,
    h("p", {}, h("strong", {}, "Action "), done(decision, outcome)),
    h("p", {}, h("strong", {}, "Next "), `looks again after ${number(decision.interval)} s${decision.interval_by ? ` (${decision.interval_by})` : ""}`));
}
