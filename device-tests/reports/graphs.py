"""Reports on graphs: control flow, functions, names, types, constants, quantised models, classical models."""
import numpy as np
from onnx import AttributeProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from build import TYPES, body, case, f32, i64, n, rand, report


@report("sonos/tract 2695", "If on a computed condition whose branches give strings of different ranks")
def if_strings():
    texts = helper.make_tensor("texts", TensorProto.STRING, [5], [b"a", b"b", b"c", b"d", b"e"])
    none = helper.make_tensor("none", TensorProto.STRING, [0, 5], [])
    nodes = [n("Shape", "x", "s"), n("Gather", "s zero", "k"), n("Greater", "k zero", "c"),
             n("If", "c", then_branch=body([n("Constant", "", "t", value=texts)], "", "t:str[5]"),
               else_branch=body([n("Constant", "", "e", value=none)], "", "e:str[0,5]"))]
    return case(nodes, {"x": rand(2, 3)}, "y:str", {"zero": i64(0)}, inputs="x:f32[batch,3]")


@report("tracel-ai/burn 4119", "If whose branches read values and constants of the enclosing graph")
def if_outer():
    nodes = [n("Conv", "x w", "c"), n("ReduceSum", "c", "t", keepdims=0), n("Greater", "t zero", "b"),
             n("If", "b", then_branch=body([n("Add", "c bias", "p")], "", "p"),
               else_branch=body([n("Mul", "c scale", "q")], "", "q"))]
    return case(nodes, {"x": rand(1, 2, 5, 5)}, constants={"w": rand(3, 2, 3, 3), "zero": np.float32(0),
                "bias": rand(3, 1, 1),
                "scale": rand(3, 1, 1)})


@report("microsoft/onnxruntime 11536", "If whose branch returns a value of the enclosing graph")
def if_outer_output():
    x = f32(.25, 2)
    nodes = [n("ReduceSum", "x", "t", keepdims=0), n("Greater", "t zero", "b"), n("Add", "x one", "w"),
             n("If", "b", "y", then_branch=body([], "", "w"), else_branch=body([n("Neg", "w", "q")], "", "q"),
             name="If_6")]
    return case(nodes, {"x": x}, constants={"zero": np.float32(0), "one": f32(1)}, oracle={"y": x + 1})


@report("onnx/onnx 2082", "Loop whose body uses the same input and output names as the enclosing graph")
def loop_names():
    step = body([n("Add", "b one", "sum"), n("Identity", "sum", "scanned"), n("Identity", "cond", "more")],
                "i:i64[] cond:bool[] b:f32[1]", "more:bool[] sum:f32[1] scanned:f32[1]")
    return case([n("Loop", "m cond b", "sum scanned", body=step)], {"b": f32(3)}, "sum scanned",
                {"m": np.array(4), "cond": np.array(True), "one": f32(1)}, opset=13)


@report("microsoft/onnxruntime 3755",
        "Loop with an If in its body that counts, types and shapes left out (TorchScript)")
def loop_if():
    then = body([n("Add", "count one", "plus")], "", "plus:i64")
    same = body([n("Identity", "count", "keep")], "", "keep:i64")
    step = body([n("Gather", "a i", "v", axis=0), n("Greater", "v limit", "c"),
                 n("If", "c", "next", then_branch=then, else_branch=same), n("Identity", "cond", "more")],
                "i:i64[] cond:bool[] count:i64", "more:bool next:i64")
    return case([n("Loop", "m t zero", "y", body=step)], {"a": i64(10, 11, 5, 4, 6), "limit": np.array(5)}, "y:i64",
                {"m": np.array(5), "t": np.array(True), "zero": np.array(0), "one": np.array(1)}, opset=12)


