#!/usr/bin/env python3
"""Write ONNX Runtime's outputs for seeded inputs of every model in a folder.

    expected.py MODELS OUT [--only NAME ...]

For MODELS/NAME.onnx this writes OUT/NAME/input_VALUE.npy, OUT/NAME/output_VALUE.npy and, last,
OUT/NAME/index.json, which maps each graph input and output to its file in the graph's order. In VALUE,
every character but letters, digits, '.', '_' and '-' has become '_'. Inputs depend on the model's and the
value's name only: floats are standard normal, integers 0 or 1, an attention mask all ones; a dimension
without a number is 1. Needs onnxruntime and numpy.
"""
import argparse
import glob
import json
import os
import re
import shutil
import zlib

import numpy as np
import onnxruntime as ort

TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def made(model, value):
    """The input named `value.name` of the model."""
    rng = np.random.default_rng([zlib.crc32(model.encode()), zlib.crc32(value.name.encode())])
    dtype = TYPES[value.type]
    shape = [d if isinstance(d, int) else 1 for d in value.shape]
    if dtype == np.float32:
        return rng.standard_normal(shape, dtype=np.float32)
    return np.ones(shape, dtype) if value.name == "attention_mask" else rng.integers(0, 2, shape).astype(dtype)


def run(path, out):
    name = os.path.basename(path)[:-len(".onnx")]
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {v.name: made(name, v) for v in session.get_inputs()}
    names = [v.name for v in session.get_outputs()]
    results = dict(zip(names, session.run(names, feed)))
    if os.path.exists(out):
        shutil.rmtree(out)
    os.makedirs(out)
    index = {"onnxruntime": ort.__version__, "inputs": {}, "outputs": {}}
    for what, values in (("input", feed), ("output", results)):
        for value, array in values.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise SystemExit(f"{name}: {what} {value} holds values that are not finite: no witness")
            file = f"{what}_{re.sub(r'[^A-Za-z0-9._-]', '_', value)}.npy"
            np.save(os.path.join(out, file), np.ascontiguousarray(array))
            index[what + "s"][value] = file
    with open(os.path.join(out, "index.json"), "w") as f:  # last: a folder with an index is whole
        json.dump(index, f, indent=1)
        f.write("\n")
    print(f"{name}: {', '.join(f'{k} {list(v.shape)}' for k, v in results.items())}", flush=True)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("models")
    a.add_argument("out")
    a.add_argument("--only", nargs="+")
    a = a.parse_args()
    for path in sorted(glob.glob(os.path.join(a.models, "*.onnx"))):
        name = os.path.basename(path)[:-len(".onnx")]
        if a.only is None or name in a.only:
            run(path, os.path.join(a.out, name))


if __name__ == "__main__":
    main()
