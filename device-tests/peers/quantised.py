#!/usr/bin/env python3
"""Compare networks that ONNX Runtime's own tools quantise with ONNX Runtime, in every combination the tools write.

    quantised.py [--only NAME,...] [--combinations PATTERN,...] [--threads 1,2] [--rounds 5] [--page FILE.md]

Needs onnx, onnxruntime and numpy. `cargo xtask models` makes most of the float networks; this script makes the rest.
Each round runs ONNX Runtime, then `polychip bench`; the table shows the medians over rounds of each round's
tenth percentile, their ratio, the prediction of an unmeasured plan in parts of our time, and the largest difference between the outputs, relative to the largest output.
`--isa avx2` holds both to AVX2 (target/peers/narrow.so, which `cargo xtask peers --isa avx2` builds).
"""
import argparse
import fnmatch
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GENERATED = os.path.join(ROOT, "device-tests/generated/models")
NETWORKS = ["kws_dscnn", "mobilenet_v2", "squeezenet1_1", "resnet_small", "minilm_l6", "unet", "lstm", "gru",
            "yolov8n", "mlp"]


class Maker:
    """Small networks with random weights."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants = [], []

    def constant(self, value):
        from onnx import numpy_helper
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, *shape, depth=None):
        depth = depth or int(np.prod(shape[1:]))
        return self.constant((self.rng.standard_normal(shape) * (2 / depth) ** 0.5).astype(np.float32))

    def op(self, kind, *inputs, outputs=1, **attributes):
        from onnx import helper
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, f"n{len(self.nodes)}", **attributes))
        return names[0]

    def conv(self, x, channels_in, channels, kernel=3, stride=1, relu=True):
        pad = [kernel // 2] * 4
        y = self.op("Conv", x, self.weight(channels, channels_in, kernel, kernel),
                    self.constant((0.1 * self.rng.standard_normal(channels)).astype(np.float32)),
                    kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pad)
        return self.op("Relu", y) if relu else y

    def save(self, path, shape, y):
        import onnx
        from onnx import helper
        self.nodes[-1].output[0] = "output"
        graph = helper.make_graph(
            self.nodes, "network", [helper.make_tensor_value_info("input", 1, shape)],
            [helper.make_tensor_value_info("output", 1, None)], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)


def make(name, path):
    m = Maker(len(name))
    if name == "resnet_small":
        x = m.conv("input", 3, 32, 7, 2)
        channels = 32
        for width, stride in ((32, 1), (64, 2), (128, 2), (256, 2)):
            y = m.conv(x, channels, width, 3, stride)
            y = m.conv(y, width, width, 3, 1, relu=False)
            if stride != 1:
                x = m.conv(x, channels, width, 1, stride, relu=False)
            x = m.op("Relu", m.op("Add", y, x))
            channels = width
        x = m.op("Flatten", m.op("GlobalAveragePool", x))
        x = m.op("Gemm", x, m.weight(100, 256), m.constant(np.zeros(100, np.float32)), transB=1)
        m.save(path, [1, 3, 128, 128], x)
    elif name == "unet":
        a = m.conv(m.conv("input", 3, 16), 16, 16)
        b = m.conv(m.op("MaxPool", a, kernel_shape=[2, 2], strides=[2, 2]), 16, 32)
        c = m.conv(m.op("MaxPool", b, kernel_shape=[2, 2], strides=[2, 2]), 32, 64)
        c = m.conv(c, 64, 64)
        up = m.op("ConvTranspose", c, m.weight(64, 32, 2, 2, depth=64), kernel_shape=[2, 2], strides=[2, 2])
        d = m.conv(m.op("Concat", up, b, axis=1), 64, 32)
        scales = m.constant(np.array([1, 1, 2, 2], np.float32))
        up = m.op("Resize", d, "", scales, mode="nearest", nearest_mode="floor",
                  coordinate_transformation_mode="asymmetric")
        e = m.conv(m.op("Concat", up, a, axis=1), 48, 16)
        y = m.op("Sigmoid", m.conv(e, 16, 2, 1, relu=False))
        m.save(path, [1, 3, 128, 128], y)
    elif name in ("lstm", "gru"):
        size, hidden = 64, 128
        gates = {"lstm": 4, "gru": 3}[name]
        x = m.op("Transpose", "input", perm=[1, 0, 2])
        for width in (size, hidden):
            x = m.op(name.upper(), x, m.weight(1, gates * hidden, width, depth=width),
                     m.weight(1, gates * hidden, hidden, depth=hidden), hidden_size=hidden)
            x = m.op("Squeeze", x, m.constant(np.array([1], np.int64)))
        x = m.op("MatMul", x, m.weight(hidden, 32, depth=hidden))
        m.save(path, [1, 50, size], x)
    elif name == "mlp":
        x = "input"
        for i, o in ((256, 512), (512, 512), (512, 64)):
            x = m.op("Add", m.op("MatMul", x, m.weight(i, o, depth=i)), m.constant(np.zeros(o, np.float32)))
            x = m.op("Relu" if o == 512 else "Softmax", x)
        m.save(path, [16, 256], x)
    else:
        raise SystemExit(f"{name} is missing: run `cargo xtask models`")


def combinations():
    """The name and the arguments of each combination."""
    for form in ("qdq", "qop"):
        for activation, weight in (("u8", "u8"), ("u8", "s8"), ("s8", "s8")):
            for channel in (False, True):
                for reduced in (False, True):
                    for symmetric in (False, True):
                        name = f"{form}-{activation}{weight}" + "-channel" * channel + "-reduced" * reduced
                        yield name + "-symmetric" * symmetric, dict(
                            form=form, activation=activation, weight=weight, channel=channel, reduced=reduced,
                            symmetric=symmetric)
    for weight in ("u8", "s8"):
        for channel in (False, True):
            for reduced in (False, True):
                name = f"dynamic-{weight}" + "-channel" * channel + "-reduced" * reduced
                yield name, dict(form="dynamic", weight=weight, channel=channel, reduced=reduced)


def inputs_of(path, seed):
    import onnx
    import logging
    logging.disable(logging.WARNING)
    rng = np.random.default_rng(seed)
    model = onnx.load(path, load_external_data=False)
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = {}
    for i in model.graph.input:
        if i.name in stored:
            continue
        shape = [d.dim_value or 1 for d in i.type.tensor_type.shape.dim]
        if i.type.tensor_type.elem_type == 1:
            inputs[i.name] = rng.standard_normal(shape, dtype=np.float32)
        elif "mask" in i.name:
            inputs[i.name] = np.ones(shape, np.int64)
        elif "type" in i.name:
            inputs[i.name] = np.zeros(shape, np.int64)
        else:
            inputs[i.name] = rng.integers(0, 1000, shape)
    return inputs


def quantise(source, path, form, weight, channel, reduced, activation=None, symmetric=False):
    from onnxruntime import quantization as q
    kinds = {"u8": q.QuantType.QUInt8, "s8": q.QuantType.QInt8}
    if form == "dynamic":
        q.quantize_dynamic(source, path, weight_type=kinds[weight], per_channel=channel, reduce_range=reduced)
        return

    class Normal(q.CalibrationDataReader):
        def __init__(self):
            self.it = iter([inputs_of(source, seed) for seed in range(4)])

        def get_next(self):
            return next(self.it, None)

    extra = {"ActivationSymmetric": symmetric, "WeightSymmetric": symmetric or weight == "s8"}
    formats = {"qdq": q.QuantFormat.QDQ, "qop": q.QuantFormat.QOperator}
    q.quantize_static(source, path, Normal(), quant_format=formats[form], per_channel=channel, reduce_range=reduced,
                      activation_type=kinds[activation], weight_type=kinds[weight], extra_options=extra)


def prepared(name, folder):
    from onnxruntime.quantization.shape_inference import quant_pre_process
    path = os.path.join(folder, name + ".onnx")
    if not os.path.exists(path):
        source = os.path.join(GENERATED, name + ".onnx")
        if not os.path.exists(source):
            source = os.path.join(folder, name + ".made")
            make(name, source)
        quant_pre_process(source, path, skip_symbolic_shape=True)
    return path


def peer(path, feed, threads):
    import onnxruntime as ort
    ort.set_default_logger_severity(3)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session, session.run(None, feed)


def timed(session, feed, seconds):
    for _ in range(3):
        session.run(None, feed)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        session.run(None, feed)
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 10] * 1e3


def polychip(cli, command, path, feeds, threads, *more):
    arguments = [cli, command, path, "--devices", "cpu", "--threads", str(threads), *more]
    for name, file in feeds.items():
        arguments += ["--input", f"{name}={file}"]
    environment = {**os.environ, "POLYCHIP_PLUGINS": "", "VK_ICD_FILENAMES": "none"}
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-400:])
    return done.stdout


def difference(theirs, folder):
    """The largest difference of any output, in parts of its largest value."""
    largest = 0.0
    for name, value in theirs.items():
        value = np.asarray(value, np.float64)
        ours = np.load(os.path.join(folder, name.replace("/", "_") + ".npy")).astype(np.float64)
        # max() of Python drops what is no number
        if ours.shape != value.shape or (np.isfinite(ours) != np.isfinite(value)).any():
            return float("inf")
        value, ours = value[np.isfinite(value)], ours[np.isfinite(value)]
        if not value.size:
            continue
        largest = max(largest, float(np.abs(ours - value).max() / max(np.abs(value).max(), 1e-30)))
    return largest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(NETWORKS))
    parser.add_argument("--combinations", default="*")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--isa", choices=["avx2"])
    parser.add_argument("--cli", default=os.path.join(ROOT, "target/release/polychip"))
    parser.add_argument("--folder", default=os.path.join(ROOT, "target/peers/quantised"))
    parser.add_argument("--page", help="write the table to this page")
    a = parser.parse_args()
    narrow = os.path.join(ROOT, "target/peers/narrow.so")
    if a.isa and "narrow.so" not in os.environ.get("LD_PRELOAD", ""):
        os.environ["LD_PRELOAD"] = narrow
        os.execv(sys.executable, [sys.executable, *sys.argv])
    os.makedirs(a.folder, exist_ok=True)
    rows = []
    patterns = a.combinations.split(",")
    print(f"{'network':20} {'combination':32} thr  ort ms  our ms  ratio  pred/ms  diff", flush=True)
    for name in a.only.split(","):
        source = prepared(name, a.folder)
        feed = inputs_of(source, 9)
        for combination, arguments in combinations():
            if not any(fnmatch.fnmatch(combination, pattern) for pattern in patterns):
                continue
            path = os.path.join(a.folder, f"{name}.{combination}.onnx")
            try:
                if not os.path.exists(path):
                    quantise(source, path, **arguments)
            except Exception as error:  # the tools refuse some combinations
                print(f"{name:20} {combination:32} not written: {str(error)[:80]}", flush=True)
                continue
            for threads in map(int, a.threads.split(",")):
                rows.append(measured(a, name, combination, path, feed, threads))
    if a.page:
        page(a.page, rows)


def page(path, rows):
    """One row for each network and combination, the worst ratios first."""
    import onnxruntime
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), "?")
    threads = sorted({row["threads"] for row in rows})
    cases = {}
    for row in rows:
        cases.setdefault((row["network"], row["combination"]), {})[row["threads"]] = row
    lines = ["| network | combination |" + "".join(
        f" ONNX Runtime, {t} thr. | ours, {t} thr. | ratio, {t} thr. | predicted, {t} thr. |" for t in threads)
        + " difference |", "|---|---|" + "---:|" * (4 * len(threads) + 1)]
    worst = lambda case: -max(row.get("ratio", 99) for row in case[1].values())
    for (network, combination), by in sorted(cases.items(), key=worst):
        cells = [f" {row['ort_ms']:.3f} ms | {row['ms']:.3f} ms | {row['ratio']:.2f} | "
                 f"{row['predicted_ms'] / row['ms']:.2f} |" if "ms" in row else " failed | | | |"
                 for row in (by.get(t, {}) for t in threads)]
        most = max(row.get("difference", 0) for row in by.values())
        lines.append(f"| {network} | {combination} |" + "".join(cells) + f" {most:.1e} |")
    text = (f"{cpu}, {os.cpu_count()} processors, ONNX Runtime {onnxruntime.__version__}, "
            f"{time.strftime('%Y-%m-%d')}: `{' '.join(sys.argv)}`\n\n")
    open(path, "w").write(text + "\n".join(lines) + "\n")


def measured(a, name, combination, path, feed, threads):
    row = {"network": name, "combination": combination, "threads": threads}
    with tempfile.TemporaryDirectory() as folder:
        feeds = {}
        for index, (tensor, value) in enumerate(feed.items()):
            feeds[tensor] = os.path.join(folder, f"{index}.npy")
            np.save(feeds[tensor], value)
        try:
            session, values = peer(path, feed, threads)
            theirs = {o.name: v for o, v in zip(session.get_outputs(), values)}
            outputs = os.path.join(folder, "outputs")
            polychip(a.cli, "run", path, feeds, threads, "--save", outputs)
            row["difference"] = difference(theirs, outputs)
            runs = []
            for _ in range(a.rounds):
                peers_ms = timed(session, feed, a.seconds)
                text = polychip(a.cli, "bench", path, feeds, threads, "--json", "--duration", str(a.seconds))
                bench = json.loads(text)
                own = bench["latency_ns"]["p10"] / 1e6, bench["report"]["predicted_ns"] / 1e6
                runs.append((peers_ms, *own))
        except RuntimeError as error:
            row["error"] = str(error)
            print(f"{name:20} {combination:32} {threads:3}  {error}", flush=True)
            return row
    row["ort_ms"], row["ms"], row["predicted_ms"] = (statistics.median(run[i] for run in runs) for i in range(3))
    row["ratio"] = statistics.median(run[1] / run[0] for run in runs)
    print(f"{name:20} {combination:32} {threads:3} {row['ort_ms']:7.3f} {row['ms']:7.3f} {row['ratio']:6.2f} "
          f"{row['predicted_ms'] / row['ms']:7.2f}  {row['difference']:.1e}", flush=True)
    return row


if __name__ == "__main__":
    main()
