"""How a node of each op is drawn: elementwise ops, reductions, movement of data, and products.

A recipe takes a draft, adds one node (or a few that belong together), and raises `Unfit` where nothing fits.
Attributes and optional inputs are drawn over all that the specification of the draft's opset allows.
Not here: windows, images, quantisation (`images`).
"""

import numpy as np
from drafts import ALL, FLOATS, INTS, NUMBERS, SIGNED, UNSIGNED, Unfit, element, kind

RECIPES = {}


def recipe(*ops, weight=1.0, since=7, until=99):
    """Registers what draws these ops, in these opsets, so often."""

    def keep(function):
        for op in ops:
            RECIPES[op] = (function, weight, since, until)
        return function

    return keep


# elementwise

@recipe("Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "Identity", "Log", "Neg", "Not", "Reciprocal", "Relu", "Sigmoid",
        "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "Acos", "Asin", "Atan", "Acosh", "Asinh", "Atanh",
        "Cosh", "Sinh", "Round", "BitwiseNot", "HardSwish", "IsNaN", "Mish", weight=0.3)  # fmt: skip
def unary(d, op):
    d.node(op, [d.any(d.allowed(op, 0))])


@recipe("Elu", "LeakyRelu", "ThresholdedRelu", "Celu", weight=0.4)
def with_alpha(d, op):
    alpha = d.pick((None, 0.5, -0.25, 2.0, 1.0)) if op != "Celu" else d.pick((None, 0.5, 2.0))
    d.node(op, [d.any(d.allowed(op, 0))], alpha=alpha)


@recipe("HardSigmoid", "Selu", weight=0.4)
def with_two(d, op):
    second = "beta" if op == "HardSigmoid" else "gamma"
    more = {"alpha": d.pick((None, 0.3, 1.5)), second: d.pick((None, 0.25, 2.0))}
    d.node(op, [d.any(d.allowed(op, 0))], **more)


@recipe("Gelu", weight=0.5, since=20)
def gelu(d, op):
    d.node(op, [d.any(d.allowed(op, 0))], approximate=d.pick((None, "none", "tanh")))


@recipe("Swish", weight=0.5, since=24)
def swish(d, op):
    d.node(op, [d.any(d.allowed(op, 0))], alpha=d.pick((None, 1.0, 0.5, -2.0)))


@recipe("BitCast", weight=0.5, since=26)
def bit_cast(d, op):
    name = d.any([dtype for dtype in NUMBERS if dtype != "bool"])
    width = d.values[name].dtype.itemsize
    d.node(op, [name], to=element(d.pick([dtype for dtype in NUMBERS if np.dtype(dtype).itemsize == width])))


@recipe("Shrink", weight=0.5, since=9)
def shrink(d, op):
    d.node(op, [d.any(d.allowed(op, 0))], lambd=d.pick((None, 0.25, 1.5)), bias=d.pick((None, 0.5, -1.0)))


@recipe("IsInf", weight=0.4, since=10)
def is_inf(d, op):
    name = d.same(d.dtype(d.allowed(op, 0)), d.shape(), special=True)
    d.node(op, [name], detect_negative=d.pick((None, 0, 1)), detect_positive=d.pick((None, 0, 1)))


@recipe("Add", "Sub", "Mul", "And", "Or", "Xor", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual",
        "BitwiseAnd", "BitwiseOr", "BitwiseXor", "PRelu", weight=0.7)  # fmt: skip
def binary(d, op):
    first = d.any(d.allowed(op, 0))
    if op == "PRelu":
        # the slope broadcasts to the data, and not the other way
        shape = list(d.values[first].shape)
        shape = shape if d.flip(0.4) else [1 if d.flip(0.4) else size for size in shape]
        second = d.same(kind(d.values[first]), shape[d.rng.randint(0, len(shape)) if d.flip(0.4) else 0 :])
    else:
        second = d.beside(first)
        if d.flip(0.4):
            first, second = second, first
    d.node(op, [first, second])


