// The page: which view is shown, what the head says, and the keys.

import { setAttribute, setText } from "./dom.js";
import { Moves } from "./moves.js";
import { Nodes } from "./nodes.js";
import { Overview } from "./overview.js";
import { Sources } from "./sources.js";
import { Store } from "./store.js";
import { follow } from "./stream.js";
import { WorkloadView } from "./workload.js";

const VIEWS = { "": Overview, nodes: Nodes, moves: Moves, sources: Sources, workload: WorkloadView };
const main = document.getElementById("main");
const store = new Store();
let view = null;
let shownPath = null;

const announce = (text) => setText(document.getElementById("announced"), text);

function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").map(decodeURIComponent);
  const query_ = new URLSearchParams(query);
  if (path === shownPath && view?.ask) return view.ask(query_);
  view?.leave?.();
  main.replaceChildren();
  const Kind = VIEWS[parts[0]] ?? Overview;
  view = new Kind(main, store, announce, parts.slice(1), query_);
  for (const link of document.querySelectorAll("nav a")) {
    setAttribute(link, "aria-current", link.getAttribute("href") === `#/${parts[0]}` ? "page" : "false");
  }
  if (shownPath !== null) main.focus({ preventScroll: true });
  shownPath = path;
  scrollTo(0, 0);
  view.update(true);
  view.arrive?.();
  head();
}

function head() {
  const { daemon, link } = store;
  const words = { live: "live", lost: "connection lost", waits: "connecting" };
  const mark = document.getElementById("link");
  setText(mark, words[link.state]);
  setAttribute(mark, "data-state", link.state);
  setAttribute(mark, "title", link.why ?? "");
  document.title = `${view.title} – elasticd`;
  if (!daemon) return;
  const who = daemon.leading ? "leads" : daemon.leader ? `standby; ${daemon.leader} leads` : "does not lead";
  setText(document.getElementById("who"), [who, daemon.dry_run ? "dry run" : "", daemon.unready ? "not ready" : ""].filter(Boolean).join(" · "));
}

let drawn = 0;
function draw() {
  cancelAnimationFrame(drawn);
  drawn = requestAnimationFrame(() => { view.update(); head(); });
}

function onKey(event) {
  const typing = event.target.matches("input, select, textarea");
  if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape" && typing && event.target.value) return;
  const go = { Escape: "#/", 1: "#/", 2: "#/nodes", 3: "#/moves", 4: "#/sources" }[event.key];
  if (go && (!typing || event.key === "Escape")) location.hash = go;
  else if (typing) return;
  else if (event.key === "/") document.querySelector("#filter, #ask")?.focus();
  else if (event.key === "?") document.getElementById("keys").showModal();
  else return;
  event.preventDefault();
}

document.addEventListener("keydown", onKey);
document.getElementById("help").addEventListener("click", () => document.getElementById("keys").showModal());
document.getElementById("skip").addEventListener("click", () => main.focus());
addEventListener("hashchange", route);
route();
follow("events", (event, data) => {
  store.apply(event, data);
  draw();
}, (state, why = "") => {
  const lost = state === "lost" && store.link.state !== "lost";
  store.link = { state, why };
  if (state === "lost") draw();
  if (lost) announce(`Connection lost: ${why}`);
}, new AbortController().signal);
