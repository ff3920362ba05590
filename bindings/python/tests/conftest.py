"""Shared fixtures: the demo model, small models, the module."""

from pathlib import Path

import numpy
import pytest
from onnx import TensorProto, helper

import polychip

ROOT = Path(__file__).resolve().parents[3]


def model(nodes, inputs, outputs, initializers=()):
    """The bytes of a model."""
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def value(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def double(shape, dtype=TensorProto.FLOAT):
    """y = x + x."""
    return model([helper.make_node("Add", ["x", "x"], ["y"])], [value("x", shape, dtype)], [value("y", shape, dtype)])


@pytest.fixture(scope="session")
def runtime():
    return polychip.Runtime()


@pytest.fixture
def doubler(runtime):
    """A session of y = x + x for f32 [2, 3]."""
    return runtime.load(double([2, 3])).session(polychip.Policy.latency(threads=1))


@pytest.fixture
def x():
    return numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