@report("onnx/onnx 5702", "two Loops whose bodies share names of nodes and outputs")
def loops_same_names():
    def step(op):
        return body([n(op, "s k", "my_output", name="my_add"), n("Identity", "c", "go")], "i:i64[] c:bool[] s:f32[2]",
                    "go:bool[] my_output:f32[2]")
    return case([n("Loop", "m t x", "a", body=step("Add")), n("Loop", "m t x", "b", body=step("Mul"))], {"x": rand(2)},
                "a b", {"m": np.array(3), "t": np.array(True), "k": f32(2)}, opset=14)


@report("sbryngelson/ANEForge 91", "Loop that ends by its condition, with a trip count left out")
def loop_while():
    step = body([n("Mul", "s two", "d"), n("Less", "d limit", "go")], "i:i64[] c:bool[] s:f32", "go:bool[] d:f32")
    return case([n("Loop", "- t x", "y", body=step)], {"x": np.float32(3)},
                constants={"t": np.array(True), "two": np.float32(2),
                "limit": np.float32(100)},
                opset=13)


@report("sonos/tract 2848", "Scan with reversed inputs and outputs and negative axes")
def scan_directions():
    step = body([n("Add", "s a", "t"), n("Mul", "a b", "p"), n("Identity", "t", "o")], "s:f32[2] a:f32[2] b:f32[2]",
                "t:f32[2] o:f32[2] p:f32[2]")
    return case([n("Scan", "s0 a b", "last sums products", body=step, num_scan_inputs=2, scan_input_directions=[1, 0],
                   scan_input_axes=[-1, 0], scan_output_directions=[0, 1], scan_output_axes=[-1, 0])],
                {"s0": rand(2), "a": rand(2, 4), "b": rand(4, 2)}, "last sums products", opset=16)


@report("robertknight/rten 1385", "Scan of opset 8, with a batch axis and sequence lengths",
        "refused: lengths were not supported")
def scan_eight():
    step = body([n("Add", "s a", "t"), n("Identity", "t", "o")], "s:f32[2] a:f32[2]", "t:f32[2] o:f32[2]")
    return case([n("Scan", "l s0 a", "last sums", body=step, num_scan_inputs=1)],
                {"l": i64(3, 2), "s0": rand(2, 2), "a": rand(2, 3, 2)}, "last sums", opset=8)


def function(name, inputs, outputs, nodes, attributes=(), opset=17, more=()):
    return helper.make_function("local", name, inputs.split(), outputs.split(), nodes,
                                [helper.make_opsetid("", opset), *(helper.make_opsetid(*d) for d in more)],
                                list(attributes))


def refer(node, attribute, to, kind):
    node.attribute.append(AttributeProto(name=attribute, ref_attr_name=to, type=kind))
    return node


@report("microsoft/onnxruntime 22687", "a function whose Constant takes its value from an attribute of the call")
def function_constant():
    inner = [refer(n("Constant", "", "c"), "value", "amount", AttributeProto.TENSOR), n("Mul", "x c", "y")]
    amount = helper.make_tensor("amount", TensorProto.FLOAT, [2], [2, 3])
    return case([n("Scale", "x", "y", "local", amount=amount)], {"x": rand(3, 2)}, more=[("local", 1)],
                functions=[function("Scale", "x", "y", inner, ["amount"])])


@report("microsoft/onnxruntime 12506", "a function that calls a function and passes on an attribute under another name")
def function_nested():
    first = function("f1", "x", "y", [refer(n("Constant", "", "c"), "value_int", "inner", AttributeProto.INT),
                                      n("Add", "x c", "y")], ["inner"])
    second = function("func", "x", "y", [refer(n("f1", "x", "y", "local"), "inner", "outer", AttributeProto.INT)],
    ["outer"],
                      more=[("local", 1)])
    return case([n("func", "x", "y", "local", outer=5)], {"x": i64(0, 1)}, "y:i64", more=[("local", 1)],
                functions=[first, second], oracle={"y": i64(5, 6)})


