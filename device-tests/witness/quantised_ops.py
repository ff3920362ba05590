#!/usr/bin/env python3
"""Write one QDQ model per op and type, and ONNX Runtime's outputs for it, node by node.

    quantised_ops.py OUT

OUT/NAME.onnx is quantise, dequantise, op, quantise, dequantise; OUT/expected/NAME/index.json maps inputs and
outputs to .npy files and gives "step", the scale of the output, in which differences are counted. NAME is
OP_TYPE with the type of the activations; weights are s8, those of matmul_s4 4 bits wide. Needs numpy, onnx
and onnxruntime.
"""
import json
import os
import shutil
import sys
import zlib

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T, helper as h, numpy_helper as nh

STORED = {"u8": np.uint8, "s8": np.int8, "u16": np.uint16, "s16": np.int16}


class Case:
    """A model under construction."""

    def __init__(self, name, kind):
        self.name, self.kind, self.dtype = name, kind, STORED[kind]
        self.nodes, self.constants, self.inputs, self.feed, self.n = [], [], [], {}, 0
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.scales = {}

    def const(self, array):
        self.n += 1
        self.constants.append(nh.from_array(np.ascontiguousarray(array), f"c{self.n}"))
        return f"c{self.n}"

    def op(self, kind, inputs, **attributes):
        self.n += 1
        self.nodes.append(h.make_node(kind, inputs, [f"t{self.n}"], name=f"{kind}_{self.n}", **attributes))
        return f"t{self.n}"

    def grid(self, low, high):
        """Scale and zero point of an activation; symmetric for signed types."""
        info = np.iinfo(self.dtype)
        if info.min < 0:
            return np.float32(max(-low, high) / info.max), self.dtype(0)
        scale = np.float32((high - low) / info.max)
        return scale, self.dtype(np.clip(round(-low / scale), 0, info.max))

    def rounded(self, x, low, high):
        scale, zero = self.grid(low, high)
        names = self.const(scale), self.const(zero)
        y = self.op("DequantizeLinear", [self.op("QuantizeLinear", [x, *names]), *names])
        self.scales[y] = scale
        return y

    def input(self, shape, low=-3.0, high=3.0):
        name = f"x{len(self.inputs)}"
        self.inputs.append(h.make_tensor_value_info(name, T.FLOAT, shape))
        self.feed[name] = self.rng.uniform(low * 1.05, high * 1.05, shape).astype(np.float32)
        return self.rounded(name, low, high)

    def weights(self, shape, axis, dtype=np.int8):
        """Per channel along the axis, or per tensor without one; and the scales."""
        limit = 127 if dtype == np.int8 else 7
        stored = self.rng.integers(-limit, limit + 1, shape).astype(dtype if dtype == np.int8 else np.int8)
        scales = self.rng.uniform(0.5, 1.5, shape[axis] if axis is not None else ()).astype(np.float32)
        scales = scales / np.float32(limit * np.sqrt(np.prod(shape) / shape[axis or 0]))
        if dtype == np.int8:
            name = self.const(stored)
        else:
            self.n += 1
            name = f"c{self.n}"
            self.constants.append(h.make_tensor(name, T.INT4, shape, stored.ravel().tolist()))
        attributes = {} if axis is None else {"axis": axis}
        return self.op("DequantizeLinear", [name, self.const(scales)], **attributes), scales

    def bias(self, x, scales, count):
        scales = np.atleast_1d(self.scales[x] * scales).astype(np.float32)
        stored = np.round(self.rng.uniform(-0.5, 0.5, count) / scales).astype(np.int32)
        scales = scales if scales.size > 1 else scales[0]
        return self.op("DequantizeLinear", [self.const(stored), self.const(np.float32(scales))], **({"axis": 0} if np.ndim(scales) else {}))

    def write(self, out, y):
        plain = ort.SessionOptions()
        plain.log_severity_level = 3
        plain.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL

        def model(value):
            graph = h.make_graph(self.nodes, self.name, self.inputs, [h.make_tensor_value_info(value, T.FLOAT, None)], self.constants)
            made = h.make_model(graph, opset_imports=[h.make_opsetid("", 21)], producer_name="polychip")
            made.ir_version = 10
            return onnx.shape_inference.infer_shapes(made)

        def run(made):
            session = ort.InferenceSession(made.SerializeToString(), plain, providers=["CPUExecutionProvider"])
            return session.run(None, self.feed)[0]

        real = run(model(y))
        low, high = min(0.0, float(real.min())), max(0.0, float(real.max()))
        y = self.rounded(y, low * 0.9, high * 0.9)  # some saturate
        made = model(y)
        onnx.checker.check_model(made, full_check=True)
        result = run(made)
        onnx.save(made, os.path.join(out, self.name + ".onnx"))
        folder = os.path.join(out, "expected", self.name)
        os.makedirs(folder)
        index = {"onnxruntime": ort.__version__, "step": float(self.scales[y]), "inputs": {}, "outputs": {y: "output.npy"}}
        np.save(os.path.join(folder, "output.npy"), result)
        for name, array in self.feed.items():
            index["inputs"][name] = f"{name}.npy"
            np.save(os.path.join(folder, f"{name}.npy"), array)
        with open(os.path.join(folder, "index.json"), "w") as f:
            json.dump(index, f, indent=1)
            f.write("\n")


