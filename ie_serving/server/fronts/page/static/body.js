// The body of a call, in pieces: texts, lists of one value, and files.

/** What cannot be sent, and in which field. */
export class Fault extends Error {
  constructor(input, text) {
    super(text);
    this.input = input;
  }
}

/** Read what was typed as JSON; give its text on one line, since numbers may have 64 bits. */
export function typed(input, text) {
  try {
    JSON.parse(text);
  } catch (error) {
    throw new Fault(input, `This is no JSON: ${error.message}`);
  }
  return text.trim().replace(/[\r\n\t]+/g, " ");
}

/** Write a value in lists of lists. */
export function filled({ value, sizes }) {
  return sizes.reduceRight((text, size) => `[${Array(size).fill(text).join(",")}]`, value);
}

/** Count the elements of lists of lists. */
export const elements = (sizes) => sizes.reduce((product, size) => product * size, 1);

function wrapped(pieces, depth) {
  return ["[".repeat(depth), ...pieces, "]".repeat(depth)];
}

function ofFiles(spec, { files, colours }) {
  if (!files.length) throw new Fault(spec.name, "Choose a file.");
  const other = Boolean(spec.colours) && colours !== spec.colours;
  const pieces = files.flatMap((file, index) => [index ? ', {"b64": "' : '{"b64": "', { file, other }, '"}']);
  // Pictures are a batch; strings have as many dimensions as their shape says.
  return wrapped(pieces, spec.image ? 1 : spec.sizes.length);
}

/** Give the pieces of one input; `given` says how it is sent, and what was entered. */
export function ofInput(spec, given) {
  if (given.how === "files") return ofFiles(spec, given);
  if (given.how === "fill") return [{ value: typed(spec.name, given.value), sizes: spec.sizes }];
  return [typed(spec.name, given.text)];
}

/** Join the inputs to the body of a Predict, by columns: inputs need not have as many rows. */
export function predictBody(signature, given) {
  const start = signature.name === "serving_default" ? "" : `"signature_name": ${JSON.stringify(signature.name)}, `;
  const sent = signature.inputs.filter((spec) => given[spec.name].how !== "left out");
  const inputs = sent.flatMap((spec, index) => [
    `${index ? ", " : ""}${JSON.stringify(spec.name)}: `,
    ...ofInput(spec, given[spec.name]),
  ]);
  return joined([`{${start}"inputs": {`, ...inputs, "}}"]);
}

/** Join texts that follow each other. */
export function joined(pieces) {
  const found = [];
  for (const piece of pieces) {
    if (typeof piece === "string" && typeof found.at(-1) === "string") found.push(found.pop() + piece);
    else found.push(piece);
  }
  return found;
}

async function base64(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  return btoa(text);
}

/** Give a picture with red and blue exchanged, as PNG; the size and all else stay. */
async function exchanged(file) {
  const picture = await createImageBitmap(file, { colorSpaceConversion: "none" });
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [picture.width, picture.height];
  const drawing = canvas.getContext("2d");
  drawing.drawImage(picture, 0, 0);
  const pixels = drawing.getImageData(0, 0, canvas.width, canvas.height);
  const { data } = pixels;
  for (let at = 0; at < data.length; at += 4) [data[at], data[at + 2], data[at + 3]] = [data[at + 2], data[at], 255];
  drawing.putImageData(pixels, 0, 0);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

/** Write the body out, as it is sent. */
export async function written(pieces) {
  const texts = pieces.map((piece) => {
    if (typeof piece === "string") return piece;
    if (!piece.file) return filled(piece);
    return piece.other ? exchanged(piece.file).then(base64) : base64(piece.file);
  });
  return (await Promise.all(texts)).join("");
}

/** Name the pieces for the programs that make the same call: of a file its name. */
export const described = (pieces) =>
  pieces.map((piece) => (piece.file ? { file: piece.file.name } : piece));