@report("pytorch/pytorch 125753", "integer Floor in a function of the first dynamo exporter")
def function_floor():
    inner = [n("Div", "a b", "d"), n("Floor", "d", "y", name="n1")]
    return case([n("aten_floor_divide", "a b", "y", "local")], {"a": i64(7), "b": i64(2)}, "y:i64", more=[("local", 1)],
                functions=[function("aten_floor_divide", "a b", "y", inner)], says=("Floor", "i64"))


@report("onnx/onnx 3865", "nodes out of order, some after the readers of their outputs")
def unsorted():
    nodes = [n("Add", "b k", "y"), n("Relu", "a", "b"), n("Mul", "x k", "a")]
    return case(nodes, {"x": rand(3)}, constants={"k": f32(2)})


@report("modelscope/FunASR 1566", "nodes out of order whose reader is inside a Loop's body")
def unsorted_body():
    step = body([n("Add", "s later", "o"), n("Identity", "c", "go")], "i:i64[] c:bool[] s:f32[2]", "go:bool[] o:f32[2]")
    x = rand(2)
    return case([n("Loop", "m t x", "y", body=step), n("Mul", "x k", "later")], {"x": x},
                constants={"m": np.array(3), "t": np.array(True), "k": f32(.5)}, opset=13, oracle={"y": x * 2.5})


@report("onnx/onnx-mlir 1376", "a value that is an output and is read by another node; the same value as two outputs")
def output_read():
    return case([n("Relu", "x", "r"), n("Exp", "r", "y"), n("Identity", "r", "again")], {"x": rand(4)}, "r y again")


@report("tracel-ai/burn 3650", "outputs that are directly the input and a constant")
def output_input():
    return case([n("Relu", "x", "y"), n("Identity", "x", "same"), n("Identity", "k", "const")], {"x": rand(2)},
                "y same const",
                {"k": f32(1, 2)})


@report("microsoft/onnxruntime 24341", "a node that reads a value that no node computes")
def dangling():
    return case([n("MatMul", "x /Cast_2_output_0", name="MatMul_3")], {"x": rand(2, 2)},
                says=("MatMul_3", "/Cast_2_output_0"))


@report("onnx/models 2", "two nodes that write the same name")
def written_twice():
    return case([n("BatchNormalization", "x s b m v", "c"), n("Add", "x s", "c", name="Add_2"), n("Relu", "c")],
                {"x": rand(1, 2)},
                constants={"s": rand(2), "b": rand(2), "m": rand(2), "v": f32(1, 1)}, says=("\"c\"",))


@report("sonos/tract 964", "declared sizes of outputs that contradict each other by name (tf2onnx unk__6, unk__7)")
def output_symbols():
    return case([n("MatMul", "x w", "h"), n("Add", "h b", "y")], {"x": rand(3, 4)}, "y:f32[unk__7,5]",
                {"w": rand(4, 5), "b": rand(5)}, inputs="x:f32[unk__6,4]")


@report("sonos/tract 1225", "declared sizes in value_info that are symbols where the graph has numbers")
def value_symbols():
    return case([n("Gather", "e i", "h"), n("Add", "h b", "y")], {"i": i64([1, 2, 0])},
                "y:f32[batch,sequence,Addlast_dim_2]",
                {"e": rand(5, 6), "b": rand(6)}, inputs="i:i64[batch,sequence]",
                values="h:f32[batch,sequence,Gather_dim_2]")


@report("sonos/tract 1819", "symbols with dots in their names, on inputs that are fed fixed sizes (PP-OCR)")
def dotted_symbols():
    nodes = [n("Conv", "x w", "c", strides=[2, 2], pads=[1, 1, 1, 1]), n("ReduceMean", "c", "m", axes=[2], keepdims=0),
             n("Transpose", "m", "y", perm=[0, 2, 1])]
    return case(nodes, {"x": rand(1, 3, 8, 18)}, "y:f32[DynamicDimension.0,DynamicDimension.1,4]",
                {"w": rand(4, 3, 3, 3)},
                inputs="x:f32[DynamicDimension.0,3,8,DynamicDimension.1]", opset=13)


@report("microsoft/onnxruntime 1016",
        "an LSTM network from MATLAB that declares a wrong rank for its output")
