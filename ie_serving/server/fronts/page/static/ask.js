// Asks the server, with the key that this tab was given.

const KEPT = "ie_serving authorization";

/** What the server, or the way to it, has refused: its status (0 where nobody answered), its words. */
export class Refusal extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** The header that says who asks; it is kept as long as the tab, and goes to this server alone. */
export const credentials = {
  get: () => sessionStorage.getItem(KEPT) ?? "",
  key: (key) => sessionStorage.setItem(KEPT, `Bearer ${key}`),
  user: (name, password) => {
    const bytes = new TextEncoder().encode(`${name}:${password}`);
    sessionStorage.setItem(KEPT, `Basic ${btoa(String.fromCharCode(...bytes))}`);
  },
  forget: () => sessionStorage.removeItem(KEPT),
};

/** Give the address of a path of this server, also where a proxy has put it below another one. */
export const address = (path) => new URL(path.replace(/^\//, ""), document.baseURI.split("#")[0]).href;

/** Ask; give status, text, an error's whole text and milliseconds of whatever the server answers. */
export async function exchange(path, { body, signal } = {}) {
  const headers = { "X-IE-Serving-Page": "1" };
  if (credentials.get()) headers.Authorization = credentials.get();
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const method = body === undefined ? "GET" : "POST";
  const began = performance.now();
  try {
    const reply = await fetch(address(path), { method, headers, body, signal, cache: "no-store" });
    const text = await reply.text();
    const timing = reply.headers.get("server-timing") ?? "";
    const whole = decodeURIComponent(reply.headers.get("ie-serving-error") ?? "");
    return { status: reply.status, text, whole, timing, took: performance.now() - began };
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "The server does not answer.");
  }
}

/** Give the words of a refusal: the server's own, where they are its JSON. */
export function words({ status, text, whole }) {
  if (whole) return whole;
  try {
    return JSON.parse(text).error || text;
  } catch {
    return text.startsWith("<") || !text ? `The server answers with status ${status}.` : text;
  }
}

/** Ask for text. Throws a Refusal. */
export async function text(path, options) {
  const reply = await exchange(path, options);
  if (reply.status !== 200) throw new Refusal(reply.status, words(reply));
  return reply.text;
}

/** Ask for JSON. Throws a Refusal. */
export const json = async (path, options) => JSON.parse(await text(path, options));