@recipe("Div", "Mod", weight=0.8)
def divided(d, op):
    if op == "Mod" and d.opset < 10:
        raise Unfit
    first = d.any(d.allowed(op, 0))
    dtype = kind(d.values[first])
    shape = list(d.values[first].shape)
    shape = shape if d.flip(0.6) else [1 if d.flip(0.4) else size for size in shape]
    if dtype in FLOATS:
        second = d.same(dtype, shape)
        fmod = 1
    else:
        # division by zero is nothing that the specification defines, nor is the least number by minus one
        value = d.numbers(dtype, shape, 1, 20, special=False)
        sign = np.where(d.numbers("bool", shape), 1, -1) if dtype in SIGNED else 1
        value = np.where(value == 1, 2, value) * sign
        second = d.add(value.astype(dtype), d.flip(0.4))
        fmod = d.pick((None, 0, 1))
    d.node(op, [first, second], fmod=fmod if op == "Mod" else None)


@recipe("Pow", weight=0.6)
def power(d, op):
    base = d.any(d.allowed(op, 0))
    dtype, shape = kind(d.values[base]), list(d.values[base].shape)
    of_power = dtype if d.opset < 12 else d.dtype([name for name in d.allowed(op, 1) if name in NUMBERS])
    shape = d.pick((shape, [], [1]))
    if of_power in FLOATS and dtype in FLOATS and d.flip(0.4):
        second = d.same(of_power, shape)
    else:
        second = d.new(of_power, shape, 0, 3)
    d.node(op, [base, second])


@recipe("BitShift", weight=0.5, since=11)
def shift(d, op):
    first = d.any(d.allowed(op, 0))
    value = d.values[first]
    bits = value.dtype.itemsize * 8
    second = d.new(kind(value), list(value.shape) if d.flip(0.6) else [], 0, bits - 1)
    d.node(op, [first, second], direction=d.pick(("LEFT", "RIGHT")))


@recipe("Max", "Min", "Sum", "Mean", weight=0.6)
def variadic(d, op):
    first = d.any(d.allowed(op, 0))
    names = [first] + [d.beside(first) for _ in range(d.rng.randint(0, 3))]
    d.rng.shuffle(names)
    d.node(op, names)


@recipe("Where", weight=1, since=9)
def where(d, op):
    first = d.any(d.allowed(op, 1))
    shape = list(d.values[first].shape)
    condition = d.same("bool", shape if d.flip(0.6) else [1 if d.flip(0.5) else size for size in shape])
    d.node(op, [condition, first, d.beside(first)])


@recipe("Clip", weight=1.5)
def clip(d, op):
    name = d.any(d.allowed(op, 0))
    dtype = kind(d.values[name])
    ends = [-3, -1, 0, 1, 2, 5]
    if dtype in FLOATS:
        ends += [-np.inf, np.inf, 0.5, np.finfo(dtype).min, np.finfo(dtype).max]
        if d.opset >= 11 and d.flip(0.1):
            ends += [np.nan]
    elif dtype in UNSIGNED:
        ends = [0, 1, 2, 5]
    low, high = d.pick(ends), d.pick(ends)
    if d.opset < 11:
        d.node(op, [name], min=d.pick((None, float(low))), max=d.pick((None, float(high))))
        return
    inputs = [name] + [d.parameter(end, dtype) if d.flip(0.7) else "" for end in (low, high)]
    d.node(op, inputs)


@recipe("Cast", weight=1.5)
def cast(d, op):
    name = d.any(d.allowed(op, 0))
    value = d.values[name]
    to = d.dtype(ALL)
    unfit = kind(value) in FLOATS and to in INTS
    if unfit and value.size:
        with np.errstate(all="ignore"):
            # a float outside an integer's range becomes what the specification leaves open
            limits = np.iinfo(to)
            if not np.all(np.isfinite(value)) or value.max() >= limits.max * 0.99 or value.min() <= limits.min - 1 + (limits.min != 0):
                raise Unfit
    d.node(op, [name], to=element(to))


@recipe("CastLike", weight=0.5, since=15)
def cast_like(d, op):
    name = d.any([dtype for dtype in ALL if dtype not in FLOATS] if d.flip(0.5) else FLOATS)
    like = d.any(FLOATS if kind(d.values[name]) in FLOATS else ALL)
    d.node(op, [name, like])