def declared_rank():
    nodes = [n("LSTM", "x w r", "h", hidden_size=3, name="lstm"), n("Squeeze", "h", "q", axes=[1], name="sq"),
             n("MatMul", "q k", "y", name="fc_2")]
    return case(nodes, {"x": rand(4, 1, 2)}, "y:f32[4,5]", {"w": rand(1, 12, 2), "r": rand(1, 12, 3), "k": rand(3, 5)},
                opset=9,
                says=None)


@report("microsoft/onnxruntime 9663", "IR version 3 whose constants are not listed as inputs, with an If")
def ir_three():
    nodes = [n("ReduceSum", "x", "t", keepdims=0), n("Greater", "t zero", "b"),
             n("If", "b", then_branch=body([n("Add", "x k", "p")], "", "p"),
               else_branch=body([n("Sub", "x k", "q")], "", "q"))]
    return case(nodes, {"x": rand(3)}, constants={"zero": np.float32(0), "k": f32(1)}, opset=11, ir=3, oracle="onnx")


@report("onnx/onnx-mlir 41", "a file of ONNX 1.0 whose attributes carry no type")
def untyped_attributes():
    made = case([n("Conv", "x w", "c", pads=[1, 1, 1, 1], kernel_shape=[3, 3]), n("Relu", "c", "y")],
        {"x": rand(1, 1, 4, 4), "w": rand(2, 1, 3, 3)},
                opset=8)
    made.oracle = {"y": ReferenceEvaluator(made.model).run(None, made.feeds)[0]}
    for node in made.model.graph.node:
        for attribute in node.attribute:
            attribute.ClearField("type")
    return made


@report("AlexMontgomerie/fpgaconvnet-hls 7", "standard nodes with attributes that the standard does not define")
def unknown_attributes():
    return case([n("Conv", "x w", "c", name="Conv_1", weight_width=16, block_floating_point=0), n("Relu", "c", "y")],
                {"x": rand(1, 1, 4, 4)}, constants={"w": rand(2, 1, 3, 3)}, says=None)


@report("onnx/tensorflow-onnx 1645", "a TensorFlow op that the converter left in the standard domain",
        "refused as a custom op, which it is not")
def unknown_op():
    return case([n("AsString", "x", "y", name="model/encoding/AsString")], {"x": i64(1, 2)}, "y:str", opset=9,
                says=("model/encoding/AsString", "outside the ONNX standard"))


@report("onnx/sklearn-onnx 958", "Sub of f32 and f64 columns (a pipeline given columns of two types)")
def mixed_types():
    return case([n("Sub", "x mean", "y", name="Su_Sub")], {"x": rand(2, 3)}, constants={"mean": np.ones(3)},
                says=("Su_Sub", "f64"))


@report("microsoft/onnxruntime 11091", "Constant by value_floats, value_ints, value_float, value_int")
def constant_lists():
    nodes = [n("Constant", "", "a", value_floats=[1.5, 2.5]), n("Constant", "", "b", value_ints=[2]),
             n("Constant", "", "c", value_float=.5), n("Constant", "", "d", value_int=3), n("Cast", "d", "df", to=1),
             n("Mul", "x a", "p"), n("Mul", "p c", "q"), n("Add", "q df", "r"), n("Reshape", "r b", "y")]
    return case(nodes, {"x": rand(1, 2)}, opset=13)


def sparse(name, dims, values, indices):
    index = np.asarray(indices, np.int64)
    return helper.make_sparse_tensor(helper.make_tensor(name, TensorProto.FLOAT, [len(values)], values),
                                     helper.make_tensor("i", TensorProto.INT64, index.shape, index.ravel()), dims)


@report("microsoft/onnxruntime 24530", "Constant by sparse_value")
def constant_sparse():
    node = n("Constant", "", "w", sparse_value=sparse("s", [3, 4], [1.0, -2.0, 3.0], [0, 5, 11]))
    return case([node, n("MatMul", "x w", "y")], {"x": rand(2, 3)}, opset=13)


