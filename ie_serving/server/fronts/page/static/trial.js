// A request from a form that the metadata fill, its answer with its time, and the same call as programs.

import { Fault, described, elements, filled, predictBody, typed, written } from "./body.js";
import { address, credentials, exchange, json, words } from "./ask.js";
import { field, h, id } from "./dom.js";
import { bytes, duration } from "./numbers.js";

const TYPED = 1024; // elements of an input up to which its values stand in a text field
const SHOWN = 100_000; // characters of an answer that are shown
const PAUSE_MS = 250; // after the last key, before the programs are written again
const BARS = 64; // numbers of a row that are shown as bars
const LANGUAGES = { curl: "curl", python: "Python", go: "Go", javascript: "JavaScript" };

const shapeOf = (sizes) => (sizes === null ? "any shape" : `[${sizes.map((size) => (size < 0 ? "?" : size)).join(", ")}]`);

/** The field of one input: how it is sent, and what. */
class Input {
  constructor(spec, changed) {
    this.spec = spec;
    this.changed = changed;
    const many = elements(spec.sizes) > TYPED;
    this.ways = {
      ...(spec.takes_files && { files: spec.image ? "image files" : "files" }),
      ...(!many && { typed: "values, as JSON" }),
      fill: "one value everywhere",
      ...(many && { typed: "values, as JSON" }),
      ...(spec.optional && { "left out": "left out: the model's default" }),
    };
    if (!spec.sizes.length) delete this.ways.fill;
    const first = spec.optional ? "left out" : spec.image ? "files" : Object.keys(this.ways).find((way) => way !== "files");
    this.how = h("select", { onchange: () => this.#choose() }, Object.entries(this.ways).map(([way, word]) => h("option", { value: way, selected: way === first }, word)));
    this.text = h("textarea", { rows: many ? 3 : 2, spellcheck: "false", oninput: changed });
    this.text.value = many ? "" : filled(spec).replaceAll(",", ", ");
    this.value = h("input", { value: spec.value, spellcheck: "false", oninput: changed });
    this.files = h("input", { type: "file", multiple: true, accept: spec.image ? "image/*" : null, onchange: () => this.#chosen() });
    this.preview = h("div", { class: "pictures" });
    this.colours = h("select", { onchange: changed }, ["RGB", "BGR"].map((order) => h("option", { selected: order === spec.colours }, order)));
    this.fault = h("p", { class: "cause", id: id("fault") });
    this.controls = { typed: this.text, fill: this.value, files: this.files };
    const told = `${spec.dtype} ${shapeOf(spec.shape)}${spec.image ? `; an image becomes ${spec.image}` : ""}`;
    this.fields = {
      typed: field("Values", this.text),
      fill: field(`Each of ${elements(spec.sizes)} values`, this.value),
      files: h(
        "div",
        {},
        field(spec.image ? "Images; several are a batch" : "Files", this.files),
        spec.colours ? field("Colours that the input gets", this.colours, `As the model is set: ${spec.colours}. The other order is sent as a picture with red and blue exchanged.`) : null,
        this.preview,
      ),
    };
    this.element = h(
      "fieldset",
      {},
      h("legend", {}, h("code", {}, spec.name), " ", h("span", { class: "hint" }, told)),
      Object.keys(this.ways).length > 1 ? field("Send", this.how) : null,
      Object.values(this.fields),
      this.fault,
    );
    this.#choose();
  }

  given = () => ({ how: this.how.value, text: this.text.value, value: this.value.value, files: [...this.files.files], colours: this.colours.value });

  /** Say what is wrong with this input, or that nothing is. */
  blame(text) {
    this.fault.textContent = text;
    for (const control of Object.values(this.controls)) {
      control.setAttribute("aria-invalid", text ? "true" : "false");
      if (text) control.setAttribute("aria-errormessage", this.fault.id);
      else control.removeAttribute("aria-errormessage");
    }
  }

  focus = () => this.controls[this.how.value]?.focus();

  #choose() {
    for (const [way, each] of Object.entries(this.fields)) each.hidden = way !== this.how.value;
    this.blame("");
    this.changed();
  }

  #chosen() {
    for (const old of this.preview.children) URL.revokeObjectURL(old.src);
    const shown = this.spec.image ? [...this.files.files].slice(0, 8) : [];
    this.preview.replaceChildren(...shown.map((file) => h("img", { src: URL.createObjectURL(file), alt: file.name, title: file.name })));
    this.changed();
  }
}

/** A body that is typed as a whole: where inputs may be any, and where requests are Examples. */
class Whole {
  constructor(signature, changed) {
    const feature = Object.fromEntries(signature.features.map((name) => [name, 1]));
    const start = signature.verb === "predict" ? { inputs: {} } : { ...named(signature), examples: [feature] };
    this.text = h("textarea", { rows: 6, spellcheck: "false", oninput: changed });
    this.text.value = JSON.stringify(start, null, 1);
    this.element = field("Body, as JSON", this.text, signature.verb === "predict" ? "This model takes inputs of any names." : "A value, or a list of them, for each feature.");
  }

  blame = () => {};

  focus = () => this.text.focus();
}

const named = (signature) => (signature.name === "serving_default" ? {} : { signature_name: signature.name });

/** The same call as programs, written by the server. */
class Programs {
  #written = {};
  #code = h("code");
  #box = h("pre", { tabindex: "0", role: "tabpanel", "aria-label": "Program" }, this.#code);
  #said = h("span", { class: "hint", role: "status" });
  #copy = h("button", { type: "button", onclick: () => this.#copied() }, "Copy");
  #tabs;
  #chosen = "curl";

  constructor() {
    this.#tabs = Object.entries(LANGUAGES).map(([name, word]) =>
      h("button", { type: "button", role: "tab", "data-language": name, onclick: () => this.#choose(name), onkeydown: (event) => this.#move(event) }, word),
    );
    const example = credentials.get().startsWith("Basic")
      ? 'export AUTHORIZATION="Basic $(printf %s USER:PASSWORD | base64 -w0)"'
      : "export AUTHORIZATION='Bearer KEY'";
    const key = credentials.get()
      ? h("p", { class: "hint" }, "The programs send the variable AUTHORIZATION as that header: ", h("code", {}, example), ".")
      : null;
    this.element = h(
      "section",
      { class: "programs", "aria-label": "The same call as a program" },
      h("h3", {}, "The same call"),
      h("div", { class: "tabs" }, h("div", { role: "tablist", "aria-label": "Language" }, this.#tabs), this.#copy, this.#said),
      this.#box,
      key,
    );
    this.#choose(this.#chosen);
  }

  show(programs) {
    this.#written = programs;
    this.#code.textContent = programs[this.#chosen] ?? "";
    this.#copy.disabled = !programs[this.#chosen];
    this.#said.textContent = "";
  }

  /** Show that there is no call, and why. */
  lack(reason) {
    this.show({});
    this.#code.textContent = reason;
  }

  #choose(name) {
    this.#chosen = name;
    for (const tab of this.#tabs) {
      const is = tab.dataset.language === name;
      tab.setAttribute("aria-selected", String(is));
      tab.tabIndex = is ? 0 : -1;
    }
    if (Object.keys(this.#written).length) this.show(this.#written);
  }

  #move(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = this.#tabs.indexOf(event.target) + step + this.#tabs.length;
    const tab = this.#tabs[at % this.#tabs.length];
    this.#choose(tab.dataset.language);
    tab.focus();
    event.preventDefault();
  }

  async #copied() {
    try {
      await navigator.clipboard.writeText(this.#written[this.#chosen]);
      this.#said.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(this.#code); // over plain HTTP a browser has no clipboard
      this.#said.textContent = "selected: copy it with Ctrl+C";
    }
  }
}

/** The first row of each output as bars: which number is the greatest is seen at once. */
function bars(text) {
  let found;
  try {
    const { outputs, predictions } = JSON.parse(text);
    found = outputs ?? predictions;
  } catch {
    return [];
  }
  const named = Array.isArray(found) ? { "": found } : (found ?? {});
  return Object.entries(named).map(([name, value]) => barsOf(name, firstRow(value))).filter(Boolean);
}

function barsOf(name, numbers) {
  if (!numbers) return null;
  const most = Math.max(...numbers.map(Math.abs)) || 1;
  const best = numbers.indexOf(Math.max(...numbers));
  const rows = numbers.map((value, index) => {
    const bar = h("span", { class: index === best ? "bar best" : "bar" });
    bar.style.width = `${(100 * Math.abs(value)) / most}%`;
    return h("li", {}, h("span", { class: "index" }, String(index)), h("span", { class: "track" }, bar), h("span", { class: "amount" }, Number(value.toPrecision(4))));
  });
  return h("div", {}, h("h4", {}, name), h("ol", { class: "bars", "aria-label": `First row of ${name || "the output"}` }, rows));
}

function firstRow(value) {
  let found = value;
  while (Array.isArray(found) && Array.isArray(found[0])) found = found[0];
  const fits = Array.isArray(found) && found.length > 1 && found.length <= BARS;
  return fits && found.every((each) => Number.isFinite(each)) ? found : null;
}

/** The form of one model. */
export class Trial {
  #model;
  #which = h("select", { onchange: () => this.#choose() });
  #signature = h("select", { onchange: () => this.#build() });
  #inputs = h("div", { class: "inputs" });
  #send = h("button", { type: "submit", class: "main" }, "Send");
  #verdict = h("p", { class: "verdict", role: "status" });
  #answer = h("div", { class: "answer" }, h("p", { class: "hint" }, "Nothing was sent yet."));
  #programs = new Programs();
  #fields = [];
  #whole = null;
  #timer = 0;
  #asking = false;
  #writing = 0;

  constructor(model) {
    this.#model = model;
    const serving = model.versions.filter((each) => each.signatures.some((one) => !one.left_out));
    if (!serving.length) {
      this.element = h("p", { class: "empty" }, "No version serves now: there is nothing to ask.");
      return;
    }
    this.#offer(serving);
    this.element = h(
      "div",
      { class: "trial" },
      h("form", { onsubmit: (event) => this.#submit(event), onkeydown: (event) => this.#keyed(event) },
        h("div", { class: "choice" }, field("Version", this.#which), field("Signature", this.#signature)),
        this.#inputs,
        h("p", { class: "actions" }, this.#send, h("span", { class: "hint" }, "or Ctrl+Enter"))),
      h("section", { "aria-label": "Answer" }, h("h3", {}, "Answer"), this.#verdict, this.#answer),
      this.#programs.element,
    );
    this.#choose();
  }

  #offer(serving) {
    const numbers = serving.map((each) => each.version);
    const options = numbers.map((version) => ({ words: `version ${version}`, version, target: { version } }));
    const fallback = numbers.includes(this.#model.default) ? this.#model.default : null;
    if (fallback) options.unshift({ words: `default (version ${fallback})`, version: fallback, target: {} });
    for (const [label, version] of Object.entries(this.#model.labels)) {
      if (numbers.includes(version)) options.push({ words: `label ${label} (version ${version})`, version, target: { label } });
    }
    this.offered = options;
    this.#which.append(...options.map((each, index) => h("option", { value: index }, each.words)));
  }

  #asked = () => this.offered[Number(this.#which.value)];

  #choose() {
    const { version } = this.#asked();
    this.known = this.#model.versions.find((each) => each.version === version).signatures.filter((each) => !each.left_out);
    const before = this.#signature.value;
    this.#signature.replaceChildren(...this.known.map((each) => h("option", { value: each.name }, each.name)));
    const names = this.known.map((each) => each.name);
    const first = names.includes("serving_default") ? "serving_default" : names[0];
    this.#signature.value = names.includes(before) ? before : first;
    this.#build();
  }

  #chosen = () => this.known.find((each) => each.name === this.#signature.value);

  #build() {
    const signature = this.#chosen();
    const changed = () => this.#later();
    const isWhole = signature.takes_any || signature.verb !== "predict";
    this.#whole = isWhole ? new Whole(signature, changed) : null;
    this.#fields = isWhole ? [] : signature.inputs.map((spec) => new Input(spec, changed));
    this.#inputs.replaceChildren(...(this.#whole ? [this.#whole.element] : this.#fields.map((each) => each.element)));
    this.#later();
  }

  /** Give the pieces of the body, or throw a Fault. */
  #pieces() {
    if (this.#whole) return [typed("", this.#whole.text.value)];
    const given = Object.fromEntries(this.#fields.map((each) => [each.spec.name, each.given()]));
    return predictBody(this.#chosen(), given);
  }

  #path() {
    const { version, label } = this.#asked().target;
    const name = encodeURIComponent(this.#model.name);
    const part = version ? `/versions/${version}` : label ? `/labels/${encodeURIComponent(label)}` : "";
    return `v1/models/${name}${part}:${this.#chosen().verb}`;
  }

  #later() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#write(), PAUSE_MS);
  }

  async #write() {
    this.#writing += 1;
    const number = this.#writing;
    const show = (say) => number === this.#writing && say(); // else a later call is being written
    try {
      const pieces = this.#pieces();
      if (pieces.some((piece) => piece.other)) {
        const other = this.#fields.map((each) => each.given()).find((each) => each.how === "files").colours;
        throw new Fault("", `Programs send the file as it is. For images that always become ${other}, set color_format of this model to "${other}:${other}".`);
      }
      const call = { url: address(""), model: this.#model.name, ...this.#asked().target, verb: this.#chosen().verb };
      const body = JSON.stringify({ ...call, pieces: described(pieces) });
      const programs = await json("page/programs", { body });
      show(() => this.#programs.show(programs));
    } catch (error) {
      const reason = error instanceof Fault && error.input ? `${error.input}: ${error.message}` : error.message;
      show(() => this.#programs.lack(reason));
    }
  }

  #keyed(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.#submit(event);
  }

  async #submit(event) {
    event.preventDefault();
    if (this.#asking) return;
    this.#fields.forEach((each) => each.blame(""));
    try {
      const pieces = this.#pieces();
      this.#asking = true;
      this.#send.setAttribute("aria-disabled", "true"); // not `disabled`, which loses the focus
      this.#verdict.textContent = "waiting for the answer";
      this.#verdict.className = "verdict";
      const body = await written(pieces);
      this.#show(await exchange(this.#path(), { body }), body.length);
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#asking = false;
      this.#send.removeAttribute("aria-disabled");
    }
  }

  #fail(error) {
    this.#answer.replaceChildren();
    this.#verdict.className = "verdict bad";
    this.#verdict.textContent = error.message;
    if (!(error instanceof Fault)) return;
    const blamed = this.#fields.find((each) => each.spec.name === error.input);
    this.#verdict.textContent = blamed ? `${error.input} cannot be sent.` : error.message;
    blamed?.blame(error.message);
    (blamed ?? this.#whole)?.focus();
  }

  #show(reply, sent) {
    const good = reply.status === 200;
    this.#verdict.className = good ? "verdict good" : "verdict bad";
    const times = `${duration(reply.took / 1000)}${reply.timing ? ` (${reply.timing})` : ""}`;
    this.#verdict.textContent = `${reply.status} in ${times}, ${bytes(sent)} sent, ${bytes(reply.text.length)} received`;
    const text = good ? reply.text : words(reply);
    const cut = text.length > SHOWN ? h("p", { class: "hint" }, `The first ${SHOWN} of ${text.length} characters are shown.`) : null;
    this.#answer.replaceChildren(
      ...(good ? bars(reply.text) : []),
      h("pre", { tabindex: "0", "aria-label": "Body of the answer" }, text.slice(0, SHOWN)),
      ...(cut ? [cut] : []),
    );
  }
}
