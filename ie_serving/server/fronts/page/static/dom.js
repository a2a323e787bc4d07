// Elements, made of names, properties and texts. Whatever comes from the server is text, never HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** Make an element: h("p", { class: "note" }, "text", other). */
export function h(name, properties = {}, ...children) {
  return fill(document.createElement(name), properties, children);
}

/** The same for parts of a drawing. */
export function s(name, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, name), properties, children);
}

/** Give an element another text, unless it has it: what does not change is not told again. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

let number = 0;

/** Make a name that no other element has. */
export function id(word) {
  number += 1;
  return `${word}-${number}`;
}

/** Make a field with its label and its hint. */
export function field(label, control, hint = "") {
  control.id ||= id("field");
  const told = hint && h("p", { class: "hint", id: `${control.id}-hint` }, hint);
  if (told) control.setAttribute("aria-describedby", told.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, told || null);
}

/** Make a table whose cells name their column, by which a phone shows them. */
export function table(caption, columns, rows, properties = {}) {
  const cells = (row) =>
    row.map((cell, index) =>
      h(index ? "td" : "th", { scope: index ? null : "row", "data-column": columns[index] }, cell),
    );
  return h(
    "table",
    properties,
    h("caption", { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, cells(row)))),
  );
}
