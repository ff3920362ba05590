#!/usr/bin/env python3
"""What threads bring and cost, in one interleaved run: the pool's fork and join, two threads beside one, processor time
after a run, two sessions at once.

    threads.py MODELS --runner target/release/examples/bench_peer --calibrate target/release/examples/calibrate
               [--only NAME ...] [--rounds N] [--json FILE]

Per model one runner of ours per number of threads alternates with the calibration loop, so that `gain` (p10 of one thread
over p10 of two) can be compared with the machine's own gain at that moment (the peak rate of two threads over that of
one). `after run` is the processor time from 1 ms to 11 ms after a run has ended, as a share of one processor.
`two sessions` is the wall time of K runs on each of two sessions at once over that of 2 K runs on one, and the processor
time likewise: sessions that oversubscribe the machine take more than 1 of either.
"""
import argparse, json, os
import numpy as np
import peers


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("models")
    a.add_argument("--runner", required=True)
    a.add_argument("--calibrate", required=True)
    a.add_argument("--only", nargs="+", default=["kws_dscnn", "mobilenet_v2", "resnet50", "bert_base"])
    a.add_argument("--rounds", type=int, default=7)
    a.add_argument("--turn", type=float, default=0.2, help="seconds of inference per turn")
    a.add_argument("--json")
    a = a.parse_args()
    meta = json.load(open(os.path.join(a.models, "models.json")))
    cache = os.path.join(a.models, "converted")
    os.makedirs(cache, exist_ok=True)
    log = open(os.path.join(cache, "runners.log"), "a")
    result = {}
    p10 = lambda x: float(np.percentile(x, 10))
    for name in a.only:
        inputs, path = peers.inputs(cache, name, meta[name]), os.path.join(a.models, name + ".onnx")
        ours = {n: peers.Runner([a.runner, "polychip", path, str(n), *inputs], log) for n in (1, 2)}
        gauge = {n: peers.Runner([a.calibrate, "calibrate", name, str(n)], log) for n in (1, 2)}
        for w in ours.values():
            w.ask(1)
            w.k = max(3, min(300, int(a.turn / min(s[0] for s in json.loads(w.ask(2))))))
        rates, forks, trips, idle, both = {1: [], 2: []}, [], [], [], []
        for _ in range(a.rounds):
            for n, w in ours.items():
                rates[n] += [float(gauge[n].words[2]) / x[0] for x in json.loads(gauge[n].ask(20))]
                w.turn(w.k)
            forks += json.loads(gauge[2].ask("fork 20"))
            trips += json.loads(gauge[2].ask("trip 20"))
            idle += json.loads(ours[2].ask("idle 3"))
            both.append(json.loads(ours[2].ask(f"both {max(1, ours[2].k // 4)}")))
        times = {n: [x[0] for t in w.samples for x in t] for n, w in ours.items()}
        for w in (*ours.values(), *gauge.values()):
            w.close()
        r = result[name] = {
            "one_ms": p10(times[1]) * 1e3, "two_ms": p10(times[2]) * 1e3, "gain": p10(times[1]) / p10(times[2]),
            "machine_gain": float(np.percentile(rates[2], 90) / np.percentile(rates[1], 90)),
            "fork_us": p10(forks) * 1e6, "round_trip_us": p10(trips) * 1e6,
            "after_run_share": float(np.median([x[0] / x[1] for x in idle])),
            "two_sessions_wall": float(np.median([x[0][0] / x[1][0] for x in both])),
            "two_sessions_cpu": float(np.median([x[0][1] / x[1][1] for x in both])),
        }
        print(f"{name}: 1 thread {r['one_ms']:.3f} ms, 2 threads {r['two_ms']:.3f} ms: {r['gain']:.2f} (machine {r['machine_gain']:.2f}); "
              f"fork-join {r['fork_us']:.3f} us (round trip {r['round_trip_us']:.3f} us); after run {r['after_run_share'] * 100:.1f} %; "
              f"two sessions: wall {r['two_sessions_wall']:.2f}, processor {r['two_sessions_cpu']:.2f}", flush=True)
        if a.json:
            json.dump(result, open(a.json, "w"), indent=1)


if __name__ == "__main__":
    main()
