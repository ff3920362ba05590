#!/usr/bin/env python3
"""Write the structure of ONNX models for PlacementBench: ops, wiring, bytes per tensor, multiply-adds; no weights.

    structures.py OUT MODEL.onnx...

One compact JSON file per model: `tensors` holds [bytes, constant] and `nodes` [op, multiply-adds, reads, writes], in
the order of the file. What depends on constants alone is a constant, as an importer folds it; symbolic sizes count
as one. Multiply-adds are counted as `scheduler/profile/src/work.rs` counts them. Needs onnx.
"""
import json
import math
import pathlib
import sys

import onnx
from onnx import TensorProto, numpy_helper

WIDTH = {TensorProto.DOUBLE: 8, TensorProto.INT64: 8, TensorProto.UINT64: 8, TensorProto.FLOAT16: 2,
         TensorProto.BFLOAT16: 2, TensorProto.INT8: 1, TensorProto.UINT8: 1, TensorProto.BOOL: 1}


def shapes(model):
    graph, found = model.graph, {}
    for value in [*graph.input, *graph.output, *graph.value_info]:
        kind = value.type.tensor_type
        dims = [d.dim_value or 1 for d in kind.shape.dim] if kind.HasField("shape") else []
        found[value.name] = (dims, WIDTH.get(kind.elem_type, 4))
    for tensor in graph.initializer:
        found[tensor.name] = (list(tensor.dims), WIDTH.get(tensor.data_type, 4))
    return found


def multiply_adds(node, size, shape):
    output = size(node.output[0])
    first = size(node.input[0]) if node.input else 1
    if node.op_type in ("Conv", "ConvTranspose"):
        return (output if node.op_type == "Conv" else first) * math.prod(shape(node.input[1])[1:] or [1])
    if node.op_type in ("MatMul", "Gemm"):
        transposed = any(a.name == "transA" and a.i for a in node.attribute)
        a = shape(node.input[0])
        return output * (a[0 if transposed else -1] if a else 1)
    return max(output, first)


def structure(path):
    model = onnx.load(path)
    for node in model.graph.node:  # sizes of constants that nodes make
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                model.graph.initializer.append(numpy_helper.from_array(numpy_helper.to_array(attribute.t), node.output[0]))
    del_nodes = [n for n in model.graph.node if n.op_type == "Constant"]
    for node in del_nodes:
        model.graph.node.remove(node)
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    graph, known = model.graph, shapes(model)
    shape = lambda name: known.get(name, ([], 4))[0]
    size = lambda name: math.prod(shape(name))
    constant = {t.name for t in graph.initializer}
    kept = []
    for node in graph.node:
        reads = [name for name in node.input if name]
        if all(name in constant for name in reads):
            constant.update(node.output)
        else:
            kept.append(node)
    index, tensors, nodes = {}, [], []

    def number(name):
        if name not in index:
            index[name] = len(tensors)
            tensors.append([size(name) * known.get(name, ([], 4))[1], int(name in constant)])
        return index[name]

    for node in kept:
        reads = [number(name) for name in dict.fromkeys(node.input) if name]
        writes = [number(name) for name in node.output if name]
        nodes.append([node.op_type, multiply_adds(node, size, shape), reads, writes])
    return {"name": pathlib.Path(path).stem, "tensors": tensors, "nodes": nodes}


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for path in sys.argv[2:]:
        found = structure(path)
        text = json.dumps(found, separators=(",", ":"))
        (out / f"{found['name']}.json").write_text(text + "\n")
        print(f"{found['name']:20} {len(found['nodes']):5} nodes {len(found['tensors']):5} tensors "
              f"{sum(n[1] for n in found['nodes']) / 1e6:10.1f} M multiply-adds {len(text):7} bytes")


if __name__ == "__main__":
    main()
