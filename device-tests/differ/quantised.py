"""How a node of each of ONNX Runtime's own ops on codes is drawn: linear ops, products, pools, attention of bytes."""

import numpy as np
from contrib import contrib, mask, node, plain
from images import picture, window
from recipes import divisors

CODES = ("uint8", "int8")


def scale(d, shape=(), low=0.02, high=0.2):
    """A scale; half of them powers of two, of which no product is rounded."""
    value = d.numbers("float32", list(shape), low, high)
    return d.add(np.exp2(np.round(np.log2(value))).astype("float32") if d.flip(0.5) else value, True)


def zero(d, dtype, shape=()):
    return d.new(dtype, list(shape), constant=True, special=False)


def wide(d, dtype, shape):
    """Codes of the whole range."""
    limits = np.iinfo(dtype)
    return d.new(dtype, list(shape), limits.min, limits.max)


def weights(d, dtype, shape, constant=None):
    """Codes of weights. Those with a sign have 7 bits: beyond, ONNX Runtime's sums saturate on processors without VNNI."""
    return d.new(dtype, list(shape), *((-63, 63) if dtype == "int8" else (0, 255)), special=False, constant=constant)


def codes(d, low=1, high=4, fit=None):
    return d.any(CODES, low, high, lambda value: value.size and (fit is None or fit(value)))


@contrib("QLinearAdd", "QLinearMul", weight=0.7)
def both(d, op):
    first = codes(d)
    dtype = str(d.values[first].dtype)
    second = d.beside(first)
    node(d, op, [first, scale(d), zero(d, dtype), second, scale(d), zero(d, dtype), scale(d), zero(d, dtype)])


@contrib("QLinearSigmoid", "QLinearLeakyRelu", weight=0.5)
def table(d, op):
    name = codes(d)
    dtype = str(d.values[name].dtype)
    alpha = d.pick((None, 0.1, -0.5)) if op.endswith("LeakyRelu") else None
    zeros = [zero(d, dtype) for _ in range(2)]
    node(d, op, [name, scale(d), zeros[0], scale(d), zeros[1]], alpha=alpha)


@contrib("QLinearSoftmax", weight=0.5)
def softmax(d, op):
    # of one value alone, ONNX Runtime's code of one wraps
    name = codes(d, fit=lambda value: min(value.shape) > 1)
    dtype, rank = str(d.values[name].dtype), d.values[name].ndim
    opset = d.pick((11, 13))
    axis = d.axis(rank) if opset == 13 else d.rng.randrange(rank)
    # codes that hold a probability of one: others wrap there
    out = d.parameter(1 / 255 if d.flip(0.6) else d.pick((1 / 128, 1 / 200)), "float32", sure=True)
    least = d.add(np.array(np.iinfo(dtype).min, dtype), True)
    node(d, op, [name, scale(d), zero(d, dtype), out, least], axis=axis, opset=opset)


@contrib("QLinearAveragePool", weight=0.4)
def pool(d, op):
    name = picture(d, op, 3, 5, CODES)
    value = d.values[name]
    more, kernel = window(d, value.shape[2:], False)
    dtype = str(value.dtype)
    node(d, op, [name, scale(d), zero(d, dtype), scale(d), zero(d, dtype)], kernel_shape=kernel, ceil_mode=d.pick((None, 0)),
         count_include_pad=d.pick((None, 0, 1)), **more)  # fmt: skip


@contrib("QLinearGlobalAveragePool", weight=0.4)
def global_pool(d, op):
    name = picture(d, op, 3, 5, CODES)
    dtype = str(d.values[name].dtype)
    last = d.pick((0, 0, 1))
    node(d, op, [name, scale(d), zero(d, dtype), scale(d), zero(d, dtype)], channels_last=last)


@contrib("QLinearConcat", weight=0.4)
def concat(d, op):
    first = codes(d)
    value = d.values[first]
    dtype, axis = str(value.dtype), d.axis(value.ndim)
    inputs = [scale(d), zero(d, dtype), first, scale(d), zero(d, dtype)]
    for _ in range(d.rng.randint(0, 2)):
        shape = list(value.shape)
        shape[axis] = d.pick((1, 2, 3))
        inputs += [d.same(dtype, shape), scale(d), zero(d, dtype)]
    node(d, op, inputs, axis=axis)


@contrib("QLinearReduceMean", weight=0.2)
def mean(d, op):
    name = codes(d)
    dtype = str(d.values[name].dtype)
    node(d, op, [name, scale(d), zero(d, dtype), scale(d), zero(d, dtype)], axes=d.axes(d.values[name].ndim, least=1),
         keepdims=d.pick((None, 0, 1)))  # fmt: skip


@contrib("QLinearWhere", weight=0.3)
def where(d, op):
    first = codes(d)
    dtype, shape = str(d.values[first].dtype), list(d.values[first].shape)
    condition = d.same("bool", shape if d.flip(0.6) else [1 if d.flip(0.5) else size for size in shape])
    node(d, op, [condition, first, scale(d), zero(d, dtype), d.beside(first), scale(d), zero(d, dtype), scale(d), zero(d, dtype)])


