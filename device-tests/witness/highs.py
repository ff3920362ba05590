#!/usr/bin/env python3
"""Optima of random placement problems by HiGHS, as fixtures for `partitioner/tests/highs.rs`.

Opt-in: nothing else needs it. Python 3.11 with highspy 1.15.1 and numpy 2.4.6:

    python3 -m venv /tmp/venv-highs && /tmp/venv-highs/bin/pip install highspy==1.15.1 numpy==2.4.6
    /tmp/venv-highs/bin/python device-tests/witness/highs.py partitioner/tests/fixtures/highs

Writes 50 instances of 20 to 300 nodes and 2 to 4 devices, each with the optimum of the objective of
the partitioner: node costs, one launch per maximal run of one device in the order of the nodes, one
transfer per tensor and destination device. Costs are whole numbers; the value of the rounded
solution is summed again in whole numbers, and must agree with HiGHS's proven bound.

Invariants: the instances follow from the seed (Python's own generator, whole numbers only); a file
is written only for a proven optimum.
"""

import json
import pathlib
import random
import sys

import highspy
import numpy as np

COUNT = 50
# seconds for one instance; none: as long as it takes
TIME_LIMIT = None


def instance(seed):
    """A random problem: residual blocks, attention-like fans or random local wiring."""
    r = random.Random(seed)
    nodes = 20 + (seed * 280) // (COUNT - 1)
    devices = (2, 2, 3, 3, 4)[seed % 5]
    kind = ("residual", "fan", "random")[seed % 3]
    readers = [[] for _ in range(nodes)]

    def wire(a, b):
        if a < b < nodes and b not in readers[a]:
            readers[a].append(b)

    if kind == "residual":
        for v in range(nodes - 1):
            wire(v, v + 1)
        for v in range(0, nodes, 6):
            wire(v, v + 4)
    elif kind == "fan":
        # one tensor read by three projections that meet again, and a mask that every block reads
        block = 7
        for v in range(0, nodes, block):
            for k in (1, 2, 3):
                wire(v, v + k)
            wire(v + 1, v + 4)
            wire(v + 2, v + 4)
            wire(v + 4, v + 5)
            wire(v + 3, v + 5)
            wire(v + 5, v + 6)
            wire(v, v + 6)
            wire(v + 6, v + 7)
            wire(0, v + 4)
    else:
        for v in range(1, nodes):
            for _ in range(r.choice((1, 1, 2))):
                wire(max(0, v - r.randint(1, 5)), v)
    speeds = [r.randint(1, 6) for _ in range(devices)]
    cost = []
    for _ in range(nodes):
        work = r.randint(50, 5000)
        row = [work * s // 2 + r.randint(0, work // 3) for s in speeds]
        for d in range(1, devices):
            if r.random() < 0.12:
                row[d] = None
        cost.append(row)
    latency = [[0 if a == b else r.randint(50, 1500) for b in range(devices)] for a in range(devices)]
    rate = [[0 if a == b else r.randint(0, 3) for b in range(devices)] for a in range(devices)]
    tensors = [
        {"source": v, "readers": sorted(readers[v]), "bytes": r.randint(1, 800)}
        for v in range(nodes)
        if readers[v]
    ]
    launch = [r.randint(0, 2000) for _ in range(devices)]
    return {
        "seed": seed,
        "kind": kind,
        "devices": devices,
        "cost": cost,
        "launch": launch,
        "latency": latency,
        "rate": rate,
        "tensors": tensors,
    }


def transfer(p, tensor, a, b):
    if "transfer" in tensor:
        return tensor["transfer"][a * p["devices"] + b]
    return 0 if a == b else p["latency"][a][b] + tensor["bytes"] * p["rate"][a][b]


def objective(p, placement):
    """The objective of a placement, in whole numbers."""
    total = 0
    for v, d in enumerate(placement):
        assert p["cost"][v][d] is not None
        total += p["cost"][v][d]
        if v == 0 or placement[v - 1] != d:
            total += p["launch"][d]
    for t in p["tensors"]:
        a = placement[t["source"]]
        total += sum(transfer(p, t, a, b) for b in {placement[v] for v in t["readers"]})
    return total


class Model:
    """Rows and columns of a mixed-integer program."""

    def __init__(self):
        self.costs, self.upper, self.whole = [], [], []
        self.rows, self.low, self.high = [], [], []

    def column(self, cost, upper=1.0, whole=False):
        self.costs.append(float(cost))
        self.upper.append(float(upper))
        self.whole.append(whole)
        return len(self.costs) - 1

    def row(self, terms, low, high):
        self.rows.append(terms)
        self.low.append(low)
        self.high.append(high)

    def solve(self):
        highs = self.run(TIME_LIMIT)
        assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal, highs.getModelStatus()
        return list(highs.getSolution().col_value), highs.getInfo().mip_dual_bound

    def incumbent(self, seconds):
        """The best solution within a time, if any, and the bound proved by then."""
        highs = self.run(seconds)
        if not highs.getSolution().value_valid:
            return None, None
        return list(highs.getSolution().col_value), highs.getInfo().mip_dual_bound

    def run(self, time_limit):
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.costs), len(self.rows)
        lp.col_cost_ = np.array(self.costs)
        lp.col_lower_ = np.zeros(len(self.costs))
        lp.col_upper_ = np.array(self.upper)
        lp.row_lower_, lp.row_upper_ = np.array(self.low), np.array(self.high)
        lp.integrality_ = [
            highspy.HighsVarType.kInteger if w else highspy.HighsVarType.kContinuous for w in self.whole
        ]
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0] + [len(r) for r in self.rows])
        lp.a_matrix_.index_ = np.array([c for r in self.rows for c, _ in r])
        lp.a_matrix_.value_ = np.array([float(a) for r in self.rows for _, a in r])
        highs = highspy.Highs()
        for key, value in {
            "output_flag": False,
            "threads": 1,
            "random_seed": 0,
            "mip_rel_gap": 0.0,
            "mip_abs_gap": 0.0,
            "mip_feasibility_tolerance": 1e-9,
        }.items():
            highs.setOptionValue(key, value)
        if time_limit is not None:
            highs.setOptionValue("time_limit", time_limit)
        highs.passModel(lp)
        highs.run()
        return highs


