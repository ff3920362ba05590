// Colours and letters of devices: a letter beside each colour, so that no meaning hangs on colour alone.
//
// The colours are those of Okabe and Ito (2008, "Color Universal Design"), which people with any of the common kinds of
// colour blindness tell apart; past eight devices they come again, with another pattern and letter.

const COLOURS = ["#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#d55e00", "#0072b2", "#bbbbbb"];
// black or white, whichever reads better on the colour: contrast at least 4.5 in each case
const INKS = ["#000", "#000", "#000", "#000", "#000", "#000", "#fff", "#000"];
// angle and gap of the stripes over a colour, the first is plain
const STRIPES = [null, [45, 7], [135, 7], [0, 5], [90, 5], [45, 3.5], [135, 3.5], [0, 3]];

/** Devices with their letter, colours and the fill of their shapes. */
export function styled(devices) {
  return devices.map((device, index) => ({
    ...device,
    index,
    letter: letter(index),
    colour: COLOURS[index % COLOURS.length],
    ink: INKS[index % COLOURS.length],
    fill: `url(#device-${index})`,
  }));
}

/** A, B, … Z, AA, AB, … */
export function letter(index) {
  return (index >= 26 ? letter(Math.floor(index / 26) - 1) : "") + String.fromCharCode(65 + (index % 26));
}

/** Patterns for shapes, one per device, as a hidden SVG that every chart of the page refers to. */
export function patterns(devices) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("width", 0);
  svg.setAttribute("height", 0);
  svg.setAttribute("aria-hidden", "true");
  svg.style.position = "absolute";
  const shape = (name, attributes, parent) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return parent.appendChild(made);
  };
  const defs = shape("defs", {}, svg);
  for (const device of devices) {
    const [angle, gap] = STRIPES[(device.index + Math.floor(device.index / STRIPES.length)) % STRIPES.length] ?? [0, 8];
    const plain = device.index === 0;
    const pattern = shape(
      "pattern",
      { id: `device-${device.index}`, width: gap, height: gap, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${angle})` },
      defs,
    );
    shape("rect", { width: gap, height: gap, fill: device.colour }, pattern);
    if (!plain) shape("rect", { width: gap, height: 1, fill: device.ink, "fill-opacity": 0.22 }, pattern);
  }
  return svg;
}
