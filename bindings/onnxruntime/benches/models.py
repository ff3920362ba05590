"""Models through ONNX Runtime with the Polychip provider, beside ONNX Runtime's own CPU provider: outputs, nodes that are run
here, and time, interleaved.

    python benches/models.py [--rounds N] [--threads N] MODEL.onnx...

Sizes that a model leaves open are 1, but for those that `--size NAME=N` gives. With the module `polychip` installed, its
direct call is timed in the same rounds.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import typing

import numpy as np
import onnxruntime as ort
import polychip_ort

try:
    import polychip
except ImportError:
    polychip = None  # type: ignore[assignment]

NAME = polychip_ort.get_ep_name()
# a round lasts so long at least, in seconds
ROUND = 0.2


def feed(session: ort.InferenceSession, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Random inputs of a session."""
    generator = np.random.default_rng(7)
    given = {}
    for port in session.get_inputs():
        shape = [size if isinstance(size, int) else sizes.get(size, 1) for size in port.shape]
        if "float" in port.type or "double" in port.type:
            kind = {"tensor(float16)": np.float16, "tensor(double)": np.float64}.get(port.type, np.float32)
            given[port.name] = generator.standard_normal(shape).astype(kind)
        elif port.type == "tensor(bool)":
            given[port.name] = np.ones(shape, bool)
        else:
            kind = np.dtype(port.type.removeprefix("tensor(").removesuffix(")"))
            given[port.name] = generator.integers(0, 2, shape).astype(kind)
    return given


def per_run(call: typing.Callable[[], object], runs: int) -> float:
    start = time.perf_counter()
    for _ in range(runs):
        call()
    return (time.perf_counter() - start) / runs


def furthest(left: list[np.ndarray], right: list[np.ndarray]) -> float:
    """The largest difference, of the largest element of its tensor."""
    most = 0.0
    for one, other in zip(left, right, strict=True):
        one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
        scale = float(np.abs(other).max(initial=0.0)) or 1.0
        most = max(most, float(np.abs(one - other).max(initial=0.0)) / scale)
    return most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    arguments = parser.parse_args()
    sizes = {name: int(size) for name, size in (pair.split("=") for pair in arguments.size)}
    ort.register_execution_provider_library(NAME, polychip_ort.get_library_path())
    devices = [device for device in ort.get_ep_devices() if device.ep_name == NAME]
    print(f"ONNX Runtime {ort.__version__}, {arguments.threads} threads")
    print("| model | nodes run here | furthest | ONNX Runtime | provider | ratio | direct | provider / direct |")
    print("|---|---|---|---|---|---|---|---|")
    ratios = []
    for path in arguments.models:
        options = ort.SessionOptions()
        options.intra_op_num_threads = arguments.threads
        cpu = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.add_provider_for_devices(devices[:1], {"threads": str(arguments.threads)})
        own = ort.InferenceSession(path, options)
        report = polychip_ort.reports()[-1]
        given = feed(cpu, sizes)
        far = furthest(own.run(None, given), cpu.run(None, given))
        calls = [lambda: cpu.run(None, given), lambda: own.run(None, given)]
        if polychip is not None:
            direct = polychip.Runtime().load(path).session(polychip.Policy.latency(threads=arguments.threads))
            calls.append(lambda: direct.run(given))
        for call in calls:
            call()
        runs = max(1, int(ROUND / max(per_run(calls[0], 1), 1e-7)))
        times: list[list[float]] = [[] for _ in calls]
        for _ in range(arguments.rounds):
            for call, taken in zip(calls, times, strict=True):
                taken.append(per_run(call, runs))
        median = [statistics.median(taken) for taken in times]
        ratios.append(median[1] / median[0])
        last = f"{median[2] * 1e6:.1f} µs | {median[1] / median[2]:.3f}" if len(median) > 2 else "not installed | "
        name = path.rsplit("/", 1)[-1]
        print(
            f"| {name} | {report['claimed']} of {report['nodes']} | {far:.1e} | {median[0] * 1e6:.1f} µs | "
            f"{median[1] * 1e6:.1f} µs | {ratios[-1]:.3f} | {last} |",
            flush=True,
        )
        del own, cpu
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
    print(f"\ngeometric mean of {len(ratios)} models: {mean:.3f} of ONNX Runtime's time")


if __name__ == "__main__":
    main()
