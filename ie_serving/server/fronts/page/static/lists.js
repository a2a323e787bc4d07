// The first view: all models, what they do, what fails, and the configuration.

import { json } from "./ask.js";
import { h, id, say, table } from "./dom.js";
import { ALL, ago, bytes, duration, written } from "./numbers.js";
import { Plot } from "./plot.js";

const FEW = 8;
export const NO_METRICS = "Metrics are switched off, as --metrics_path is empty: there are no rates and latencies.";
export const WORDS = {
  START: "waiting",
  LOADING: "loading",
  AVAILABLE: "available",
  UNLOADING: "unloading",
  END: "ended",
};

/** Tell a version's state as a word, with a colour beside it. */
export function badge(version) {
  const failed = version.failed && version.state !== "AVAILABLE";
  const kind = failed ? "failed" : version.state.toLowerCase();
  return h("span", { class: `state ${kind}` }, failed ? "failed" : (WORDS[version.state] ?? version.state));
}

/** Make the plots of one model, or of all; the element, and what draws them. */
export function plots(history, name) {
  const all = [
    new Plot("Requests per second", [
      { name: "requests", key: "rate", class: "one" },
      { name: "failed", key: "errors", class: "bad" },
    ], written),
    new Plot("Latency", [
      { name: "p50", key: "p50", class: "one" },
      { name: "p99", key: "p99", class: "two" },
    ], duration),
    new Plot("In flight", [
      { name: "requests", key: "inFlight", class: "one" },
      { name: "waiting", key: "queued", class: "two" },
    ], written),
  ];
  const none = h("p", { class: "empty", hidden: true });
  const drawn = h("div", { class: "plots" }, all.map((plot) => plot.element));
  /** Draw what there is; or say why there is nothing. */
  const draw = (lack) => {
    [none.hidden, drawn.hidden] = [!lack, Boolean(lack)];
    say(none, lack);
    if (!lack) all.forEach((plot) => plot.draw(history.of(name), performance.now()));
  };
  return { element: h("div", {}, none, drawn), draw };
}

/** Tell which version answers requests that name none, or a share of them. */
export function part(model, version) {
  const share = model.shares[version];
  const text = share !== undefined ? ` ${Math.round(100 * share)} %` : version === model.default && model.versions.length > 1 ? " default" : null;
  return text && h("span", { class: "hint" }, text);
}

const troubled = (model) => Boolean(model.trouble || model.not_applied) || model.versions.some((version) => version.failed);

/** The rows of the table of models; each is kept, so that the keyboard stays where it is. */
class Models {
  #rows = new Map();
  #body = h("tbody");
  #filter = h("input", { type: "search", autocomplete: "off", spellcheck: "false", oninput: () => this.#show() });
  #only = h("input", { type: "checkbox", onchange: () => this.#show() });
  #count = h("p", { class: "hint", role: "status" });
  #state = null;

