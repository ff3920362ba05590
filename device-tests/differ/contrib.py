"""How a node of each op of ONNX Runtime's own domain is drawn: fused ops, attention, packed weights.

Not here: its ops on codes (`quantised`).
"""

import numpy as np
from drafts import CONTRIB, FLOATS, Unfit, kind, make
from images import picture, window
from recipes import divisors, indices, recipe

ACTIVATIONS = ("Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid")


def contrib(*ops, **more):
    return recipe(*(f"{CONTRIB}.{op}" for op in ops), **more)


def node(d, op, inputs, outputs=1, **attributes):
    return d.node(op.removeprefix(f"{CONTRIB}."), inputs, outputs, domain=CONTRIB, **attributes)


def plain(d, *shape, dtype="float32", **more):
    """Numbers that are finite."""
    return d.new(dtype, list(shape), special=False, **more)


def known_sizes(d):
    """Some ops are converted only where their sizes are known (docs/contrib-ops.md)."""
    if d.symbolic:
        raise Unfit


def activation(d):
    name = d.pick(ACTIVATIONS)
    parameters = {"LeakyRelu": [0.1], "Clip": [-1.0, 2.0], "HardSigmoid": [0.3, 0.4]}.get(name)
    return name, parameters


# elementwise

@contrib("Gelu", "QuickGelu", "FastGelu", weight=0.4)
def smooth(d, op):
    name = d.any(("float32",), 1)
    inputs = [name]
    if op.endswith("FastGelu") and d.flip(0.5):
        inputs.append(d.same("float32", [d.values[name].shape[-1]]))
    node(d, op, inputs, alpha=d.pick((None, 0.5, 1.0)) if op.endswith("QuickGelu") else None)


@contrib("BiasGelu", weight=0.4)
def bias_gelu(d, op):
    name = d.any(("float32",), 1)
    node(d, op, [name, d.same("float32", [d.values[name].shape[-1]])])


@contrib("Trilu", weight=0.2)
def trilu(d, op):
    name = d.any(("float32", "float64", "int64", "bool"), 2)
    node(d, op, [name] + ([d.parameter(d.rng.randint(-5, 5))] if d.flip(0.6) else []), upper=d.pick((None, 0, 1)))


@contrib("MurmurHash3", weight=0.3)
def hashed(d, op):
    # floats that are not computed: a hash is another for the last bit
    dtype = d.pick(("int32", "int64", "float32", "float64", "uint32", "uint64"))
    name = d.new(dtype, d.shape(), constant=False) if dtype in FLOATS else d.any((dtype,), 0)
    node(d, op, [name], seed=d.pick((None, 7)), positive=d.pick((None, 0, 1)))


# movement

@contrib("ExpandDims", weight=0.2)
def expand_dims(d, op):
    name = d.any(FLOATS + ("int64", "bool"), 0, 4)
    rank = d.values[name].ndim
    node(d, op, [name, d.parameter(d.rng.randint(-rank - 1, rank), "int32")])


@contrib("GatherND", weight=0.2)
def gather_nd(d, op):
    name = d.any(FLOATS + ("int64", "int32"), 1, fit=lambda value: value.size)
    shape = d.values[name].shape
    depth, outer = d.rng.randint(1, len(shape)), [d.pick((1, 2, 3)) for _ in range(d.rng.randint(0, 2))]
    columns = [d.numbers("int64", outer + [1], 0, size - 1, special=False) for size in shape[:depth]]
    node(d, op, [name, d.add(np.concatenate(columns, axis=-1), d.flip(0.5))])


@contrib("Range", weight=0.2)
def span(d, op):
    dtype = d.pick(("float32", "float64", "int32", "int64"))
    ends = [d.rng.randint(-5, 5), d.rng.randint(-5, 20), d.pick((1, 2, -1))]
    node(d, op, [d.parameter(end, dtype) for end in ends[: d.pick((2, 3))]])


