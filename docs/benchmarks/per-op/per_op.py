"""`polychip bench --per-op` on several models: whether the steps of a run add up to it, and the overhead of measuring them.

Runs with measured steps alternate with plain runs. Per model two figures, relative to the median plain run:

- the sum of the steps and of the time outside steps, which should be within 3 %; the steps' share is printed beside it;
- the median of the measured runs, which should be at most 5 % longer.

    python3 docs/benchmarks/per-op/per_op.py --polychip target/release/polychip MODEL.onnx ... --json OUT.json

prints the table and writes the figures, with those of each round. Each round measures every model, in its own process;
the table shows medians of the rounds and the limits that a model misses.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

SUM_LIMIT = 0.03
LOOKING_LIMIT = 0.05


def measure(polychip: str, model: pathlib.Path, threads: int, iters: int) -> dict:
    command = [polychip, "bench", str(model), "--per-op", "--json", "--devices", "cpu", "--fill", "1"]
    command += ["--threads", str(threads), "--iters", str(iters)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{model}: {done.stderr.strip()}")
    found = json.loads(done.stdout)["per_op"]
    return {
        "plain_run_ns": found["plain_run_ns"],
        "measured_run_ns": found["measured_run_ns"],
        "steps_ns": found["steps_ns"],
        "outside_ns": found["outside_ns"],
        "steps": len(found["steps"]),
    }


def row(name: str, rounds: list[dict]) -> dict:
    sums = [(one["steps_ns"] + one["outside_ns"]) / one["plain_run_ns"] - 1 for one in rounds]
    kernels = [one["steps_ns"] / one["plain_run_ns"] for one in rounds]
    looking = [one["measured_run_ns"] / one["plain_run_ns"] - 1 for one in rounds]
    found = {
        "model": name,
        "steps": rounds[0]["steps"],
        "plain_run_ns": statistics.median(one["plain_run_ns"] for one in rounds),
        "sum": statistics.median(sums),
        "kernels": statistics.median(kernels),
        "looking": statistics.median(looking),
        "rounds": rounds,
    }
    missed = []
    if abs(found["sum"]) > SUM_LIMIT:
        missed.append("sum")
    if found["looking"] > LOOKING_LIMIT:
        missed.append("overhead")
    found["missed"] = missed
    return found


def table(rows: list[dict]) -> str:
    lines = ["| model | steps | plain run, ms | in steps | sum | overhead | limits missed |", "|---|---|---|---|---|---|---|"]
    for one in rows:
        run = f"{one['plain_run_ns'] / 1e6:.3f}"
        figures = f"{100 * one['kernels']:.1f} % | {100 * one['sum']:+.1f} % | {100 * one['looking']:+.1f} %"
        lines.append(f"| `{one['model']}` | {one['steps']} | {run} | {figures} | {', '.join(one['missed'])} |")
    return "\n".join(lines)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("models", nargs="+", type=pathlib.Path)
    asked.add_argument("--polychip", default="target/release/polychip")
    asked.add_argument("--threads", type=int, default=1)
    asked.add_argument("--iters", type=int, default=30, help="runs of each kind in a round")
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--json", type=pathlib.Path)
    given = asked.parse_args()
    rounds: dict[pathlib.Path, list[dict]] = {model: [] for model in given.models}
    for _ in range(given.rounds):
        for model, found in rounds.items():
            found.append(measure(given.polychip, model, given.threads, given.iters))
    rows = [row(model.stem, found) for model, found in rounds.items()]
    print(table(rows))
    held = sum(not one["missed"] for one in rows)
    print(f"\n{held} of {len(rows)} models hold both limits")
    if given.json:
        kept = {"threads": given.threads, "iters": given.iters, "models": rows}
        given.json.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