@report("microsoft/onnxruntime 31730", "a sparse initializer as a matrix, indices as pairs")
def sparse_initializer():
    return case([n("MatMul", "w x", "y")], {"x": rand(4, 2)}, opset=13,
                sparse=[sparse("w", [2, 4], [1.0, 2.0, 3.0, 4.0], [[0, 0], [0, 2], [1, 1], [1, 3]])])


@report("microsoft/onnxruntime 19681", "a sparse initializer whose indices lie outside its shape")
def sparse_outside():
    return case([n("MatMul", "w x", "y")], {"x": rand(4, 2)}, opset=13, says=("w", "99"),
                sparse=[sparse("w", [2, 4], [1.0, 2.0], [0, 99])])


@report("ARM-software/armnn 184",
        "constants in typed fields instead of raw bytes: f16 as integers, bool, u64, f64, i8")
def typed_fields():
    def made(name, kind, values, field):
        tensor = TensorProto(name=name, data_type=TYPES[kind], dims=[len(values)])
        getattr(tensor, field).extend(values)
        return tensor
    half = np.array([1.5, -2], np.float16).view(np.uint16)
    constants = {"h": made("h", "f16", half.tolist(), "int32_data"), "b": made("b", "bool", [1, 0], "int32_data"),
                 "u": made("u", "u64", [2 ** 63, 5], "uint64_data"), "d": made("d", "f64", [.1, 1e300], "double_data"),
                 "c": made("c", "i8", [-1, 127], "int32_data"), "q": made("q", "u32", [2 ** 31, 7], "uint64_data")}
    nodes = [n("Sub", "x x", "z"), n("Cast", "h", "hf", to=1), n("Where", "b x z", "w"), n("Add", "w hf", "y"),
             *(n("Identity", name, name + "2") for name in "udcq")]
    return case(nodes, {"x": rand(2)}, "y u2:u64 d2:f64 c2:i8 q2:u32", constants)


@report("opencv/opencv 18626", "initializers without elements and data, concatenated with others")
def empty_initializer():
    empty = TensorProto(name="e", data_type=TensorProto.FLOAT, dims=[0, 3])
    return case([n("Concat", "x e", "c", axis=0), n("Relu", "c", "y")], {"x": rand(2, 3)}, constants={"e": empty})


@report("microsoft/onnxruntime 15206", "OptionalGetElement and OptionalHasElement of a plain tensor (opset 18)")
def optional_tensor():
    return case([n("OptionalGetElement", "x", "y"), n("OptionalHasElement", "x", "h")], {"x": rand(4)}, "y h:bool",
                opset=18)


@report("microsoft/onnxruntime 22890",
        "an empty Optional, OptionalHasElement, and an If that reads the optional only if it has an element",
        "refused while running: the empty optional had no type")
def optional_empty():
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [1])
    nodes = [n("Optional", "", "o", type=kind), n("OptionalHasElement", "o", "has"),
             n("If", "has", then_branch=body([n("OptionalGetElement", "o", "p")], "", "p"),
               else_branch=body([n("Relu", "x", "q")], "", "q"))]
    return case(nodes, {"x": f32(-1)}, opset=18)


@report("apache/tvm 17869", "SequenceErase at a constant position, then SequenceLength and SequenceAt")
def sequence_erase():
    nodes = [n("SequenceConstruct", "a b c", "s"), n("SequenceErase", "s p", "t"), n("SequenceLength", "t", "k"),
             n("SequenceAt", "t q", "y"), n("ConcatFromSequence", "t", "z", axis=0)]
    return case(nodes, {"a": rand(1, 2), "b": rand(2, 2), "c": rand(3, 2)}, "k:i64 y z",
                {"p": np.array(-2), "q": np.array(-1)},
                opset=13)


