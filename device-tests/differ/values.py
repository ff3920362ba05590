"""How groups of nodes are drawn whose inner values are no tensors of numbers, or are no two times the same.

Sequences, optionals, text, random numbers (of which shape, type and range are compared), and loops that grow what they carry.
A group is named after what it is for; what leaves it is tensors of numbers.
"""

import numpy as np
import onnx
from drafts import ALL, CLASSICAL, FLOATS, INTS, Refused, element, make, run
from onnx import helper, numpy_helper
from recipes import recipe

# names of groups, which are no ops
GROUPS = set()
info = helper.make_tensor_value_info


def group(name, since=11, weight=0.6, until=99):
    """Registers what draws a group of nodes."""
    GROUPS.add(name)
    return recipe(name, weight=weight, since=since, until=until)


class Nodes:
    """The nodes of a group, whose inner values have names of their own."""

    def __init__(self, d):
        self.d, self.made, self.stem, self.count = d, [], f"g{len(d.values)}_{len(d.labels)}_", 0

    def name(self):
        self.count += 1
        return f"{self.stem}{self.count}"

    def __call__(self, op, inputs, outputs=1, **attributes):
        names = [self.name() for _ in range(outputs)]
        self.made.append(make(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def done(self, label, outputs):
        """Takes the group in; what leaves it is what these names hold."""
        return self.d.group(label, self.made, outputs)


def text(d, values):
    """A constant of text."""
    return d.add(np.array(values, dtype=object), True)


# sequences

def parts(d, dtype, rank, count):
    """Tensors of one type and rank."""
    return [d.same(dtype, [d.pick((1, 2, 3)) for _ in range(rank)]) for _ in range(count)]


def read_sequence(d, n, sequence, length, outputs):
    """Reads a sequence: an element, and how many there are."""
    outputs.append(n("SequenceLength", [sequence]))
    if length:
        outputs.append(n("SequenceAt", [sequence, d.parameter(d.rng.randint(-length, length - 1), d.pick(("int64", "int32")))]))


@group("sequence", weight=1)
def sequence(d, op):
    n, dtype, rank = Nodes(d), d.dtype(ALL), d.rng.randint(0, 3)
    length = d.rng.randint(0, 3)
    if length:
        made = n("SequenceConstruct", parts(d, dtype, rank, length))
    else:
        made = n("SequenceEmpty", [], dtype=element(dtype) if dtype != "float32" or d.flip(0.5) else None)
    outputs = []
    for _ in range(d.rng.randint(0, 3)):
        if length and d.flip(0.35):
            where = [d.parameter(d.rng.randint(-length, length - 1))] if d.flip(0.7) else []
            made, length = n("SequenceErase", [made, *where]), length - 1
        else:
            where = [d.parameter(d.rng.randint(-length, length))] if d.flip(0.6) else []
            made, length = n("SequenceInsert", [made, *parts(d, dtype, rank, 1), *where]), length + 1
        if d.flip(0.3):
            read_sequence(d, n, made, length, outputs)
    read_sequence(d, n, made, length, outputs)
    n.done(op, outputs)


@group("sequence-concat", weight=1)
def joined(d, op):
    n, dtype, shape = Nodes(d), d.dtype(ALL), d.shape(1, 3)
    stack = d.flip(0.4)
    axis = d.rng.randint(-len(shape) - 1, len(shape)) if stack else d.axis(len(shape))
    names = []
    for _ in range(d.rng.randint(1, 3)):
        own = list(shape)
        if not stack:
            own[axis] = d.pick((1, 2, 3))
        names.append(d.same(dtype, own))
    made = n("SequenceConstruct", names)
    if d.flip(0.3):
        made = n("Identity", [made]) if d.opset >= 14 else made
    n.done(op, [n("ConcatFromSequence", [made], axis=axis, new_axis=1 if stack else d.pick((None, 0)))])


@group("split-to-sequence", weight=1)
def split(d, op):
    n, name = Nodes(d), d.any(FLOATS + ("int64", "int32", "bool"), 1, fit=lambda value: value.size)
    shape = d.values[name].shape
    axis = d.axis(len(shape))
    size, how = shape[axis], d.pick(("none", "scalar", "list"))
    inputs, keep = [name], None
    if how == "none":
        length, keep = size, d.pick((None, 0, 1))
    elif how == "scalar":
        step = d.rng.randint(1, size)
        inputs.append(d.parameter(step, d.pick(("int64", "int32"))))
        length = -(-size // step)
    else:
        cuts = sorted(d.rng.randint(0, size) for _ in range(d.rng.randint(0, 2)))
        sizes = [b - a for a, b in zip([0] + cuts, cuts + [size])]
        inputs.append(d.parameter(sizes))
        length = len(sizes)
    made, outputs = n("SplitToSequence", inputs, axis=axis if axis or d.flip(0.5) else None, keepdims=keep), []
    read_sequence(d, n, made, length, outputs)
    if d.flip(0.5) and keep != 0:
        outputs.append(n("ConcatFromSequence", [made], axis=axis))
    n.done(op, outputs)


@group("sequence-map", since=17, weight=0.5)
def mapped(d, op):
    n, dtype = Nodes(d), d.pick(("float32", "float32", "float64"))
    rank, length = d.rng.randint(1, 3), d.rng.randint(1, 3)
    made = n("SequenceConstruct", parts(d, dtype, rank, length))
    one, out, other = n.name(), n.name(), n.name()
    beside = d.same(dtype, []) if d.flip(0.5) else None
    nodes = [make("Mul", [one, other], [out])] if beside else [make(d.pick(("Neg", "Abs", "Relu")), [one], [out])]
    takes = [info(one, element(dtype), None)] + ([info(other, element(dtype), None)] if beside else [])
    body = helper.make_graph(nodes, "m", takes, [info(out, element(dtype), None)])
    outputs = []
    read_sequence(d, n, n("SequenceMap", [made] + ([beside] if beside else []), body=body), length, outputs)
    n.done(op, outputs)


# optionals

@group("optional", since=15, weight=0.7)
def optional(d, op):
    n, name = Nodes(d), d.any(ALL)
    wrapped = n("Optional", [name])
    outputs = [n("OptionalHasElement", [wrapped])]
    outputs.append(n("OptionalGetElement", [wrapped]))
    if d.opset >= 18 and d.flip(0.4):
        outputs.append(n("OptionalHasElement", [name]))
    if d.opset >= 18 and d.flip(0.3):
        outputs.append(n("OptionalHasElement", []))
    n.done(op, outputs)


@group("optional-sequence", since=15, weight=0.3)
def optional_sequence(d, op):
    n, dtype, length, outputs = Nodes(d), d.dtype(ALL), d.rng.randint(1, 3), []
    wrapped = n("Optional", [n("SequenceConstruct", parts(d, dtype, d.rng.randint(0, 2), length))])
    outputs.append(n("OptionalHasElement", [wrapped]))
    read_sequence(d, n, n("OptionalGetElement", [wrapped]), length, outputs)
    n.done(op, outputs)


@group("empty-optional", since=15, weight=0.3)
def empty(d, op):
    n = Nodes(d)
    kind_of = helper.make_tensor_type_proto(element(d.dtype(FLOATS)), None)
    n.done(op, [n("OptionalHasElement", [n("Optional", [], type=kind_of)])])


# text

WORDS = ("", "a", "B", "one two", "Three", "größe", "12", "-3.5", "the", "x,y,,z", "  gap", "THE", "日本", "1e3", "a-b")


def words(d, n, shape, among=WORDS):
    """Text that is known only while running: a table and where to read it."""
    table = [d.pick(among) for _ in range(d.rng.randint(1, 6))]
    where = d.new("int64", shape, 0, len(table) - 1, constant=False)
    return n("Gather", [text(d, table), where])


def said(d, n, name, label, outputs):
    """Takes in a group whose result is text, as a number for each text.

    Which texts there are is known by running the nodes so far; any other has the number of none.
    """
    model = d.model(n.made, [])
    model.graph.output.append(info(name, onnx.TensorProto.STRING, None))
    try:
        (found,) = run(model, {one: d.values[one] for one in d.feeds(model)})
    except Exception as error:
        raise Refused(str(error)) from error
    keys = sorted(set(found.ravel().tolist())) or ["none"]
    more = {"keys_strings": keys, "values_int64s": list(range(1, len(keys) + 1)), "default_int64": -1}
    n.done(label, [n("LabelEncoder", [name], domain=CLASSICAL, **more), *outputs])


@group("text-movement", since=13, weight=0.8)
def moved(d, op):
    n, shape = Nodes(d), [d.pick((1, 2, 3)) for _ in range(d.rng.randint(1, 3))]
    name = words(d, n, shape)
    for _ in range(d.rng.randint(1, 3)):
        what = d.pick(("Identity", "Transpose", "Reshape", "Concat", "Where", "Unsqueeze", "Expand", "Slice", "Tile", "Flatten"))
        if what in ("Identity", "Transpose", "Flatten"):
            name = n(what, [name])
        elif what == "Reshape":
            name = n(what, [name, d.parameter([-1])])
        elif what == "Concat":
            name = n(what, [name, name], axis=0)
        elif what == "Where":
            name = n(what, [d.new("bool", []), name, text(d, "else")])
        elif what == "Unsqueeze":
            name = n(what, [name, d.parameter([0])])
        elif what == "Expand":
            name = n(what, [name, d.parameter([2, 1, 1, 1, 1])])
        elif what == "Slice":
            name = n(what, [name, d.parameter([0]), d.parameter([d.pick((1, 5, -1))])])
        else:
            name = n("Reshape", [name, d.parameter([-1])])
    said(d, n, name, op, [])


@group("text-cast", since=9, weight=0.6)
def cast(d, op):
    n = Nodes(d)
    if d.flip(0.5):
        # how a float or a truth value is written is open (docs/differences.md)
        name = d.any(INTS, fit=lambda value: value.size < 60)
        said(d, n, n("Cast", [name], to=onnx.TensorProto.STRING), op, [])
    else:
        # what is left of a fraction or an exponent in an integer is open
        real = d.flip(0.5)
        among = ("1", "-3", "42", "7.5", "1e3", "-0.25") if real else ("1", "-3", "42", "077")
        to = d.pick(("float32", "float64")) if real else d.pick(("float32", "float64", "int64", "int32"))
        n.done(op, [n("Cast", [words(d, n, d.shape(0, 2), among)], to=element(to))])


@group("text-equal", since=19, weight=0.5)
def equal(d, op):
    n, shape = Nodes(d), [d.pick((1, 2, 3)) for _ in range(d.rng.randint(0, 3))]
    first = words(d, n, shape)
    second = words(d, n, shape if d.flip(0.5) else [1] * len(shape))
    n.done(op, [n("Equal", [first, second])])


@group("text-concat", since=20, weight=0.6)
def concat(d, op):
    n, shape = Nodes(d), [d.pick((1, 2, 3)) for _ in range(d.rng.randint(0, 3))]
    name = n("StringConcat", [words(d, n, shape), words(d, n, shape if d.flip(0.6) else [1] * len(shape))])
    said(d, n, name, op, [])


@group("text-split", since=20, weight=0.6)
def split_text(d, op):
    n, shape = Nodes(d), [d.pick((1, 2, 3)) for _ in range(d.rng.randint(0, 2))]
    delimiter, most = d.pick((None, "", ",", " ", "e")), d.pick((None, None, 1, 2))
    parts_of, counts = n("StringSplit", [words(d, n, shape)], 2, delimiter=delimiter, maxsplit=most)
    said(d, n, parts_of, op, [counts])


@group("text-match", since=20, weight=0.4)
def match(d, op):
    n = Nodes(d)
    pattern = d.pick((r"[a-z]+", r"\d+", r".*e", r"(a|B)?", r"[^,]*", r"-?\d+(\.\d+)?", r"\w+\s\w+"))
    n.done(op, [n("RegexFullMatch", [words(d, n, d.shape(0, 2))], pattern=pattern)])


@group("text-normal", since=10, weight=0.5)
def normal(d, op):
    n = Nodes(d)
    shape = d.pick(([d.rng.randint(1, 5)], [1, d.rng.randint(1, 5)]))
    stop = [d.pick(WORDS) for _ in range(d.rng.randint(0, 3))] or None
    case, exact = d.pick((None, "LOWER", "UPPER", "NONE")), d.pick((None, 0, 1))
    among = [word for word in WORDS if word.isascii()]
    if stop:
        stop = [word for word in stop if word.isascii()] or None
    said(d, n, n("StringNormalizer", [words(d, n, shape, among)], locale="C", case_change_action=case, is_case_sensitive=exact, stopwords=stop), op, [])


@group("text-counts", since=9, weight=0.4)
def counts(d, op):
    n = Nodes(d)
    pool = ["a", "B", "the", "Three"]
    pairs = ["a", "B", "B", "the"]
    shape = d.pick(([d.rng.randint(1, 8)], [d.rng.randint(1, 3), d.rng.randint(1, 8)]))
    more = {"mode": d.pick(("TF", "IDF", "TFIDF")), "min_gram_length": 1, "max_gram_length": d.pick((1, 2)), "max_skip_count": d.pick((0, 1)),
            "ngram_counts": [0, len(pool)], "ngram_indexes": [0, 1, 2, 3, 4, 5], "weights": d.pick((None, [1.0, 0.5, 2.0, 3.0, 0.25, 1.5]))}  # fmt: skip
    if d.flip(0.4):
        name = d.new("int64", shape, 0, 5, constant=False)
        n.done(op, [n("TfIdfVectorizer", [name], pool_int64s=[0, 1, 2, 3, 0, 1, 1, 2], **more)])
    else:
        n.done(op, [n("TfIdfVectorizer", [words(d, n, shape, (*pool, "other"))], pool_strings=pool + pairs, **more)])


# random numbers

def bounds(d, n, name, low, high):
    """The shape of random numbers, and whether all of them lie between these ends."""
    outputs = [n("Shape", [name])]
    wide = n("Cast", [name], to=onnx.TensorProto.DOUBLE)
    least, most = (n("Cast", [d.parameter(end, "float32", sure=True)], to=onnx.TensorProto.DOUBLE) for end in (low, high))
    inside = n("And", [n("Not", [n("Less", [wide, least])]), n("Not", [n("Greater", [wide, most])])])
    count = n("ReduceSum", [n("Cast", [n("Not", [inside])], to=onnx.TensorProto.FLOAT)], keepdims=0)
    return [*outputs, count]


@group("random", since=9, weight=0.6)
def random(d, op):
    n, dtype = Nodes(d), d.pick((None, "float32", "float64", "float16"))
    uniform = d.flip(0.5)
    more = {"low": d.pick((None, -1.0)), "high": d.pick((None, 2.0))} if uniform else {"mean": d.pick((None, 3.0)), "scale": d.pick((None, 2.0))}
    low, high = (more["low"] or 0.0, more["high"] or 1.0) if uniform else (-60.0, 60.0)
    stem, of_like = ("RandomUniform", "RandomUniformLike") if uniform else ("RandomNormal", "RandomNormalLike")
    seed = d.pick((None, 3.0))
    to = element(dtype) if dtype else None
    if d.flip(0.5):
        name = n(stem, [], shape=[d.pick((1, 2, 3)) for _ in range(d.rng.randint(1, 4))], dtype=to, seed=seed, **more)
    else:
        like = d.any(FLOATS if dtype is None else FLOATS + ("int64",))
        name = n(of_like, [like], dtype=to, seed=seed, **more)
    n.done(op, bounds(d, n, name, low, high))


@group("random-choice", since=15, weight=0.3)
def choice(d, op):
    n, dtype = Nodes(d), d.pick(("float32", "float64"))
    if d.flip(0.5):
        to = d.pick((None, "int32", "float32", "bool"))
        name = d.new(dtype, d.shape(0, 3), 0, 1)
        found = n("Bernoulli", [name], dtype=element(to) if to else None, seed=d.pick((None, 3.0)))
        n.done(op, bounds(d, n, found, 0.0, 1.0))
    else:
        classes = d.rng.randint(1, 5)
        name = d.new("float32", [d.rng.randint(1, 3), classes], special=False)
        to = d.pick((None, "int32", "int64"))
        found = n("Multinomial", [name], dtype=element(to) if to else None, sample_size=d.pick((None, 1, 4)), seed=d.pick((None, 3.0)))
        n.done(op, bounds(d, n, found, 0.0, classes - 1.0))


# loops that grow what they carry

def loop(d, n, takes, nodes, gives, carried, trips, condition="", scans=0):
    """A Loop; its body has the counter and the condition before what it carries."""
    counter, before = n.name(), n.name()
    inputs = [info(counter, onnx.TensorProto.INT64, []), info(before, onnx.TensorProto.BOOL, []), *takes(counter)]
    made, after = nodes(counter, before)
    body = helper.make_graph(made, "l", inputs, [info(after, onnx.TensorProto.BOOL, []), *gives])
    outputs = n("Loop", [trips, condition, *carried], len(carried) + scans, body=body)
    return [outputs] if isinstance(outputs, str) else outputs


@group("growing-loop", since=11, weight=1)
def growing(d, op):
    """A tensor gets longer in each turn; the loop ends by its count, or by what it carries."""
    n, dtype = Nodes(d), d.pick(("float32", "int64", "int32", "float64"))
    rank = d.rng.randint(1, 3)
    shape = [d.pick((1, 2, 3)) for _ in range(rank)]
    axis = d.rng.randrange(rank)
    first, more, of = d.same(dtype, shape), d.same(dtype, shape), element(dtype)
    x, y, z, after = (n.name() for _ in range(4))
    early, scan, double = d.flip(0.4), d.flip(0.4), d.flip(0.3)
    most = d.rng.randint(1, 4)
    limit, ended = d.parameter(most, sure=True), n.name()

    def nodes(counter, before):
        made = [make("Concat", [x, x if double else more], [y], axis=axis)]
        if early:
            made += [make("Less", [counter, limit], [ended]), make("Identity", [ended], [after])]
        else:
            made.append(make("Identity", [before], [after]))
        if scan:
            made.append(make("Shape", [y], [z]))
        return made, after

    takes = lambda counter: [info(x, of, [None] * rank)]
    gives = [info(y, of, [None] * rank)] + ([info(z, onnx.TensorProto.INT64, [rank])] if scan else [])
    trips = d.parameter(d.rng.randint(0, 4)) if not early or d.flip(0.5) else ""
    condition = d.parameter(True, "bool", sure=True)
    n.done(op, loop(d, n, takes, nodes, gives, [first], trips, condition, int(scan)))


@group("sequence-loop", since=13, weight=0.8)
def gathering(d, op):
    """A sequence gets longer in each turn, by tensors that may have other shapes each time."""
    n, dtype = Nodes(d), d.pick(("float32", "int64", "float64"))
    of, rank = element(dtype), d.rng.randint(1, 2)
    value = d.same(dtype, [d.pick((3, 4, 5)) for _ in range(rank)])
    x, y, one, after, part, end, axes, zero = (n.name() for _ in range(8))
    changing = d.flip(0.5)
    constant = lambda name, values: make("Constant", [], [name], value=numpy_helper.from_array(np.array(values, "int64")))

    def nodes(counter, before):
        made = [make("Identity", [before], [after])]
        if changing:
            made += [constant(axes, [0]), constant(zero, [0]), make("Unsqueeze", [counter, axes], [end])]
            made.append(make("Slice", [value, zero, end, axes], [part]))
        else:
            made += [make("Cast", [counter], [one], to=of), make("Mul", [value, one], [part])]
        return [*made, make("SequenceInsert", [x, part], [y])], after

    sequence_of = lambda name: helper.make_tensor_sequence_value_info(name, of, None)
    trips = d.rng.randint(1, 4)
    (made,) = loop(d, n, lambda counter: [sequence_of(x)], nodes, [sequence_of(y)], [n("SequenceEmpty", [], dtype=of)],
                   d.parameter(trips), d.parameter(True, "bool", sure=True))  # fmt: skip
    outputs = [n("ConcatFromSequence", [made], axis=0)]
    read_sequence(d, n, made, trips, outputs)
    n.done(op, outputs)


@group("nested-loop", since=13, weight=0.6)
def nested(d, op):
    """A loop in whose body an If chooses by the counter, with what lies outside both."""
    n, dtype = Nodes(d), d.pick(("float32", "int64"))
    of = element(dtype)
    first = d.any((dtype,), 0, 3, fit=lambda value: value.size < 200)
    beside = d.beside(first, constant=False) if d.flip(0.3) else d.same(dtype, [1] * d.values[first].ndim)
    x, y, after, small, left, right, two = (n.name() for _ in range(7))

    def nodes(counter, before):
        branch = lambda what, name: helper.make_graph([make(what, [x, beside], [name])], "b", [], [info(name, of, None)])
        made = [make("Identity", [before], [after])]
        made.append(make("Constant", [], [two], value=numpy_helper.from_array(np.array(d.rng.randint(0, 2), "int64"))))
        made.append(make("Less", [counter, two], [small]))
        made.append(make("If", [small], [y], then_branch=branch("Add", left), else_branch=branch(d.pick(("Sub", "Mul")), right)))
        return made, after

    outputs = loop(d, n, lambda counter: [info(x, of, None)], nodes, [info(y, of, None)], [first], d.parameter(d.rng.randint(0, 4)),
                   d.parameter(True, "bool", sure=True))  # fmt: skip
    n.done(op, outputs)


@group("scan", since=9, weight=0.7)
def scan(d, op):
    n, dtype = Nodes(d), d.pick(("float32", "float64", "int64"))
    of, shape = element(dtype), [d.rng.randint(1, 4) for _ in range(d.rng.randint(1, 3))]
    axis = d.rng.randrange(len(shape))
    state = d.same(dtype, shape[:axis] + shape[axis + 1 :])
    a, b, c, e = (n.name() for _ in range(4))
    nodes = [make(d.pick(("Add", "Mul", "Sub")), [a, b], [c]), make("Add", [b, c], [e])]
    rank = len(shape) - 1
    of_rank = lambda name: info(name, of, [None] * rank)
    body = helper.make_graph(nodes, "s", [of_rank(a), of_rank(b)], [of_rank(c), of_rank(e)])
    out = d.rng.randint(0, rank)
    one = d.pick((None, [1], [0]))
    outputs = n("Scan", [state, d.same(dtype, shape)], 2, body=body, num_scan_inputs=1, scan_input_axes=[axis],
                scan_input_directions=one, scan_output_axes=[out], scan_output_directions=d.pick((None, [1])))  # fmt: skip
    n.done(op, outputs)

