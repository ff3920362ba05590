"""A model in ONNX Runtime: peer.py MODEL INPUTS FOLDER THREADS, where INPUTS is a JSON table of descriptions.

Writes inputs and outputs to FOLDER as .npy with an index.json, reports that in one line of JSON, then answers lines:
`N` with the nanoseconds of N runs, `peak` with the bytes that loading and running added to the process.
"""

import json
import pathlib
import sys
import time

import numpy as np
import onnxruntime as ort

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import inputs  # noqa: E402


def resident(field):
    """A figure of /proc/self/status in bytes."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def say(value):
    print(json.dumps(value), flush=True)


def bound(session, feed):
    """A run without copies, and its outputs; by the plain call where a model's outputs are not of the rank it states."""
    binding = session.io_binding()
    for name, value in feed.items():
        binding.bind_cpu_input(name, value)
    for output in session.get_outputs():
        binding.bind_output(output.name, "cpu")
    try:
        # twice: the first run may have left outputs of a rank that the second has not
        session.run_with_iobinding(binding)
        session.run_with_iobinding(binding)
    except RuntimeError:
        return lambda: session.run(None, feed), lambda: session.run(None, feed)
    return lambda: session.run_with_iobinding(binding), binding.copy_outputs_to_cpu


def main():
    model, given, folder, threads = sys.argv[1], json.loads(sys.argv[2]), pathlib.Path(sys.argv[3]), int(sys.argv[4])
    feed = {name: np.array(inputs.make(one), order="C") for name, one in given.items()}
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # starts VmHWM anew
    before = resident("VmRSS")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    start = time.perf_counter_ns()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    load = time.perf_counter_ns() - start
    once, outputs = bound(session, feed)
    names = [output.name for output in session.get_outputs()]

    index = {"inputs": {}, "outputs": {}}
    folder.mkdir(parents=True, exist_ok=True)
    found = dict(zip(names, outputs()))
    for side, values in (("inputs", feed), ("outputs", found)):
        for number, (name, value) in enumerate(values.items()):
            index[side][name] = f"{side}-{number}.npy"
            np.save(folder / index[side][name], value)
    (folder / "index.json").write_text(json.dumps(index))
    say({"load_ns": load})

    for line in sys.stdin:
        if line.strip() == "peak":
            say(max(0, resident("VmHWM") - before))
            continue
        times = []
        for _ in range(int(line)):
            start = time.perf_counter_ns()
            once()
            times.append(time.perf_counter_ns() - start)
        say(times)


main()
