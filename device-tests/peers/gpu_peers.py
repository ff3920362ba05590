#!/usr/bin/env python3
"""Latency of GPU runtimes on ResNet-50 and MobileNetV2 at batch 1, interleaved with polychip's.

    gpu_peers.py MODELS --polychip BIN --plugins DIR [--device gpu:0] [--only MODEL ...] [--peers PEER ...]
                 [--precisions f32 f16] [--rounds R] [--runs K] [--warm S] [--json OUT.json]

Every peer keeps its model loaded in a process of its own; turns go round-robin, one process at a time. A turn warms up
for --warm seconds (an idle GPU's clock reads several times slow) and then times --runs runs, each with the upload of the
input from host memory and the download of the output to it. `torch` is a CUDA graph with both copies, `torch-resident`
the same without: a bound, not a peer. polychip's turn is one `polychip bench --json`. Figures: the median of all runs,
the median of the best turn, p95; the largest deviation of the output from ONNX Runtime's CPU relative to its largest
value (torch has weights of its own, so none). A peer that cannot start has a row with its words.

Needs numpy and onnx; and what the peers are: onnxruntime-webgpu, ncnn, ai-edge-litert, torch with torchvision. MODELS is
made by make_models.py; conversions are cached in MODELS/converted.
"""
import argparse, json, os, statistics, subprocess, sys, time
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = ["polychip", "onnxruntime-webgpu", "ncnn", "litert", "torch", "torch-resident"]
NAMES = ["mobilenet_v2", "resnet50"]


def image():
    return np.random.default_rng(7).standard_normal((1, 3, 224, 224), dtype=np.float32)


# --- conversions --------------------------------------------------------------------------------
def to_half(source, target):
    """The same graph with f16 weights and tensors; inputs and outputs stay f32, behind Casts."""
    import onnx
    from onnx import TensorProto as T, helper as h, numpy_helper as nh
    m = onnx.load(source)
    g = m.graph
    for i, t in enumerate(g.initializer):
        if t.data_type == T.FLOAT:
            g.initializer[i].CopyFrom(nh.from_array(nh.to_array(t).astype(np.float16), t.name))
    del g.value_info[:]
    nodes = list(g.node)
    ins, outs = {v.name: v.name + "_half" for v in g.input}, {v.name: v.name + "_half" for v in g.output}
    for n in nodes:
        n.input[:] = [ins.get(x, x) for x in n.input]
        n.output[:] = [outs.get(x, x) for x in n.output]
    del g.node[:]
    g.node.extend([h.make_node("Cast", [a], [b], to=T.FLOAT16) for a, b in ins.items()] + nodes
                  + [h.make_node("Cast", [b], [a], to=T.FLOAT) for a, b in outs.items()])
    onnx.checker.check_model(m)
    onnx.save(m, target)


