"""The forms in which ONNX Runtime saves a network. Each makes a file, or says why there is none."""
import pathlib
from dataclasses import dataclass
from typing import Callable

import onnxruntime as ort
from onnxruntime import quantization
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType
from onnxruntime.transformers import optimizer
from onnxruntime.transformers.fusion_options import FusionOptions


@dataclass
class Form:
    name: str
    #: of the file, without its suffix
    file: str
    #: whether values are computed in codes of 8 bits, or in f16
    codes: bool
    half: bool
    #: `make(network, exported, path, feeds)` writes the file and returns nothing, or the reason why there is none
    make: Callable
    #: the form that ONNX Runtime optimised to this one
    source: str = ""


FORMS = []


def form(name, file, codes=False, half=False, source=""):
    def keep(function):
        FORMS.append(Form(name, file, codes, half, function, source))
        return function

    return keep


class Feeds(CalibrationDataReader):
    """The inputs of the comparison, once."""

    def __init__(self, feeds):
        self.left = [feeds]

    def get_next(self):
        return self.left.pop() if self.left else None


def save(model, path, level):
    """What ONNX Runtime makes of a model at a level."""
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 4
    ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


@form("as exported", "exported")
def exported(network, model, path, feeds):
    return ""


@form("BASIC", "basic")
def basic(network, model, path, feeds):
    save(model, path, ort.GraphOptimizationLevel.ORT_ENABLE_BASIC)


@form("EXTENDED", "extended")
def extended(network, model, path, feeds):
    save(model, path, ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED)


def optimise(network, model, path, half):
    if network.kind is None:
        return "the transformer optimiser has no such network"
    chosen = FusionOptions(network.kind)
    # attention of a decoder to its encoder becomes a node by this alone
    chosen.use_multi_head_attention = "decoder" in network.name
    made = optimizer.optimize_model(str(model), model_type=network.kind, num_heads=network.heads, hidden_size=network.hidden,
                                    optimization_options=chosen, opt_level=0, only_onnxruntime=False)  # fmt: skip
    if half:
        made.convert_float_to_float16(keep_io_types=True)
    made.save_model_to_file(str(path))
    return ""


@form("optimiser", "optimised")
def optimised(network, model, path, feeds):
    return optimise(network, model, path, False)


@form("optimiser, f16", "optimised-half", half=True)
def optimised_half(network, model, path, feeds):
    return optimise(network, model, path, True)


@form("quantize_dynamic", "dynamic", codes=True)
def dynamic(network, model, path, feeds):
    ready = prepared(model)
    quantization.quantize_dynamic(str(ready), str(path), weight_type=QuantType.QInt8, reduce_range=True)


@form("… at EXTENDED", "dynamic-extended", codes=True, source="dynamic")
def dynamic_extended(network, model, path, feeds):
    source = path.with_name("dynamic.onnx")
    if not source.exists():
        dynamic(network, model, source, feeds)
    save(source, path, ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED)


def static(model, path, feeds, how, per_channel):
    quantization.quantize_static(str(prepared(model)), str(path), Feeds(feeds), quant_format=how, per_channel=per_channel,
                                 activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, reduce_range=True)  # fmt: skip


def prepared(model):
    """The model as the quantisers ask for it: with shapes, and cleaned up."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    ready = pathlib.Path(model).with_name("prepared.onnx")
    if not ready.exists():
        quant_pre_process(str(model), str(ready), skip_symbolic_shape=True)
    return ready


@form("quantize_static, QDQ", "static", codes=True)
def static_qdq(network, model, path, feeds):
    static(model, path, feeds, QuantFormat.QDQ, True)


@form("… at EXTENDED ", "static-extended", codes=True, source="static")
def static_extended(network, model, path, feeds):
    source = path.with_name("static.onnx")
    if not source.exists():
        static_qdq(network, model, source, feeds)
    save(source, path, ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED)


@form("quantize_static, QOperator", "operators", codes=True)
def static_operators(network, model, path, feeds):
    static(model, path, feeds, QuantFormat.QOperator, False)
