"""Models through ONNX Runtime with the Polychip provider, beside ONNX Runtime's own CPU provider: outputs, nodes that are run
here, and time, interleaved.

    python benches/models.py [--rounds N] [--threads N] [--trained] [--furthest LIMIT] MODEL.onnx...

It fails where an output is further than LIMIT from ONNX Runtime's own; `--rounds 0` measures no time. Nodes that are run here are
those that ONNX Runtime says it has assigned, where the release tells. Inputs are random, and sizes that a model leaves open 1, but for those that `--size NAME=N` gives. `--trained` adds the models of
packages that `cargo xtask trained --fetch` has fetched, with inputs such as they were trained for. With the module
`polychip` installed, its direct call is timed in the same rounds.
"""

from __future__ import annotations

import argparse
import math
import pathlib
import statistics
import sys
import time
import tomllib
import typing

import numpy as np
import onnxruntime as ort
import polychip_ort
from onnx import TensorProto, helper

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


def small() -> bytes:
    """y = x + x for f32 [2, 3]: almost nothing to compute, so the overhead of a run dominates."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "graph", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def trained() -> typing.Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Pretrained models present on this machine, with their inputs."""
    root = pathlib.Path(__file__).resolve().parents[3]
    table = root / "device-tests/models"
    sys.path.insert(0, str(table))
    import inputs

    for package in tomllib.loads((table / "models.toml").read_text())["package"]:
        folder = root / "target/trained" / f"{package['name']}-{package['version']}"
        for model in package["model"]:
            path = folder / model["file"]
            if path.is_file():
                given = {name: np.array(inputs.make(one), order="C") for name, one in model["inputs"].items()}
                yield str(path), given


def per_run(call: typing.Callable[[], object], runs: int) -> float:
    start = time.perf_counter()
    for _ in range(runs):
        call()
    return (time.perf_counter() - start) / runs


def furthest(left: list[np.ndarray], right: list[np.ndarray]) -> float:
    """Largest difference relative to the largest element of its tensor; for sequences and strings, whether they differ."""
    most = 0.0
    for one, other in zip(left, right, strict=True):
        if isinstance(one, list) or np.asarray(one).dtype.kind in "OUS":
            most = max(most, float(str(one) != str(other)))
            continue
        one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
        scale = float(np.abs(other).max(initial=0.0)) or 1.0
        difference = float(np.abs(one - other).max(initial=0.0)) / scale
        most = math.nan if math.isnan(most) or math.isnan(difference) else max(most, difference)
    return most


def assigned(session: ort.InferenceSession, report: dict[str, typing.Any]) -> str:
    """Number of nodes on this provider, as ONNX Runtime reports it, if it does."""
    told = getattr(session, "get_provider_graph_assignment_info", None)
    if told is None:
        return f"{report['claimed']} of {report['nodes']}"
    counts = [(part.ep_name, len(part.get_nodes())) for part in told()]
    return f"{sum(count for name, count in counts if name == NAME)} of {sum(count for _, count in counts)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--trained", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--furthest", type=float, default=math.inf, metavar="LIMIT")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    arguments = parser.parse_args()
    sizes = {name: int(size) for name, size in (pair.split("=") for pair in arguments.size)}
    ort.set_default_logger_severity(3)
    ort.register_execution_provider_library(NAME, polychip_ort.get_library_path())
    devices = [device for device in ort.get_ep_devices() if device.ep_name == NAME]
    print(f"ONNX Runtime {ort.__version__}, {arguments.threads} threads")
    print("| model | nodes run here | furthest | ONNX Runtime | provider | ratio | direct | provider / direct |")
    print("|---|---|---|---|---|---|---|---|")
    ratios, direct_ratios, too_far = [], [], []
    compared = 0
    every: list[tuple[str | bytes, dict[str, np.ndarray] | None]] = [(small(), None)]
    every += [(path, None) for path in arguments.models]
    if arguments.trained:
        every += trained()
    for path, made in every:
        options = ort.SessionOptions()
        options.intra_op_num_threads = arguments.threads
        options.log_severity_level = 3
        cpu = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        options.add_provider_for_devices(devices[:1], {"threads": str(arguments.threads)})
        own = ort.InferenceSession(path, options)
        report = polychip_ort.reports()[-1]
        given = feed(cpu, sizes) if made is None else made
        far = furthest(own.run(None, given), cpu.run(None, given))
        name = "`y = x + x`" if isinstance(path, bytes) else path.rsplit("/", 1)[-1]
        row = f"| {name} | {assigned(own, report)} | {far:.1e} |"
        # also where one is no number
        if not far <= arguments.furthest:
            too_far.append(name)
        if arguments.rounds == 0:
            print(row, flush=True)
            compared += 1
            continue
        calls = [lambda: cpu.run(None, given), lambda: own.run(None, given)]
        if polychip is not None:
            direct = polychip.Runtime().load(path).session(polychip.Policy.latency(threads=arguments.threads))
            calls.append(lambda: direct.run(given))
        for call in calls:
            call()
            call()
        runs = max(1, int(ROUND / max(per_run(calls[0], 1), 1e-7)))
        times: list[list[float]] = [[] for _ in calls]
        for _ in range(arguments.rounds):
            for call, taken in zip(calls, times, strict=True):
                taken.append(per_run(call, runs))
        median = [statistics.median(taken) for taken in times]
        ratio = median[1] / median[0]
        last = "not installed | "
        if len(median) > 2:
            direct_ratio = median[1] / median[2]
            last = f"{median[2] * 1e6:.1f} µs | {direct_ratio:.3f}"
        if isinstance(path, str):
            ratios.append(ratio)
            direct_ratios += [direct_ratio] if len(median) > 2 else []
        print(
            f"{row} {median[0] * 1e6:.1f} µs | {median[1] * 1e6:.1f} µs | {ratio:.3f} | {last} |",
            flush=True,
        )
        del own, cpu
        compared += 1
    print(f"\n{compared} models compared")
    if too_far:
        raise SystemExit(f"further than {arguments.furthest} from ONNX Runtime's CPU provider: {', '.join(too_far)}")
    if not ratios:
        return
    print(f"geometric mean of {len(ratios)} models: {mean(ratios):.3f} of ONNX Runtime's time")
    if direct_ratios:
        print(f"and {mean(direct_ratios):.3f} of the direct call's")


def mean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


if __name__ == "__main__":
    main()
