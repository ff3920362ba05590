"""What is computed for a case that differs, so that a class can be decided by it and not by the name of an op.

- `rounded`: the part node by node in ONNX Runtime, with what passes between its nodes moved by as much as rounding may (Monte
  Carlo arithmetic: D. S. Parker, UCLA CSD-970002, 1997). How far its outputs go is how far rounding alone can carry a result.
- `products`: how far the partial products of each element of a ReduceProd can go, in whatever order they are taken.
- `averages`: what a lone Resize of integers makes of the same numbers as f64, before they become integers.

Which of it excuses a difference is decided in `evidence.rs`.
"""

import numpy as np
from onnx import helper, numpy_helper

# runs with moved values; seeded, so that a case is judged the same each time
SAMPLES = 24
# how far an element is moved at most, in units in its own last place and in that of the largest element of its tensor
OF_OWN, OF_LARGEST = 4, 1
# below so many units of the largest, an element may be all that is left of a sum that cancels: in every second sample it is
# zero, or anything of this size
LEFT = 8


def moved(value, rng, cancels):
    """The tensor with each element moved by a random amount that rounding may come to, and with NaN of either sign."""
    if value.dtype.kind != "f" or not value.size:
        return value
    real = value.astype("float64")
    unit = np.finfo(value.dtype).eps
    size = np.abs(real)
    largest = size[np.isfinite(real)].max(initial=0)
    anything = lambda: rng.uniform(-1, 1, real.shape)
    found = real + np.where(real != 0, unit * (OF_OWN * size * anything() + OF_LARGEST * largest * anything()), 0)
    if cancels:
        left = np.where(rng.random(real.shape) < 0.5, 0, LEFT * unit * largest * anything())
        found = np.where(size <= LEFT * unit * largest, left, found)
    found = np.where(np.isfinite(real), found, real).astype(value.dtype)
    return np.where(np.isnan(real), np.copysign(found, anything().astype(value.dtype)), found)


def rounded(model, feed, session, reads):
    """The outputs of a part in `SAMPLES` runs: a list of lists, each in the order of the model's outputs.

    `session` makes an ONNX Runtime session of a model, `reads` the names that a node reads.
    """
    constants = {one.name: one for one in model.graph.initializer}
    given = {name: numpy_helper.to_array(one) for name, one in constants.items()} | feed
    nodes, sessions = list(model.graph.node), {}
    read = {name for node in nodes for name in reads(node)}

    def computed(place, values):
        node = nodes[place]
        names = [name for name in dict.fromkeys(reads(node)) if name]
        inputs = [name for name in names if name not in constants]
        # ranks alone, since moved values may make other sizes; another rank needs another session
        key = (place, *((name, values[name].ndim) for name in inputs))
        if key not in sessions:
            of = lambda name: helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(values[name].dtype), [None] * values[name].ndim
            )
            graph = helper.make_graph(
                [node],
                "g",
                [of(name) for name in inputs],
                [helper.make_empty_tensor_value_info(name) for name in node.output if name],
                [constants[name] for name in names if name in constants],
            )
            sessions[key] = session(
                helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
            )
        return sessions[key].run(None, {name: values[name] for name in inputs})

    found = []
    for sample in range(SAMPLES):
        rng, values = np.random.default_rng(sample), dict(given)
        try:
            for place, node in enumerate(nodes):
                for name, value in zip([name for name in node.output if name], computed(place, values)):
                    values[name] = moved(value, rng, sample % 2) if name in read else value
        except Exception:  # noqa: BLE001, S112
            # a value that has moved may be none that a node takes
            continue
        found.append([values[one.name] for one in model.graph.output])
    return found


def products(model, feed):
    """Of each element of a lone ReduceProd of floats: how far its partial products go at most, in powers of two up and down
    ("over", "under"), whether a factor is zero or none that is finite ("zero", "special"), and the exact product's sign.
    """
    (node,) = model.graph.node
    values = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer} | feed
    data = values[node.input[0]]
    if node.op_type != "ReduceProd" or data.dtype.kind != "f":
        return None
    attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    axes = values[node.input[1]].tolist() if len(node.input) > 1 and node.input[1] else attributes.get("axes", [])
    if not axes and attributes.get("noop_with_empty_axes", 0):
        return None
    axes = tuple(axis % data.ndim for axis in axes) or None
    keep = bool(attributes.get("keepdims", 1))
    real = data.astype("float64")
    special, zero = ~np.isfinite(real), real == 0
    size = np.log2(np.abs(np.where(special | zero, 1, real)))
    over = lambda of, value: np.asarray(of.reduce(value, axis=axes, keepdims=keep))
    return {
        "over": over(np.add, np.maximum(size, 0)),
        "under": over(np.add, np.minimum(size, 0)),
        "zero": over(np.logical_or, zero),
        "special": over(np.logical_or, special),
        "negative": over(np.logical_xor, np.signbit(real)),
    }


def averages(model, feed, reference):
    """The outputs of a lone Resize of integers that a run gives, computed of f64 by the reference evaluator."""
    (node,) = model.graph.node
    data = feed.get(node.input[0])
    if node.op_type != "Resize" or data is None or data.dtype.kind not in "iu":
        return None
    try:
        (found,) = reference(model, feed | {node.input[0]: data.astype("float64")})
    except Exception:  # noqa: BLE001
        # the evaluator has no such resize
        return None
    return found if found.dtype == np.float64 else None