@report("onnxsim/onnxsim 672", "a graph converted to bf16 between Casts, with weights in bf16")
def bfloat():
    nodes = [n("Cast", "x", "h", to=TensorProto.BFLOAT16), n("Identity", "h", "i"), n("Cast", "i", "y", to=1)]
    return case(nodes, {"x": rand(5, 3)}, opset=13)


@report("onnx/onnx 7222",
        "weights in float8 through QuantizeLinear and DequantizeLinear, with Cast that does not saturate")
def float_eight():
    zero = helper.make_tensor("z", TensorProto.FLOAT8E4M3FN, [], [0.0])
    nodes = [n("QuantizeLinear", "x s z", "q"), n("DequantizeLinear", "q s z", "y"),
             n("Cast", "x", "c", to=TensorProto.FLOAT8E5M2, saturate=0), n("Cast", "c", "w", to=1)]
    return case(nodes, {"x": rand(4, 4) * 100}, "y w", {"s": np.float32(.5), "z": zero}, opset=19)


@report("microsoft/onnxruntime 25378", "Cast of u8 to u4 and i4 at run time, then DequantizeLinear")
def cast_four_bits():
    nodes = [n("Cast", "x", "u", to=TensorProto.UINT4), n("DequantizeLinear", "u s", "y"),
        n("Cast", "w", "i", to=TensorProto.INT4),
             n("DequantizeLinear", "i s", "z")]
    return case(nodes, {"x": np.array([0, 7, 15], np.uint8), "w": np.array([-8, 7, 3], np.int8)}, "y z",
                {"s": np.float32(.5)},
                opset=21, oracle={"y": f32(0, 3.5, 7.5), "z": f32(-4, 3.5, 1.5)})


@report("openvinotoolkit/openvino 31006", "QuantizeLinear to i4 and u4 of an odd number of values")
def quantize_four_bits():
    zero = helper.make_tensor("z", TensorProto.UINT4, [], [8])
    nodes = [n("QuantizeLinear", "x s z", "q"), n("DequantizeLinear", "q s z", "y"),
             n("QuantizeLinear", "x s", "r", output_dtype=TensorProto.INT4), n("DequantizeLinear", "r s", "w")]
    return case(nodes, {"x": rand(3, 5)}, "y w", {"s": np.float32(.25), "z": zero}, opset=21)


@report("microsoft/onnxruntime 25631", "ConvInteger with weights of 4 bits")
def conv_four_bits():
    weights = helper.make_tensor("w", TensorProto.UINT4, [1, 1, 2, 2], [1, 2, 3, 4])
    return case([n("ConvInteger", "x w", "y", name="node_Conv_0_quant")], {"x": np.ones((1, 1, 3, 3), np.uint8)},
                "y:i32",
                {"w": weights}, opset=21, says=("node_Conv_0_quant", "u4"))


@report("microsoft/onnxruntime 17718", "per-channel weights and bias in QDQ form along axis 0 of Conv")
def qdq_per_channel():
    w = np.arange(-27, 27).reshape(2, 3, 3, 3).astype(np.int8)
    nodes = [n("QuantizeLinear", "x s z", "q"), n("DequantizeLinear", "q s z", "d"),
        n("DequantizeLinear", "w ws wz", "wd", axis=0),
             n("DequantizeLinear", "b bs bz", "bd", axis=0), n("Conv", "d wd bd", "c"),
             n("QuantizeLinear", "c s z", "o"),
             n("DequantizeLinear", "o s z", "y")]
    return case(nodes, {"x": rand(1, 3, 5, 5)}, opset=13,
                constants={"s": np.float32(.1), "z": np.uint8(128), "w": w, "ws": f32(.02, .03),
                    "wz": np.zeros(2, np.int8),
                           "b": np.array([100, -50], np.int32), "bs": f32(.002, .003), "bz": np.zeros(2, np.int32)},
                tolerance=.02)