# reductions

@recipe("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
        "ReduceLogSumExp", "ReduceSumSquare", weight=0.7)  # fmt: skip
def reduce(d, op):
    name = d.any(d.allowed(op, 0))
    rank = d.values[name].ndim
    axes = d.axes(rank, least=d.pick((0, 1))) if d.flip(0.75) else None
    keep = d.pick((None, 0, 1))
    if d.opset < (13 if op == "ReduceSum" else 18):
        d.node(op, [name], axes=axes if axes else None, keepdims=keep)
        return
    inputs = [name] + ([d.parameter(axes)] if axes is not None else [])
    d.node(op, inputs, keepdims=keep, noop_with_empty_axes=d.pick((None, 0, 1)))


@recipe("ArgMax", "ArgMin", weight=1)
def arg(d, op):
    name = d.any(d.allowed(op, 0), 1)
    last = d.pick((None, 0, 1)) if d.opset >= 12 else None
    axis = d.rng.randrange(d.values[name].ndim) if d.opset < 11 else d.axis(d.values[name].ndim)
    d.node(op, [name], axis=d.pick((None, axis, axis)), keepdims=d.pick((None, 0, 1)), select_last_index=last)


@recipe("Softmax", "LogSoftmax", "Hardmax", weight=1)
def softmax(d, op):
    name = d.any(d.allowed(op, 0), 1)
    rank = d.values[name].ndim
    axis = d.rng.randrange(rank) if d.opset < 11 else d.axis(rank)
    d.node(op, [name], axis=d.pick((None, axis, axis)))


@recipe("CumSum", weight=1, since=11)
def cumsum(d, op):
    name = d.any(d.allowed(op, 0), 1)
    axis = d.parameter(d.axis(d.values[name].ndim), d.pick(("int32", "int64")))
    d.node(op, [name, axis], exclusive=d.pick((None, 0, 1)), reverse=d.pick((None, 0, 1)))


@recipe("CumProd", weight=1, since=26)
def cumprod(d, op):
    name = d.any(d.allowed(op, 0), 1)
    axis = d.parameter(d.axis(d.values[name].ndim), d.pick(("int32", "int64")))
    d.node(op, [name, axis], exclusive=d.pick((None, 0, 1)), reverse=d.pick((None, 0, 1)))


@recipe("TopK", weight=1.5)
def top_k(d, op):
    name = d.any(d.allowed(op, 0), 1)
    value = d.values[name]
    axis = d.rng.randrange(value.ndim) if d.opset < 11 else d.axis(value.ndim)
    most = value.shape[axis]
    k = d.rng.randint(0 if d.opset >= 10 and d.flip(0.2) else 1, most) if most else 0
    if d.opset < 10:
        d.node(op, [name], 2, axis=axis, k=k)
        return
    more = {"largest": d.pick((None, 0, 1)), "sorted": d.pick((None, 1))} if d.opset >= 11 else {}
    d.node(op, [name, d.parameter([k])], 2, axis=axis, **more)


# movement

def divisors(count):
    return [size for size in range(1, count + 1) if count % size == 0]


@recipe("Reshape", weight=1.5)
def reshape(d, op):
    name = d.any(d.allowed(op, 0))
    value = d.values[name]
    shape, left = [], value.size
    allow = d.opset >= 14 and d.flip(0.2)
    for place in range(d.rng.randint(0 if left == 1 else 1, 4)):
        if left == 0 or (place < value.ndim and value.shape[place] and left % value.shape[place] == 0 and d.flip(0.2)):
            # zero copies the size
            shape.append(0 if not allow and place < value.ndim else value.shape[place] if place < value.ndim else 1)
            left = left // max(value.shape[place], 1) if place < value.ndim else left
        else:
            part = d.pick(divisors(left))
            shape.append(part)
            left //= part
    if left != 1:
        shape.append(left)
    if shape and d.flip(0.5) and value.size:
        shape[d.rng.randrange(len(shape))] = -1
    d.node(op, [name, d.parameter(shape)], allowzero=1 if allow else None)


