// The daemon: its live stream and its JSON. An EventSource cannot send a token, so the stream is read by fetch.

const QUIET = 6000;
const KEY = "elasticd-token";

export class Refused extends Error {}

const headers = () => {
  const token = sessionStorage.getItem(KEY);
  return token ? { Authorization: `Bearer ${token}` } : {};
};

async function ask(path, signal) {
  const answer = await fetch(path, { headers: headers(), signal, cache: "no-store" });
  if (answer.status === 401 || answer.status === 403) throw new Refused((await answer.text()).trim());
  if (!answer.ok) throw new Error((await answer.text()).trim() || `the daemon answered ${answer.status}`);
  return answer;
}

export const getJson = async (path, signal) => (await ask(path, signal)).json();

// Asks a person for the token; again where it was wrong.
let asking = null;
export function askForToken(why) {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("token");
    document.getElementById("token-why").textContent = why;
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEY, document.getElementById("token-text").value.trim());
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

// Waits until somebody can see the page.
function seen() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    document.addEventListener("visibilitychange", () => resolve(seen()), { once: true });
  });
}

// Calls `on(event, data)` for each message and `onLink(state, why)` when the connection comes or goes, for ever. A page
// that nobody sees has no connection: a browser has six to one address, for all its tabs.
export async function follow(path, on, onLink, signal) {
  for (let failures = 0; !signal.aborted; failures += 1) {
    await seen();
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    const hide = () => document.hidden && stop();
    signal.addEventListener("abort", stop);
    document.addEventListener("visibilitychange", hide);
    try {
      let timer = setTimeout(stop, 4 * QUIET);
      for await (const [event, data] of messages(await ask(path, attempt.signal))) {
        clearTimeout(timer);
        timer = setTimeout(stop, QUIET);
        failures = 0;
        onLink("live");
        on(event, data);
      }
      clearTimeout(timer);
      throw new Error("the daemon has ended the connection");
    } catch (error) {
      if (signal.aborted) return;
      if (document.hidden) continue;
      onLink("lost", error.name === "AbortError" ? "the daemon says nothing" : error.message);
      if (error instanceof Refused) await askForToken(error.message);
    } finally {
      signal.removeEventListener("abort", stop);
      document.removeEventListener("visibilitychange", hide);
    }
    await new Promise((resolve) => setTimeout(resolve, Math.min(8000, 500 * 2 ** failures)));
  }
}

async function* messages(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const lines = text.slice(0, end).split("\n");
      const field = (name) => lines.find((line) => line.startsWith(name))?.slice(name.length);
      const data = field("data: ");
      if (data !== undefined) yield [field("event: "), JSON.parse(data)];
    }
  }
}
