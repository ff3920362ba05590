// What repeats, folded: parts into boxes, blocks of nodes that stand in a row several times into one with a count.

/** Fewest nodes that folding must save. */
const LEAST = 2;

/**
 * A row of things as runs `{start, period, times}` in order, which cover it: `times` over stands the same `period` long
 * piece. Pieces that save most are taken first.
 */
export function repeats(signs, longest = 512) {
  const count = signs.length;
  const found = [];
  for (let period = 1; period <= Math.min(longest, count >> 1); period += 1) {
    let same = 0;
    for (let at = count - period - 1; at >= -1; at -= 1) {
      if (at >= 0 && signs[at] === signs[at + period]) {
        same += 1;
        continue;
      }
      const times = Math.floor(same / period) + 1;
      if (times > 1 && (times - 1) * period >= LEAST) found.push({ start: at + 1, period, times });
      same = 0;
    }
  }
  const saved = ({ period, times }) => (times - 1) * period;
  found.sort((a, b) => saved(b) - saved(a) || a.period - b.period || a.start - b.start);
  const taken = new Array(count).fill(null);
  for (const run of found) {
    const end = run.start + run.period * run.times;
    // a run that begins or ends in another is shorter than it looks, and one in the middle of another is none
    if (taken[run.start] !== null || taken[end - 1] !== null) continue;
    if (taken.slice(run.start, end).some((other) => other !== null)) continue;
    taken.fill(run, run.start, end);
  }
  const runs = [];
  for (let at = 0; at < count; ) {
    const run = taken[at] ?? { start: at, period: 1, times: 1 };
    runs.push(run);
    at += run.period * run.times;
  }
  return runs;
}

/** Parts, what repeats among them, and what repeats among the nodes of each. */
export function folded(nodes, parts) {
  const members = parts.map(() => []);
  nodes.forEach((node, index) => members[node.part].push(index));
  const signs = members.map((all) => all.map((index) => nodes[index].op));
  const rows = repeats(parts.map((part, index) => `${part.device} ${signs[index].join(" ")}`), 64);
  // of parts that are alike, one is folded for all
  const blocks = new Map();
  for (const { start, period } of rows) for (let part = start; part < start + period; part += 1) blocks.set(part, repeats(signs[part]));
  return { members, rows, blocks };
}

/**
 * The boxes that are seen where some parts and blocks are open, and the edges between them. A box holds all nodes that
 * it stands for; every edge goes from a box to a later one.
 */
export function boxes({ members, rows, blocks }, edges, count, open) {
  const all = [];
  const boxOf = new Array(count).fill(-1);
  // which of several equal parts and blocks a node is in: edges between those are what the count says
  const turn = new Array(count).fill("");
  const add = (box, nodes) => {
    nodes.forEach((node) => (boxOf[node] = all.length));
    all.push({ ...box, nodes });
  };
  rows.forEach(({ start, period, times }, row) => {
    for (let part = start; part < start + period; part += 1) {
      const alike = Array.from({ length: times }, (_, time) => part + time * period);
      const of = (at) => alike.map((one) => members[one][at]);
      alike.forEach((one, time) => members[one].forEach((node) => (turn[node] = `${row}.${time}`)));
      if (!open.has(`part ${part}`)) {
        add({ kind: "part", key: `part ${part}`, part, times, alike }, alike.flatMap((one) => members[one]));
        continue;
      }
      for (const block of blocks.get(part)) {
        const key = `block ${part}.${block.start}`;
        const length = block.period * block.times;
        const places = Array.from({ length }, (_, index) => block.start + index);
        if (block.times > 1) places.forEach((at) => of(at).forEach((node) => (turn[node] += ` ${block.start}.${Math.floor((at - block.start) / block.period)}`)));
        if (block.times > 1 && !open.has(key)) {
          add({ kind: "block", key, part, times: block.times * times, period: block.period, first: members[part].slice(block.start, block.start + block.period) }, places.flatMap(of));
          continue;
        }
        for (let at = 0; at < block.period; at += 1) {
          const same = Array.from({ length: block.times }, (_, time) => block.start + at + time * block.period);
          add({ kind: "node", key: `node ${members[part][block.start + at]}`, part, times: block.times * times, block: block.times > 1 ? key : null }, same.flatMap(of));
        }
      }
    }
  });
  const seen = new Map();
  const rowOf = (node) => turn[node].split(/[. ]/, 1)[0];
  for (const [from, to] of edges) {
    const [a, b] = [boxOf[from], boxOf[to]];
    if (a >= b || a < 0) continue;
    // from one of several equal ones to the next
    if (turn[from] !== turn[to] && rowOf(from) === rowOf(to) && isNext(turn[from], turn[to])) continue;
    const key = a * all.length + b;
    seen.set(key, (seen.get(key) ?? 0) + 1);
  }
  const lines = [...seen.keys()].map((key) => [Math.floor(key / all.length), key % all.length]);
  return { boxes: all, edges: lines, boxOf };
}

/** Whether two turns are of one row of parts but not of one part of it, or of one row of blocks but not of one block. */
function isNext(one, other) {
  const [a, b] = [one.split(" "), other.split(" ")];
  if (a[0] !== b[0]) return true;
  return a.length > 1 && b.length > 1 && a[1].split(".")[0] === b[1].split(".")[0];
}
