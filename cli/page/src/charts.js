// The timeline of devices and the front of latency and energy.

import * as Plot from "@observablehq/plot";

import { energy, provenance, time } from "./figures.js";

/** The unit in which the largest of some picoseconds is at least one, and its size. */
function unit(most) {
  const units = [["ps", 1], ["ns", 1e3], ["µs", 1e6], ["ms", 1e9], ["s", 1e12]];
  return units.findLast(([, size]) => most >= size) ?? units[0];
}

/** A chart as one image to a screen reader, which has the table beside it. */
function image(options) {
  const chart = Plot.plot(options);
  chart.setAttribute("role", "img");
  for (const part of chart.querySelectorAll("[aria-label]")) part.removeAttribute("aria-label");
  return chart;
}

/** What each device does when. */
export function timeline(spans, devices) {
  const end = Math.max(1, ...spans.map((span) => span.end_ps));
  const [name, size] = unit(end);
  const device = new Map(devices.map((found) => [found.name, found]));
  const used = devices.filter((found) => spans.some((span) => span.device === found.name));
  const label = (found) => `${found.letter}  ${found.name}${found.emulated ? " (emulated)" : ""}`;
  const row = (span) => label(device.get(span.device));
  const title = (span) =>
    `${span.label}\n${time(span.end_ps - span.start_ps)}, ${provenance(span.provenance, span.emulated)}\nfrom ${time(span.start_ps)}`;
  const bars = (kind) => spans.filter((span) => span.kind === kind && span.end_ps > span.start_ps);
  const at = { x1: (span) => span.start_ps / size, x2: (span) => span.end_ps / size, y: row, title };
  return image({
    ariaLabel: "Timeline of parts, launches and transfers per device",
    ariaDescription: "The table below holds the same figures",
    width: 1200,
    height: 75 + 56 * used.length,
    marginLeft: 150,
    marginBottom: 45,
    style: { background: "none", color: "inherit", fontSize: "13px" },
    x: { label: `predicted time (${name})`, domain: [0, end / size], labelOffset: 40, grid: true },
    y: { label: null, domain: used.map(label) },
    marks: [
      Plot.barX(bars("part"), {
        ...at,
        fill: { value: (span) => device.get(span.device).fill, scale: null },
        stroke: "currentColor",
        strokeWidth: 0.6,
        insetTop: 4,
        insetBottom: 4,
      }),
      Plot.barX(bars("launch"), { ...at, fill: "currentColor", insetTop: 4, insetBottom: 4 }),
      Plot.barX(bars("transfer"), { ...at, fill: "none", stroke: "currentColor", strokeDasharray: "4 3", insetTop: 14, insetBottom: 14 }),
      Plot.ruleX([0]),
    ],
  });
}

/** Plans that no other plan beats in both latency and energy. */
export function front(points) {
  const [name, size] = unit(Math.max(1, ...points.map((point) => point.time_ps)));
  const at = { x: (point) => point.time_ps / size, y: (point) => point.energy_nj / 1e6 };
  const title = (point) => `${point.words}\n${time(point.time_ps)}, ${energy(point.energy_nj)}`;
  return image({
    ariaLabel: "Plans by latency and energy",
    ariaDescription: "The table below holds the same figures",
    width: 720,
    height: 360,
    marginLeft: 60,
    marginBottom: 45,
    style: { background: "none", color: "inherit", fontSize: "13px" },
    x: { label: `latency (${name})`, labelOffset: 40, grid: true },
    y: { label: "energy (mJ)", grid: true },
    marks: [
      Plot.line(points, { ...at, sort: "x", stroke: "currentColor", strokeOpacity: 0.5 }),
      Plot.dot(points, { ...at, title, r: 5, symbol: (point) => (point.chosen ? "star" : "circle"), fill: "currentColor" }),
    ],
  });
}
