"""Models of one op, each twice: CASE.tflite for LiteRT and CASE.onnx for us, with the same weights and encodings.

    ops.py OUT

The two compute the same in each format's own convention. Images are channels last in both: the ONNX model has
transposes around its op, as what imports a .tflite model would write. Quantised ONNX models are in QDQ form. That the
two are the same computation is checked here, with LiteRT's kernels and ONNX's own evaluator. `cases.json` lists the names.
"""

import json
import pathlib
import sys

import answers
import flatbuffers
import numpy as np
import onnx
from ai_edge_litert import schema_py_generated as tflite
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

OPSET = 20
TFLITE_TYPES = {"f32": tflite.TensorType.FLOAT32, "i8": tflite.TensorType.INT8, "i32": tflite.TensorType.INT32}
NUMPY_TYPES = {"f32": np.float32, "i8": np.int8, "i32": np.int32}
ONNX_TYPES = {"f32": TensorProto.FLOAT, "i8": TensorProto.INT8, "i32": TensorProto.INT32}
# powers of two, so that no format rounds a scale
X, Y, W = 2.0**-5, 2.0**-4, 2.0**-7
TO_NCHW, TO_NHWC = [0, 3, 1, 2], [0, 2, 3, 1]


def numbers(shape, salt=0):
    """Small integers that no symmetry of axes leaves alone."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 37 + 11 * salt + (np.arange(count) // 5) * 3) % 23 - 11).reshape(shape)


class Pair:
    """One op in both formats; `fixed` is whether it is quantised to eight bits."""

    def __init__(self, fixed):
        self.fixed = fixed
        self.model = tflite.ModelT()
        self.model.version = 3
        self.model.description = "one op"
        # the first buffer is empty by convention
        self.model.buffers = [tflite.BufferT()]
        self.model.operatorCodes = []
        self.graph = tflite.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.graph.inputs, self.graph.outputs = [], []
        self.graph.name = "main"
        self.model.subgraphs = [self.graph]
        self.nodes, self.initialisers, self.onnx_inputs, self.onnx_outputs = [], [], [], []
        self.made = 0

    # --- .tflite

    def tensor(self, name, shape, kind, scales=None, zeros=None, axis=0, data=None):
        tensor = tflite.TensorT()
        tensor.name, tensor.shape, tensor.type = name, list(shape), TFLITE_TYPES[kind]
        tensor.hasRank = True
        if scales is not None:
            quantisation = tflite.QuantizationParametersT()
            quantisation.scale = [float(scale) for scale in scales]
            quantisation.zeroPoint = list(zeros)
            quantisation.quantizedDimension = axis
            tensor.quantization = quantisation
        tensor.buffer = 0
        if data is not None:
            buffer = tflite.BufferT()
            buffer.data = np.ascontiguousarray(data, NUMPY_TYPES[kind]).tobytes()
            self.model.buffers.append(buffer)
            tensor.buffer = len(self.model.buffers) - 1
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def activation(self, name, shape, scale=X, zero=3):
        if self.fixed:
            return self.tensor(name, shape, "i8", [scale], [zero])
        return self.tensor(name, shape, "f32")

    def input(self, name, shape, scale=X, zero=3):
        index = self.activation(name, shape, scale, zero)
        self.graph.inputs.append(index)
        kind = "i8" if self.fixed else "f32"
        self.onnx_inputs.append(helper.make_tensor_value_info(name, ONNX_TYPES[kind], shape))
        return index

    def output(self, name, shape, scale=Y, zero=-5):
        index = self.activation(name, shape, scale, zero)
        self.graph.outputs.append(index)
        kind = "i8" if self.fixed else "f32"
        self.onnx_outputs.append(helper.make_tensor_value_info(name, ONNX_TYPES[kind], shape))
        return index

    def op(self, name, inputs, outputs, version=1, options=None, **fields):
        code = tflite.OperatorCodeT()
        code.builtinCode = getattr(tflite.BuiltinOperator, name)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = version
        self.model.operatorCodes.append(code)
        operator = tflite.OperatorT()
        operator.opcodeIndex = len(self.model.operatorCodes) - 1
        operator.inputs, operator.outputs = inputs, outputs
        if options is not None:
            value = getattr(tflite, options + "T")()
            for field, setting in fields.items():
                assert hasattr(value, field), (options, field)
                setattr(value, field, setting)
            operator.builtinOptionsType = getattr(tflite.BuiltinOptions, options)
            operator.builtinOptions = value
        self.graph.operators.append(operator)

    # --- .onnx

    def fresh(self):
        self.made += 1
        return f"t{self.made}"

    def node(self, op, inputs, output=None, **attributes):
        output = output or self.fresh()
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def constant(self, array):
        name = f"c{len(self.initialisers)}"
        self.initialisers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def real(self, name, scale=X, zero=3):
        """The real values of a stored tensor."""
        if not self.fixed:
            return name
        scale, zero = self.constant(np.float32(scale)), self.constant(np.int8(zero))
        return self.node("DequantizeLinear", [name, scale, zero])

    def stored(self, name, output=None, scale=Y, zero=-5):
        """A real tensor as it is stored; the last one has the name of an output."""
        if not self.fixed:
            return self.node("Identity", [name], output) if output else name
        scale, zero = self.constant(np.float32(scale)), self.constant(np.int8(zero))
        return self.node("QuantizeLinear", [name, scale, zero], output)

    def moved(self, name, perm, scale, zero, output=None):
        """A stored tensor with its axes in another order."""
        return self.stored(self.node("Transpose", [self.real(name, scale, zero)], perm=perm), output, scale, zero)

    def image(self, name, scale=X, zero=3):
        """The real values of a channels-last input, channels second."""
        return self.real(self.moved(name, TO_NCHW, scale, zero), scale, zero)

    def image_out(self, name, output, scale=Y, zero=-5):
        self.moved(self.stored(name, None, scale, zero), TO_NHWC, scale, zero, output)

    # --- both

    def weights(self, shape, channel, to_onnx, name="w", channels=True):
        """Weights in the order of .tflite, one scale per index of `channel`; the .onnx order is `to_onnx` of it."""
        values = numbers(shape, 1)
        order = lambda array: np.transpose(array, to_onnx)
        if not self.fixed:
            reals = (values * 0.25).astype(np.float32)
            return self.tensor(name, shape, "f32", data=reals), self.constant(order(reals))
        count = shape[channel] if channels else 1
        scales = W * 2.0 ** (np.arange(count) % 3)
        index = self.tensor(name, shape, "i8", scales, [0] * count, channel if channels else 0, values)
        stored = self.constant(order(values).astype(np.int8))
        scale = scales.astype(np.float32) if channels else np.float32(scales[0])
        zero = np.zeros_like(scale, dtype=np.int8)
        axis = list(to_onnx).index(channel) if channels else 0
        real = self.node("DequantizeLinear", [stored, self.constant(scale), self.constant(zero)], axis=axis)
        self.weight_scales = scales
        return index, real

    def bias(self, count):
        values = numbers([count], 2)
        if not self.fixed:
            reals = (values * 0.5).astype(np.float32)
            return self.tensor("b", [count], "f32", data=reals), self.constant(reals)
        scales = X * self.weight_scales
        index = self.tensor("b", [count], "i32", scales, [0] * len(scales), 0, values * 7)
        stored = self.constant((values * 7).astype(np.int32))
        scale = scales.astype(np.float32) if len(scales) > 1 else np.float32(scales[0])
        zero = np.zeros_like(scale, dtype=np.int32)
        return index, self.node("DequantizeLinear", [stored, self.constant(scale), self.constant(zero)], axis=0)

    def integers(self, name, values):
        """A constant of .tflite that is a parameter, not data."""
        values = np.asarray(values, np.int32)
        return self.tensor(name, values.shape, "i32", data=values)

    def files(self):
        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(self.model.Pack(builder), file_identifier=b"TFL3")
        graph = helper.make_graph(self.nodes, "one_op", self.onnx_inputs, self.onnx_outputs, self.initialisers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
        onnx.checker.check_model(model, full_check=True)
        return bytes(builder.Output()), model.SerializeToString()


CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


VALID, SAME = tflite.Padding.VALID, tflite.Padding.SAME
RELU = tflite.ActivationFunctionType.RELU


@case
def conv(p):
    x, y = p.input("x", [1, 6, 7, 3]), p.output("y", [1, 2, 3, 4])
    w, real = p.weights([4, 3, 2, 3], 0, TO_NCHW)
    b, bias = p.bias(4)
    p.op("CONV_2D", [x, w, b], [y], 3, "Conv2DOptions", padding=VALID, strideH=2, strideW=2)
    p.image_out(p.node("Conv", [p.image("x"), real, bias], strides=[2, 2]), "y")


@case
def conv_same_dilated(p):
    x, y = p.input("x", [1, 6, 7, 3]), p.output("y", [1, 6, 7, 4])
    w, real = p.weights([4, 3, 3, 3], 0, TO_NCHW)
    b, bias = p.bias(4)
    p.op("CONV_2D", [x, w, b], [y], 3, "Conv2DOptions", padding=SAME, strideH=1, strideW=1,
         dilationHFactor=2, dilationWFactor=2)
    p.image_out(p.node("Conv", [p.image("x"), real, bias], dilations=[2, 2], pads=[2, 2, 2, 2]), "y")


@case
def conv_relu(p):
    x, y = p.input("x", [1, 5, 5, 3]), p.output("y", [1, 5, 5, 4], zero=-128)
    w, real = p.weights([4, 1, 1, 3], 0, TO_NCHW)
    b, bias = p.bias(4)
    p.op("CONV_2D", [x, w, b], [y], 3, "Conv2DOptions", padding=VALID, strideH=1, strideW=1,
         fusedActivationFunction=RELU)
    p.image_out(p.node("Relu", [p.node("Conv", [p.image("x"), real, bias])]), "y", zero=-128)


@case
def depthwise_conv(p):
    x, y = p.input("x", [1, 6, 6, 4]), p.output("y", [1, 3, 3, 4])
    w, real = p.weights([1, 3, 3, 4], 3, [3, 0, 1, 2])
    b, bias = p.bias(4)
    p.op("DEPTHWISE_CONV_2D", [x, w, b], [y], 3, "DepthwiseConv2DOptions", padding=SAME, strideH=2, strideW=2,
         depthMultiplier=1)
    p.image_out(p.node("Conv", [p.image("x"), real, bias], group=4, strides=[2, 2], pads=[0, 0, 1, 1]), "y")


@case
def transpose_conv(p):
    # even sizes: LiteRT's plugin pads by the input's size, and one more for an odd one, so that a column is lost
    x, y = p.input("x", [1, 4, 6, 3]), p.output("y", [1, 8, 12, 2])
    # [out, h, w, in] in .tflite, [in, out, h, w] in ONNX
    w, real = p.weights([2, 2, 2, 3], 0, [3, 0, 1, 2])
    shape = p.integers("shape", [1, 8, 12, 2])
    p.op("TRANSPOSE_CONV", [shape, w, x], [y], 2, "TransposeConvOptions", padding=SAME, strideH=2, strideW=2)
    p.image_out(p.node("ConvTranspose", [p.image("x"), real], strides=[2, 2]), "y")


@case
def fully_connected(p):
    x, y = p.input("x", [2, 6]), p.output("y", [2, 5])
    w, real = p.weights([5, 6], 0, [0, 1], channels=False)
    b, bias = p.bias(5)
    p.op("FULLY_CONNECTED", [x, w, b], [y], 4, "FullyConnectedOptions")
    p.stored(p.node("Gemm", [p.real("x"), real, bias], transB=1), "y")


@case
def batch_matmul(p):
    x, z, y = p.input("x", [2, 3, 4]), p.input("z", [2, 4, 5], Y, 7), p.output("y", [2, 3, 5])
    p.op("BATCH_MATMUL", [x, z], [y], 2, "BatchMatMulOptions")
    p.stored(p.node("MatMul", [p.real("x"), p.real("z", Y, 7)]), "y")


def binary(name, onnx_op, options, version=2, second=(1, 5, 4, 3)):
    def build(p):
        x, z, y = p.input("x", [1, 5, 4, 3]), p.input("z", list(second), Y, 7), p.output("y", [1, 5, 4, 3])
        p.op(name.upper(), [x, z], [y], version if p.fixed else 1, options)
        p.stored(p.node(onnx_op, [p.real("x"), p.real("z", Y, 7)]), "y")

    return build


CASES["add"] = binary("add", "Add", "AddOptions")
CASES["add_broadcast"] = binary("add", "Add", "AddOptions", second=[1, 1, 1, 3])
CASES["sub"] = binary("sub", "Sub", "SubOptions")
CASES["mul"] = binary("mul", "Mul", "MulOptions")
CASES["div"] = binary("div", "Div", "DivOptions", 1)
# LiteRT's kernel refuses zeros among what it divides by, which eight bits always hold
FLOAT_ONLY = {"div"}


def extreme(name, onnx_op):
    """Inputs and output share an encoding, as LiteRT's kernels ask."""

    def build(p):
        x, z, y = p.input("x", [1, 5, 4, 3]), p.input("z", [1, 5, 4, 3]), p.output("y", [1, 5, 4, 3], X, 3)
        p.op(name, [x, z], [y], 2 if p.fixed else 1, "MaximumMinimumOptions")
        p.stored(p.node(onnx_op, [p.real("x"), p.real("z")]), "y", X, 3)

    return build


