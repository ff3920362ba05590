// Figures with their units and where they come from.

const TIMES = ["ps", "ns", "µs", "ms", "s"];
const ENERGIES = ["nJ", "µJ", "mJ", "J", "kJ"];
const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];

function scaled(value, units, step) {
  let at = 0;
  let size = Math.abs(value);
  while (size >= step && at + 1 < units.length) {
    size /= step;
    at += 1;
  }
  const sign = value < 0 ? "−" : "";
  return `${sign}${at === 0 ? size : size.toFixed(3)} ${units[at]}`;
}

/** A time in picoseconds. */
export const time = (ps) => scaled(ps, TIMES, 1000);

/** An energy in nanojoules; unknown where there is none. */
export const energy = (nj) => (nj === null || nj === undefined ? "unknown" : scaled(nj, ENERGIES, 1000));

/** A size in bytes; unknown where there is none. */
export const bytes = (size) => (size === null || size === undefined ? "unknown" : scaled(size, SIZES, 1024));

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
