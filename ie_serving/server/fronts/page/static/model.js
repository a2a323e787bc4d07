// One model: its versions with their causes, its signatures, what it does, and a request to try.

import { json } from "./ask.js";
import { h, table } from "./dom.js";
import { NO_METRICS, badge, part, plots, settingsTable } from "./lists.js";
import { bytes, duration } from "./numbers.js";
import { Trial } from "./trial.js";

const OTHERS = "The metrics tell of all models, which this key may not see: there are no rates and latencies.";

/** Write a shape: any size is a question mark. */
export function shape(sizes) {
  if (sizes === null) return "any shape";
  return sizes.length ? `[${sizes.map((size) => (size < 0 ? "?" : size)).join(", ")}]` : "scalar";
}

function versions(model) {
  if (!model.versions.length) {
    return h("p", { class: "empty" }, `No version is there yet: a directory below ${model.base_path} becomes one when it is complete.`);
  }
  const named = (version) => Object.keys(model.labels).filter((label) => model.labels[label] === version);
  const rows = model.versions.map((each) => [
    each.version,
    [badge(each), part(model, each.version)],
    named(each.version).map((label) => h("span", { class: "label" }, label)),
    each.memory === undefined ? "–" : bytes(each.memory),
    steps(each.load),
    each.cause ? h("p", { class: each.failed ? "cause" : "hint" }, each.cause) : "–",
  ]);
  return table("Versions", ["Version", "State", "Labels", "Memory", "Load", "Cause"], rows, { class: "of-versions" });
}

const steps = (load) =>
  load && Object.keys(load).length
    ? Object.entries(load).map(([step, took]) => `${step.replace(/_s$/, "")} ${duration(took)}`).join(", ")
    : "–";

function tensors(specs, word) {
  if (!specs.length) return [h("li", { class: "hint" }, `any ${word}`)];
  return specs.map((spec) =>
    h("li", {}, h("code", {}, spec.name), ` ${spec.dtype} ${shape(spec.shape)}`,
      spec.layout ? ` ${spec.layout}` : "", spec.optional ? h("span", { class: "hint" }, " may be left out") : null,
      spec.image ? h("span", { class: "hint" }, ` or an image, which becomes ${spec.image}`) : null),
  );
}

function signature(each) {
  const facts = [each.method.replace("tensorflow/serving/", ""), each.precision, each.runs_on].filter(Boolean).join(", ");
  return h(
    "section",
    { class: "signature" },
    h("h3", {}, h("code", {}, each.name), " ", h("span", { class: "hint" }, facts)),
    each.left_out ? h("p", { class: "cause" }, `Not served: ${each.left_out}`) : null,
    h("div", { class: "sides" },
      h("div", {}, h("h4", {}, "Inputs"), h("ul", {}, tensors(each.inputs, "inputs"))),
      h("div", {}, h("h4", {}, "Outputs"), h("ul", {}, tensors(each.outputs, "outputs")))),
  );
}

function signatures(model) {
  const serving = model.versions.filter((each) => each.signatures.length);
  if (!serving.length) return [h("p", { class: "empty" }, "No version serves now, so none has signatures.")];
  const shown = (each) => each.signatures.map(signature);
  // Versions mostly have the same ones: only the highest is shown open.
  return serving.map((each, index) =>
    serving.length === 1
      ? shown(each)
      : h("details", { open: index === 0 }, h("summary", {}, `Version ${each.version}`), shown(each)),
  );
}

/** The view of one model. */
export class Model {
  #name;
  #plots;
  #details = { versions: h("div"), signatures: h("div"), settings: h("div") };
  #trial = h("div");
  #trouble = h("div", { "aria-live": "polite" });
  #told = null;
  #served = "";

  constructor(history, name) {
    this.title = name;
    this.#name = name;
    this.#plots = plots(history, name);
    this.element = h(
      "div",
      {},
      h("p", { class: "back" }, h("a", { href: "#/" }, "All models")),
      h("h1", { tabindex: "-1" }, name),
      this.#trouble,
      this.#details.versions,
      h("h2", {}, "Traffic"),
      this.#plots.element,
      h("h2", {}, "Try a request"),
      this.#trial,
      h("h2", {}, "Signatures"),
      this.#details.signatures,
      h("h2", {}, "Configuration of this model"),
      this.#details.settings,
    );
  }

  /** Take a look at the server; without one, as a key for some models has none, ask for the model. */
  async update(state) {
    this.#plots.draw(!state ? OTHERS : state.server.metrics ? "" : NO_METRICS);
    const known = state && state.models.find((each) => each.name === this.#name);
    const told = JSON.stringify(known ?? "");
    if (told === this.#told) return;
    this.#told = told;
    try {
      this.#show(await json(`page/models/${encodeURIComponent(this.#name)}`));
    } catch (error) {
      this.#told = null; // so that it is asked for again
      if (error.status === 401) throw error;
      this.#trouble.replaceChildren(h("p", { class: "notice" }, error.message));
    }
  }

  #show(model) {
    const told = [["The repository cannot be listed", model.trouble], ["New settings are not applied", model.not_applied]];
    this.#trouble.replaceChildren(...told.filter(([, cause]) => cause).map(([what, cause]) => h("p", { class: "notice" }, `${what}: ${cause}`)));
    this.#details.versions.replaceChildren(versions(model));
    this.#details.signatures.replaceChildren(...signatures(model).flat());
    this.#details.settings.replaceChildren(settingsTable(model.configuration));
    // What somebody has typed stays, as long as the same can be asked.
    const serves = JSON.stringify([model.labels, model.versions.map((each) => [each.version, each.signatures])]);
    if (serves !== this.#served) this.#trial.replaceChildren(new Trial(model).element);
    this.#served = serves;
  }
}
