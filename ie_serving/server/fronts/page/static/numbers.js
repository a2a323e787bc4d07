// Counters of the metrics page become rates and latencies: what has changed between two looks at it.

const ASKED = new Set(["Predict", "ModelInfer", "Classify", "Regress", "MultiInference"]);
const LINE = /^(ie_serving_[a-z_]+)\{(.*)\} (\S+)$/;
const LABEL = /([a-z_]+)="((?:[^"\\]|\\.)*)"/g;
const KEPT = 150;

export const ALL = Symbol("all models");

function labelsOf(text) {
  const labels = {};
  for (const [, name, value] of text.matchAll(LABEL)) {
    labels[name] = value.replace(/\\(.)/g, (_, each) => (each === "n" ? "\n" : each));
  }
  return labels;
}

const nothing = () => ({ ok: 0, failed: 0, inFlight: 0, queued: 0, buckets: new Map() });

const COUNT = {
  ie_serving_requests_total: (model, labels, value) => {
    // What cannot be read at all has failed before anybody knew what it asks for.
    if (labels.code !== "OK" && (!labels.method || ASKED.has(labels.method))) model.failed += value;
    if (labels.code === "OK" && ASKED.has(labels.method)) model.ok += value;
  },
  ie_serving_request_seconds_bucket: (model, labels, value) => {
    if (!ASKED.has(labels.method)) return;
    const bound = labels.le === "+Inf" ? Infinity : Number(labels.le);
    model.buckets.set(bound, (model.buckets.get(bound) ?? 0) + value);
  },
  ie_serving_in_flight_requests: (model, _, value) => (model.inFlight += value),
  ie_serving_queued_inferences: (model, _, value) => (model.queued += value),
};

/** Read the metrics page: what was counted until now, by model, and of all together. */
export function read(page) {
  const models = new Map([[ALL, nothing()]]);
  for (const line of page.split("\n")) {
    if (!line.startsWith("ie_serving_")) continue;
    const [, name, labels, value] = LINE.exec(line) ?? [];
    const count = COUNT[name];
    if (!count) continue;
    const known = labelsOf(labels);
    const model = known.model_name ?? "";
    if (!models.has(model)) models.set(model, nothing());
    count(models.get(model), known, Number(value));
    count(models.get(ALL), known, Number(value));
  }
  return models;
}

/** Give the time within which a share of the requests was answered, in seconds; null of none. */
export function quantile(before, after, share) {
  const bounds = [...after.keys()].sort((a, b) => a - b);
  const counts = bounds.map((bound) => after.get(bound) - (before.get(bound) ?? 0));
  const total = counts.at(-1) ?? 0;
  if (total <= 0) return null;
  const wanted = share * total;
  const at = counts.findIndex((count) => count >= wanted);
  const [low, under] = at ? [bounds[at - 1], counts[at - 1]] : [0, 0];
  if (bounds[at] === Infinity) return low;
  return low + ((wanted - under) / (counts[at] - under)) * (bounds[at] - low);
}

function point(before, after, seconds) {
  const [ok, failed] = [after.ok - before.ok, after.failed - before.failed];
  // Another process counts from 0: what has happened in between is not known.
  if (ok < 0 || failed < 0) return null;
  return {
    rate: (ok + failed) / seconds,
    errors: failed / seconds,
    p50: quantile(before.buckets, after.buckets, 0.5),
    p99: quantile(before.buckets, after.buckets, 0.99),
    inFlight: after.inFlight,
    queued: after.queued,
  };
}

/** The last minutes of every model, from the looks that this page has taken. */
export class History {
  #last = null;
  #points = new Map();

  /** Take one look: the metrics page, and when it was read in milliseconds. */
  add(page, at) {
    const models = read(page);
    const last = this.#last;
    this.#last = { at, models };
    for (const name of this.#points.keys()) if (!models.has(name)) this.#points.delete(name);
    if (!last) return;
    const seconds = Math.max(0.001, (at - last.at) / 1000);
    for (const [name, after] of models) {
      const found = point(last.models.get(name) ?? nothing(), after, seconds);
      const points = this.#points.get(name) ?? [];
      points.push({ at, ...found });
      this.#points.set(name, points.slice(-KEPT));
    }
  }

  /** Give the points of a model, the oldest first. */
  of = (name) => this.#points.get(name) ?? [];

  /** Give the newest point of a model; null before the second look. */
  newest = (name) => this.of(name).at(-1) ?? null;
}

/** Write a number with three digits. */
export function written(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (Math.abs(value) >= 1e6) return `${(value / 1e6).toPrecision(3)} M`;
  if (Math.abs(value) >= 1e4) return `${(value / 1e3).toPrecision(3)} k`;
  return Math.abs(value) >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}

/** Write seconds in the unit that fits. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1e-3) return `${written(seconds * 1e6)} µs`;
  return seconds < 1 ? `${written(seconds * 1e3)} ms` : `${written(seconds)} s`;
}

/** Write bytes in the unit that fits. */
export function bytes(count) {
  if (count === null || count === undefined) return "–";
  const units = ["B", "kB", "MB", "GB"];
  const step = Math.min(3, Math.max(0, Math.floor(Math.log10(Math.max(1, Math.abs(count))) / 3)));
  return `${written(count / 1000 ** step)} ${units[step]}`;
}

/** Write how long ago something was. */
export function ago(seconds) {
  if (seconds < 2) return "now";
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86400)} d ago`;
}
