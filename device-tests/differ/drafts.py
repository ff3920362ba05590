"""A graph that grows: tensors with their values, nodes that ONNX Runtime has computed, and the model of any part of them.

Invariants:
1. Same seed and index, same graph: every choice is the one generator's, and nothing of an earlier graph counts.
2. A draft holds only nodes that ONNX Runtime has computed alone, on the draft's values.
3. What is no tensor of numbers (a sequence, an optional, text that is computed) stays inside a group: nodes that are
   drawn, run and cut together, as one. The name of each is the group's, a dot, and its place.
"""

import random

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

FLOATS = ("float32", "float64", "float16")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTS
ALL = NUMBERS + ("bool",)
# how often each is drawn where an op takes it
WEIGHTS = {
    "float32": 24, "float64": 4, "float16": 4, "bool": 3, "int64": 5, "int32": 5, "uint8": 3, "int8": 3,
    "int16": 1, "uint16": 1, "uint32": 1, "uint64": 1,
}  # fmt: skip
SIZES = (1, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 11, 13)
# elements of a tensor, at most
MOST = 4096
CONTRIB, CLASSICAL = "com.microsoft", "ai.onnx.ml"


class Refused(Exception):
    """ONNX Runtime does not compute this node."""


class Unfit(Exception):
    """What was drawn is no node of this op."""


def options(level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL):
    chosen = ort.SessionOptions()
    chosen.graph_optimization_level = level
    chosen.intra_op_num_threads = 1
    chosen.inter_op_num_threads = 1
    chosen.log_severity_level = 4
    return chosen


def session(model, chosen=None):
    return ort.InferenceSession(model.SerializeToString(), chosen or options(), providers=["CPUExecutionProvider"])


def run(model, feed, chosen=None):
    """The outputs of a model in ONNX Runtime."""
    return session(model, chosen).run(None, feed)


def kind(value):
    return str(value.dtype)


