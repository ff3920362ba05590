#!/usr/bin/env python3
"""Least periods of PlacementBench's throughput instances by HiGHS, as `partitioner/benches/throughput_optima.json`.

Opt-in: nothing else needs it. With the packages that `highs.py` names:

    cargo xtask placement-bench throughput --dump FOLDER
    python device-tests/witness/throughput.py FOLDER partitioner/benches/throughput_optima.json [SECONDS]

The period of a placement is the most that a device, or a link from one device to another, is needed for one run: sums of
node costs, and of one transfer per tensor and destination device. Launches are free in these instances, so that any
placement is a plan. HiGHS has 60 s and one thread for each; its best placement, summed again in whole numbers, and the
bound that it proved are kept, whether or not they meet: devices are alike, which makes proofs long.
"""

import json
import pathlib
import sys
import time

import highspy

import highs


def period(p, placement):
    """The period of a placement, in whole numbers."""
    k = p["devices"]
    devices, links = [0] * k, {}
    for v, d in enumerate(placement):
        assert p["cost"][v][d] is not None
        devices[d] += p["cost"][v][d]
    for t in p["tensors"]:
        a = placement[t["source"]]
        for b in {placement[v] for v in t["readers"]} - {a}:
            links[a, b] = links.get((a, b), 0) + t["transfer"][a * k + b]
    return max(devices + list(links.values()))


def solve(p, seconds):
    assert not any(p["launch"])
    m, k = highs.Model(), p["devices"]
    infinity = highspy.kHighsInf
    # in units of the mean load, so that tolerances mean something
    unit = sum(min(c for c in row if c is not None) for row in p["cost"]) / k
    top = m.column(1, upper=infinity)
    x = [[m.column(0, upper=0.0 if c is None else 1.0, whole=True) for c in row] for row in p["cost"]]
    for row in x:
        m.row([(c, 1) for c in row], 1.0, 1.0)
    for d in range(k):
        m.row([(top, 1)] + [(x[v][d], -(row[d] or 0) / unit) for v, row in enumerate(p["cost"])], 0.0, infinity)
    links = {}
    for t in p["tensors"]:
        source = x[t["source"]]
        for a in range(k):
            for b in range(k):
                cost = t["transfer"][a * k + b] / unit
                # what is lost in rounding cannot decide
                if a == b or cost < 1e-7:
                    continue
                moved = m.column(0)
                for v in t["readers"]:
                    m.row([(moved, 1), (source[a], -1), (x[v][b], -1)], -1.0, infinity)
                links.setdefault((a, b), []).append((moved, -cost))
    for terms in links.values():
        m.row([(top, 1)] + terms, 0.0, infinity)
    values, bound = m.incumbent(seconds)
    if values is None:
        return None
    placement = [max(range(k), key=lambda d: values[row[d]]) for row in x]
    return period(p, placement), int(bound * unit * (1 - 1e-6))


def main():
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 60.0
    found = json.loads(out.read_text()) if out.exists() else {}
    for path in sorted(folder.glob("throughput-*.json"), key=lambda path: path.stat().st_size):
        p = json.loads(path.read_text())
        start = time.monotonic()
        answer = solve(p, seconds)
        if answer is None:
            print(f"{path.stem}: no placement in {seconds} s", flush=True)
            continue
        value, bound = answer
        kept = found.get(path.stem, {})
        if kept.get("hash") == p["hash"]:
            value, bound = min(value, kept["value"]), max(bound, kept["bound"])
        found[path.stem] = {"hash": p["hash"], "value": value, "bound": bound}
        print(f"{path.stem}: {len(p['cost'])} nodes, {time.monotonic() - start:.1f} s, {value} of {bound}", flush=True)
        lines = [f"{json.dumps(key)}: {json.dumps(found[key])}" for key in sorted(found)]
        out.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