@report("microsoft/onnxruntime 8890", "QLinearConv with another zero point for each channel of its weights")
def qlinear_zero_points():
    return case([n("QLinearConv", "x s z w ws wz s z", "y", name="Conv_5")],
                {"x": np.arange(50, dtype=np.uint8).reshape(1, 2, 5, 5)}, "y:u8",
                {"s": np.float32(.1), "z": np.uint8(12), "w": np.arange(100, 136, dtype=np.uint8).reshape(2, 2, 3, 3),
                 "ws": f32(.01, .02), "wz": np.array([110, 130], np.uint8)}, oracle="onnx", opset=13)


@report("onnx/onnx 3967", "QLinearConv whose weight zero point is computed at run time")
def qlinear_runtime_zero():
    return case([n("Identity", "zero", "wz"), n("QLinearConv", "x s z w ws wz s z", "y", name="Conv_5")],
                {"x": np.arange(25, dtype=np.uint8).reshape(1, 1, 5, 5), "zero": np.uint8(3)}, "y:u8",
                {"s": np.float32(.1), "z": np.uint8(12), "w": np.arange(9, dtype=np.uint8).reshape(1, 1, 3, 3),
                "ws": np.float32(.1)},
                oracle="onnx", opset=13)


@report("microsoft/onnxruntime 3820", "QuantizeLinear and DequantizeLinear without a zero point")
def quantize_no_zero():
    return case([n("QuantizeLinear", "x s", "q"), n("DequantizeLinear", "q s", "y")], {"x": np.abs(rand(6))}, "q:u8 y",
                {"s": np.float32(.02)}, opset=13)


@report("huggingface/transformers.js 1635",
        "one quantised table read by Gather and, transposed, by MatMul (tied embedding)")
def tied_embedding():
    nodes = [n("DequantizeLinear", "t s z", "e", axis=0), n("Gather", "e i", "h"), n("Transpose", "e", "w",
        perm=[1, 0]),
             n("MatMul", "h w", "y")]
    table = (np.arange(11 * 8) % 251 - 120).astype(np.int8).reshape(11, 8)
    return case(nodes, {"i": i64([3, 0, 10])},
                constants={"t": table, "s": np.abs(rand(11)), "z": np.zeros(11, np.int8)}, opset=13)


@report("microsoft/onnxruntime 26382", "Max, Min, BitShift, Tile, Unique and Relu of small integers")
def small_integers():
    a, b = np.array([200, 3, 7], np.uint8), np.array([1, 9, 2], np.uint8)
    nodes = [n("Max", "a b", "p"), n("Min", "a b", "q"), n("BitShift", "a b", "r", direction="LEFT"),
        n("Tile", "a k", "t")]
    return case(nodes, {"a": a, "b": b}, "p:u8 q:u8 r:u8 t:u8", {"k": i64(2)}, opset=13, oracle="onnx")


@report("microsoft/onnxruntime 16654", "ArgMax, ReduceMax, ReduceMin, Clip, Sign and TopK of 64-bit integers")
def wide_integers():
    nodes = [n("ArgMax", "x", "a", axis=1), n("ReduceMax", "x", "b", axes=[1]), n("ReduceMin", "x", "c", axes=[0]),
             n("Clip", "x lo hi", "d"), n("Sign", "x", "e"), n("TopK", "x k", "f g")]
    x = np.array([[2 ** 60, -3, 2 ** 60 + 1], [5, 6, -2 ** 62]])
    return case(nodes, {"x": x}, "a:i64 b:i64 c:i64 d:i64 e:i64 f:i64 g:i64",
                {"lo": np.array(-4), "hi": np.array(6), "k": i64(2)},
                opset=17, oracle="onnx")


@report("microsoft/onnxruntime 5908", "Unique of 32-bit integers, with all its outputs")
def unique_integers():
    return case([n("Unique", "x", "y i j k", sorted=1)], {"x": np.array([2, 1, 1, 3, 4, 3], np.int32)},
                "y:i32 i:i64 j:i64 k:i64",
                oracle="onnx")


TREE = dict(nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0],
nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
            nodes_values=[.5, 0.0, 0.0], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0])


