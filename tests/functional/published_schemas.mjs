// Validate manifests strictly by the validators of the npm packages @kubernetes-models/*, which are
// compiled from the types that each project publishes.
//
//   node published_schemas.mjs ROOT < [{"module": "keda/_schemas/X.js", "manifest": {...}}, ...]
//
// ROOT is the folder of those packages. Writes for each manifest the list of its faults. The validators
// let unknown fields pass, as JSON Schema does: a field is unknown if its validator did not read it.
import { resolve } from "node:path";
import { argv, stdin, stdout } from "node:process";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";

/** Wrap `value` so that every field that is read is put into `read`, by its path. */
function watched(value, path, read) {
  if (value === null || typeof value !== "object") return value;
  const child = (key) => `${path}/${key}`;
  return new Proxy(value, {
    get(target, key) {
      const found = target[key];
      if (typeof key === "symbol" || !Object.hasOwn(target, key)) return found;
      read.add(child(key));
      return watched(found, child(key), read);
    },
    // A map whose keys are free: its validator goes through all of them.
    ownKeys(target) {
      for (const key of Object.keys(target)) read.add(child(key));
      return Reflect.ownKeys(target);
    },
  });
}

/** Yield the paths of all fields, but not below those that were not read. */
function* unread(value, path, read) {
  if (value === null || typeof value !== "object") return;
  for (const [key, below] of Object.entries(value)) {
    const at = `${path}/${key}`;
    if (read.has(at)) yield* unread(below, at, read);
    else yield at;
  }
}

async function faults({ module, manifest }) {
  const { validate } = await import(pathToFileURL(resolve(argv[2], module)));
  const read = new Set();
  const fits = validate(watched(manifest, "", read));
  const found = fits ? [] : validate.errors.map((e) => `${e.instancePath} ${e.keyword} ${JSON.stringify(e.params)}`);
  return [...found, ...[...unread(manifest, "", read)].map((path) => `${path} is unknown`)];
}

// As a stream: readFileSync(0) ends with EAGAIN where the cases are more than a pipe holds, 64 KiB.
const cases = JSON.parse(await text(stdin));
stdout.write(JSON.stringify(await Promise.all(cases.map(faults))));