def optimum(p, slack=0.0):
    """The optimum; what HiGHS proves may be below it by half a unit, or by `slack` of it."""
    m, k = Model(), p["devices"]
    infinity = highspy.kHighsInf
    x = [
        [m.column(c or 0, upper=0.0 if c is None else 1.0, whole=True) for c in row] for row in p["cost"]
    ]
    for row in x:
        m.row([(c, 1) for c in row], 1.0, 1.0)
    for v, row in enumerate(x):
        for d in range(k):
            starts = m.column(p["launch"][d])
            terms = [(starts, 1), (row[d], -1)] + ([(x[v - 1][d], 1)] if v else [])
            m.row(terms, 0.0, infinity)
    for t in p["tensors"]:
        source = x[t["source"]]
        for b in range(k):
            # each reader on b is served from the device where the tensor is written
            paths = [m.column(transfer(p, t, a, b)) for a in range(k)]
            for a in range(k):
                m.row([(source[a], 1), (paths[a], -1)], 0.0, infinity)
            for v in t["readers"]:
                m.row([(c, 1) for c in paths] + [(x[v][b], -1)], 0.0, infinity)
    values, bound = m.solve()
    placement = [max(range(k), key=lambda d: values[row[d]]) for row in x]
    value = objective(p, placement)
    assert value - bound < max(0.5, slack * value), (value, bound)
    return value


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(COUNT):
        p = instance(seed)
        p["optimum"] = optimum(p)
        text = json.dumps(p, separators=(",", ":"))
        (folder / f"{seed:02}.json").write_text(text + "\n")
        print(f"{seed:02} {p['kind']:8} {len(p['cost']):3} nodes {p['devices']} devices {p['optimum']}", flush=True)


if __name__ == "__main__":
    main()
