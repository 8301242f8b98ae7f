// What is known now: the rows of all workloads, and the daemon's summary of itself.

export const GRADES = {
  blind: { word: "no data", sign: "✕", rank: 0, says: "what they need is not known" },
  failing: { word: "failing", sign: "!", rank: 1, says: "a plugin or an action fails" },
  late: { word: "overdue", sign: "◷", rank: 2, says: "nothing was decided for too long" },
  held: { word: "held", sign: "‖", rank: 3, says: "their count may not change now" },
  limited: { word: "limited", sign: "⇥", rank: 4, says: "they want another count than they may have" },
  scaling: { word: "scaling", sign: "⇅", rank: 5, says: "their count is changing" },
  steady: { word: "steady", sign: "✓", rank: 6, says: "their count is right" },
};

export function gradeOf(row, now, leading) {
  if (row.blind) return "blind";
  if (row.failures?.length || row.refused) return "failing";
  if (leading && row.at && now - row.at > 3 * (row.interval || 30) + 15) return "late";
  if (row.wish != null && row.wish !== row.replicas) return "limited";
  if (row.verdict === "hold") return "held";
  return row.verdict === "scale" ? "scaling" : "steady";
}

export class Store {
  constructor() {
    this.rows = new Map();
    this.daemon = null;
    this.waiting = {};
    this.link = { state: "waits", why: "" };
    this.version = 0; // grows when rows come, go, or change their grade
    this.offset = 0;
  }

  // The daemon's time now, in seconds since the epoch: a viewer's clock may be wrong.
  now() {
    return Date.now() / 1000 + this.offset;
  }

  apply(event, data) {
    if (event === "all") {
      this.rows.clear();
      this.version += 1;
    }
    this.daemon = data.state.daemon;
    this.waiting = data.state.waiting;
    this.offset = Date.parse(this.daemon.at) / 1000 - Date.now() / 1000;
    for (const fresh of data.rows) this.take(fresh);
    for (const id of data.gone) this.version += this.rows.delete(id);
    for (let i = 0; i < data.times.length; i += 3) {
      const row = this.rows.get(data.times[i]);
      if (row) [row.at, row.age] = [data.times[i + 1], data.times[i + 2]];
    }
    const now = this.now();
    for (const row of this.rows.values()) {
      const grade = gradeOf(row, now, this.daemon.leading);
      if (grade !== row.grade) [row.grade, this.version] = [grade, this.version + 1];
    }
  }

  // A row that is known already comes with those of its fields alone that have changed.
  take(fresh) {
    const before = this.rows.get(fresh.id);
    if (!before) this.version += 1;
    const row = { ...before, ...fresh };
    [row.space, row.kind, row.name] = row.workload.split("/");
    row.text = `${row.workload} ${row.policy} ${row.reason} ${row.message ?? ""}`.toLowerCase();
    this.rows.set(row.id, row);
  }

  counts() {
    const counts = Object.fromEntries(Object.keys(GRADES).map((grade) => [grade, 0]));
    for (const row of this.rows.values()) counts[row.grade] += 1;
    return counts;
  }

  of(workload, policy) {
    return [...this.rows.values()].find((row) => row.workload === workload && (!policy || row.policy === policy));
  }
}