CASES["maximum"] = extreme("MAXIMUM", "Max")
CASES["minimum"] = extreme("MINIMUM", "Min")


def unary(name, onnx_op, options=None, version=2, scale=Y, zero=-5, fields=None, **attributes):
    def build(p):
        x, y = p.input("x", [1, 5, 4, 3]), p.output("y", [1, 5, 4, 3], scale, zero)
        p.op(name, [x], [y], version if p.fixed else 1, options, **(fields or {}))
        p.stored(p.node(onnx_op, [p.real("x")], **attributes), "y", scale, zero)

    return build


CASES["relu"] = unary("RELU", "Relu", zero=-128)
CASES["logistic"] = unary("LOGISTIC", "Sigmoid", scale=2.0**-8, zero=-128)
CASES["tanh"] = unary("TANH", "Tanh", scale=2.0**-7, zero=0)
CASES["hard_swish"] = unary("HARD_SWISH", "HardSwish", "HardSwishOptions", 1)
CASES["gelu"] = unary("GELU", "Gelu", "GeluOptions")
CASES["abs"] = unary("ABS", "Abs", "AbsOptions", scale=X, zero=3)
CASES["neg"] = unary("NEG", "Neg", "NegOptions", 1, scale=X, zero=-3)
CASES["exp"] = unary("EXP", "Exp", "ExpOptions", 2)
CASES["leaky_relu"] = unary("LEAKY_RELU", "LeakyRelu", "LeakyReluOptions", fields={"alpha": 0.25}, alpha=0.25)