def to_ncnn(source, target):
    """Write TARGET.param and TARGET.bin: convolutions with their activations, pools, sums, one product at the end."""
    import onnx
    from onnx import numpy_helper as nh
    g = onnx.load(source).graph
    w = {t.name: nh.to_array(t) for t in g.initializer}
    uses = {}
    for n in g.node:
        for x in n.input:
            uses.setdefault(x, []).append(n)
    lines, blobs, data, alias, parts = [], set(), [], {}, {}

    def add(kind, ins, outs, **k):
        fields = " ".join(f"{a[1:]}={v}" for a, v in k.items())
        lines.append(f"{kind} l{len(lines)} {len(ins)} {len(outs)} {' '.join(ins + outs)} {fields}".rstrip())
        blobs.update(outs)

    def read(name):
        name = alias.get(name, name)
        return parts[name].pop() if name in parts else name

    def wrote(name):  # a blob has one reader in ncnn
        count = sum(len(uses.get(x, [])) for x in [name])
        if count > 1:
            parts[name] = [f"{name}_s{i}" for i in range(count)]
            add("Split", [name], list(parts[name]))

    def weights(a):
        data.append(np.zeros(1, np.int32).tobytes())  # f32, uncompressed
        data.append(np.ascontiguousarray(a, np.float32).tobytes())

    add("Input", [], ["in0"], _0=224, _1=224, _2=3)
    alias[g.input[0].name] = "in0"
    done = set()
    for n in g.node:
        if id(n) in done:
            continue
        a = {x.name: (list(x.ints) or x.i) for x in n.attribute}
        out = n.output[0]
        if n.op_type == "Conv":
            act, nxt = {}, uses.get(out, [])
            if len(nxt) == 1 and nxt[0].op_type in ("Relu", "Clip"):
                n2 = nxt[0]
                act = {"_9": 1} if n2.op_type == "Relu" else {
                    "_9": 3, "_-23310": f"2,{w[n2.input[1]].item()},{w[n2.input[2]].item()}"}
                done.add(id(n2))
                out = n2.output[0]
            k, s, p, grp = a["kernel_shape"], a["strides"], a["pads"], a.get("group", 1)
            fil = w[n.input[1]]
            grouped = {"_7": grp} if grp > 1 else {}
            add("ConvolutionDepthWise" if grp > 1 else "Convolution", [read(n.input[0])], [out], _0=fil.shape[0],
                _1=k[1], _11=k[0], _3=s[1], _13=s[0], _4=p[1], _14=p[0], _15=p[3], _16=p[2], _5=1, _6=fil.size,
                **grouped, **act)
            weights(fil)
            data.append(np.ascontiguousarray(w[n.input[2]], np.float32).tobytes())
        elif n.op_type == "Relu":
            add("ReLU", [read(n.input[0])], [out])
        elif n.op_type == "Add":
            add("BinaryOp", [read(n.input[0]), read(n.input[1])], [out], _0=0)
        elif n.op_type == "MaxPool":
            add("Pooling", [read(n.input[0])], [out], _0=0, _1=a["kernel_shape"][0], _2=a["strides"][0],
                _3=a["pads"][0], _5=1)
        elif n.op_type == "GlobalAveragePool":
            add("Pooling", [read(n.input[0])], [out], _0=1, _4=1)
        elif n.op_type == "Flatten":
            add("Flatten", [read(n.input[0])], [out])
        elif n.op_type == "Gemm":
            fil = w[n.input[1]]
            add("InnerProduct", [read(n.input[0])], [out], _0=fil.shape[0], _1=1, _2=fil.size)
            weights(fil)
            data.append(np.ascontiguousarray(w[n.input[2]], np.float32).tobytes())
        elif n.op_type == "Identity":
            add("Noop", [read(n.input[0])], ["out0"])
            continue
        else:
            raise ValueError(f"{n.op_type} is not converted")
        wrote(out)
    with open(target + ".param", "w") as f:
        f.write(f"7767517\n{len(lines)} {len(blobs)}\n" + "\n".join(lines) + "\n")
    with open(target + ".bin", "wb") as f:
        f.write(b"".join(data))


# --- runners: each gives a function that uploads, runs and downloads ------------------------------
def onnxruntime_webgpu(path, half):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.log_severity_level = 3
    s = ort.InferenceSession(path, options, providers=["WebGpuExecutionProvider"])
    if "WebGpuExecutionProvider" not in s.get_providers():
        raise RuntimeError("no WebGPU adapter")
    name = s.get_inputs()[0].name
    return lambda x: s.run(None, {name: x})[0]


def ncnn(path, half):
    import ncnn as n
    if n.get_gpu_count() == 0:
        raise RuntimeError("no Vulkan device")
    net = n.Net()
    net.opt.use_vulkan_compute = True
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = half
    if net.load_param(path + ".param") or net.load_model(path + ".bin"):
        raise RuntimeError("ncnn does not take the model")

    def run(x):
        ex = net.create_extractor()
        ex.input("in0", n.Mat(x[0]))
        return np.array(ex.extract("out0")[1])
    run.keep = net
    return run


def litert(path, half):
    from ai_edge_litert.compiled_model import CompiledModel, GpuOptions, HardwareAccelerator, Options
    model = CompiledModel.from_file(path, options=Options(
        hardware_accelerators=HardwareAccelerator.GPU, gpu_options=GpuOptions(enforce_f32=not half)))
    ins, outs = model.create_input_buffers(0), model.create_output_buffers(0)

    def run(x):
        ins[0].write(np.ascontiguousarray(x.transpose(0, 2, 3, 1)))
        model.run_by_index(0, ins, outs)
        return np.array(outs[0].read(1000, np.float32))
    return run


