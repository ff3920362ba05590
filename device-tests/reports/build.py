"""Short ways to write ONNX models, for cases.py: values as text, nodes as lines, inputs from the arrays fed."""
import dataclasses
import re

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {"f32": TensorProto.FLOAT, "f64": TensorProto.DOUBLE, "f16": TensorProto.FLOAT16,
         "bf16": TensorProto.BFLOAT16, "i64": TensorProto.INT64, "i32": TensorProto.INT32, "i16": TensorProto.INT16,
         "i8": TensorProto.INT8, "u8": TensorProto.UINT8, "u16": TensorProto.UINT16, "u32": TensorProto.UINT32,
         "u64": TensorProto.UINT64, "bool": TensorProto.BOOL, "str": TensorProto.STRING,
         "i4": TensorProto.INT4, "u4": TensorProto.UINT4, "f8": TensorProto.FLOAT8E4M3FN}
VALUE = re.compile(r"(.+?)(?::((?:seq\(|opt\()?(?:[a-z]+[0-9]*)\)?))?(\[[^]]*\])?")
RANDOM = np.random.default_rng(7)
#: IR version for an opset, as exporters of its day wrote
IR = {range(1, 9): 3, range(9, 11): 4, range(11, 13): 6, range(13, 15): 7, range(15, 19): 8, range(19, 21): 9,
      range(21, 23): 10, range(23, 25): 11, range(25, 30): 12}


@dataclasses.dataclass
class Case:
    """A model, what is fed to it and what must come of it."""
    model: onnx.ModelProto | bytes | None
    feeds: dict
    path: str = "model.onnx"
    #: further files beside the model, and links as strings that begin with `->`
    files: dict = dataclasses.field(default_factory=dict)
    #: words that the error must hold, where the model or the request is wrong
    says: tuple = ()
    #: "ort", "onnx" (its reference evaluator) or the outputs
    oracle: object = "ort"
    tolerance: float = 1e-4
    #: options of `polychip run`
    options: tuple = ()
    #: so many processes at once
    processes: int = 1
    #: seconds that a run may take
    patience: float = 60


def rand(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def i64(*values):
    return np.array(values, np.int64)


def f32(*values):
    return np.array(values, np.float32)


def value(text):
    """`x:f32[2,n]`; f32 without a type, any rank without brackets; `seq(f32)` and `opt(f32)`."""
    name, kind, dims = VALUE.fullmatch(text).groups("")
    shape = None if not dims else [int(d) if d.isdigit() else d or None for d in dims[1:-1].split(",") if dims != "[]"]
    for wrapper, wrap in (("seq(", helper.make_sequence_type_proto), ("opt(", helper.make_optional_type_proto)):
        if kind.startswith(wrapper):
            inner = helper.make_tensor_type_proto(TYPES[kind[4:-1]], shape)
            return helper.make_value_info(name, wrap(inner))
    return helper.make_tensor_value_info(name, TYPES[kind or "f32"], shape)


def n(op, inputs, outputs="y", domain="", **attributes):
    """A node; `-` is an input or output left out."""
    names = [["" if name == "-" else name for name in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op, *names, domain=domain, **attributes)


def tensors(constants):
    return [value if isinstance(value, TensorProto) else numpy_helper.from_array(np.asarray(value), name)
            for name, value in (constants or {}).items()]


def body(nodes, inputs, outputs, constants=None):
    return helper.make_graph(nodes, "body", [value(v) for v in inputs.split()], [value(v) for v in outputs.split()],
                             tensors(constants))


def model(nodes, feeds, outputs="y", constants=None, opset=17, inputs=None, ir=None, ml=0, ms=0, functions=(),
          values="", more=(), sparse=()):
    """A model whose inputs have the types and shapes of the arrays fed, except those written in `inputs`."""
    given = {v.name: v for v in map(value, (inputs or "").split())}
    for name, array in feeds.items():
        if name not in given:
            kind = TensorProto.STRING if array.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(array.dtype)
            given[name] = helper.make_tensor_value_info(name, kind, array.shape)
    graph = helper.make_graph(nodes, "graph", list(given.values()), [value(v) for v in outputs.split()],
                              tensors(constants), value_info=[value(v) for v in values.split()],
                              sparse_initializer=list(sparse))
    domains = [("", opset), *more] + [("ai.onnx.ml", ml)] * bool(ml) + [("com.microsoft", ms)] * bool(ms)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid(*d) for d in domains],
                             functions=list(functions))
    made.ir_version = ir or next(v for r, v in IR.items() if opset in r)
    return made


def case(nodes, feeds, outputs="y", constants=None, **options):
    """A case of a model; options of `Case` go there, the rest to `model`."""
    ours = {f.name for f in dataclasses.fields(Case)}
    rest = {k: options.pop(k) for k in list(options) if k not in ours}
    feeds = {name: np.asarray(array) for name, array in feeds.items()}
    return Case(model(nodes, feeds, outputs, constants, **rest), feeds, **options)


def external(name, array, location, offset=None, length=None):
    """An initializer whose values are in another file."""
    made = TensorProto(name=name, dims=array.shape, data_type=helper.np_dtype_to_tensor_dtype(array.dtype),
                       data_location=TensorProto.EXTERNAL)
    for key, text in (("location", location), ("offset", offset), ("length", length)):
        if text is not None:
            made.external_data.add(key=key, value=str(text))
    return made


#: (function, source, pattern, what happened first) in the order of the files
REPORTS = []


def report(source, pattern, first=""):
    """Registers a case: the repository and thread of the report, its pattern in our words, what Polychip did first."""
    def add(make):
        REPORTS.append((make, source, pattern, first))
        return make
    return add
