// A plot of the last minutes: lines over time, drawn as SVG, so that colours come from the style.

import { h, s, say } from "./dom.js";
import { ago } from "./numbers.js";

const LONGEST_MS = 5 * 60 * 1000;
const SHORTEST_MS = 30 * 1000;
const HEIGHT = 84;
const TOP = 6;

/** Round up to 1, 2 or 5 times a power of ten: the scale of an axis. */
export function nice(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((each) => each * power >= value * 0.999) * power;
}

/** One plot: `lines` has name, key of the points and class of each line; `write` writes a value. */
export class Plot {
  #lines;
  #write;
  #values;
  #since = h("span");
  #drawing = s("svg", { role: "img", height: HEIGHT, preserveAspectRatio: "none" });
  #most = h("span", { class: "most" });
  #title;

  constructor(title, lines, write) {
    this.#title = title;
    this.#lines = lines;
    this.#write = write;
    this.#values = lines.map(() => h("b"));
    const legend = lines.map((each, at) => h("span", { class: `legend ${each.class}` }, each.name, " ", this.#values[at]));
    this.element = h(
      "figure",
      { class: "plot" },
      h("figcaption", {}, h("span", { class: "title" }, title), legend),
      h("div", { class: "frame" }, this.#drawing, this.#most),
      h("div", { class: "axis", "aria-hidden": "true" }, this.#since, h("span", {}, "now")),
    );
  }

  /** Draw points, the oldest first; what is null or absent is a gap. */
  draw(points, now) {
    const width = this.#drawing.clientWidth || 280;
    const seen = points.filter((each) => each.at > now - LONGEST_MS);
    // What nobody has seen yet takes no room.
    const span = Math.max(SHORTEST_MS, seen.length ? now - seen[0].at : 0);
    const values = this.#lines.flatMap((line) => seen.map((each) => each[line.key] ?? 0));
    const top = nice(Math.max(0, ...values));
    const x = (at) => (width * (at - now + span)) / span;
    const y = (value) => HEIGHT - 1 - (value / top) * (HEIGHT - TOP - 1);
    const paths = this.#lines.map((line) => this.#path(line, seen, x, y));
    const rule = s("line", { class: "rule", x1: 0, x2: width, y1: y(top), y2: y(top) });
    const floor = s("line", { class: "rule", x1: 0, x2: width, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 });
    this.#drawing.replaceChildren(rule, floor, ...paths);
    this.#drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    say(this.#since, ago(span / 1000));
    this.#tell(seen.at(-1), top);
  }

  #path(line, points, x, y) {
    let drawn = "";
    let pen = "M";
    for (const each of points) {
      const value = each[line.key];
      if (value === null || value === undefined) {
        pen = "M";
        continue;
      }
      // A point between two gaps is a short line, else nobody would see it.
      drawn += `${pen}${x(each.at).toFixed(1)} ${y(value).toFixed(1)}${pen === "M" ? "h.5" : ""}`;
      pen = "L";
    }
    return s("path", { class: `line ${line.class}`, d: drawn });
  }

  #tell(newest, top) {
    const values = this.#lines.map((line) => this.#write(newest?.[line.key]));
    this.#values.forEach((each, at) => say(each, values[at]));
    say(this.#most, newest ? this.#write(top) : "");
    const told = this.#lines.map((line, index) => `${line.name} ${values[index]}`).join(", ");
    this.#drawing.setAttribute("aria-label", `${this.#title}, the last minutes; now ${told}`);
  }
}