@recipe("Flatten", weight=0.7)
def flatten(d, op):
    name = d.any(d.allowed(op, 0))
    rank = d.values[name].ndim
    axis = d.rng.randint(0 if d.opset < 11 else -rank, rank)
    d.node(op, [name], axis=d.pick((None, axis, axis)))


@recipe("Transpose", weight=1.5)
def transpose(d, op):
    name = d.any(d.allowed(op, 0))
    order = list(range(d.values[name].ndim))
    d.rng.shuffle(order)
    d.node(op, [name], perm=order if order and d.flip(0.8) else None)


@recipe("Squeeze", weight=1)
def squeeze(d, op):
    name = d.any(d.allowed(op, 0))
    value = d.values[name]
    axes = [axis for axis, size in enumerate(value.shape) if size == 1 and d.flip(0.7)]
    axes = [axis - value.ndim if d.opset >= 11 and d.flip(0.3) else axis for axis in axes]
    axes = axes if axes and d.flip(0.8) else None
    if d.opset < 13:
        d.node(op, [name], axes=axes)
    else:
        d.node(op, [name] + ([d.parameter(axes)] if axes else []))


@recipe("Unsqueeze", weight=1)
def unsqueeze(d, op):
    name = d.any(d.allowed(op, 0), 0, 4)
    rank = d.values[name].ndim
    more = d.rng.randint(1, 2)
    axes = d.rng.sample(range(rank + more), more)
    axes = [axis - rank - more if d.opset >= 11 and d.flip(0.3) else axis for axis in axes]
    if d.opset < 13:
        d.node(op, [name], axes=axes)
    else:
        d.node(op, [name, d.parameter(axes)])


@recipe("Concat", weight=1.5)
def concat(d, op):
    name = d.any(d.allowed(op, 0), 1)
    shape = list(d.values[name].shape)
    axis = d.rng.randrange(len(shape)) if d.opset < 11 else d.axis(len(shape))
    names = [name]
    for _ in range(d.rng.randint(0, 3)):
        own = list(shape)
        own[axis] = d.size()
        names.append(name if d.flip(0.1) else d.same(kind(d.values[name]), own))
    d.rng.shuffle(names)
    d.node(op, names, axis=axis)


@recipe("Split", weight=1.2)
def split(d, op):
    name = d.any(d.allowed(op, 0), 1)
    shape = d.values[name].shape
    axis = d.rng.randrange(len(shape)) if d.opset < 11 else d.axis(len(shape))
    size = shape[axis]
    parts = d.rng.randint(1, 4)
    cuts = sorted(d.rng.randint(0, size) for _ in range(parts - 1))
    sizes = [b - a for a, b in zip([0] + cuts, cuts + [size])]
    even = d.flip(0.4)
    if d.opset < 13:
        if even and size % parts:
            raise Unfit
        d.node(op, [name], parts, axis=axis, split=None if even else sizes)
    elif not even:
        d.node(op, [name, d.parameter(sizes)], parts, axis=axis)
    elif d.opset < 18:
        if size % parts:
            raise Unfit
        d.node(op, [name], parts, axis=axis)
    else:
        d.node(op, [name], parts, axis=axis, num_outputs=parts)


@recipe("Slice", weight=3)
def cut(d, op):
    name = d.any(d.allowed(op, 0), 1)
    shape = d.values[name].shape
    axes = d.rng.sample(range(len(shape)), d.rng.randint(1, len(shape)))
    if d.flip(0.3):
        axes = list(range(len(axes)))
    far = [2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 1000, -1000]
    draw = lambda size: d.pick(far) if d.flip(0.15) else d.rng.randint(-size - 2, size + 2)
    starts, ends = [draw(shape[axis]) for axis in axes], [draw(shape[axis]) for axis in axes]
    if d.opset < 10:
        d.node(op, [name], starts=starts, ends=ends, axes=axes if axes != list(range(len(axes))) or d.flip(0.5) else None)
        return
    dtype = d.pick(("int64", "int64", "int32"))
    if dtype == "int32":
        starts, ends = ([max(-(2**31), min(2**31 - 1, one)) for one in side] for side in (starts, ends))
    plain = axes == list(range(len(axes))) and d.flip(0.5)
    steps = [d.pick((1, 1, -1, 2, -2, 3, -3, 100, -100)) for _ in axes]
    axes = [axis - len(shape) if d.flip(0.3) else axis for axis in axes]
    inputs = [name, d.parameter(starts, dtype), d.parameter(ends, dtype)]
    with_steps = d.flip(0.7)
    inputs += [d.parameter(axes, dtype)] if not plain else [""] if with_steps else []
    inputs += [d.parameter(steps, dtype)] if with_steps else []
    d.node(op, inputs)