@case
def relu6(p):
    x, y = p.input("x", [1, 5, 4, 3]), p.output("y", [1, 5, 4, 3], zero=-128)
    p.op("RELU6", [x], [y], 2 if p.fixed else 1)
    low, high = p.constant(np.float32(0)), p.constant(np.float32(6))
    p.stored(p.node("Clip", [p.real("x"), low, high]), "y", zero=-128)


@case
def softmax(p):
    x, y = p.input("x", [2, 9]), p.output("y", [2, 9], 2.0**-8, -128)
    p.op("SOFTMAX", [x], [y], 2 if p.fixed else 1, "SoftmaxOptions", beta=1.0)
    p.stored(p.node("Softmax", [p.real("x")], axis=-1), "y", 2.0**-8, -128)


def pool(name, onnx_op, **attributes):
    """Pooling leaves an encoding as it is."""

    def build(p):
        x, y = p.input("x", [1, 6, 6, 3]), p.output("y", [1, 3, 3, 3], X, 3)
        p.op(name, [x], [y], 2 if p.fixed else 1, "Pool2DOptions", padding=VALID, strideH=2, strideW=2,
             filterHeight=2, filterWidth=2)
        pooled = p.node(onnx_op, [p.image("x")], kernel_shape=[2, 2], strides=[2, 2], **attributes)
        p.image_out(pooled, "y", X, 3)

    return build