class Draft:
    def __init__(self, seed, index):
        self.rng = random.Random(f"{seed}/{index}")
        self.opset = self.rng.randint(7, 26)
        self.values = {}
        # names of what no node makes: run-time inputs, and constants
        self.inputs, self.constants = [], []
        self.nodes = []
        # what a node or group is called in reports, by its name
        self.labels = {}
        self.symbolic = self.rng.random() < 0.2

    # numbers

    def flip(self, probability):
        return self.rng.random() < probability

    def pick(self, choices):
        return self.rng.choice(list(choices))

    def size(self):
        return 0 if self.flip(0.015) else self.pick(SIZES)

    def shape(self, low=0, high=5):
        rank = self.rng.randint(low, high)
        sizes = [self.size() for _ in range(rank)]
        while np.prod(sizes, dtype=np.int64) > MOST:
            sizes[self.rng.randrange(rank)] = self.pick((1, 2, 3))
        return sizes

    def dtype(self, allowed):
        allowed = [name for name in allowed if name in WEIGHTS]
        if not allowed:
            raise Unfit
        return self.rng.choices(allowed, [WEIGHTS[name] for name in allowed])[0]

    def allowed(self, op, port):
        """The types of an input in this opset."""
        schema = onnx.defs.get_schema(op, self.opset)
        given = schema.inputs[port].types
        names = {text[len("tensor("):-1] for text in given if text.startswith("tensor(")}
        renamed = {"float": "float32", "double": "float64"}
        return [name for name in ALL if name in {renamed.get(one, one) for one in names}]

    def numbers(self, dtype, shape, low=None, high=None, special=None):
        """Values: mostly small ones on a grid, so that sums are exact; some with all that is special of a type."""
        count = int(np.prod(shape, dtype=np.int64))
        if special is None:
            special = low is None and self.flip(0.12)
        rng = np.random.default_rng(self.rng.getrandbits(64))
        if dtype == "bool":
            return (rng.random(count) < 0.5).reshape(shape)
        if dtype in FLOATS:
            if low is not None:
                found = rng.uniform(low, high, count)
            elif self.flip(0.6):
                found = rng.integers(-16, 17, count) / self.pick((1.0, 4.0, 8.0))
            else:
                found = rng.normal(0, self.pick((0.5, 1, 3)), count)
            found = found.astype(dtype)
            if special and count:
                limits = np.finfo(dtype)
                ends = [np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, -1.5, 2.5]
                # with these, sums leave the range of their type: few, so that they hide nothing
                ends += [limits.max, limits.min, limits.tiny] if self.flip(0.25) else []
                places = rng.integers(0, count, max(1, count // 4))
                found[places] = np.array(ends, dtype)[rng.integers(0, len(ends), len(places))]
            return found.reshape(shape)
        limits = np.iinfo(dtype)
        if low is None:
            low, high = (max(limits.min, -20), 20) if self.flip(0.8) else (max(limits.min, -2000), min(limits.max, 2000))
        found = rng.integers(low, high, count, dtype=np.int64, endpoint=True).astype(dtype)
        if special and count:
            ends = np.array([limits.min, limits.max, 0, 1, limits.max // 2], dtype)
            places = rng.integers(0, count, max(1, count // 4))
            found[places] = ends[rng.integers(0, len(ends), len(places))]
        return found.reshape(shape)

    # tensors

    def add(self, value, constant):
        name = f"{'c' if constant else 'i'}{len(self.values)}"
        self.values[name] = np.asarray(value)
        (self.constants if constant else self.inputs).append(name)
        return name

    def new(self, dtype, shape, low=None, high=None, special=None, constant=None):
        constant = self.flip(0.3) if constant is None else constant
        return self.add(self.numbers(dtype, shape, low, high, special), constant)

    def parameter(self, values, dtype="int64", sure=False):
        """What most models give as a constant; a few as an input of the run."""
        return self.add(np.array(values, dtype), sure or self.flip(0.96))

    def any(self, dtypes, low=0, high=5, fit=None):
        """A tensor that is there, or a new one."""
        there = [
            name
            for name, value in self.values.items()
            if kind(value) in dtypes and low <= value.ndim <= high and value.size <= MOST and (fit is None or fit(value))
        ]
        if there and self.flip(0.7):
            # the last are what nodes have just made
            return self.pick(there[-3:] if self.flip(0.7) else there)
        for _ in range(20):
            shape, dtype = self.shape(low, high), self.dtype(dtypes)
            value = self.numbers(dtype, shape)
            if fit is None or fit(value):
                return self.add(value, self.flip(0.15))
        raise Unfit

    def same(self, dtype, shape, **more):
        """A tensor of this type and shape."""
        there = [name for name, value in self.values.items() if kind(value) == dtype and list(value.shape) == list(shape)]
        if there and not more and self.flip(0.4):
            return self.pick(there)
        return self.new(dtype, list(shape), **more)

    def beside(self, name, **more):
        """A tensor that broadcasts with this one."""
        value = self.values[name]
        shape = list(value.shape)
        if not self.flip(0.35):
            shape = [1 if self.flip(0.3) else size for size in shape]
            shape = shape[self.rng.randint(0, len(shape)) if self.flip(0.5) else 0 :]
            if self.flip(0.15) and len(shape) < 5 and value.size < 500:
                shape = [self.pick((1, 2, 3))] + [1] * (value.ndim - len(shape)) + shape
        return self.same(kind(value), shape, **more)

    def axis(self, rank):
        return self.rng.randint(-rank, rank - 1)

    def axes(self, rank, least=0):
        chosen = self.rng.sample(range(rank), self.rng.randint(min(least, rank), rank))
        return [axis - rank if self.opset >= 11 and self.flip(0.3) else axis for axis in chosen]

    # nodes

    def node(self, op, inputs, outputs=1, **attributes):
        """Computes a node and takes it in, or raises where ONNX Runtime refuses it."""
        names = [f"t{len(self.values) + place}" for place in range(outputs)]
        made = make(op, inputs, names, **attributes)
        made.name = f"n{len(self.labels)}"
        domain = attributes.get("domain")
        self.take([made], names, f"{domain}.{op}" if domain else op)
        return names

    def group(self, label, nodes, names):
        """Computes nodes whose inner values are no tensors of numbers, and takes them in as one."""
        for place, made in enumerate(nodes):
            made.name = f"n{len(self.labels)}.{place}"
        self.take(nodes, names, label)
        return names

    def take(self, nodes, names, label):
        found = self.computed(nodes, names)
        if sum(value.size for value in found) > 8 * MOST:
            raise Unfit
        self.labels[nodes[0].name.split(".")[0]] = label
        self.nodes += nodes
        for name, value in zip(names, found):
            self.values[name] = value

    def computed(self, nodes, names):
        model = self.model(nodes, names)
        try:
            found = run(model, {name: self.values[name] for name in self.feeds(model)})
        except Exception as error:
            raise Refused(str(error)) from error
        if any(not isinstance(value, np.ndarray) or value.dtype == object for value in found):
            raise Refused("no tensors of numbers")
        return found

    @staticmethod
    def feeds(model):
        return [value.name for value in model.graph.input]

    def read(self, nodes):
        """Names that nodes read, in order, without those that they make."""
        made = {name for node in nodes for name in node.output}
        names = [name for node in nodes for name in reads(node) if name and name not in made]
        return list(dict.fromkeys(names))

    def model(self, nodes, outputs=None):
        """The model of some nodes: tensors of other nodes are inputs, tensors without a reader are outputs."""
        names = self.read(nodes)
        constant = [name for name in names if name in self.constants]
        given = [name for name in names if name not in constant]
        if outputs is None:
            used = {name for node in nodes for name in reads(node)}
            outputs = [name for node in nodes for name in node.output if name in self.values and name not in used]
        graph = helper.make_graph(
            nodes,
            "g",
            [self.info(name) for name in given],
            [self.output(name) for name in outputs],
            [numpy_helper.from_array(np.ascontiguousarray(self.values[name]).reshape(self.values[name].shape), name) for name in constant],
        )  # fmt: skip
        version = 8 if self.opset < 19 else 9 if self.opset < 21 else 10
        opset = [helper.make_opsetid("", self.opset)]
        domains = {node.domain for node in nodes}
        opset += [helper.make_opsetid(name, of) for name, of in ((CONTRIB, 1), (CLASSICAL, 2)) if name in domains]
        return helper.make_model(graph, opset_imports=opset, ir_version=version, producer_name="differ")

    def info(self, name):
        value = self.values[name]
        element = helper.np_dtype_to_tensor_dtype(value.dtype)
        shape = [f"s{size}" for size in value.shape] if self.symbolic else value.shape
        return helper.make_tensor_value_info(name, element, shape)

    def output(self, name):
        value = self.values.get(name)
        if value is None:
            return helper.make_empty_tensor_value_info(name)
        # the rank alone: sizes are for each side to find
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), [None] * value.ndim)


def make(op, inputs, outputs, **attributes):
    """A node without the attributes that are none and the last inputs that are not given."""
    attributes = {name: value for name, value in attributes.items() if value is not None}
    while inputs and not inputs[-1]:
        inputs = inputs[:-1]
    return helper.make_node(op, inputs, outputs, **attributes)


def reads(node):
    """All that a node reads, its bodies included."""
    names = list(node.input)
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            inside = {name for one in attribute.g.node for name in one.output}
            inside |= {value.name for value in attribute.g.input} | {value.name for value in attribute.g.initializer}
            names += [name for one in attribute.g.node for name in reads(one) if name not in inside]
            names += [value.name for value in attribute.g.output if value.name not in inside]
    return names


def element(dtype):
    """ONNX's code of a type."""
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


__all__ = ["ALL", "Draft", "FLOATS", "CLASSICAL", "CONTRIB", "INTS", "NUMBERS", "Refused", "SIGNED", "TensorProto", "UNSIGNED", "Unfit", "element", "kind", "make", "options", "reads", "run", "session"]  # fmt: skip
