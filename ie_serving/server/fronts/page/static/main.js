// The page at `/`: which view is shown, and the look at the server that fills it every two seconds.

import { Refusal, credentials, json, text } from "./ask.js";
import { field, h, say } from "./dom.js";
import { Overview } from "./lists.js";
import { Model } from "./model.js";
import { History } from "./numbers.js";

const PAUSE_MS = 2000;
const LONGEST_MS = 60_000;
const SHARE = 20; // a look takes at most a twentieth of the time, however many models there are
const PATIENCE_MS = 30_000;
const NO_KEY = "No header can carry these characters: was something else copied along with the key?";

const main = document.getElementById("main");
const server = document.getElementById("server");
const connection = document.getElementById("connection");
const forget = document.getElementById("forget");

const history = new History();
let view = null;
let state = null;
let timer = 0;
let looking = false;

/** Make the view that the address names. */
function chosen() {
  const [, name] = /^#\/model\/(.+)$/.exec(location.hash) ?? [];
  return name ? new Model(history, decoded(name)) : new Overview(history);
}

/** Read a name in an address; one that is no UTF-8, as somebody has typed it, means itself. */
function decoded(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function show(next) {
  view = next;
  document.title = `${view.title} | ie_serving`;
  main.replaceChildren(view.element);
}

async function route() {
  const first = view === null;
  if (location.hash === "#main" && !first) return; // the skip link
  show(chosen());
  if (!first) {
    scrollTo(0, 0);
    main.querySelector("h1")?.focus();
  }
  await look();
}

/** Say how the server is, in a word that a screen reader repeats only when it changes. */
function tell(word, kind) {
  say(connection, word);
  connection.className = kind;
}

function tellServer() {
  const { version, phase, process } = state.server;
  const versions = state.models.flatMap((model) => model.versions);
  const failed = versions.filter((each) => each.failed).length;
  const count = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;
  const facts = [version, phase, count(state.models.length, "model"), count(versions.length, "version"), `process ${process}`];
  if (failed) facts.splice(4, 0, `${failed} failed`);
  say(server, facts.join(" · "));
}

async function take() {
  try {
    state = await json("page/state", { signal: AbortSignal.timeout(PATIENCE_MS) });
  } catch (error) {
    if (error.status !== 403) throw error;
    state = null;
    return refused(error);
  }
  if (state.server.metrics) {
    const page = await text(state.server.metrics, { signal: AbortSignal.timeout(PATIENCE_MS) });
    history.add(page, performance.now());
  }
  tellServer();
  if (!view) {
    const entered = document.activeElement?.closest("form.key");
    show(chosen());
    if (entered) main.querySelector("h1").focus(); // which went with the form
  }
  // Somebody may go on to another view while this one asks for more.
  for (let shown = null; shown !== view; ) {
    shown = view;
    await shown.update(state);
  }
  tell("live", "good");
}

/** A key that may not list all models may still ask for some by name. */
async function refused(error) {
  say(server, "");
  tell("limited key", "warn");
  if (view instanceof Model) return view.update(null);
  const name = h("input", { autocomplete: "off", spellcheck: "false", required: true });
  const open = (event) => {
    event.preventDefault();
    location.hash = `#/model/${encodeURIComponent(name.value)}`;
  };
  if (main.querySelector("form.single")) return;
  show({
    title: "Not allowed",
    update: () => {},
    element: h(
      "div",
      {},
      h("h1", { tabindex: "-1" }, "This key may not see all models"),
      h("p", { class: "notice" }, error.message),
      h("form", { class: "single", onsubmit: open }, field("Open one model by its name", name), h("button", { class: "main" }, "Open")),
    ),
  });
}

/** Ask for a key: every route of this server wants one. */
function askForKey(error) {
  forget.hidden = !credentials.get();
  say(server, "");
  tell("key needed", "warn");
  if (main.querySelector("form.key")) {
    say(main.querySelector("#refusal"), credentials.get() ? error.message : "");
    return;
  }
  const key = h("input", { type: "password", autocomplete: "off", spellcheck: "false" });
  const user = h("input", { autocomplete: "username", spellcheck: "false" });
  const password = h("input", { type: "password", autocomplete: "current-password" });
  const enter = (event) => {
    event.preventDefault();
    const given = key.value.trim();
    if (/[^\x20-\xff]/.test(given)) return say(main.querySelector("#refusal"), NO_KEY);
    if (given) credentials.key(given);
    else if (user.value) credentials.user(user.value, password.value);
    else return;
    look();
  };
  view = null;
  document.title = "Key needed | ie_serving";
  main.replaceChildren(
    h(
      "form",
      { class: "key", onsubmit: enter },
      h("h1", { tabindex: "-1" }, "This server asks who you are"),
      h("p", {}, "The key stays in this tab until it is closed, and is sent to this server alone. To see everything it needs the right ", h("code", {}, "read"), "; to try requests, ", h("code", {}, "predict"), "."),
      h("p", { id: "refusal", class: "cause", role: "alert" }, credentials.get() ? error.message : ""),
      field("Key", key),
      h("details", {}, h("summary", {}, "User and password instead"), field("User", user), field("Password", password)),
      h("button", { class: "main" }, "Continue"),
    ),
  );
  key.focus();
}

async function look() {
  clearTimeout(timer);
  if (looking || document.hidden) return;
  looking = true;
  const began = performance.now();
  let pause = PAUSE_MS; // also after a failure, which costs the server nothing
  try {
    await take();
    pause = Math.min(LONGEST_MS, Math.max(PAUSE_MS, SHARE * (performance.now() - began)));
    forget.hidden = !credentials.get();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (error.status === 401) askForKey(error);
    else tell(error.status ? error.message : "no answer, trying again", "bad");
  } finally {
    looking = false;
    timer = setTimeout(look, pause);
  }
}

forget.addEventListener("click", () => {
  credentials.forget();
  location.reload();
});
addEventListener("hashchange", route);
// Nobody looks at a hidden page: it asks for nothing.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) clearTimeout(timer);
  else look();
});
route();