CASES["max_pool"] = pool("MAX_POOL_2D", "MaxPool")
CASES["average_pool"] = pool("AVERAGE_POOL_2D", "AveragePool")


@case
def mean(p):
    x, y = p.input("x", [1, 5, 4, 3]), p.output("y", [1, 3])
    p.op("MEAN", [x, p.integers("axes", [1, 2])], [y], 2 if p.fixed else 1, "ReducerOptions", keepDims=False)
    axes = p.constant(np.array([1, 2], np.int64))
    p.stored(p.node("ReduceMean", [p.real("x"), axes], keepdims=0), "y")


def kept(build):
    """Ops that move elements: the output has the input's encoding."""

    def both(p):
        build(p, lambda shape: p.output("y", shape, X, 3), lambda name: p.stored(name, "y", X, 3))

    CASES[build.__name__] = both
    return build


@kept
def reshape(p, output, stored):
    x, y = p.input("x", [1, 4, 6]), output([8, 3])
    p.op("RESHAPE", [x, p.integers("shape", [8, 3])], [y], 1, "ReshapeOptions", newShape=[8, 3])
    stored(p.node("Reshape", [p.real("x"), p.constant(np.array([8, 3], np.int64))]))


@kept
def transpose(p, output, stored):
    x, y = p.input("x", [2, 3, 4]), output([4, 2, 3])
    p.op("TRANSPOSE", [x, p.integers("perm", [2, 0, 1])], [y], 2 if p.fixed else 1, "TransposeOptions")
    stored(p.node("Transpose", [p.real("x")], perm=[2, 0, 1]))


