"""Sessions as apps use them, in ONNX Runtime: peer.py widths|stream MODEL FOLDER THREADS COUNT.

`widths`: COUNT lines of text, each of a width of its own. `stream`: COUNT chunks of speech-like sound through a model with
a state. Writes inputs and outputs to FOLDER as .npy, says in one line of JSON what loading took, then answers lines:
`pass` with the nanoseconds of each run of a pass over all inputs, `peak` with the bytes that it all added to the process.
"""

import json
import pathlib
import sys
import time

import numpy as np
import onnxruntime as ort

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "models"))
import inputs  # noqa: E402

LEAST, MOST, HEIGHT = 48, 640, 48
CHUNK, CONTEXT = 512, 64


def resident(field):
    """A figure of /proc/self/status in bytes."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def say(value):
    print(json.dumps(value), flush=True)


def lines(count):
    """Lines of text of random widths, as a recogniser takes them."""
    random = np.random.default_rng(17)
    for width in random.integers(LEAST, MOST + 1, count):
        given = {"kind": "line", "shape": [1, 3, HEIGHT, int(width)], "mean": 0.5, "deviation": 0.5}
        yield np.ascontiguousarray(inputs.make(given))


def chunks(count):
    """Chunks of sound, each with the end of the one before."""
    samples = np.concatenate([np.zeros(CONTEXT, np.float32), inputs.speech(count * CHUNK)])
    at = np.arange(count)[:, None] * CHUNK + np.arange(CONTEXT + CHUNK)
    return np.ascontiguousarray(samples[at])


def widths(session, data):
    """One pass: each input in a run of its own; times and outputs."""
    name = session.get_inputs()[0].name
    times, outputs = [], []
    for value in data:
        start = time.perf_counter_ns()
        found = session.run(None, {name: value})
        times.append(time.perf_counter_ns() - start)
        outputs.append(found[0])
    return times, outputs


class Stream:
    """A model with a state, whose two memories change places after each run: nothing is copied."""

    def __init__(self, session):
        self.session = session
        self.chunk = ort.OrtValue.ortvalue_from_numpy(np.zeros((1, CONTEXT + CHUNK), np.float32))
        self.says = ort.OrtValue.ortvalue_from_numpy(np.zeros((1, 1), np.float32))
        state = [ort.OrtValue.ortvalue_from_numpy(np.zeros((2, 1, 128), np.float32)) for _ in range(2)]
        self.state, self.bindings = state, []
        for read, write in ((0, 1), (1, 0)):
            binding = session.io_binding()
            binding.bind_ortvalue_input("input", self.chunk)
            binding.bind_ortvalue_input("state", state[read])
            binding.bind_cpu_input("sr", np.array(16000, np.int64))
            binding.bind_ortvalue_output("output", self.says)
            binding.bind_ortvalue_output("stateN", state[write])
            self.bindings.append(binding)

    def run(self, data):
        """One pass from a state of zeros; times and outputs."""
        for state in self.state:
            state.update_inplace(np.zeros((2, 1, 128), np.float32))
        times, outputs = [], np.zeros(len(data), np.float32)
        says = self.says.numpy()
        for number, value in enumerate(data):
            start = time.perf_counter_ns()
            self.chunk.update_inplace(value[None])
            self.session.run_with_iobinding(self.bindings[number % 2])
            times.append(time.perf_counter_ns() - start)
            outputs[number] = self.says.numpy()[0, 0]
        del says
        return times, outputs


def main():
    kind, model, folder, threads, count = sys.argv[1:6]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    data = list(lines(int(count))) if kind == "widths" else chunks(int(count))
    if kind == "widths":
        for number, value in enumerate(data):
            np.save(folder / f"in-{number}.npy", value)
    else:
        np.save(folder / "in.npy", data)
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # starts VmHWM anew
    before = resident("VmRSS")
    options = ort.SessionOptions()
    options.intra_op_num_threads = int(threads)
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    start = time.perf_counter_ns()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    load = time.perf_counter_ns() - start
    run = (lambda: widths(session, data)) if kind == "widths" else (lambda stream=Stream(session): stream.run(data))
    say({"load_ns": load, "version": ort.__version__})
    kept = False
    for line in sys.stdin:
        if line.strip() == "peak":
            say(max(0, resident("VmHWM") - before))
            continue
        times, outputs = run()
        say(times)
        if not kept:
            kept = True
            if kind == "widths":
                for number, value in enumerate(outputs):
                    np.save(folder / f"out-{number}.npy", value)
            else:
                np.save(folder / "out.npy", outputs)


main()
