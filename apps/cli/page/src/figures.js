// Figures with their units and where they come from, as the command line prints them.

const TIMES = ["ps", "ns", "µs", "ms", "s"];
const ENERGIES = ["nJ", "µJ", "mJ", "J", "kJ"];
const SIZES = ["B", "KiB", "MiB"];
// a line never ends between a figure and its unit
const GAP = "\u00a0";
const UNITS = /(\d) (?=(?:[pnµm]?s|[nµmk]?J|[KM]?i?B|m?W|°C|%|×)(?![\p{L}\d]))/gu;

/** Cut off, not rounded, with so many digits behind the point: the command line does the same. */
function scaled(value, units, step, digits) {
  const size = Math.abs(value);
  let at = 0;
  while (size >= step ** (at + 1) && at + 1 < units.length) at += 1;
  const sign = value < 0 ? "−" : "";
  if (at === 0) return `${sign}${size}${GAP}${units[0]}`;
  const ten = 10 ** digits;
  const cut = Math.floor((size / step ** at) * ten + 1e-9);
  return `${sign}${Math.floor(cut / ten)}.${String(cut % ten).padStart(digits, "0")}${GAP}${units[at]}`;
}

/** Words from elsewhere, in which no line ends between a figure and its unit. */
export const whole = (text) => text.replace(UNITS, `$1${GAP}`);

/** A time in picoseconds. */
export const time = (ps) => scaled(ps, TIMES, 1000, 3);

/** An energy in nanojoules; unknown where there is none. */
export const energy = (nj) => (nj === null || nj === undefined ? "unknown" : scaled(nj, ENERGIES, 1000, 3));

/** A size in bytes; unknown where there is none. */
export const bytes = (size) => (size === null || size === undefined ? "unknown" : scaled(size, SIZES, 1024, 1));

/** A number of things: `1 part`, `2 parts`. */
export const count = (number, thing) => `${number}${GAP}${thing}${number === 1 ? "" : "s"}`;

/** Where a figure comes from, with the label of emulated devices. */
export const provenance = (word, emulated) => (emulated ? `${word}, emulated` : word);

/** Where a cost comes from. */
export const origin = (cost) => (cost ? provenance(cost.provenance, cost.emulated) : "unknown");

/** A cost's time; unknown where there is none. */
export const costTime = (cost) => (cost ? time(cost.time_ps) : "unknown");

/** A counterfactual in words. */
export function counterfactual(found) {
  if (!found) return "not possible, or cost unknown";
  const rest = found.replanned ? "all else planned anew" : "all else where it is";
  return `${found.words}, ${rest}${found.derived ? ", cost derived from other nodes" : ""}`;
}
