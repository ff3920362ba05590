"""Writes a model of twelve products of 2048 x 2048 with ReLU, whose weights are made when it is loaded: a load for GPUs.

    python3 make_products.py OUT.onnx

Needs onnx and numpy.
"""

import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE = 2048
LAYERS = 12


def main() -> None:
    fill = numpy_helper.from_array(numpy.array([1 / SIZE], numpy.float32))
    shape = numpy_helper.from_array(numpy.array([SIZE, SIZE], numpy.int64), "shape")
    nodes = [helper.make_node("ConstantOfShape", ["shape"], ["w"], value=fill)]
    last = "x"
    for layer in range(LAYERS):
        nodes.append(helper.make_node("MatMul", [last, "w"], [f"product_{layer}"]))
        nodes.append(helper.make_node("Relu", [f"product_{layer}"], [f"y_{layer}"]))
        last = f"y_{layer}"
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [SIZE, SIZE])
    graph = helper.make_graph(nodes, "products", [value("x")], [value(last)], [shape])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model)
    onnx.save(model, sys.argv[1])


main()
