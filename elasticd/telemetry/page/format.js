// Times, durations and amounts as people read them.

export const seconds = (at) => (typeof at === "number" ? at : at ? Date.parse(at) / 1000 : 0);

export function lasts(s) {
  if (s == null) return "-";
  if (s < 10 && s % 1) return `${s.toFixed(1)} s`;
  if (s < 100) return `${Math.round(s)} s`;
  if (s < 6000) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} d`;
}

const pad = (n) => String(n).padStart(2, "0");

export function clock(at, short = false) {
  const time = new Date(seconds(at) * 1000);
  const text = `${pad(time.getHours())}:${pad(time.getMinutes())}`;
  return short ? text : `${text}:${pad(time.getSeconds())}`;
}

export function day(at) {
  const time = new Date(seconds(at) * 1000);
  return `${time.getFullYear()}-${pad(time.getMonth() + 1)}-${pad(time.getDate())}`;
}

export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";

// The last time before `now` at which a clock showed 03:12 or 03:12:30; null: it is none.
export function lastTime(text, now) {
  const match = /^\s*(\d{1,2}):(\d{2})(?::(\d{2}))?\s*$/.exec(text);
  if (!match || match[1] > 23 || match[2] > 59 || match[3] > 59) return null;
  const time = new Date(now * 1000);
  // A minute is meant to its end.
  time.setHours(match[1], match[2], match[3] ?? 59, 999);
  const end = time.getTime() / 1000;
  return end - (match[3] ? 1 : 60) > now ? end - 86400 : end;
}

export function number(value) {
  if (value == null) return "-";
  const size = Math.abs(value);
  if (size >= 1e4) {
    const power = Math.min(4, Math.floor(Math.log10(size) / 3));
    return `${Number((value / 1000 ** power).toPrecision(3))}${["", "k", "M", "G", "T"][power]}`;
  }
  return String(Number(value.toPrecision(4)));
}

export function bytes(value) {
  if (value == null) return "-";
  const power = value > 0 ? Math.min(4, Math.floor(Math.log2(value) / 10)) : 0;
  return `${Number((value / 1024 ** power).toPrecision(3))} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

export const counted = (n, noun) => `${n} ${n === 1 ? noun : noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`}`;

export const amount = (name, value) => (/memory|storage|bytes/.test(name) ? bytes(value) : number(value));

export const sentence = (reason, message) => [reason, message].filter(Boolean).join(": ");
