"""What a run through Python costs beside its kernels, beside ONNX Runtime's module, by turns; what importing costs; whether runs
take memory for good.

python overhead.py [MODEL.onnx] [--runs N] [--growth N]
"""

import argparse
import gc
import os
import statistics
import subprocess
import sys
import time

import numpy
import onnxruntime
from onnx import TensorProto, helper

import polychip

TURNS = 15


def small() -> bytes:
    """y = x + x for f32 [2, 3]: nothing to compute."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "graph", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def spent(call, runs: int) -> float:
    """Mean time of a call, in microseconds."""
    begin = time.perf_counter_ns()
    for _ in range(runs):
        call()
    return (time.perf_counter_ns() - begin) / runs / 1e3


def imported(module: str) -> float:
    """Median time to import a module in a fresh Python process, beyond the start of Python itself, in milliseconds."""
    code = "import time; t = time.perf_counter_ns(); import {}; print((time.perf_counter_ns() - t) / 1e6)"
    said = [subprocess.run([sys.executable, "-c", code.format(module)], capture_output=True, text=True) for _ in range(9)]
    return statistics.median(float(one.stdout) for one in said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", help="a model of fixed shapes in f32; without it y = x + x")
    parser.add_argument("--runs", type=int, default=2000, help="runs of a turn")
    parser.add_argument("--growth", type=int, default=100_000, help="runs over which memory is watched")
    arguments = parser.parse_args()
    model = open(arguments.model, "rb").read() if arguments.model else small()
    session = polychip.Runtime().load(model).session(polychip.Policy.latency(threads=1))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    peer = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    shapes = {info.name: info.shape for info in session.inputs}
    inputs = {name: numpy.random.default_rng(1).standard_normal(shape, numpy.float32) for name, shape in shapes.items()}
    filled = {name: session.input(name) for name in shapes}
    for name, value in inputs.items():
        filled[name].write(value)
    calls = {
        "polychip, arrays": lambda: session.run(inputs),
        "polychip, its own inputs": lambda: session.run(filled),
        "onnxruntime, arrays": lambda: peer.run(None, inputs),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        spent(call, arguments.runs // 10 + 1)
    for _ in range(TURNS):
        for name, call in calls.items():
            times[name].append(spent(call, arguments.runs))
    for name, all_times in times.items():
        print(f"{name}: {statistics.median(all_times):.2f} µs a run (least {min(all_times):.2f})")
    report = session.report().to_dict()
    print(f"of it from submit to the end of the last part: {report['measured_ns'] / 1e3:.2f} µs")
    for module in ("polychip", "numpy", "onnxruntime"):
        print(f"import {module}: {imported(module):.1f} ms")
    before = resident()
    spent(calls["polychip, arrays"], arguments.growth)
    gc.collect()
    print(f"memory after {arguments.growth} runs: {(resident() - before) / 1e6:+.2f} MB")


if __name__ == "__main__":
    main()