def conv(c, groups=1, **attributes):
    x = c.input([1, 8, 12, 12])
    w, scales = c.weights([16, 8 // groups, 3, 3], 0)
    return c.op("Conv", [x, w, c.bias(x, scales, 16)], pads=[1] * 4, group=groups, **attributes)


def gemm(c):
    x = c.input([2, 32])
    w, scales = c.weights([12, 32], None)
    return c.op("Gemm", [x, w, c.bias(x, scales, 12)], transB=1)


def product(c, dtype=np.int8, axis=1):
    return c.op("MatMul", [c.input([2, 6, 32]), c.weights([32, 12], axis, dtype)[0]])


def normalised(c):
    gain = c.weights([32], None)[0]
    shift = c.op("DequantizeLinear", [c.const(c.rng.integers(-1000, 1000, 32).astype(np.int32)), c.const(np.float32(1e-3))])
    return c.op("LayerNormalization", [c.input([3, 32]), gain, shift])


def gelu(c):
    """Written out, and rounded at every step."""
    x = c.input([4, 64])
    d = c.rounded(c.op("Div", [x, c.const(np.float32(np.sqrt(2)))]), -2.2, 2.2)
    e = c.rounded(c.op("Erf", [d]), -1, 1)
    p = c.rounded(c.op("Add", [e, c.const(np.float32(1))]), 0, 2)
    return c.op("Mul", [c.rounded(c.op("Mul", [x, p]), -0.4, 6), c.const(np.float32(0.5))])


SHAPE = [1, 4, 10, 10]
CASES = {
    "conv": conv,
    "conv_stride": lambda c: conv(c, strides=[2, 2]),
    "conv_depthwise": lambda c: conv(c, groups=8),
    "conv_relu": lambda c: c.op("Relu", [conv(c)]),
    "gemm": gemm,
    "matmul": product,
    "matmul_s4": lambda c: product(c, np.int16),
    "matmul_dynamic": lambda c: c.op("MatMul", [c.input([2, 6, 16]), c.input([2, 16, 5])]),
    "add": lambda c: c.op("Add", [c.input(SHAPE), c.input(SHAPE, -1, 2)]),
    "mul": lambda c: c.op("Mul", [c.input(SHAPE), c.input(SHAPE, -1, 2)]),
    "sigmoid": lambda c: c.op("Sigmoid", [c.input(SHAPE)]),
    "tanh": lambda c: c.op("Tanh", [c.input(SHAPE)]),
    "gelu": gelu,
    "softmax": lambda c: c.op("Softmax", [c.input([3, 20])], axis=-1),
    "layer_norm": normalised,
    "max_pool": lambda c: c.op("MaxPool", [c.input(SHAPE)], kernel_shape=[3, 3], strides=[2, 2]),
    "average_pool": lambda c: c.op("AveragePool", [c.input(SHAPE)], kernel_shape=[3, 3], strides=[2, 2]),
    "global_pool": lambda c: c.op("GlobalAveragePool", [c.input(SHAPE)]),
    "concat": lambda c: c.op("Concat", [c.input(SHAPE), c.input(SHAPE, -1, 2)], axis=1),
    "transpose": lambda c: c.op("Transpose", [c.input(SHAPE)], perm=[0, 2, 3, 1]),
    "reduce_mean": lambda c: c.op("ReduceMean", [c.input([2, 9, 16]), c.const(np.array([1]))], keepdims=0),
}


def main(out):
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    for name, build in CASES.items():
        for kind in STORED:
            case = Case(f"{name}_{kind}", kind)
            case.write(out, build(case))
    print(f"{len(CASES) * len(STORED)} quantised ops")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