def torch(path, half, resident=False):
    import torch as t
    import torchvision
    name = {"resnet50": "resnet50", "mobilenet_v2": "mobilenet_v2"}[os.path.basename(path)]
    t.backends.cudnn.benchmark = True
    net = getattr(torchvision.models, name)(weights=None).eval().cuda().to(memory_format=t.channels_last)
    from torch.fx.experimental.optimization import fuse
    net = fuse(net)
    net = net.half() if half else net
    x = t.zeros(1, 3, 224, 224, device="cuda", dtype=t.half if half else t.float).to(memory_format=t.channels_last)
    pinned = t.zeros(1, 3, 224, 224).pin_memory()
    stream = t.cuda.Stream()
    with t.no_grad(), t.cuda.stream(stream):
        for _ in range(5):
            net(x)
    t.cuda.synchronize()
    graph = t.cuda.CUDAGraph()
    with t.no_grad(), t.cuda.graph(graph):
        y = net(x)

    def run(a):
        if not resident:
            pinned.copy_(t.from_numpy(a))
            x.copy_(pinned, non_blocking=True)
        graph.replay()
        if resident:
            t.cuda.synchronize()
            return None
        return y.float().cpu().numpy()
    return run


RUNNERS = {"onnxruntime-webgpu": onnxruntime_webgpu, "ncnn": ncnn, "litert": litert, "torch": torch,
           "torch-resident": lambda path, half: torch(path, half, True)}


def runner(peer, path, precision, warm, runs):
    """Prints `ready FIRST_RUN_S DEVIATION`, then answers each line with the times of a turn as JSON."""
    pipe = os.fdopen(os.dup(1), "w")  # runtimes may print on stdout: keep the protocol apart
    os.dup2(2, 1)
    try:
        start = time.perf_counter()
        run, x = RUNNERS[peer](path, precision == "f16"), image()
        y = run(x)
        first = time.perf_counter() - start
        if y is not None:
            np.save(path + f".{peer}.{precision}.npy", np.asarray(y, np.float32))
    except Exception as error:  # its words are its row
        print(json.dumps({"error": f"{type(error).__name__}: {error}"[:300]}), file=pipe, flush=True)
        return
    print(json.dumps({"first_s": first}), file=pipe, flush=True)
    for _ in sys.stdin:
        end, times = time.perf_counter() + warm, []
        while time.perf_counter() < end:
            run(x)
        for _ in range(runs):
            start = time.perf_counter()
            run(x)
            times.append(time.perf_counter() - start)
        print(json.dumps({"times": times}), file=pipe, flush=True)


