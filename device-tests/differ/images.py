"""How a node of each op is drawn: windows, images, normalisation, quantisation, recurrent networks, bodies."""

import numpy as np
import onnx
from drafts import FLOATS, Unfit, element, kind
from onnx import helper
from recipes import recipe


def picture(d, op, low=3, high=5, dtypes=None, batch=(1, 1, 2, 3), channels=(1, 2, 3, 4, 6), least=1):
    """A tensor of batch, channels and space."""
    allowed = dtypes or d.allowed(op, 0)

    def fit(value):
        return all(value.shape[2:]) and all(value.shape[:2]) and value.size < 2000

    if d.flip(0.5):
        return d.any(allowed, low, high, fit)
    rank = d.rng.choices(range(low, high + 1), [3, 6, 1][: high - low + 1] if low == 3 else [1] * (high - low + 1))[0]
    shape = [d.pick(batch), d.pick(channels)] + [d.rng.randint(least, 9 if rank < 5 else 4) for _ in range(rank - 2)]
    return d.new(d.dtype(allowed), shape)


def window(d, space, dilated, same=True):
    """Attributes of a window over this space, and the kernel."""
    axes = range(len(space))
    kernel = [d.rng.randint(1, 3) for _ in axes]
    strides = [d.pick((1, 1, 2, 3)) for _ in axes]
    dilations = [d.pick((1, 1, 2, 3)) for _ in axes]
    found = {"strides": d.pick((None, strides, strides))}
    if dilated:
        found["dilations"] = d.pick((None, None, dilations))
    auto = d.pick((None, None, None, "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER") if same else (None, "NOTSET", "VALID"))
    found["auto_pad"] = auto
    if auto in (None, "NOTSET") and d.flip(0.6):
        found["pads"] = [d.rng.randint(0, kernel[axis % len(space)] - 1) for axis in range(2 * len(space))]
    return found, kernel