@report("microsoft/onnxruntime 27533",
        "TreeEnsembleClassifier, LOGISTIC, of two classes by one weight a leaf, none negative")
def tree_logistic():
    node = n("TreeEnsembleClassifier", "x", "l p", "ai.onnx.ml", class_treeids=[0, 0], class_nodeids=[1, 2],
        class_ids=[0, 0],
             class_weights=[.3, .9], classlabels_int64s=[0, 1], post_transform="LOGISTIC", **TREE)
    return case([node], {"x": f32([.1, 0], [.9, 0])}, "l:i64 p", ml=3)


@report("microsoft/onnxruntime 1007", "TreeEnsembleClassifier of two classes with base_values")
def tree_base():
    node = n("TreeEnsembleClassifier", "x", "l p", "ai.onnx.ml", class_treeids=[0, 0, 0, 0], class_nodeids=[1, 1, 2, 2],
             class_ids=[0, 1, 0, 1], class_weights=[.3, -.3, -.9, .9], classlabels_int64s=[7, 9], base_values=[.2, -.2],
             post_transform="SOFTMAX", **TREE)
    return case([node], {"x": f32([.1, 0], [.9, 0])}, "l:i64 p", ml=3, oracle="onnx")


@report("microsoft/onnxruntime 513", "TreeEnsembleRegressor with PROBIT, MIN and a base value")
def tree_probit():
    node = n("TreeEnsembleRegressor", "x", "y", "ai.onnx.ml", target_treeids=[0, 0], target_nodeids=[1, 2],
        target_ids=[0, 0],
             target_weights=[.3, .6], n_targets=1, base_values=[.1], post_transform="PROBIT", **TREE)
    return case([node], {"x": f32([.1, 0], [.9, 0])}, ml=3)


@report("sonos/tract 732", "decision tree classifier with text labels and probabilities (scikit-learn)")
def tree_labels():
    node = n("TreeEnsembleClassifier", "x", "l p", "ai.onnx.ml", class_treeids=[0] * 4, class_nodeids=[1, 1, 2, 2],
             class_ids=[0, 1, 0, 1], class_weights=[.25, .75, 1.0, 0.0], classlabels_strings=["no", "yes"], **TREE)
    return case([node], {"x": f32([.1, 0], [.9, 0])}, "l:str p", ml=1, opset=12)


@report("microsoft/onnxruntime 612", "TfIdfVectorizer on texts that are empty")
def tfidf_empty():
    node = n("TfIdfVectorizer", "x", "y", mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=0,
        ngram_counts=[0, 2],
             ngram_indexes=[0, 1, 2], pool_strings=["a", "b", "a", "b"])
    return case([node], {"x": np.array([["a", "b", ""], ["", "", ""]])}, inputs="x:str[n,3]")


@report("microsoft/onnxruntime 4201", "StringNormalizer that drops stop words before n-grams are counted")
def stop_words():
    nodes = [n("StringNormalizer", "x", "s", case_change_action="NONE", is_case_sensitive=1, stopwords=["is", "the"]),
             n("TfIdfVectorizer", "s", "y", mode="TF", min_gram_length=2, max_gram_length=2, max_skip_count=0,
             ngram_counts=[0, 0],
               ngram_indexes=[0, 1], pool_strings=["this", "first", "first", "one"])]
    return case(nodes, {"x": np.array(["this", "is", "the", "first", "one"])}, "s:str y", inputs="x:str[n]")


@report("onnx/tensorflow-onnx 1886",
        "text split into words and looked up: StringSplit, LabelEncoder with a default (opset 20)")
def words():
    nodes = [n("StringSplit", "x", "w k", delimiter=" "),
             n("LabelEncoder", "w", "y", "ai.onnx.ml", keys_strings=["this", "document", ""], values_int64s=[2, 3, 0],
             default_int64=1)]
    return case(nodes, {"x": np.array(["this document is boring", "document this"])}, "y:i64 k:i64", opset=20, ml=4,
                inputs="x:str[n]")
