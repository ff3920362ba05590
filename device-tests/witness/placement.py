#!/usr/bin/env python3
"""Optima of PlacementBench's instances by HiGHS, as `partitioner/benches/optima.json`.

Opt-in: nothing else needs it. With the packages that `highs.py` names:

    cargo xtask placement-bench quality public --seeds 1 --dump FOLDER
    python device-tests/witness/placement.py FOLDER partitioner/benches/optima.json

The model is that of `highs.py`. HiGHS has 60 s and one thread for each instance. One that it does not close in that time
is left out; so is one whose placement, summed again in whole numbers, is not within its tolerance (a relative 1e-9) of its
proven bound. Instances already in the output under the same hash are kept, so that a run can be continued.
"""

import json
import pathlib
import sys
import time

import highs

TOLERANCE = 1e-9
highs.TIME_LIMIT = 60.0


def main():
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    found = json.loads(out.read_text()) if out.exists() else {}
    paths = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_size)
    for path in paths:
        p = json.loads(path.read_text())
        if found.get(path.stem, {}).get("hash") == p["hash"]:
            continue
        start = time.monotonic()
        try:
            value = highs.optimum(p, slack=TOLERANCE)
        except AssertionError as error:
            print(f"{path.stem}: left out after {time.monotonic() - start:.1f} s: {error}", flush=True)
            continue
        found[path.stem] = {"hash": p["hash"], "value": value}
        print(f"{path.stem}: {len(p['cost'])} nodes, {time.monotonic() - start:.1f} s, {value}", flush=True)
        lines = [f"{json.dumps(key)}: {json.dumps(found[key])}" for key in sorted(found)]
        out.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