@contrib("Pad", weight=0.3)
def pad(d, op):
    name = d.any(("float32",), 1, fit=lambda value: value.size and value.size < 1000)
    value, mode = d.values[name], d.pick((None, "constant", "reflect", "edge"))
    pads = []
    for size in value.shape * 2:
        pads.append(d.rng.randint(0, max(0, min(2, size - 1)) if mode == "reflect" else 2))
    inputs = [name, d.parameter(pads)] + ([d.parameter(1.5, "float32")] if d.flip(0.5) else [])
    node(d, op, inputs, mode=mode)


@contrib("Unique", weight=0.2)
def unique(d, op):
    node(d, op, [d.any(("float32",), 1, 1, fit=lambda value: value.size and not np.isnan(value).any())], 3)


@contrib("UnfoldTensor", weight=0.3)
def unfold(d, op):
    name = d.any(FLOATS + ("int64", "int32"), 1, 4, fit=lambda value: value.size and value.size < 800)
    known_sizes(d)
    shape = d.values[name].shape
    axis = d.axis(len(shape))
    size = d.rng.randint(1, shape[axis])
    node(d, op, [name], dim=axis, size=size, step=d.pick((None, 1, 2)))


@contrib("GridSample", weight=0.3)
def grid_sample(d, op):
    name = picture(d, op, 4, 4, ("float32",))
    value = d.values[name]
    grid = d.new("float32", [value.shape[0], d.rng.randint(1, 4), d.rng.randint(1, 4), 2], -1.3, 1.3)
    node(d, op, [name, grid], mode=d.pick((None, "bilinear", "nearest", "bicubic")),
         padding_mode=d.pick((None, "zeros", "border", "reflection")), align_corners=d.pick((None, 0, 1)))  # fmt: skip


@contrib("CropAndResize", weight=0.3)
def crop(d, op):
    name = picture(d, op, 4, 4, ("float32",), least=2)
    count = d.rng.randint(1, 3)
    starts = d.numbers("float32", [count, 2], -0.1, 0.5)
    boxes = np.concatenate([starts, starts + d.numbers("float32", [count, 2], 0.1, 0.6)], axis=1)
    which = d.new("int32", [count], 0, d.values[name].shape[0] - 1)
    sizes = d.parameter([d.rng.randint(1, 4), d.rng.randint(1, 4)], "int32", sure=True)
    node(d, op, [name, d.add(boxes, d.flip(0.4)), which, sizes], mode=d.pick((None, "bilinear", "nearest")),
         extrapolation_value=d.pick((None, 2.0)))  # fmt: skip


@contrib("SampleOp", weight=0.1)
def sample(d, op):
    node(d, op, [d.any(("float32",))])


# products

@contrib("FusedMatMul", "TransposeMatMul", weight=0.8)
def fused_matmul(d, op):
    first = d.any(("float32", "float64") if op.endswith("FusedMatMul") else ("float32",), 2, 4)
    shape, more = list(d.values[first].shape), {}
    trans_a, trans_b = d.pick((None, 0, 1)), d.pick((None, 0, 1))
    batch_a = batch_b = None
    if op.endswith("FusedMatMul") and len(shape) > 2 and d.flip(0.3):
        batch_a = batch_b = 1
    if batch_a:
        # [rows, outer..., inner] for a batch that is transposed: rows stand first
        rows, outer, inner = shape[0], shape[1:-1], shape[-1]
        if trans_a:
            rows, inner = inner, rows
        of_second = [inner, *outer, d.size()]
        if trans_b:
            of_second = [of_second[-1], *outer, inner]
    else:
        rows, inner = (shape[-1], shape[-2]) if trans_a else (shape[-2], shape[-1])
        outer = shape[:-2] if d.flip(0.5) else []
        of_second = [*outer, d.size(), inner] if trans_b else [*outer, inner, d.size()]
    if op.endswith("FusedMatMul"):
        more = {"transBatchA": batch_a, "transBatchB": batch_b}
    second = d.same(kind(d.values[first]), of_second)
    node(d, op, [first, second], alpha=d.pick((None, 0.5, -2.0)), transA=trans_a, transB=trans_b, **more)