@contrib("QLinearConv", weight=0.5)
def conv(d, op):
    last = d.flip(0.6)
    name = picture(d, op, 4, 4, CODES)
    dtype = str(d.values[name].dtype)
    shape = list(d.values[name].shape)
    if last:
        # the same picture with its channels last
        name = d.same(dtype, [shape[0], *shape[2:], shape[1]])
    more, kernel = window(d, shape[2:], True)
    of_weight, channels = "int8" if dtype == "int8" else d.pick(CODES), shape[1]
    group = d.pick(divisors(channels))
    filters = group * d.rng.randint(1, 3)
    weight = weights(d, of_weight, [filters, channels // group] + kernel, True)
    each = [filters] if d.flip(0.4) else []
    inputs = [name, scale(d), zero(d, dtype), weight, scale(d, each), d.add(np.zeros(each, of_weight), True), scale(d), zero(d, dtype)]
    if d.flip(0.5):
        inputs.append(d.new("int32", [filters], constant=True, special=False))
    node(d, op, inputs, group=group, kernel_shape=kernel, channels_last=int(last), **more)


@contrib("NhwcMaxPool", weight=0.3)
def max_pool(d, op):
    dtype, space = d.pick(CODES), [d.rng.randint(3, 7) for _ in range(2)]
    name = wide(d, dtype, [d.pick((1, 2)), *space, d.pick((1, 3, 4))])
    more, kernel = window(d, space, True)
    node(d, op, [name], kernel_shape=kernel, **more)


@contrib("QGemm", weight=0.6)
def gemm(d, op):
    first = codes(d, 2, 2)
    value = d.values[first]
    dtype, of_weight = str(value.dtype), d.pick(CODES)
    trans_a, trans_b = d.pick((None, 0, 1)), d.pick((None, 0, 1))
    rows, inner = value.shape[::-1] if trans_a else value.shape
    columns = d.pick((1, 2, 3, 5, 8))
    each = [columns] if d.flip(0.3) else []
    second = weights(d, of_weight, [columns, inner] if trans_b else [inner, columns])
    inputs = [first, scale(d), zero(d, dtype), second, scale(d, each), zero(d, of_weight, each)]
    real = d.flip(0.4)
    inputs.append(d.new("int32", d.pick(([columns], [rows, columns], [1, columns])), special=False) if d.flip(0.6) else "")
    if not real:
        inputs += [scale(d, low=0.5, high=4), zero(d, dtype)]
    node(d, op, inputs, transA=trans_a, transB=trans_b, alpha=d.pick((None, 1.0, 0.5)))


@contrib("MatMulIntegerToFloat", weight=0.6)
def to_float(d, op):
    first = codes(d, 2, 3)
    value = d.values[first]
    dtype, of_weight, columns = str(value.dtype), d.pick(CODES), d.pick((1, 2, 3, 5, 8))
    each = [columns] if d.flip(0.3) else []
    inputs = [first, weights(d, of_weight, [value.shape[-1], columns]), scale(d), scale(d, each)]
    inputs.append(zero(d, dtype) if d.flip(0.6) else "")
    inputs.append(zero(d, of_weight, each) if d.flip(0.6) else "")
    inputs.append(plain(d, columns) if d.flip(0.5) else "")
    node(d, op, inputs)


@contrib("DynamicQuantizeMatMul", weight=0.6)
def dynamic(d, op):
    first = d.any(("float32",), 2, 3, lambda value: value.size and np.isfinite(value).all() and np.abs(value).max() < 100)
    of_weight, columns = d.pick(CODES), d.pick((1, 2, 3, 5, 8))
    each = [columns] if d.flip(0.3) else []
    inputs = [first, weights(d, of_weight, [d.values[first].shape[-1], columns]), scale(d, each)]
    inputs.append(zero(d, of_weight, each) if d.flip(0.6) else "")
    inputs.append(plain(d, columns) if d.flip(0.5) else "")
    node(d, op, inputs)


@contrib("MatMulInteger16", weight=0.3)
def sixteen(d, op):
    first = d.any(("int16",), 2, 3)
    node(d, op, [first, d.new("int16", [d.values[first].shape[-1], d.size()])])


@contrib("QuantizeLinear", "DequantizeLinear", weight=0.4)
def plain_codes(d, op):
    forward = op.endswith(".QuantizeLinear")
    code = d.pick(("uint8", "int8", "uint16", "int16"))
    name = d.any(("float32",) if forward else (code,), 0, 4)
    value = d.values[name]
    axis = d.axis(value.ndim) if value.ndim and d.flip(0.4) else None
    shape = [] if axis is None else [value.shape[axis]]
    node(d, op, [name, scale(d, shape), zero(d, code, shape)], axis=axis)


@contrib("QAttention", weight=0.4)
def attention(d, op):
    batch, length, heads, width = d.pick((1, 2)), d.rng.randint(1, 4), d.pick((1, 2)), d.pick((4, 8))
    hidden, dtype, of_weight = heads * width, "uint8", d.pick(CODES)
    inputs = [wide(d, dtype, [batch, length, hidden]), weights(d, of_weight, [hidden, 3 * hidden], True)]
    inputs += [plain(d, 3 * hidden, constant=True), scale(d), scale(d), mask(d, batch, length, length) if d.flip(0.4) else ""]
    inputs += [zero(d, dtype), zero(d, of_weight)]
    node(d, op, inputs, num_heads=heads, unidirectional=d.pick((None, 0, 1)))