@recipe("Conv", weight=2)
def conv(d, op):
    name = picture(d, op)
    value = d.values[name]
    more, kernel = window(d, value.shape[2:], True)
    channels = value.shape[1]
    group = d.pick([one for one in range(1, channels + 1) if channels % one == 0])
    filters = group * d.rng.randint(1, 3)
    inputs = [name, d.same(kind(value), [filters, channels // group] + kernel)]
    if d.flip(0.5):
        inputs.append(d.same(kind(value), [filters]))
    more["kernel_shape"] = d.pick((None, kernel))
    d.node(op, inputs, group=d.pick((None, 1)) if group == 1 else group, **more)


@recipe("ConvTranspose", weight=2.5)
def conv_transpose(d, op):
    name = picture(d, op)
    value = d.values[name]
    space = value.shape[2:]
    more, kernel = window(d, space, True)
    strides = more["strides"] or [1] * len(space)
    channels = value.shape[1]
    group = d.pick([one for one in range(1, channels + 1) if channels % one == 0])
    inputs = [name, d.same(kind(value), [channels, d.rng.randint(1, 3)] + kernel)]
    if d.flip(0.5):
        inputs.append(d.same(kind(value), [d.values[inputs[1]].shape[1] * group]))
    dilations = more["dilations"] or [1] * len(space)
    if d.flip(0.4):
        more["output_padding"] = [d.rng.randint(0, max(a, b) - 1) for a, b in zip(strides, dilations)]
    if d.flip(0.25):
        usual = [s * (i - 1) + (k - 1) * e + 1 for s, i, k, e in zip(strides, space, kernel, dilations)]
        more["output_shape"] = [max(1, size - d.rng.randint(0, 2)) for size in usual]
        more.pop("pads", None)
    more["kernel_shape"] = d.pick((None, kernel))
    d.node(op, inputs, group=d.pick((None, 1)) if group == 1 else group, **more)


@recipe("DeformConv", weight=0.4, since=19)
def deform_conv(d, op):
    channels, groups = d.pick(((1, 1), (2, 1), (2, 2), (4, 2)))
    kernel, space = [d.rng.randint(1, 3) for _ in range(2)], [d.rng.randint(3, 7) for _ in range(2)]
    strides, pads = [d.pick((1, 1, 2)) for _ in range(2)], [d.pick((0, 0, 1)) for _ in range(4)]
    out = [(space[i] + pads[i] + pads[i + 2] - kernel[i]) // strides[i] + 1 for i in range(2)]
    dtype, batch, places = d.pick(("float32", "float64")), d.pick((1, 2)), kernel[0] * kernel[1]
    make = lambda *shape, **more: d.new(dtype, list(shape), special=False, **more)
    inputs = [make(batch, channels, *space), make(groups * d.rng.randint(1, 2), channels // groups, *kernel)]
    inputs.append(make(batch, 2 * places, *out, low=-1.5, high=1.5))
    inputs.append(make(d.values[inputs[1]].shape[0]) if d.flip(0.5) else "")
    if d.flip(0.5):
        inputs.append(make(batch, places, *out, low=0, high=1))
    d.node(op, inputs, group=groups, strides=strides, pads=pads, kernel_shape=d.pick((None, kernel)))


@recipe("ConvInteger", weight=0.7, since=10)
def conv_integer(d, op):
    name = picture(d, op, high=4)
    value = d.values[name]
    more, kernel = window(d, value.shape[2:], True)
    of_weight = d.pick(("uint8", "int8")) if kind(value) == "uint8" else "int8"
    inputs = [name, d.same(of_weight, [d.rng.randint(1, 4), value.shape[1]] + kernel)]
    if d.flip(0.6):
        inputs.append(d.new(kind(value), []))
        if d.flip(0.6):
            inputs.append(d.new(of_weight, []))
    d.node(op, inputs, kernel_shape=d.pick((None, kernel)), **more)


@recipe("MaxPool", weight=2)
def max_pool(d, op):
    name = picture(d, op)
    more, kernel = window(d, d.values[name].shape[2:], d.opset >= 10)
    if d.opset >= 10:
        more["ceil_mode"] = d.pick((None, 0, 1))
    outputs = d.pick((1, 1, 2)) if d.opset >= 8 else 1
    order = d.pick((None, 0, 1)) if outputs == 2 else None
    d.node(op, [name], outputs, kernel_shape=kernel, storage_order=order, **more)


@recipe("AveragePool", weight=2)
def average_pool(d, op):
    name = picture(d, op)
    more, kernel = window(d, d.values[name].shape[2:], d.opset >= 19)
    if d.opset >= 10:
        more["ceil_mode"] = d.pick((None, 0, 1))
    d.node(op, [name], kernel_shape=kernel, count_include_pad=d.pick((None, 0, 1)), **more)


@recipe("LpPool", weight=1)
def lp_pool(d, op):
    name = picture(d, op)
    more, kernel = window(d, d.values[name].shape[2:], d.opset >= 18)
    if d.opset >= 18:
        more["ceil_mode"] = d.pick((None, 0, 1))
    d.node(op, [name], kernel_shape=kernel, p=d.pick((None, 1, 2, 3)), **more)


@recipe("GlobalAveragePool", "GlobalMaxPool", weight=0.6)
def global_pool(d, op):
    d.node(op, [picture(d, op)])


@recipe("GlobalLpPool", weight=0.4)
def global_lp_pool(d, op):
    d.node(op, [picture(d, op)], p=d.pick((None, 1, 2, 3)))


@recipe("MaxUnpool", weight=0.3, since=9)
def max_unpool(d, op):
    name = picture(d, op, 4, 4, dtypes=("float32",), least=4)
    pooled, where = d.node("MaxPool", [name], 2, kernel_shape=[2, 2], strides=[2, 2])
    d.node(op, [pooled, where], kernel_shape=[2, 2], strides=[2, 2])


@recipe("LRN", weight=0.7)
def lrn(d, op):
    name = picture(d, op, 4, 4)
    d.node(op, [name], size=d.pick((1, 3, 5)), alpha=d.pick((None, 0.1)), beta=d.pick((None, 0.5)), bias=d.pick((None, 2.0)))


@recipe("SpaceToDepth", "DepthToSpace", weight=0.7)
def blocks(d, op):
    size = d.pick((1, 2, 3))
    dtype = d.dtype(d.allowed(op, 0))
    b, c, h, w = d.pick((1, 2)), d.pick((1, 2, 3)), d.rng.randint(1, 3), d.rng.randint(1, 3)
    shape = [b, c, h * size, w * size] if op == "SpaceToDepth" else [b, c * size * size, h, w]
    mode = d.pick((None, "DCR", "CRD")) if op == "DepthToSpace" and d.opset >= 11 else None
    d.node(op, [d.same(dtype, shape)], blocksize=size, mode=mode)


@recipe("GridSample", weight=1, since=16)
def grid_sample(d, op):
    name = picture(d, op, 4, 5 if d.opset >= 20 else 4)
    value = d.values[name]
    space = [d.rng.randint(1, 4) for _ in value.shape[2:]]
    grid = d.new(kind(value), [value.shape[0]] + space + [len(space)], -1.3, 1.3)
    modes = ("bilinear", "nearest", "bicubic") if d.opset < 20 else ("linear", "nearest", "cubic")
    if value.ndim == 5:
        modes = modes[:2]
    d.node(op, [name, grid], mode=d.pick((None,) + modes), padding_mode=d.pick((None, "zeros", "border", "reflection")),
           align_corners=d.pick((None, 0, 1)))  # fmt: skip


@recipe("AffineGrid", weight=0.5, since=20)
def affine_grid(d, op):
    space = d.pick((2, 2, 3))
    theta = d.new(d.pick(("float32", "float64")), [d.pick((1, 2)), space, space + 1], special=False)
    size = [d.values[theta].shape[0], 2] + [d.rng.randint(1, 4) for _ in range(space)]
    d.node(op, [theta, d.parameter(size)], align_corners=d.pick((None, 0, 1)))


@recipe("Resize", weight=5, since=10)
def resize(d, op):
    name = picture(d, op, 2 if d.flip(0.2) else 3)
    value = d.values[name]
    rank = value.ndim
    modes = ("nearest", "linear", "cubic") if d.opset >= 11 else ("nearest", "linear")
    mode = d.pick((None,) + modes + modes)
    axes = d.axes(rank, least=1) if d.opset >= 18 and d.flip(0.3) else None
    chosen = [axis % rank for axis in axes] if axes is not None else list(range(rank))
    scale = lambda: d.pick((0.5, 2.0, 1.0, 0.6, 1.7, 3.0, 0.3, 2.6, 0.75, 1.25, 0.4999))
    scales = [scale() if axis >= rank - 2 or d.flip(0.05) else 1.0 for axis in chosen]
    if d.opset < 11:
        d.node(op, [name, d.parameter(scales, "float32")], mode=mode)
        return
    turns = ["half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners", "tf_crop_and_resize"]
    if d.opset < 13:
        turns.append("tf_half_pixel_for_nn")
    if d.opset >= 19:
        turns.append("half_pixel_symmetric")
    turn = d.pick([None] + turns)
    more = {"mode": mode, "coordinate_transformation_mode": turn}
    if mode in (None, "nearest"):
        more["nearest_mode"] = d.pick((None, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    if mode == "cubic":
        more["cubic_coeff_a"] = d.pick((None, -0.5, -0.75))
        more["exclude_outside"] = d.pick((None, 0, 1))
    if turn == "tf_crop_and_resize":
        more["extrapolation_value"] = d.pick((None, 0.0, 9.0))
    if d.opset >= 18 and mode in ("linear", "cubic"):
        more["antialias"] = d.pick((None, 0, 1))
        more["exclude_outside"] = d.pick((None, 0, 1)) if more["antialias"] else more.get("exclude_outside")
    if axes is not None:
        more["axes"] = axes
    count = len(chosen)
    roi = ""
    if turn == "tf_crop_and_resize":
        # the region of each axis; all of those that keep their size
        starts = [d.pick((0.0, 0.1, 0.4, -0.2)) if axis >= rank - 2 else 0.0 for axis in chosen]
        ends = [d.pick((1.0, 0.9, 0.6, 1.2)) if axis >= rank - 2 else 1.0 for axis in chosen]
        roi = d.parameter(starts + ends, "float32")
    elif d.opset < 13:
        roi = d.parameter([], "float32", sure=True)
    if d.flip(0.5):
        d.node(op, [name, roi, d.parameter(scales, "float32")], **more)
        return
    sizes = [d.rng.randint(1, 12) if axis >= rank - 2 else value.shape[axis] for axis in chosen]
    if d.opset >= 18 and d.flip(0.4):
        more["keep_aspect_ratio_policy"] = d.pick(("stretch", "not_larger", "not_smaller"))
        if more["keep_aspect_ratio_policy"] != "stretch":
            more["axes"] = list(range(max(rank - 2, 0), rank))
            sizes = [d.rng.randint(1, 12) for _ in more["axes"]]
            count = len(sizes)
            if roi:
                roi = d.parameter([0.1] * count + [0.9] * count, "float32")
    empty = d.parameter([], "float32", sure=True) if d.opset < 13 else ""
    d.node(op, [name, roi, empty, d.parameter(sizes)], **more)


@recipe("Upsample", weight=1.5, until=9)
def upsample(d, op):
    name = picture(d, op, 3 if d.opset >= 9 else 4, 5 if d.opset >= 9 else 4)
    rank = d.values[name].ndim
    scales = [d.pick((1.0, 2.0, 1.5, 3.0, 2.6)) if axis >= rank - 2 else 1.0 for axis in range(rank)]
    mode = d.pick((None, "nearest", "linear"))
    if d.opset < 9:
        d.node(op, [name], scales=scales, mode=mode)
    else:
        d.node(op, [name, d.parameter(scales, "float32")], mode=mode)


@recipe("RoiAlign", weight=0.5, since=10)
def roi_align(d, op):
    name = picture(d, op, 4, 4, least=3)
    value = d.values[name]
    count = d.rng.randint(1, 3)
    starts = d.numbers("float32", [count, 2], 0, 3)
    rois = np.concatenate([starts, starts + d.numbers("float32", [count, 2], 0, 5)], axis=1).astype(kind(value))
    batch = d.new("int64", [count], 0, value.shape[0] - 1)
    more = {"coordinate_transformation_mode": d.pick((None, "half_pixel", "output_half_pixel"))} if d.opset >= 16 else {}
    d.node(op, [name, d.add(rois, False), batch], mode=d.pick((None, "avg", "max")), output_height=d.pick((None, 2)),
           output_width=d.pick((None, 3)), sampling_ratio=d.pick((None, 1, 2)), spatial_scale=d.pick((None, 0.5)), **more)  # fmt: skip


@recipe("MaxRoiPool", weight=0.3)
def max_roi_pool(d, op):
    name = picture(d, op, 4, 4, least=3, dtypes=("float32",))
    count = d.rng.randint(1, 3)
    starts = d.numbers("float32", [count, 2], 0, 3)
    rois = np.concatenate([np.zeros([count, 1]), starts, starts + d.numbers("float32", [count, 2], 0, 5)], axis=1)
    d.node(op, [name, d.add(rois.astype("float32"), False)], pooled_shape=[2, 2], spatial_scale=d.pick((None, 0.5)))


@recipe("Col2Im", weight=0.5, since=18)
def col2im(d, op):
    image = [d.rng.randint(3, 6), d.rng.randint(3, 6)]
    block = [d.rng.randint(1, 3), d.rng.randint(1, 3)]
    strides, dilations = [d.pick((1, 2)) for _ in range(2)], [1, d.pick((1, 1, 2))]
    pads = [d.pick((0, 0, 1)) for _ in range(4)]
    span = [(image[axis] + pads[axis] + pads[axis + 2] - dilations[axis] * (block[axis] - 1) - 1) // strides[axis] + 1 for axis in range(2)]
    if min(span) < 1:
        raise Unfit
    columns = d.new(d.dtype(d.allowed(op, 0)), [d.pick((1, 2)), 2 * block[0] * block[1], span[0] * span[1]])
    d.node(op, [columns, d.parameter(image), d.parameter(block)], strides=strides, dilations=dilations, pads=pads)


# normalisation

@recipe("BatchNormalization", weight=1.2)
def batch_norm(d, op):
    name = d.any(d.allowed(op, 0), 2, 5, lambda value: value.shape[1] > 0)
    value = d.values[name]
    size = [value.shape[1]]
    dtype = kind(value)
    inputs = [name, d.same(dtype, size), d.same(dtype, size), d.same(dtype, size), d.new(dtype, size, 0.1, 2)]
    more = {"momentum": 0.9} if d.flip(0.2) else {}
    d.node(op, inputs, epsilon=d.pick((None, 1e-3)), **more)


@recipe("InstanceNormalization", weight=0.7)
def instance_norm(d, op):
    name = picture(d, op)
    value = d.values[name]
    d.node(op, [name] + [d.same(kind(value), [value.shape[1]]) for _ in range(2)], epsilon=d.pick((None, 1e-3)))


@recipe("LayerNormalization", weight=0.8, since=17)
def layer_norm(d, op):
    name = d.any(d.allowed(op, 0), 1, 5, lambda value: value.size)
    value = d.values[name]
    axis = d.axis(value.ndim)
    shape = list(value.shape[axis:])
    inputs = [name, d.same(kind(value), shape)] + ([d.same(kind(value), shape)] if d.flip(0.6) else [])
    d.node(op, inputs, axis=d.pick((None, -1)) if axis in (-1, value.ndim - 1) else axis, epsilon=d.pick((None, 1e-3)))


@recipe("RMSNormalization", weight=0.5, since=23)
def rms_norm(d, op):
    name = d.any(d.allowed(op, 0), 1, 5, lambda value: value.size)
    value = d.values[name]
    axis = d.axis(value.ndim)
    d.node(op, [name, d.same(kind(value), list(value.shape[axis:]))], axis=axis, epsilon=d.pick((None, 1e-3)))


@recipe("GroupNormalization", weight=0.5, since=18)
def group_norm(d, op):
    name = picture(d, op, channels=(2, 4, 6))
    value = d.values[name]
    groups = d.pick([one for one in range(1, value.shape[1] + 1) if value.shape[1] % one == 0])
    size = [groups if d.opset < 21 else value.shape[1]]
    d.node(op, [name] + [d.same(kind(value), size) for _ in range(2)], num_groups=groups, epsilon=d.pick((None, 1e-3)))


@recipe("LpNormalization", weight=0.5)
def lp_norm(d, op):
    name = d.any(d.allowed(op, 0), 1)
    axis = d.rng.randrange(d.values[name].ndim)
    d.node(op, [name], axis=d.pick((None, axis)), p=d.pick((None, 1, 2)))


@recipe("MeanVarianceNormalization", weight=0.5, since=9)
def mean_variance(d, op):
    name = picture(d, op, 4, 4)
    axes = d.axes(4, least=1)
    d.node(op, [name], axes=d.pick((None, [axis % 4 for axis in axes])))


# quantisation

@recipe("QuantizeLinear", "DequantizeLinear", weight=1.2, since=10)
def quantise(d, op):
    forward = op == "QuantizeLinear"
    codes = [name for name in d.allowed("DequantizeLinear", 0) if name != "int32"] + ([] if forward else ["int32"])
    code = d.pick([name for name in codes if name in ("uint8", "int8", "int16", "uint16", "int32")])
    real = "float32" if d.opset < 19 or d.flip(0.8) else "float16"
    name = d.any([real] if forward else [code])
    value = d.values[name]
    more, shape = {}, d.pick(([], [1])) if d.opset < 13 or d.flip(0.2) else []
    if d.opset >= 13 and value.ndim and d.flip(0.4):
        axis = d.axis(value.ndim)
        shape, more = [value.shape[axis]], {"axis": axis}
        if d.opset >= 21 and d.flip(0.4) and 0 not in value.shape:
            block = d.pick([one for one in range(1, value.shape[axis] + 1) if value.shape[axis] % one == 0])
            shape = list(value.shape)
            shape[axis] //= block
            more["block_size"] = block
    scale = d.add(np.array(d.numbers("float32", shape, 0.01, 1) if d.flip(0.5) else np.exp2(d.numbers("int32", shape, -5, 0).astype("float32")), real), d.flip(0.7))
    inputs = [name, scale]
    if code == "int32":
        pass
    elif d.flip(0.7) or (forward and code != "uint8"):
        inputs.append(d.new(code, shape, constant=True))
    d.node(op, inputs, **more)


@recipe("DynamicQuantizeLinear", weight=0.6, since=11)
def dynamic_quantise(d, op):
    d.node(op, [d.any(("float32",), fit=lambda value: value.size and np.isfinite(value).all())], 3)


@recipe("MatMulInteger", weight=0.8, since=10)
def matmul_integer(d, op):
    first = d.any(("uint8", "int8"), 2, 4)
    value = d.values[first]
    second = d.same(d.pick(("int8", "uint8")), [value.shape[-1], d.size()])
    inputs = [first, second]
    if d.flip(0.6):
        inputs.append(d.new(kind(value), []))
        if d.flip(0.6):
            inputs.append(d.new(kind(d.values[second]), d.pick(([], [d.values[second].shape[-1]]))))
    d.node(op, inputs)


@recipe("QLinearMatMul", weight=0.8, since=10)
def qlinear_matmul(d, op):
    first = d.any(("uint8", "int8"), 2, 4)
    value = d.values[first]
    second = d.same(d.pick(("int8", "uint8")), [value.shape[-1], d.size()])
    out = kind(value)
    scale = lambda: d.new("float32", d.pick(([], [1])), 0.01, 0.2, constant=True)
    zero = lambda dtype: d.new(dtype, [], constant=True, special=False)
    inputs = [first, scale(), zero(kind(value)), second, scale(), zero(kind(d.values[second])), scale(), zero(out)]
    for place in (1, 4, 6):
        d.values[inputs[place + 1]] = d.values[inputs[place + 1]].reshape(d.values[inputs[place]].shape)
    d.node(op, inputs)


@recipe("QLinearConv", weight=0.8, since=10)
def qlinear_conv(d, op):
    name = picture(d, op, high=4, dtypes=("uint8", "int8"))
    value = d.values[name]
    more, kernel = window(d, value.shape[2:], True)
    of_weight = "int8" if kind(value) == "int8" else d.pick(("int8", "uint8"))
    channels = value.shape[1]
    group = d.pick([one for one in range(1, channels + 1) if channels % one == 0])
    filters = group * d.rng.randint(1, 3)
    weight = d.same(of_weight, [filters, channels // group] + kernel)
    scale = lambda shape=(): d.new("float32", list(shape), 0.01, 0.2, constant=True)
    each = [filters] if d.flip(0.4) else []
    zero = d.add(np.zeros(each, of_weight), True)
    inputs = [name, scale(), d.new(kind(value), [], constant=True), weight, scale(each), zero, scale(), d.new(kind(value), [], constant=True)]
    if d.flip(0.5):
        inputs.append(d.new("int32", [filters], constant=True, special=False))
    d.node(op, inputs, group=d.pick((None, 1)) if group == 1 else group, kernel_shape=d.pick((None, kernel)), **more)


# recurrent networks

@recipe("LSTM", "GRU", "RNN", weight=0.8)
def recurrent(d, op):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    time, batch, width, hidden = d.rng.randint(1, 4), d.pick((1, 2, 3)), d.rng.randint(1, 4), d.rng.randint(1, 4)
    direction = d.pick((None, "forward", "reverse", "bidirectional"))
    ways = 2 if direction == "bidirectional" else 1
    layout = d.pick((None, 0)) if d.opset < 14 or d.flip(0.9) else 1
    dtype = d.pick(("float32", "float32", "float64"))
    make = lambda *shape: d.new(dtype, list(shape), special=False)
    inputs = [make(time, batch, width), make(ways, gates * hidden, width), make(ways, gates * hidden, hidden)]
    inputs.append(make(ways, 2 * gates * hidden) if d.flip(0.6) else "")
    inputs.append(d.add(d.numbers("int32", [batch], 1, time), d.flip(0.5)) if d.flip(0.4) else "")
    inputs.append(make(ways, batch, hidden) if d.flip(0.5) else "")
    if op == "LSTM":
        inputs.append(make(ways, batch, hidden) if d.flip(0.5) else "")
        inputs.append(make(ways, 3 * hidden) if d.flip(0.3) else "")
    more = {"hidden_size": hidden, "direction": direction, "clip": d.pick((None, None, 0.5)), "layout": layout}
    if op == "GRU":
        more["linear_before_reset"] = d.pick((None, 0, 1))
    if op == "LSTM":
        more["input_forget"] = d.pick((None, None, None, 0))
    if d.flip(0.3):
        names = ("Tanh", "Sigmoid", "Relu")
        more["activations"] = [d.pick(names) for _ in range({"LSTM": 3, "GRU": 2, "RNN": 1}[op] * ways)]
    d.node(op, inputs, 3 if op == "LSTM" else 2, **more)


# attention

@recipe("Attention", weight=0.8, since=23)
def attention(d, op):
    batch, heads, length, past, width = d.pick((1, 2)), d.pick((1, 2, 4)), d.rng.randint(1, 4), d.rng.randint(1, 5), d.pick((2, 4, 8))
    of_keys = d.pick([one for one in (1, 2, 4) if heads % one == 0])
    dtype = d.pick(("float32", "float32", "float16"))
    # of large scores in 16 bits the rounding decides
    ends = {"low": -0.5, "high": 0.5} if dtype == "float16" else {}
    make = lambda *shape: d.new(dtype, list(shape), special=False, **ends)
    inputs = [make(batch, heads, length, width), make(batch, of_keys, past, width), make(batch, of_keys, past, width)]
    if d.flip(0.4):
        shape = d.pick(([length, past], [batch, 1, length, past], [batch, heads, length, past]))
        inputs.append(d.new("bool", shape) if d.flip(0.4) else make(*shape))
    more = {"is_causal": d.pick((None, 0, 1)), "scale": d.pick((None, 0.5)), "softcap": d.pick((None, 2.0))}
    d.node(op, inputs, **more)


@recipe("RotaryEmbedding", weight=0.5, since=23)
def rotary(d, op):
    batch, heads, length, width = d.pick((1, 2)), d.pick((1, 2)), d.rng.randint(1, 4), d.pick((2, 4, 8))
    dtype = d.pick(("float32", "float16"))
    name = d.new(dtype, [batch, heads, length, width], special=False)
    part = d.pick((None, width // 2 if width >= 4 else None))
    of_cache = (part or width) // 2
    inputs = [name, *(d.new(dtype, [6, of_cache], special=False) for _ in range(2)), d.add(d.numbers("int64", [batch, length], 0, 5), False)]
    d.node(op, inputs, interleaved=d.pick((None, 0, 1)), rotary_embedding_dim=part)


# others

@recipe("NonMaxSuppression", weight=0.3, since=10)
def suppression(d, op):
    boxes = d.rng.randint(1, 6)
    starts = d.numbers("float32", [1, boxes, 2], 0, 5)
    corners = np.concatenate([starts, starts + d.numbers("float32", [1, boxes, 2], 0.5, 4)], axis=2)
    scores = d.numbers("float32", [1, d.pick((1, 2)), boxes], 0, 1)
    inputs = [d.add(corners, False), d.add(scores, False), d.parameter([d.rng.randint(0, 4)])]
    if d.flip(0.7):
        inputs.append(d.parameter([0.4], "float32"))
        if d.flip(0.5):
            inputs.append(d.parameter([0.3], "float32"))
    d.node(op, inputs, center_point_box=d.pick((None, 0, 1)))


@recipe("DFT", weight=0.5, since=17)
def dft(d, op):
    shape = [d.pick((1, 2)), d.rng.randint(1, 9), d.rng.randint(1, 5), d.pick((1, 2))]
    name = d.new(d.pick(("float32", "float64")), shape, special=False)
    axis = d.pick((1, 2, -2, -3))
    inverse, one_sided = d.pick(((None, None), (0, 0), (1, 0), (0, 1)))
    if one_sided and shape[-1] == 2:
        raise Unfit
    inputs = [name, d.parameter(d.rng.randint(1, 8)) if d.flip(0.3) else ""]
    more = {"inverse": inverse, "onesided": one_sided}
    if d.opset >= 20:
        inputs.append(d.parameter(axis))
    else:
        more["axis"] = axis
    d.node(op, inputs, **more)


@recipe("HannWindow", "HammingWindow", "BlackmanWindow", weight=0.15, since=17)
def of_window(d, op):
    to = d.pick((None, element("float32"), element("float64")))
    d.node(op, [d.parameter(d.rng.randint(1, 9))], periodic=d.pick((None, 0, 1)), output_datatype=to)


@recipe("STFT", weight=0.3, since=17)
def stft(d, op):
    dtype = d.pick(("float32", "float64"))
    signal = d.new(dtype, [d.pick((1, 2)), d.rng.randint(8, 20), 1], special=False)
    length = d.rng.randint(2, 8)
    frame = d.new(dtype, [length], special=False) if d.flip(0.5) else ""
    d.node(op, [signal, d.parameter(d.rng.randint(1, 4)), frame, d.parameter(length)], onesided=d.pick((None, 0, 1)))


@recipe("MelWeightMatrix", weight=0.1, since=17)
def mel(d, op):
    given = ((5, "int64"), (16, "int64"), (8000, "int64"), (0.0, "float32"), (4000.0, "float32"))
    d.node(op, [d.parameter(value, dtype) for value, dtype in given])


@recipe("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", weight=0.4, since=12)
def loss(d, op):
    classes = d.rng.randint(1, 5)
    shape = [d.pick((1, 2, 3)), classes] + [d.pick((1, 2)) for _ in range(d.rng.randint(0, 2))]
    dtype = d.pick(("float32", "float64"))
    scores = d.new(dtype, shape, special=False)
    labels = d.new(d.pick(("int64", "int32")), shape[:1] + shape[2:], 0, classes - 1)
    weight = [d.new(dtype, [classes], 0.1, 2)] if d.flip(0.4) else []
    ignored = d.pick((None, d.rng.randrange(classes)))
    d.node(op, [scores, labels] + weight, reduction=d.pick((None, "none", "sum", "mean")), ignore_index=ignored)


@recipe("If", weight=0.5)
def branch(d, op):
    name = d.any(FLOATS)
    dtype = element(kind(d.values[name]))
    condition = d.new("bool", [])

    def body(kinds):
        nodes, last = [], name
        for place, one in enumerate(kinds):
            nodes.append(helper.make_node(one, [last], [f"b{len(d.values)}{kinds[0]}{place}"]))
            last = nodes[-1].output[0]
        return helper.make_graph(nodes, "b", [], [helper.make_tensor_value_info(last, dtype, None)])

    ops = ("Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Exp")
    first, second = d.rng.sample(ops, 2)
    d.node(op, [condition], then_branch=body([first, d.pick(ops)]), else_branch=body([second]))


@recipe("Loop", weight=0.5)
def loop(d, op):
    name = d.any(FLOATS + ("int64", "int32"))
    value = d.values[name]
    dtype = element(kind(value))
    step = d.same(kind(value), list(value.shape))
    tag = f"l{len(d.values)}"
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Identity", [f"{tag}c"], [f"{tag}d"]),
        helper.make_node(d.pick(("Add", "Mul", "Sub")), [f"{tag}x", step], [f"{tag}y"]),
    ]
    outputs = [info(f"{tag}d", onnx.TensorProto.BOOL, []), info(f"{tag}y", dtype, None)]
    scan = d.flip(0.5)
    if scan:
        nodes.append(helper.make_node("Neg", [f"{tag}y"], [f"{tag}z"]))
        outputs.append(info(f"{tag}z", dtype, None))
    inputs = [info(f"{tag}i", onnx.TensorProto.INT64, []), info(f"{tag}c", onnx.TensorProto.BOOL, []), info(f"{tag}x", dtype, None)]
    graph = helper.make_graph(nodes, "l", inputs, outputs)
    trips = d.parameter(d.rng.randint(0, 4))
    d.node(op, [trips, d.parameter(True, "bool") if d.flip(0.5) else "", name], 2 if scan else 1, body=graph)
