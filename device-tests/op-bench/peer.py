"""Median time of each model of a folder in ONNX Runtime, as JSON: peer.py FOLDER THREADS."""

import json
import pathlib
import statistics
import sys
import time

import numpy as np
import onnx
import onnxruntime as ort

# the newest opset that a release of ONNX Runtime takes; the ops of the table mean the same in both
OPSET = 21
DTYPES = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bool": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}


def median_ns(session, feed):
    times = []
    begin = time.perf_counter_ns()
    while len(times) < 5 or (time.perf_counter_ns() - begin < 200_000_000 and len(times) < 1000):
        start = time.perf_counter_ns()
        session.run(None, feed)
        times.append(time.perf_counter_ns() - start)
    return int(statistics.median(times[1:]))


def main():
    folder, threads = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    times = {}
    for path in sorted(folder.glob("*.onnx")):
        try:
            model = onnx.load(path)
            model.ir_version = min(model.ir_version, 10)
            for opset in model.opset_import:
                if opset.domain == "":
                    opset.version = OPSET
            session = ort.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            feed = {}
            for given in json.loads(path.with_suffix(".json").read_text()):
                values = np.fromfile(folder / given["file"], DTYPES[given["dtype"]])
                feed[given["name"]] = values.reshape(given["shape"])
            times[path.stem] = median_ns(session, feed)
        except Exception as error:  # a model that the peer refuses has no figure
            print(f"{path.stem}: {str(error)[:200]}", file=sys.stderr)
    print(json.dumps(times))


main()
