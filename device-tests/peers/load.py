#!/usr/bin/env python3
"""Load-to-first-result time and peak memory, a fresh process per runtime and round, in turns.

    load.py MODELS [--only NAME ...] [--threads N] [--rounds N] [--peers onnxruntime ...] [--add NAME=CMD ...] [--json FILE]

A round starts each runtime once, as a runner of peers.py: the time runs from before the session is made to after its
first inference, the model's file being in the page cache. Peak memory is the kernel's high-water mark (VmHWM) of the
process at that moment. A Python peer's time begins after its imports, and `own MB` leaves out what the process held
before it loaded the model, so that neither is charged with Python; of our runner everything is counted.
Reported: medians over the rounds, and each runtime's ratio to the first peer.
"""
import argparse, json, os, statistics, subprocess, sys, time
import peers


def status(pid, key):
    """A figure of /proc/PID/status, in bytes."""
    line = next(x for x in open(f"/proc/{pid}/status") if x.startswith(key + ":"))
    return int(line.split()[1]) * 1024


def started(cmd, log):
    """Seconds, peak bytes, and peak bytes without what was there before, of one runner's load and first run."""
    p = subprocess.Popen(cmd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    before, ready = 0, None
    for line in p.stdout:
        if line.startswith("before"):
            before = int(line.split()[1])
        if line.startswith("ready"):
            ready = float(line.split()[1])
            break
    if ready is None:
        raise RuntimeError("runner failed")
    peak = status(p.pid, "VmHWM")
    p.stdin.close()
    p.wait()
    return ready, peak, peak - before


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("models")
    a.add_argument("--only", nargs="+", default=["resnet50", "bert_base"])
    a.add_argument("--threads", type=int, default=1)
    a.add_argument("--rounds", type=int, default=7)
    a.add_argument("--peers", nargs="+", default=["onnxruntime"])
    a.add_argument("--add", action="append", default=[], metavar="NAME=CMD", help="a further runner command")
    a.add_argument("--wait", type=float, default=2.0, help="longest wait for an idle machine, per start")
    a.add_argument("--json")
    a = a.parse_args()
    meta = json.load(open(os.path.join(a.models, "models.json")))
    cache = os.path.join(a.models, "converted")
    os.makedirs(cache, exist_ok=True)
    log = open(os.path.join(cache, "runners.log"), "a")
    cmds = {p: [sys.executable, os.path.join(peers.HERE, "peers.py"), "--runner"] for p in a.peers}
    cmds.update({n: c.split() for n, c in (x.split("=", 1) for x in a.add)})
    result = {"threads": a.threads, "rounds": a.rounds, "models": {}}
    for name in a.only:
        inputs = peers.inputs(cache, name, meta[name])
        path = os.path.join(a.models, name + ".onnx")
        seen = {p: [] for p in cmds}
        for number in range(a.rounds + 1):
            for p, c in cmds.items():
                end = time.time() + a.wait
                while peers.idle() < 0.9 and time.time() < end:
                    pass
                one = started([*c, p, path, str(a.threads), *inputs], log)
                if number:  # the first round brings files into the page cache
                    seen[p].append(one)
        rows = {p: [statistics.median(x) for x in zip(*s)] for p, s in seen.items()}
        first = rows[next(iter(rows))]
        result["models"][name] = {p: {"first_result_s": r[0], "peak_bytes": r[1], "own_bytes": r[2]} for p, r in rows.items()}
        print(f"\n{name}, {a.threads} thread(s), {os.path.getsize(path) / 1e6:.1f} MB of file")
        print(f"{'runtime':16}{'first ms':>10}{'ratio':>7}{'peak MB':>10}{'ratio':>7}{'own MB':>10}{'ratio':>7}")
        for p, r in rows.items():
            print(f"{p:16}{r[0] * 1e3:10.1f}{r[0] / first[0]:7.2f}{r[1] / 1e6:10.1f}{r[1] / first[1]:7.2f}{r[2] / 1e6:10.1f}{r[2] / first[2]:7.2f}", flush=True)
        if a.json:
            json.dump(result, open(a.json, "w"), indent=1)


if __name__ == "__main__":
    main()