@contrib("FusedGemm", weight=0.5)
def fused_gemm(d, op):
    first = d.any(("float32",), 2, 2)
    trans_a, trans_b = d.pick((None, 0, 1)), d.pick((None, 0, 1))
    rows, inner = d.values[first].shape[::-1] if trans_a else d.values[first].shape
    columns = d.size()
    inputs = [first, d.same("float32", [columns, inner] if trans_b else [inner, columns])]
    if d.flip(0.7):
        inputs.append(d.same("float32", d.pick(([rows, columns], [columns], [1, columns], [rows, 1], []))))
    name = d.pick(("Relu", "Tanh", "Sigmoid", "LeakyRelu"))
    node(d, op, inputs, transA=trans_a, transB=trans_b, alpha=d.pick((None, 0.5, 2.0)), beta=d.pick((None, 0.5)),
         activation=name, activation_alpha=0.1 if name == "LeakyRelu" else None)  # fmt: skip


@contrib("FusedConv", weight=0.6)
def fused_conv(d, op):
    name = picture(d, op, 3, 5, ("float32",))
    value = d.values[name]
    more, kernel = window(d, value.shape[2:], True)
    channels = value.shape[1]
    group = d.pick(divisors(channels))
    filters = group * d.rng.randint(1, 3)
    inputs = [name, d.same("float32", [filters, channels // group] + kernel)]
    if d.flip(0.6):
        inputs.append(d.same("float32", [filters]))
    kind_of, parameters = activation(d)
    node(d, op, inputs, group=group, activation=kind_of, activation_params=parameters, kernel_shape=kernel, **more)


@contrib("ConvTransposeWithDynamicPads", weight=0.2)
def conv_transpose(d, op):
    name = picture(d, op, 4, 4, ("float32",))
    channels, kernel = d.values[name].shape[1], [d.rng.randint(1, 3) for _ in range(2)]
    inputs = [name, d.same("float32", [channels, d.rng.randint(1, 3)] + kernel)]
    inputs.append(d.parameter([d.rng.randint(0, size - 1) for size in kernel * 2], sure=True))
    if d.flip(0.5):
        inputs.append(d.same("float32", [d.values[inputs[1]].shape[1]]))
    node(d, op, inputs, strides=[d.pick((1, 2)) for _ in range(2)], kernel_shape=kernel)


@contrib("CDist", weight=0.4)
def distances(d, op):
    first = d.any(("float32", "float64"), 2, 2, fit=lambda value: value.size)
    value = d.values[first]
    second = d.same(kind(value), [d.pick((1, 2, 3)), value.shape[1]])
    node(d, op, [first, second], metric=d.pick(("euclidean", "sqeuclidean")))


@contrib("Inverse", weight=0.3)
def inverse(d, op):
    size, outer = d.rng.randint(1, 4), d.shape(0, 2)
    known_sizes(d)
    value = d.numbers("float32", outer + [size, size], -0.3, 0.3) + 2 * np.eye(size, dtype="float32")
    node(d, op, [d.add(value.astype("float32"), d.flip(0.3))])


# normalisation and embeddings

@contrib("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", weight=0.6)
def skip_norm(d, op):
    shape = [d.pick((1, 2)), d.rng.randint(1, 4), d.pick((2, 4, 8, 11))]
    beside = d.pick((shape, shape, [1, *shape[1:]], shape[1:]))
    inputs = [plain(d, *shape), plain(d, *beside), plain(d, shape[-1])]
    if op.endswith("SkipLayerNormalization"):
        inputs.append(plain(d, shape[-1]) if d.flip(0.7) else "")
    if d.flip(0.4):
        inputs.append(plain(d, shape[-1]))
    while not inputs[-1]:
        inputs.pop()
    outputs = [f"t{len(d.values)}"]
    if d.flip(0.4):
        outputs += ["", "", f"t{len(d.values) + 1}"]
    made(d, op, inputs, outputs, epsilon=d.pick((None, 1e-3)))


def made(d, op, inputs, outputs, **more):
    """A node some of whose outputs are left out."""
    one = make(op.removeprefix(f"{CONTRIB}."), inputs, outputs, domain=CONTRIB, **more)
    one.name = f"n{len(d.labels)}"
    d.take([one], [name for name in outputs if name], op)


@contrib("EmbedLayerNormalization", weight=0.4)
def embedding(d, op):
    batch, length, width = d.pick((1, 2)), d.rng.randint(1, 4), d.pick((4, 8))
    ids = d.new("int32", [batch, length], 0, 5)
    segments = d.new("int32", [batch, length], 0, 1) if d.flip(0.5) else ""
    inputs = [ids, segments, plain(d, 6, width), plain(d, 5, width), plain(d, 2, width) if segments else ""]
    inputs += [plain(d, width), plain(d, width)]
    mask = d.flip(0.4)
    inputs.append(d.new("int32", [batch, length], 0, 1) if mask else "")
    inputs.append(d.new("int32", d.pick(([1, length], [batch, length])), 0, 4) if d.flip(0.3) else "")
    outputs = [f"t{len(d.values)}", f"t{len(d.values) + 1}"]
    if d.flip(0.4):
        outputs.append(f"t{len(d.values) + 2}")
    while not inputs[-1]:
        inputs.pop()
    made(d, op, inputs, outputs, epsilon=d.pick((None, 1e-3)), mask_index_type=d.pick((None, 0)))


# attention

def mask(d, batch, length, total):
    """A mask of keys, in one of its forms; most say that some keys are there."""
    if d.flip(0.5):
        return d.add(d.numbers("int32", [batch], 1, total, special=False), d.flip(0.3))
    value = d.numbers("int32", [batch, total], 0, 1, special=False)
    value[:, 0] = 1
    return d.add(value, d.flip(0.3))


@contrib("Attention", weight=0.8)
def attention(d, op):
    batch, length, heads, width = d.pick((1, 2)), d.rng.randint(1, 4), d.pick((1, 2, 4)), d.pick((2, 4, 8))
    hidden, past = heads * width, d.pick((0, 0, 1, 3))
    inputs = [plain(d, batch, length, d.pick((4, 6))), "", "", "", "", ""]
    inputs[1] = plain(d, d.values[inputs[0]].shape[2], 3 * hidden, constant=True)
    # ONNX Runtime reads a bias that is not there
    inputs[2] = plain(d, 3 * hidden)
    if d.flip(0.4):
        inputs[3] = mask(d, batch, length, length + past)
    if past:
        inputs[4] = plain(d, 2, batch, heads, past, width)
    if d.flip(0.3):
        inputs[5] = plain(d, d.pick((1, batch)), d.pick((1, heads)), length, length + past)
    node(d, op, inputs, 2 if past else d.pick((1, 2)), num_heads=heads, unidirectional=d.pick((None, 0, 1)),
         scale=d.pick((None, 0.3)), mask_filter_value=d.pick((None, None, -100.0)))  # fmt: skip


@contrib("MultiHeadAttention", weight=0.8)
def multi_head(d, op):
    batch, length, heads, width = d.pick((1, 2)), d.rng.randint(1, 4), d.pick((1, 2, 4)), d.pick((2, 4, 8))
    keys, past = d.pick((length, d.rng.randint(1, 5))), d.pick((0, 0, 1, 3))
    of_values = d.pick((width, width, 4))
    inputs = [plain(d, batch, length, heads * width), plain(d, batch, keys, heads * width), plain(d, batch, keys, heads * of_values)]
    inputs += [""] * 5
    if d.flip(0.4):
        inputs[3] = plain(d, 2 * heads * width + heads * of_values)
    if d.flip(0.4):
        inputs[4] = mask(d, batch, length, keys + past)
    if d.flip(0.3):
        inputs[5] = plain(d, d.pick((1, batch)), d.pick((1, heads)), length, keys + past)
    if past:
        inputs[6], inputs[7] = plain(d, batch, heads, past, width), plain(d, batch, heads, past, of_values)
    # the last query of a causal node sees every key there, those behind it too
    causal = d.pick((None, None, 0, 1)) if keys == length else None
    node(d, op, inputs, 3 if past else d.pick((1, 3)), num_heads=heads, unidirectional=causal,
         scale=d.pick((None, 0.3)), mask_filter_value=d.pick((None, None, -100.0)))  # fmt: skip


@contrib("DecoderMaskedMultiHeadAttention", weight=0.3)
def decoder(d, op):
    batch, heads, width, past = d.pick((1, 2)), d.pick((1, 2)), d.pick((2, 4, 8)), d.rng.randint(1, 4)
    hidden = heads * width
    inputs = [plain(d, batch, 1, hidden) for _ in range(3)] + [""] * 4
    if d.flip(0.4):
        value = d.numbers("int32", [batch, past + 1], 0, 1, special=False)
        value[:, 0] = 1
        inputs[3] = d.add(value, False)
    if d.flip(0.3):
        inputs[4] = plain(d, 1, heads, 1, past + 1)
    inputs[5:7] = [plain(d, batch, heads, past, width) for _ in range(2)]
    node(d, op, inputs, 3, num_heads=heads, scale=d.pick((None, 0.3)))


@contrib("GroupQueryAttention", weight=1)
def grouped(d, op):
    batch, of_keys, width = d.pick((1, 1, 2)), d.pick((1, 2)), d.pick((8, 16))
    heads, past = of_keys * d.pick((1, 2, 3)), d.pick((0, 0, 2, 3))
    length = 1 if past and d.flip(0.5) else d.rng.randint(1, 4)
    total = past + length
    if d.flip(0.2):
        inputs = [plain(d, batch, length, (heads + 2 * of_keys) * width), "", ""]
    else:
        inputs = [plain(d, batch, length, heads * width), *(plain(d, batch, length, of_keys * width) for _ in range(2))]
    inputs += [plain(d, batch, of_keys, past, width) for _ in range(2)] if past else ["", ""]
    inputs += [d.add(np.full([batch], total - 1, "int32"), d.flip(0.3)), d.add(np.array(total, "int32"), d.flip(0.3))]
    rotary = d.pick((None, 0, 1))
    if rotary:
        inputs += [plain(d, 16, width // 2, constant=True) for _ in range(2)]
    node(d, op, inputs, 3, num_heads=heads, kv_num_heads=of_keys, do_rotary=rotary,
         rotary_interleaved=d.pick((None, 0, 1)) if rotary else None, softcap=d.pick((None, None, 2.0)),
         local_window_size=d.pick((None, None, -1, 1, 2)), scale=d.pick((None, 0.3)), smooth_softmax=d.pick((None, None, 0, 1)))  # fmt: skip


@contrib("RotaryEmbedding", weight=0.5)
def rotary(d, op):
    batch, heads, length, width = d.pick((1, 2)), d.pick((1, 2)), d.rng.randint(1, 4), d.pick((4, 8))
    part = d.pick((None, None, width // 2))
    shape = [batch, heads, length, width] if part or d.flip(0.5) else [batch, length, heads * width]
    positions = d.add(d.numbers("int64", [batch, length], 0, 8 - length, special=False), d.flip(0.3))
    if d.flip(0.3):
        positions = d.add(d.numbers("int64", [1], 0, 8 - length, special=False), d.flip(0.3))
    caches = [plain(d, 8, (part or width) // 2, constant=True) for _ in range(2)]
    node(d, op, [plain(d, *shape), positions, *caches], interleaved=d.pick((None, 0, 1)),
         rotary_embedding_dim=part, num_heads=heads if part or len(shape) == 3 and (d.symbolic or d.flip(0.5)) else None)  # fmt: skip


@contrib("RelativePositionBias", weight=0.2)
def relative(d, op):
    heads, buckets = d.pick((1, 2, 4)), d.pick((8, 16, 32))
    sizes = [d.parameter(d.rng.randint(1, 6)) for _ in range(2)]
    if d.flip(0.6):
        sizes[1] = sizes[0]
    node(d, op, [plain(d, buckets, heads), *sizes], is_bidirectional=d.pick((None, 0, 1)), max_distance=d.pick((4, 16, 128)))


@contrib("MoE", weight=0.3)
def experts(d, op):
    rows, width, inner, count = d.rng.randint(1, 4), d.pick((4, 8)), d.pick((4, 8)), d.pick((2, 4))
    kind_of = d.pick(("relu", "gelu", "silu", "identity"))
    # no two scores alike: which expert of equals is asked is open
    scores = d.new("float32", [rows, count], -3, 3)
    inputs = [plain(d, rows, width), scores, plain(d, count, inner, width, constant=True)]
    inputs.append(plain(d, count, inner, constant=True) if d.flip(0.6) else "")
    inputs.append(plain(d, count, width, inner, constant=True))
    if d.flip(0.6):
        inputs.append(plain(d, count, width, constant=True))
    node(d, op, inputs, k=d.pick((1, 2)), activation_type=kind_of, normalize_routing_weights=d.pick((None, 0, 1)))


# packed weights

@contrib("MatMulNBits", weight=0.8)
def packed(d, op):
    columns, bits, block = d.rng.randint(1, 9), d.pick((4, 4, 8, 2)), d.pick((16, 32))
    inner = d.pick((block, 2 * block, 16, 20, 40))
    blocks = -(-inner // block)
    first = plain(d, *d.pick(([d.rng.randint(1, 4)], [2, d.rng.randint(1, 3)])), inner)
    inputs = [first, d.new("uint8", [columns, blocks, block * bits // 8], 0, 255, constant=True)]
    inputs.append(d.new("float32", [columns, blocks], 0.01, 0.3, constant=True))
    zeros = -(-blocks * bits // 8)
    if d.flip(0.5):
        inputs.append(d.new("uint8", [columns, zeros], 0, 255, constant=True))
    else:
        inputs.append("")
    if d.flip(0.3):
        inputs += ["", plain(d, columns, constant=True)]
    node(d, op, inputs, K=inner, N=columns, bits=bits, block_size=block, accuracy_level=d.pick((None, 0, 1)))


@contrib("MatMulBnb4", weight=0.3)
def bnb(d, op):
    columns, block = d.pick((1, 2, 4, 6)), d.pick((16, 32, 64))
    inner = d.pick((16, 32, 64))
    count = columns * inner
    inputs = [plain(d, d.rng.randint(1, 3), inner), d.new("uint8", [count // 2], 0, 255, constant=True)]
    inputs.append(d.new("float32", [-(-count // block)], 0.1, 2, constant=True))
    node(d, op, inputs, K=inner, N=columns, block_size=block, quant_type=d.pick((0, 1)))


@contrib("GatherBlockQuantized", weight=0.4)
def gather_packed(d, op):
    rows, width, block, bits = d.rng.randint(1, 6), d.pick((16, 32)), 16, d.pick((4, 8))
    data = d.new("uint8", [rows, width * bits // 8], 0, 255, constant=True)
    blocks = width // block
    inputs = [data, indices(d, rows, d.shape(0, 2)), d.new("float32", [rows, blocks], 0.01, 0.5, constant=True)]
    if d.flip(0.5):
        inputs.append(d.new("uint8", [rows, -(-blocks * bits // 8)], 0, 255, constant=True))
    node(d, op, inputs, block_size=block, bits=bits, gather_axis=0, quantize_axis=1)