@kept
def concatenation(p, output, stored):
    x, z, y = p.input("x", [2, 3, 4]), p.input("z", [2, 5, 4]), output([2, 8, 4])
    p.op("CONCATENATION", [x, z], [y], 2 if p.fixed else 1, "ConcatenationOptions", axis=1)
    stored(p.node("Concat", [p.real("x"), p.real("z")], axis=1))


@kept
def pad(p, output, stored):
    x, y = p.input("x", [2, 3, 4]), output([2, 6, 5])
    p.op("PAD", [x, p.integers("pads", [[0, 0], [1, 2], [0, 1]])], [y], 2 if p.fixed else 1, "PadOptions")
    stored(p.node("Pad", [p.real("x"), p.constant(np.array([0, 1, 0, 0, 2, 1], np.int64))]))


@kept
def strided_slice(p, output, stored):
    x, y = p.input("x", [2, 7, 4]), output([2, 3, 2])
    bounds = [p.integers(name, value) for name, value in
              [("begin", [0, 1, 2]), ("end", [2, 7, 4]), ("strides", [1, 2, 1])]]
    p.op("STRIDED_SLICE", [x, *bounds], [y], 2 if p.fixed else 1, "StridedSliceOptions")
    limits = [p.constant(np.array(value, np.int64)) for value in ([0, 1, 2], [2, 7, 4], [0, 1, 2], [1, 2, 1])]
    stored(p.node("Slice", [p.real("x"), *limits]))


@kept
def gather(p, output, stored):
    x, y = p.input("x", [2, 7, 4]), output([2, 3, 4])
    p.op("GATHER", [x, p.integers("indices", [4, 0, 6])], [y], 2 if p.fixed else 1, "GatherOptions", axis=1)
    stored(p.node("Gather", [p.real("x"), p.constant(np.array([4, 0, 6], np.int64))], axis=1))


@case
def depth_to_space(p):
    x, y = p.input("x", [1, 3, 2, 8]), p.output("y", [1, 6, 4, 2], X, 3)
    p.op("DEPTH_TO_SPACE", [x], [y], 1, "DepthToSpaceOptions", blockSize=2)
    p.image_out(p.node("DepthToSpace", [p.image("x")], blocksize=2, mode="DCR"), "y", X, 3)


def resize(name, options, **attributes):
    def build(p):
        x, y = p.input("x", [1, 3, 4, 2]), p.output("y", [1, 6, 8, 2], X, 3)
        p.op(name, [x, p.integers("size", [6, 8])], [y], 3, options, halfPixelCenters=True)
        sizes = p.constant(np.array([1, 2, 6, 8], np.int64))
        resized = p.node("Resize", [p.image("x"), "", "", sizes], coordinate_transformation_mode="half_pixel",
                         **attributes)
        p.image_out(resized, "y", X, 3)

    return build


CASES["resize_bilinear"] = resize("RESIZE_BILINEAR", "ResizeBilinearOptions", mode="linear")
CASES["resize_nearest"] = resize("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions", mode="nearest",
                                 nearest_mode="round_prefer_ceil")


@case
def prelu(p):
    x, y = p.input("x", [1, 5, 4, 3]), p.output("y", [1, 5, 4, 3])
    w, real = p.weights([1, 1, 3], 2, [2, 0, 1], "alpha", channels=False)
    p.op("PRELU", [x, w], [y], 1)
    p.image_out(p.node("PRelu", [p.image("x"), real]), "y")


def check(name, theirs, ours):
    """Both are the same computation: LiteRT's kernels and ONNX's own evaluator agree, within one step."""
    values = answers.run(theirs)
    model = onnx.load(ours)
    given = {each.name: values[each.name][0] for each in model.graph.input}
    (wanted,) = ReferenceEvaluator(model).run(None, given)
    (found,) = values["y"]
    assert found.shape == wanted.shape and found.dtype == wanted.dtype, name
    apart = np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max()
    assert apart <= (1 if found.dtype == np.int8 else 1e-5), f"{name}: {apart} apart"


def main():
    out = pathlib.Path(sys.argv[1])
    names = []
    for name, build in sorted(CASES.items()):
        for kind in ["f32"] if name in FLOAT_ONLY else ["f32", "i8"]:
            pair = Pair(kind == "i8")
            build(pair)
            full = f"{name}_{kind}"
            for ending, content in zip(["tflite", "onnx"], pair.files()):
                (out / f"{full}.{ending}").write_bytes(content)
            check(full, out / f"{full}.tflite", out / f"{full}.onnx")
            names.append(full)
    (out / "cases.json").write_text(json.dumps(names))


if __name__ == "__main__":
    main()