class Peer:
    """A runner process."""

    def __init__(self, peer, path, precision, o):
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--runner", peer, path, precision, str(o.warm), str(o.runs)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None if o.verbose else subprocess.DEVNULL, text=True)
        said = self.process.stdout.readline()
        self.said = json.loads(said) if said else {"error": f"it died ({self.process.wait()})"}
        self.path, self.peer, self.precision = path, peer, precision

    def turn(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        said = self.process.stdout.readline()
        if not said:
            raise RuntimeError(f"it died ({self.process.wait()})")
        return json.loads(said)["times"]

    def deviation(self, wanted):
        file = self.path + f".{self.peer}.{self.precision}.npy"
        if self.peer.startswith("torch") or not os.path.exists(file):
            return None
        return float(np.abs(np.load(file).ravel() - wanted.ravel()).max() / np.abs(wanted).max())

    def close(self):
        self.process.kill()
        self.process.wait()


class Polychip:
    """One `polychip bench` per turn; compiled parts come from its cache after the first."""

    def __init__(self, path, precision, o):
        self.command = [o.polychip, "bench", path, "--json", "--plugins", o.plugins, "--devices", o.device,
                        "--cache", os.path.join(os.path.dirname(path), "converted", "cache"),
                        "--iters", str(o.runs), *(["--precision", "reduced"] if precision == "f16" else [])]
        self.o, self.per_run = o, None
        try:
            start = time.perf_counter()
            self.per_run = self.bench(1)["p50"] / 1e9
            self.said = {"first_s": time.perf_counter() - start}
        except Exception as error:
            self.said = {"error": str(error)[:300]}

    def bench(self, warmup):
        done = subprocess.run(self.command + ["--warmup", str(warmup)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-300:])
        return json.loads(done.stdout)["latency_ns"]

    def turn(self):
        found = self.bench(max(1, int(self.o.warm / self.per_run)))
        self.per_run = found["p50"] / 1e9
        # these percentiles represent the distribution of the runs
        return [found[key] / 1e9 for key in ("min", "p10", "p50", "p50", "p50", "p90", "max")]

    def deviation(self, wanted):
        return None

    def close(self):
        pass


def reference(path):
    try:
        import onnxruntime as ort
    except ImportError:
        return None
    s = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return s.run(None, {s.get_inputs()[0].name: image()})[0]


def prepare(models, name, precision, peer):
    """The file that a peer reads."""
    source = os.path.join(models, f"{name}.onnx")
    folder = os.path.join(models, "converted")
    os.makedirs(folder, exist_ok=True)
    if peer == "polychip":
        return source
    if peer.startswith("torch"):
        return name
    if peer == "onnxruntime-webgpu":
        if precision == "f32":
            return source
        target = os.path.join(folder, f"{name}.f16.onnx")
        if not os.path.exists(target):
            to_half(source, target)
        return target
    if peer == "ncnn":
        target = os.path.join(folder, f"{name}.ncnn")
        if not os.path.exists(target + ".bin"):
            to_ncnn(source, target)
        return target
    target = os.path.join(folder, f"{name}.tflite")
    if not os.path.exists(target):
        subprocess.run([sys.executable, os.path.join(HERE, "onnx2tflite.py"), source, target, "--exact-pad"], check=True)
    return target


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("models")
    p.add_argument("--polychip")
    p.add_argument("--plugins", default="")
    p.add_argument("--device", default="gpu:0")
    p.add_argument("--only", nargs="+", default=NAMES)
    p.add_argument("--peers", nargs="+", default=PEERS)
    p.add_argument("--precisions", nargs="+", default=["f32", "f16"])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--runs", type=int, default=50)
    p.add_argument("--warm", type=float, default=0.5)
    p.add_argument("--json")
    p.add_argument("--verbose", action="store_true")
    o = p.parse_args()
    rows = []
    for name in o.only:
        wanted = reference(os.path.join(o.models, f"{name}.onnx"))
        for precision in o.precisions:
            peers, turns = {}, {}
            for peer in o.peers:
                row = {"model": name, "precision": precision, "peer": peer}
                rows.append(row)
                try:
                    path = prepare(o.models, name, precision, peer)
                    if peer == "polychip" and not o.polychip:
                        raise RuntimeError("--polychip names its program")
                    found = Polychip(path, precision, o) if peer == "polychip" else Peer(peer, path, precision, o)
                except Exception as error:
                    row["error"] = str(error)[:300]
                    continue
                row.update(found.said)
                if "error" not in row:
                    peers[peer], turns[peer] = (found, row), []
                    if wanted is not None:
                        row["deviation"] = found.deviation(wanted)
            for _ in range(o.rounds):
                for peer, (found, row) in list(peers.items()):
                    try:
                        turns[peer].append(found.turn())
                    except Exception as error:
                        row["error"] = str(error)[:300]
                        peers.pop(peer)
            for peer, (found, row) in peers.items():
                times = sorted(t for turn in turns[peer] for t in turn)
                row["median_ms"] = statistics.median(times) * 1e3
                row["best_turn_ms"] = min(statistics.median(turn) for turn in turns[peer]) * 1e3
                row["p95_ms"] = times[min(len(times) - 1, int(0.95 * len(times)))] * 1e3
                found.close()
    print(f"{'model':14} {'prec':5} {'peer':20} {'median':>9} {'best':>9} {'p95':>9} {'first s':>8} {'deviation':>10}")
    for row in rows:
        head = f"{row['model']:14} {row['precision']:5} {row['peer']:20}"
        if "median_ms" not in row:
            print(head, row.get("error", "no figure"))
            continue
        apart = f"{row['deviation']:.1e}" if row.get("deviation") is not None else "-"
        print(f"{head} {row['median_ms']:9.3f} {row['best_turn_ms']:9.3f} {row['p95_ms']:9.3f} {row['first_s']:8.2f} {apart:>10}")
    if o.json:
        with open(o.json, "w") as f:
            json.dump({"rounds": o.rounds, "runs": o.runs, "warm_s": o.warm, "rows": rows}, f, indent=1)


if __name__ == "__main__":
    if len(sys.argv) == 7 and sys.argv[1] == "--runner":
        runner(*sys.argv[2:5], float(sys.argv[5]), int(sys.argv[6]))
    else:
        main()
