// Elements, made so that text from a model is always text and never markup.

/** An element with attributes and children; strings become text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** A table: `columns` are names, those in `figures` to the right; cells are strings or elements. */
export function table(caption, columns, rows, figures = []) {
  const aligned = (index) => (figures.includes(index) ? { class: "figure" } : {});
  return element(
    "table",
    {},
    caption ? element("caption", {}, caption) : null,
    element("thead", {}, element("tr", {}, columns.map((name, index) => element("th", { scope: "col", ...aligned(index) }, name)))),
    element("tbody", {}, rows.map((row) => element("tr", {}, row.map((cell, index) => element("td", aligned(index), cell))))),
  );
}

/** A device's letter, what people call it, and its label. */
export function badge(device) {
  return element(
    "span",
    { class: "device", title: device.label },
    element("span", { class: "swatch", "aria-hidden": "true", style: `background:${device.colour};color:${device.ink}` }, device.letter),
    element("span", { class: "called" }, device.label),
    device.emulated ? element("span", { class: "label" }, "emulated") : null,
  );
}
