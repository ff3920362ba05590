// The first screen: the verdict, what each device is used for, the dearest parts and the cheapest unlocks, and what
// changed since another plan.

import { bars } from "./charts.js";
import { badge, element } from "./dom.js";
import { count, energy, origin, time, whole } from "./figures.js";

/** So many parts and unlocks stand on the first screen. */
const FIRST = 3;

const usage = (devices) => new Map(devices.map((device) => [device.name, device]));

/** Bars of the plan's devices, and of those of the plan that it is compared with. */
export function devices(data, styled) {
  const now = usage(data.devices);
  const plans = data.against
    ? [
        { when: "before", usage: usage(data.against.devices) },
        { when: "now", usage: now },
      ]
    : [{ when: null, usage: now }];
  return bars(plans, styled);
}

/** The dearest parts, each a button that shows it. */
export function dearest(parts, device, choose) {
  const cost = (part) => part.cost.time_ps + part.launch_ps;
  const sorted = [...parts].sort((a, b) => cost(b) - cost(a)).slice(0, FIRST);
  const all = parts.reduce((sum, part) => sum + cost(part), 0);
  return element(
    "ol",
    {},
    sorted.map((part) =>
      element(
        "li",
        {},
        element("button", { type: "button", onclick: () => choose(part.part) }, `Part ${part.part}`),
        " on ",
        badge(device.get(part.device)),
        element("br"),
        `${time(cost(part))}, ${Math.round((100 * cost(part)) / (all || 1))}\u00a0% of all parts`,
        element("span", { class: "soft" }, ` (${origin(part.cost)}); ${part.ops.slice(0, 3).map(([op, many]) => `${many}\u00a0${op}`).join(", ")}${part.ops.length > 3 ? ", …" : ""}`),
      ),
    ),
  );
}

/** What would save most: support of one more op, and limits that hold the plan back. */
export function unlocks(data, device) {
  const ops = data.unlocks.slice(0, FIRST).map((unlock) =>
    element(
      "li",
      {},
      `${unlock.op} on `,
      badge(device.get(unlock.device)),
      element("br"),
      `would save ${whole(unlock.words)}`,
      element("span", { class: "soft" }, `; it refuses ${count(unlock.nodes, "node")}${unlock.derived ? ", cost derived from others" : ""}`),
    ),
  );
  const limits = data.limits.map((words) => element("li", {}, whole(words)));
  if (ops.length + limits.length === 0) return element("p", {}, "Supporting a refused op would not improve the plan, and no limit binds.");
  return element("ol", {}, limits, ops);
}

/** What changed since the other plan: the words of `polychip plan diff`, and what both plans are. */
export function against(found, data) {
  const row = (when, title, objective, took, used) => [when, title, objective, time(took), energy(used)];
  return [
    element("p", { class: "verdict" }, whole(`${found.headline[0].toUpperCase()}${found.headline.slice(1)}.`)),
    [
      row("before", found.title, whole(found.objective), found.time_ps, found.energy_nj),
      row("now", data.title, whole(data.report.objective), data.ends_ps, data.report.totals.energy_nj),
    ],
  ];
}