@recipe("Pad", weight=2)
def pad(d, op):
    name = d.any(d.allowed(op, 0), 1, fit=lambda value: value.size < 1000)
    value = d.values[name]
    modes = ["constant", "reflect", "edge"] + (["wrap"] if d.opset >= 19 else [])
    mode = d.pick([None] + modes)
    with_axes = d.opset >= 18 and d.flip(0.4)
    axes = d.axes(value.ndim, least=1) if with_axes else list(range(value.ndim))
    pads = []
    for _ in range(2):
        for axis in axes:
            size = value.shape[axis]
            most = 3 if mode in (None, "constant") else min(3, size - 1) if mode == "reflect" else min(3, size)
            pads.append(d.rng.randint(0, max(most, 0)) if d.flip(0.85) else -min(1, size // 3))
    if mode not in (None, "constant"):
        pads = [max(one, 0) for one in pads]
    constant = d.pick((0.0, 1.5, -2.0, np.inf))
    if d.opset < 11:
        d.node(op, [name], pads=pads, mode=mode, value=d.pick((None, constant)))
        return
    inputs = [name, d.parameter(pads)]
    if kind(value) in FLOATS and d.flip(0.5):
        inputs.append(d.parameter(constant, kind(value)))
    elif kind(value) in INTS and d.flip(0.5):
        inputs.append(d.parameter(3, kind(value)))
    elif with_axes:
        inputs.append("")
    if with_axes:
        inputs.append(d.parameter(axes, d.pick(("int64", "int32"))))
    d.node(op, inputs, mode=mode)


@recipe("Expand", weight=1, since=8)
def expand(d, op):
    name = d.any(d.allowed(op, 0), 0, 4, fit=lambda value: value.size < 500)
    shape = [d.pick((1, 2, 3)) if size == 1 else d.pick((size, 1)) for size in d.values[name].shape]
    shape = shape[d.rng.randint(0, len(shape)) if d.flip(0.3) else 0 :]
    if d.flip(0.3):
        shape = [d.pick((1, 2, 3))] + [1] * (d.values[name].ndim - len(shape)) + shape
    d.node(op, [name, d.parameter(shape)])


@recipe("Tile", weight=1)
def tile(d, op):
    name = d.any(d.allowed(op, 0), 1, fit=lambda value: value.size < 500)
    d.node(op, [name, d.parameter([d.pick((1, 1, 2, 3, 0) if d.flip(0.1) else (1, 1, 2, 3)) for _ in d.values[name].shape])])


@recipe("Gather", weight=1.5)
def gather(d, op):
    name = d.any(d.allowed(op, 0), 1)
    shape = d.values[name].shape
    axis = d.rng.randrange(len(shape)) if d.opset < 11 else d.axis(len(shape))
    d.node(op, [name, indices(d, shape[axis], d.shape(0, 2))], axis=d.pick((None, 0)) if axis == 0 else axis)


def indices(d, size, shape, dtype=None):
    if size == 0:
        shape = [0] + list(shape[1:])
    low = -size if d.opset >= 11 else 0
    value = d.numbers(dtype or d.pick(("int64", "int32")), shape, low, max(size - 1, low), special=False)
    return d.add(value, d.flip(0.6))


@recipe("GatherElements", weight=1, since=11)
def gather_elements(d, op):
    name = d.any(d.allowed(op, 0), 1)
    shape = list(d.values[name].shape)
    axis = d.axis(len(shape))
    own = [d.rng.randint(min(1, size), size) for size in shape]
    own[axis] = d.size() if shape[axis] else 0
    d.node(op, [name, indices(d, shape[axis], own)], axis=d.pick((None, 0)) if axis == 0 else axis)


@recipe("GatherND", weight=1, since=11)
def gather_nd(d, op):
    name = d.any(d.allowed(op, 0), 1)
    shape = d.values[name].shape
    batch = d.rng.randint(0, len(shape) - 1) if d.opset >= 12 and d.flip(0.4) else 0
    depth = d.rng.randint(1, len(shape) - batch)
    outer = list(shape[:batch]) + [d.pick((1, 2, 3)) for _ in range(d.rng.randint(0, 2))]
    if 0 in shape:
        raise Unfit
    columns = [d.numbers("int64", outer + [1], -size, size - 1, special=False) for size in shape[batch : batch + depth]]
    value = np.concatenate(columns, axis=-1)
    d.node(op, [name, d.add(value, d.flip(0.6))], batch_dims=batch or None)


@recipe("ScatterElements", "Scatter", weight=0.8)
def scatter(d, op):
    if (op == "Scatter") != (d.opset < 11) or d.opset < 9:
        raise Unfit
    name = d.any(d.allowed(op, 0), 1)
    value = d.values[name]
    if 0 in value.shape:
        raise Unfit
    axis = d.axis(value.ndim) if d.opset >= 11 else d.rng.randrange(value.ndim)
    own = [d.rng.randint(1, size) for size in value.shape]
    reductions = [None, "none"] + (["add", "mul"] if d.opset >= 16 else []) + (["max", "min"] if d.opset >= 18 else [])
    reduction = d.pick(reductions) if d.opset >= 16 else None
    # which of equal indices wins is open, so that there are none
    order = np.argsort(d.numbers("float32", value.shape, 0, 1), axis=axis)
    where_to = order[tuple(slice(0, size) for size in own)].astype("int64")
    updates = d.same(kind(value), own)
    d.node(op, [name, d.add(where_to, d.flip(0.6)), updates], axis=axis, reduction=reduction)


@recipe("ScatterND", weight=0.8, since=11)
def scatter_nd(d, op):
    name = d.any(d.allowed(op, 0), 1)
    value = d.values[name]
    if 0 in value.shape:
        raise Unfit
    depth = d.rng.randint(1, value.ndim)
    places = int(np.prod(value.shape[:depth]))
    chosen = d.rng.sample(range(places), d.rng.randint(1, min(places, 6)))
    where_to = np.stack(np.unravel_index(chosen, value.shape[:depth]), axis=-1).astype("int64")
    updates = d.same(kind(value), [len(chosen)] + list(value.shape[depth:]))
    reductions = [None, "none"] + (["add", "mul"] if d.opset >= 16 else []) + (["max", "min"] if d.opset >= 18 else [])
    d.node(op, [name, d.add(where_to, d.flip(0.6)), updates], reduction=d.pick(reductions) if d.opset >= 16 else None)


@recipe("TensorScatter", weight=0.6, since=24)
def tensor_scatter(d, op):
    rank = d.rng.randint(3, 4)
    shape = [d.pick((1, 2, 3))] + [d.rng.randint(1, 5) for _ in range(rank - 1)]
    axis = d.pick((None, rank - 2, -2, *range(1, rank)))
    place, mode = -2 if axis is None else axis, d.pick((None, "linear", "circular"))
    own = list(shape)
    own[place] = d.rng.randint(1, shape[place])
    dtype = d.dtype(d.allowed(op, 0))
    most = shape[place] - (1 if mode == "circular" else own[place])
    inputs = [d.same(dtype, shape), d.same(dtype, own)] + ([d.new("int64", shape[:1], 0, most)] if d.flip(0.7) else [])
    d.node(op, inputs, mode=mode, axis=axis)


@recipe("OneHot", weight=0.7, since=9)
def one_hot(d, op):
    dtype = d.pick(("int64", "int32", "float32"))
    depth = d.rng.randint(1, 5)
    name = d.new(dtype, d.shape(0, 3), -depth if d.opset >= 11 else 0, depth - 1)
    name = d.add(np.floor(d.values[name]).astype(dtype), False) if dtype == "float32" else name
    rank = d.values[name].ndim
    of_depth = d.parameter([depth] if d.flip(0.5) else depth, d.pick(("int64", "float32", "int32")))
    values = d.new(d.dtype(d.allowed(op, 2)), [2])
    axis = d.rng.randint(-rank - 1, rank) if d.opset >= 11 else d.pick((-1, d.rng.randint(0, rank)))
    d.node(op, [name, of_depth, values], axis=d.pick((None, axis, axis)))


@recipe("Compress", weight=0.5, since=9)
def compress(d, op):
    name = d.any(d.allowed(op, 0), 1)
    shape = d.values[name].shape
    axis = d.pick((None, d.rng.randrange(len(shape)) if d.opset < 11 else d.axis(len(shape))))
    size = d.values[name].size if axis is None else shape[axis]
    condition = d.new("bool", [d.rng.randint(min(1, size), size)])
    d.node(op, [name, condition], axis=axis)


@recipe("NonZero", weight=0.4, since=9)
def non_zero(d, op):
    d.node(op, [d.any(d.allowed(op, 0), 0)])


@recipe("Unique", weight=0.4, since=11)
def unique(d, op):
    name = d.any(d.allowed(op, 0), 1, fit=lambda value: value.size and not np.isnan(value.astype("float64")).any())
    axis = d.pick((None, d.axis(d.values[name].ndim)))
    d.node(op, [name], d.rng.randint(1, 4), axis=axis, sorted=d.pick((None, 0, 1)))


@recipe("Shape", weight=0.7)
def shape_of(d, op):
    name = d.any(d.allowed(op, 0))
    more = {}
    if d.opset >= 15:
        more = {"start": d.pick((None, d.rng.randint(-6, 6))), "end": d.pick((None, d.rng.randint(-6, 6)))}
    d.node(op, [name], **more)


@recipe("Size", weight=0.3)
def size_of(d, op):
    d.node(op, [d.any(d.allowed(op, 0))])


@recipe("ConstantOfShape", weight=0.5, since=9)
def constant_of_shape(d, op):
    from onnx import numpy_helper

    value = d.numbers(d.dtype(ALL), [1])
    d.node(op, [d.parameter(d.shape(0, 4))], value=d.pick((None, numpy_helper.from_array(value))))


@recipe("Constant", weight=0.3)
def constant(d, op):
    from onnx import numpy_helper

    d.node(op, [], value=numpy_helper.from_array(d.numbers(d.dtype(ALL), d.shape())))


@recipe("Range", weight=0.5, since=11)
def span(d, op):
    dtype = d.dtype(d.allowed(op, 0))
    step = d.pick((1, 2, -1, -3, 0.5 if dtype in FLOATS else 4))
    ends = [d.rng.randint(-5, 10), d.rng.randint(-5, 20), step]
    d.node(op, [d.parameter(end, dtype) for end in ends])


@recipe("EyeLike", weight=0.4, since=9)
def eye_like(d, op):
    name = d.any(d.allowed(op, 0), 2, 2)
    to = d.pick((None, element(d.dtype(("float32", "float64", "int64", "int32")))))
    d.node(op, [name], k=d.pick((None, d.rng.randint(-4, 4))), dtype=to)


@recipe("Trilu", weight=0.7, since=14)
def trilu(d, op):
    name = d.any(d.allowed(op, 0), 2)
    k = [d.parameter(d.rng.randint(-5, 5))] if d.flip(0.7) else []
    d.node(op, [name] + k, upper=d.pick((None, 0, 1)))


@recipe("ReverseSequence", weight=0.6, since=10)
def reverse_sequence(d, op):
    name = d.any(d.allowed(op, 0), 2)
    shape = d.values[name].shape
    first = d.flip(0.5)
    batch, time = (0, 1) if first else (1, 0)
    if shape[time] == 0:
        raise Unfit
    lengths = d.new("int64", [shape[batch]], 1, shape[time])
    more = {"batch_axis": batch, "time_axis": time} if first or d.flip(0.6) else {}
    d.node(op, [name, lengths], **more)


# products

@recipe("MatMul", weight=2)
def matmul(d, op):
    first = d.any(d.allowed(op, 0), 1)
    shape = list(d.values[first].shape)
    columns = [] if d.flip(0.15) else [d.size()]
    outer = shape[:-2] if d.flip(0.5) else []
    outer = [1 if d.flip(0.2) else size for size in outer]
    if not columns:
        outer = []
    second = d.same(kind(d.values[first]), outer + [shape[-1]] + columns)
    d.node(op, [first, second])


@recipe("Gemm", weight=2)
def gemm(d, op):
    first = d.any(d.allowed(op, 0), 2, 2)
    value = d.values[first]
    trans_a, trans_b = d.pick((None, 0, 1)), d.pick((None, 0, 1))
    rows, inner = value.shape[::-1] if trans_a else value.shape
    columns = d.size()
    second = d.same(kind(value), [columns, inner] if trans_b else [inner, columns])
    inputs = [first, second]
    if d.opset < 11 or d.flip(0.7):
        inputs.append(d.same(kind(value), d.pick(([rows, columns], [columns], [1, columns], [rows, 1], [], [1], [1, 1]))))
    alpha, beta = d.pick((None, 0.5, 2.0, 0.0, -1.0)), d.pick((None, 0.5, 2.0, 0.0, -1.0))
    d.node(op, inputs, transA=trans_a, transB=trans_b, alpha=alpha, beta=beta)


@recipe("Einsum", weight=0.8, since=12)
def einsum(d, op):
    equation, ranks = d.pick((
        ("ij,jk->ik", (2, 2)), ("bij,bjk->bik", (3, 3)), ("ij->ji", (2,)), ("ij->i", (2,)), ("ii->i", (2,)), ("ii", (2,)),
        ("i,j->ij", (1, 1)), ("...ij,...jk->...ik", (3, 3)), ("ij,ij->", (2, 2)), ("bi,bi->b", (2, 2)), ("i,i", (1, 1)),
        ("ijk,k", (3, 1)), ("bhwc,hkc->bhwk", (4, 3)), ("ab,bc,cd->ad", (2, 2, 2)), ("...a->a...", (3,)),
    ))  # fmt: skip
    sizes = {letter: d.size() for letter in "abcdhijkw"}
    outer = d.size()
    dtype = d.dtype(("float32", "float32", "float64", "int32", "int64"))
    names = []
    for term, rank in zip(equation.split("->")[0].split(","), ranks):
        letters = term.replace("...", "")
        names.append(d.same(dtype, [outer] * (rank - len(letters)) + [sizes[letter] for letter in letters]))
        if "..." in term and rank - len(letters) == 2:
            raise Unfit
    d.node(op, names, equation=equation)


@recipe("Det", weight=0.3, since=11)
def det(d, op):
    size = d.rng.randint(1, 4)
    d.node(op, [d.new(d.dtype(d.allowed(op, 0)), d.shape(0, 2) + [size, size], special=False)])


@recipe("CenterCropPad", weight=0.6, since=18)
def centre(d, op):
    name = d.any(d.allowed(op, 0), 1)
    rank = d.values[name].ndim
    axes = d.axes(rank, least=1) if d.flip(0.6) else None
    count = len(axes) if axes is not None else rank
    d.node(op, [name, d.parameter([d.size() for _ in range(count)], d.pick(("int64", "int32")))], axes=axes)


@recipe("Dropout", weight=0.3)
def dropout(d, op):
    name = d.any(d.allowed(op, 0))
    if d.opset < 12:
        d.node(op, [name], d.pick((1, 1, 2)) if d.opset >= 10 else 1, ratio=d.pick((None, 0.3)))
    else:
        d.node(op, [name] + ([d.parameter(0.3, "float32")] if d.flip(0.4) else []), d.pick((1, 1, 2)))
