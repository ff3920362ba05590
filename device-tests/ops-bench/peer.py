"""Models of one op in ONNX Runtime, alternating with another process.

Says its version in one line of JSON, then answers lines: `load PLACE THREADS MODEL` with the reason where it does not run
the model, `run PLACE N` with the nanoseconds of N runs. A file MODEL.json beside the model names its inputs.
"""

import json
import pathlib
import sys
import time

import numpy as np
import onnx
import onnxruntime as ort

# the newest opset that this release of ONNX Runtime takes, and one whose kernels it has where it lacks the newer op's; the
# ops of the table mean the same in all
OPSETS = (26, 21)
DTYPES = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bool": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}


def say(value):
    print(json.dumps(value), flush=True)


def bound(session, feed):
    """A run without copies; by the plain call where a model's outputs are not of the rank it states."""
    binding = session.io_binding()
    for name, value in feed.items():
        binding.bind_cpu_input(name, value)
    for output in session.get_outputs():
        binding.bind_output(output.name, "cpu")
    try:
        session.run_with_iobinding(binding)
        session.run_with_iobinding(binding)
    except Exception:
        session.run(None, feed)
        return lambda: session.run(None, feed)
    return lambda: session.run_with_iobinding(binding)


def at(model, version):
    """The model in an older opset: attributes that it does not know yet state what it does."""
    model.ir_version = min(model.ir_version, 11)
    for opset in model.opset_import:
        if opset.domain == "":
            opset.version = min(opset.version, version)
    for node in model.graph.node:
        if node.domain == "" and onnx.defs.has(node.op_type):
            known = onnx.defs.get_schema(node.op_type, version).attributes
            kept = [attribute for attribute in node.attribute if attribute.name in known]
            del node.attribute[:]
            node.attribute.extend(kept)
    return model


def load(path, threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    refusals = []
    for version in OPSETS:
        try:
            model = at(onnx.load(path), version).SerializeToString()
            session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            break
        except Exception as error:
            refusals.append(error)
    else:
        raise refusals[0]
    feed = {}
    for given in json.loads(path.with_suffix(".json").read_text()):
        values = np.fromfile(path.parent / given["file"], DTYPES[given["dtype"]])
        feed[given["name"]] = values.reshape(given["shape"])
    return bound(session, feed)


def main():
    say(ort.__version__)
    runs = {}
    for line in sys.stdin:
        words = line.rstrip("\n").split("\t")
        if words[0] == "load":
            place, threads, path = int(words[1]), int(words[2]), pathlib.Path(words[3])
            runs.pop(place, None)
            if place == 0:
                runs.clear()
            try:
                runs[place] = load(path, threads)
                say({"refused": None})
            except Exception as error:
                say({"refused": " ".join(str(error).split())[:300]})
            continue
        once, times = runs[int(words[1])], []
        for _ in range(int(words[2])):
            start = time.perf_counter_ns()
            once()
            times.append(time.perf_counter_ns() - start)
        say(times)


main()