  constructor(history) {
    this.history = history;
    this.#filter.id = id("filter");
    this.#only.id = id("only");
    const columns = ["Model", "Versions", "Labels", "Requests/s", "Failed/s", "p50", "p99", "In flight"];
    this.tools = h(
      "div",
      { class: "tools" },
      h("label", { for: this.#filter.id }, "Filter"),
      this.#filter,
      h("label", { class: "check" }, this.#only, "only those with trouble"),
      this.#count,
    );
    this.table = h(
      "table",
      { class: "models" },
      h("caption", { class: "unseen" }, "Models"),
      h("thead", {}, h("tr", {}, columns.map((name, index) => h("th", { scope: "col", class: index > 2 ? "number" : null }, name)))),
      this.#body,
    );
    this.none = h("p", { class: "empty", hidden: true });
    this.element = h("div", {}, this.tools, h("div", { class: "rows" }, this.table), this.none);
  }

  update(state) {
    this.#state = state;
    const names = new Set(state.models.map((model) => model.name));
    for (const [name, row] of this.#rows) {
      if (!names.has(name)) {
        row.element.remove();
        this.#rows.delete(name);
      }
    }
    state.models.forEach((model, index) => this.#update(model, index));
    this.#show();
  }

  #update(model, index) {
    const row = this.#rows.get(model.name) ?? this.#add(model.name);
    if (this.#body.children[index] !== row.element) this.#body.insertBefore(row.element, this.#body.children[index] ?? null);
    row.trouble = troubled(model);
    const told = JSON.stringify([model.versions, model.labels, model.trouble, model.not_applied, model.default, model.shares, model.is_loaded]);
    if (row.told !== told) {
      row.told = told;
      row.versions.replaceChildren(...versionsOf(model));
      row.labels.replaceChildren(...labelsOf(model));
    }
    const now = this.history.newest(model.name) ?? {};
    const values = [written(now.rate), written(now.errors), duration(now.p50), duration(now.p99), written(now.inFlight)];
    row.numbers.forEach((cell, at) => say(cell, values[at]));
    row.numbers[1].classList.toggle("bad", now.errors > 0);
  }

  #add(name) {
    const cell = (column, kind = "number") => h("td", { class: kind, "data-column": column });
    const numbers = ["Requests/s", "Failed/s", "p50", "p99", "In flight"].map((each) => cell(each));
    const [versions, labels] = [cell("Versions", "versions"), cell("Labels", "labels")];
    const link = h("a", { href: `#/model/${encodeURIComponent(name)}` }, name);
    const element = h("tr", {}, h("th", { scope: "row" }, link), versions, labels, numbers);
    const row = { element, versions, labels, numbers, told: "" };
    this.#rows.set(name, row);
    return row;
  }

  #show() {
    const wanted = this.#filter.value.trim().toLowerCase();
    let shown = 0;
    for (const [name, row] of this.#rows) {
      const is = name.toLowerCase().includes(wanted) && (row.trouble || !this.#only.checked);
      row.element.hidden = !is;
      shown += is;
    }
    const all = this.#rows.size;
    this.tools.hidden = all < FEW && !this.#state?.models.some(troubled);
    say(this.#count, shown === all ? "" : `${shown} of ${all} models`);
    this.table.hidden = !shown;
    this.none.hidden = Boolean(shown);
    say(this.none, all ? "No model is called so, or has trouble." : "No model is configured. The configuration file names those that are to be served; it is read again when it changes.");
  }
}

function versionsOf(model) {
  const shown = model.versions.map((version) =>
    h("span", { class: "version" }, version.version, " ",
      model.is_loaded || version.state !== "START" ? badge(version) : h("span", { class: "hint" }, "known, loads at its first request"),
      part(model, version.version)),
  );
  if (!shown.length && !model.trouble) shown.push(h("span", { class: "hint" }, "no version found yet"));
  const causes = model.versions.filter((version) => version.failed).map((version) => `${version.version}: ${version.cause}`);
  if (model.trouble) causes.push(model.trouble);
  if (model.not_applied) causes.push(`settings not applied: ${model.not_applied}`);
  return [...shown, ...causes.map((cause) => h("p", { class: "cause" }, cause))];
}

const labelsOf = (model) =>
  Object.entries(model.labels).map(([label, version]) => h("span", { class: "label" }, `${label} → ${version}`));

/** Show what fails lately. */
function errors(state) {
  const { workers, process } = state.server;
  const part = workers > 1 ? h("p", { class: "hint" }, `Of process ${process} alone: ${workers} processes serve, and each look may reach another.`) : "";
  const found = state.errors.length ? failures(state) : h("p", { class: "empty" }, "No request has failed since the server started.");
  return h("div", {}, part, found);
}

function failures(state) {
  const rows = state.errors.map((each) => [
    h("span", { class: "code" }, each.code),
    each.model ? `${each.model}${each.version ? ` / ${each.version}` : ""}` : "(no model that is served)",
    [each.interface, each.method].filter(Boolean).join(" ") || "–",
    `${written(each.number)}`,
    ago(state.server.now - each.last),
    each.text ?? h("span", { class: "hint" }, hidden(state.server)),
  ]);
  return table("Recent errors", ["Code", "Model", "Request", "Times", "Last", "What its client was told"], rows, { class: "errors" });
}

const hidden = (server) =>
  server.asks_callers
    ? "a defect: the server's log has the cause"
    : "not kept: it may quote the request, and this server asks nobody who they are";

/** The settings of the server, asked for when they are opened. */
function configuration() {
  const place = h("div", { "aria-live": "polite" }, "asking");
  const all = h("input", { type: "checkbox" });
  const show = (settings) => {
    const shown = settings.filter((each) => all.checked || each.changed);
    place.replaceChildren(h("label", { class: "check" }, all, `also the ${settings.length - settings.filter((each) => each.changed).length} settings at their defaults`), settingsTable(shown));
  };
  const open = async (event) => {
    if (!event.target.open) return;
    try {
      const settings = await json("page/configuration");
      all.onchange = () => { show(settings); all.focus(); };
      show(settings);
    } catch (error) {
      place.replaceChildren(h("p", { class: "notice" }, error.message));
    }
  };
  return h("details", { ontoggle: open }, h("summary", {}, h("h2", {}, "Configuration in force")), place);
}

/** Show settings with their values. */
export function settingsTable(settings) {
  if (!settings.length) return h("p", { class: "empty" }, "Everything is at its default.");
  const rows = settings.map((each) => [
    h("code", {}, each.name),
    h("span", { class: each.changed ? "value changed" : "value" }, each.value || "–"),
    each.meaning,
  ]);
  return table("Settings", ["Setting", "Value", "What it does"], rows, { class: "settings" });
}

/** Tell how much of their memory models on demand may still take. */
function budget({ server, models }) {
  if (!server.budget) return "";
  const { held, limit } = server.budget;
  const whose = server.workers > 1 ? `Process ${server.process}, one of ${server.workers},` : "The process";
  return `${whose} holds ${bytes(held)} of its budget of ${bytes(limit)}; ${models.filter((model) => model.is_loaded).length} of ${models.length} models are loaded.`;
}

/** The first view. */
export class Overview {
  title = "Models";
  #models;
  #plots;
  #errors = h("div");
  #budget = h("p", { class: "hint", hidden: true });
  #told = "";

  constructor(history) {
    this.#models = new Models(history);
    this.#plots = plots(history, ALL);
    this.element = h(
      "div",
      {},
      h("h1", { tabindex: "-1" }, "Models"),
      this.#budget,
      this.#models.element,
      h("h2", {}, "All models together"),
      this.#plots.element,
      h("h2", {}, "Recent errors"),
      this.#errors,
      configuration(),
    );
  }

  update(state) {
    this.#models.update(state);
    this.#budget.hidden = !state.server.budget;
    say(this.#budget, budget(state));
    this.#plots.draw(state.server.metrics ? "" : NO_METRICS);
    const told = JSON.stringify(state.errors) + Math.round(state.server.now / 10);
    if (told !== this.#told) this.#errors.replaceChildren(errors(state));
    this.#told = told;
  }
}
