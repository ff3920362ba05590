"""The provider, registered once, and sessions that have it."""

from __future__ import annotations

import functools
import typing

import numpy as np
import onnx
import onnxruntime as ort
import polychip_ort
import pytest
from onnx import TensorProto, helper

NAME = polychip_ort.get_ep_name()


@functools.cache
def devices() -> list[typing.Any]:
    ort.register_execution_provider_library(NAME, polychip_ort.get_library_path())
    return [device for device in ort.get_ep_devices() if device.ep_name == NAME]


def session(
    model: bytes | str, options: dict[str, str] | None = None, settings: dict[str, str] | None = None
) -> ort.InferenceSession:
    """A session of a model with the provider, on one thread, with no plugins but the CPU's."""
    own = ort.SessionOptions()
    own.log_severity_level = 3
    for key, value in (settings or {}).items():
        own.add_session_config_entry(key, value)
    given = {"threads": "1", "only-given-folders": "yes", **(options or {})}
    own.add_provider_for_devices(devices()[:1], given)
    return ort.InferenceSession(model, own)


def cpu(model: bytes | str) -> ort.InferenceSession:
    """As `session`, with ONNX Runtime's own CPU provider."""
    return ort.InferenceSession(model, providers=["CPUExecutionProvider"])


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, list[typing.Any] | None]],
    outputs: dict[str, tuple[int, list[typing.Any] | None]],
    constants: dict[str, np.ndarray] | None = None,
    opsets: dict[str, int] | None = None,
) -> bytes:
    """A model of these nodes."""

    def infos(ports: dict[str, tuple[int, list[typing.Any] | None]]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in ports.items()]

    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(nodes, "made", infos(inputs), infos(outputs), tensors)
    imports = [helper.make_opsetid(domain, version) for domain, version in {"": 17, **(opsets or {})}.items()]
    made = helper.make_model(graph, opset_imports=imports, ir_version=8)
    return made.SerializeToString()


FLOAT = TensorProto.FLOAT


def left_to_others(x: str, y: str) -> onnx.NodeProto:
    """A node of `[n, k]` to `[n, n]` that Polychip leaves to other providers: the importer does not express this
    activation of it."""
    attributes = {"alpha": 1.0, "beta": 0.0, "transA": 0, "transB": 1, "activation_alpha": 0.5}
    return helper.make_node(
        "FusedGemm", [x, x], [y], domain="com.microsoft", activation="ThresholdedRelu", **attributes
    )


def rows_of_words(x: str, y: str) -> onnx.NodeProto:
    """A node that Polychip leaves to other providers, and whose output has no rank before a run: rows of letters, i32, to
    rows of four floats. Its constants are `WORDS`."""
    return helper.make_node("WordConvEmbedding", [x, "filters", "shift", "letters"], [y], domain="com.microsoft")


WORDS = {
    "filters": np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 1, 2, 3),
    "shift": np.linspace(0, 1, 4, dtype=np.float32),
    "letters": np.linspace(-2, 2, 30, dtype=np.float32).reshape(10, 3),
}


@pytest.fixture
def relu() -> bytes:
    """`y = relu(x + w)` of f32 `[n, 3]`."""
    nodes = [helper.make_node("Add", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    w = np.array([1.0, -1.0, 0.5], np.float32)
    return model(nodes, {"x": (FLOAT, ["n", 3])}, {"y": (FLOAT, ["n", 3])}, {"w": w})
