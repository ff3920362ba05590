#!/usr/bin/env python3
"""Copy the light_* models of the Python package `onnx` and write a varied_* sibling of the smaller ones.

    light.py OUT

A light model is a known architecture (opset 9) whose weights are made by ConstantOfShape nodes, all
of one value, so that its output hardly depends on its input: it proves the graph, not the arithmetic.
The sibling has the same graph with seeded random weights stored in the file, scaled so that values stay
finite through the depth. Written where the weights are at most 64 MB. Needs onnx and numpy.
"""
import glob
import math
import os
import shutil
import sys
import zlib

import numpy as np
import onnx
from onnx import numpy_helper

LIGHT = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")
LIMIT = 64 << 20


def user(graph, value):
    """The first node that computes with a value, and as which input; reshaping nodes are looked through."""
    for node in graph.node:
        for i, name in enumerate(node.input):
            if name == value:
                return user(graph, node.output[0]) if node.op_type in ("Unsqueeze", "Reshape") else (node.op_type, i)
    return None, 0


def weights(rng, shape, op, slot, gain):
    normal = lambda deviation: rng.standard_normal(shape, dtype=np.float32) * np.float32(deviation)
    if len(shape) > 1:
        # Conv: [out, in per group, k, k]; Gemm: [out, in]. The classifier's are small, or the softmax would
        # leave one class.
        return normal(math.sqrt(2 / math.prod(shape[1:])) / (16 if op == "Gemm" else 1))
    if op == "BatchNormalization" and slot == 4:
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)  # a variance
    if op == "Mul" or (op == "BatchNormalization" and slot == 1):
        return gain + normal(0.1)
    return normal(0.05)


def varied(path):
    """The model with random weights, or None where they would be too large."""
    model = onnx.load(path)
    graph, rng = model.graph, np.random.default_rng(zlib.crc32(os.path.basename(path).encode()))
    shapes = {i.name: numpy_helper.to_array(i).tolist() for i in graph.initializer if i.data_type == onnx.TensorProto.INT64}
    constants = [n for n in graph.node if n.op_type == "ConstantOfShape"]
    if 4 * sum(math.prod(shapes[n.input[0]]) for n in constants) > LIMIT:
        return None
    gain = 0.5 if any(n.op_type == "Sum" for n in graph.node) else 1  # residuals would grow through the depth
    for node in constants:
        array = weights(rng, shapes[node.input[0]], *user(graph, node.output[0]), gain)
        graph.initializer.append(numpy_helper.from_array(array, node.output[0]))
        graph.node.remove(node)
    used = {name for node in graph.node for name in node.input}
    for i in [i for i in graph.initializer if i.name not in used]:
        graph.initializer.remove(i)
    for i in [i for i in graph.input if i.name not in used]:
        graph.input.remove(i)
    # Before IR 4 an initializer has to be listed as an input too.
    model.ir_version = max(model.ir_version, 4)
    onnx.checker.check_model(model)
    return model


def main(out):
    os.makedirs(out, exist_ok=True)
    for path in sorted(glob.glob(os.path.join(LIGHT, "light_*.onnx"))):
        name = os.path.basename(path)
        shutil.copyfile(path, os.path.join(out, name))
        model = varied(path)
        if model is not None:
            onnx.save(model, os.path.join(out, name.replace("light_", "varied_")))
        print(f"{name}{'' if model is None else ' and its varied sibling'}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
