"""Reports on kinds of values: sequences, optionals, text, 64-bit floats, bytes; old opsets; classical models."""
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from build import body, case, f32, i64, n, rand, report

LARGE = np.array(2 ** 63 - 1)
TRUE = np.array(True)


@report("onnx/onnx 4892", "SequenceMap whose body reads a value of the enclosing graph")
def map_outer():
    a, b = rand(2, 3), rand(1, 4)
    inner = body([n("Mul", "e two", "m")], "e:f32", "m:f32")
    nodes = [n("SequenceConstruct", "a b", "s"), n("SequenceMap", "s", "t", body=inner), n("SequenceAt", "t one", "y")]
    return case(nodes, {"a": a, "b": b}, constants={"two": np.float32(2), "one": np.array(1)}, opset=17,
                oracle={"y": b * 2})


@report("onnx/tutorials 265", "SequenceMap over pictures of several sizes, each brought to one size, then stacked")
def map_pictures():
    inner = body([n("Resize", "e - - size", "r", mode="linear")], "e:f32[1,h,w] k:f32[1]", "m:f32[1,4,4]",
                 {"size": i64(1, 4, 4)})
    inner.node.append(n("Mul", "r k", "m"))
    nodes = [n("SequenceConstruct", "a b", "s"), n("SequenceMap", "s k", "t", body=inner),
             n("ConcatFromSequence", "t", "y", axis=0, new_axis=1)]
    return case(nodes, {"a": rand(1, 3, 5), "b": rand(1, 6, 2), "k": f32(.5)}, opset=18)


@report("microsoft/onnxruntime 8999", "Loop that collects its iteration numbers in a sequence, then an If on one of them")
def loop_sequence():
    step = body([n("SequenceInsert", "s i", "t"), n("Identity", "c", "go")], "i:i64[] c:bool[] s:seq(i64)[]",
                "go:bool[] t:seq(i64)[]")
    then = body([n("Add", "x x", "p")], "", "p")
    other = body([n("Neg", "x", "q")], "", "q")
    nodes = [n("SequenceEmpty", "", "s0", dtype=7), n("Loop", "m t0 s0", "s", body=step),
        n("SequenceAt", "s three", "k"),
             n("Less", "k five", "b"), n("If", "b", then_branch=then, else_branch=other),
             n("ConcatFromSequence", "s", "all", axis=0, new_axis=1)]
    return case(nodes, {"x": rand(2, 4)}, "y all:i64",
                {"m": np.array(10), "t0": TRUE, "three": np.array(-7), "five": np.array(5)},
                opset=13)


@report("onnx/onnx 3943", "Loop that carries a sequence and stacks a scan output beside it")
def loop_sequence_scan():
    step = body([n("Add", "i one", "i0"), n("Unsqueeze", "i0 ax", "i1"), n("Slice", "x z i1", "part"),
        n("SequenceInsert", "s part", "t"),
                 n("ReduceSum", "part", "total", keepdims=0), n("Identity", "c", "go")], "i:i64[] c:bool[] s:seq(f32)",
                "go:bool[] t:seq(f32) total:f32[]")
    nodes = [n("SequenceEmpty", "", "s0"), n("Loop", "m t0 s0", "s totals", body=step),
        n("ConcatFromSequence", "s", "y", axis=0)]
    return case(nodes, {"x": rand(4)}, "y totals", {"m": np.array(3), "t0": TRUE, "z": i64(0), "one": np.array(1),
                "ax": i64(0)}, opset=13)


@report("microsoft/onnxruntime 1272", "Loop of 0 iterations whose stacked output is concatenated with others")
def loop_none():
    step = body([n("Identity", "x", "row"), n("Identity", "c", "go")], "i:i64[] c:bool[]", "go:bool[] row:f32[3]")
    return case([n("Loop", "m t", "rows", body=step), n("Unsqueeze", "x ax", "one"),
                n("Concat", "one rows", "y", axis=0)],
                {"m": np.array(0), "x": rand(3)}, constants={"t": TRUE, "ax": i64(0)}, opset=13)


@report("microsoft/onnxruntime 255", "Loop without a trip count or initial condition, ended by its body")
def loop_bare():
    step = body([n("Add", "s one", "t"), n("Less", "t five", "go")], "i:i64[] c:bool[] s:f32", "go:bool[] t:f32")
    return case([n("Loop", "- - x", "y", body=step)], {"x": np.float32(.5)},
                constants={"one": np.float32(1), "five": np.float32(5)}, opset=13)


@report("microsoft/onnxruntime 31978",
        "Loop whose trip count is the largest integer, ended by its condition")
def loop_huge():
    step = body([n("Add", "s one", "t"), n("Less", "t five", "go"), n("Identity", "t", "o")],
        "i:i64[] c:bool[] s:f32[1]",
                "go:bool[] t:f32[1] o:f32[1]")
    return case([n("Loop", "m start x", "y rows", body=step)], {"x": f32(.5), "m": LARGE}, "y rows",
                {"one": f32(1), "five": f32(5), "start": TRUE}, opset=13)


@report("microsoft/onnxruntime 11717", "OptionalHasElement with an If on it, the optional made from a value")
def optional_full():
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    nodes = [n("Optional", "x", "o", type=kind), n("OptionalHasElement", "o", "has"),
             n("If", "has", then_branch=body([n("OptionalGetElement", "o", "p")], "", "p"),
               else_branch=body([n("Neg", "x", "q")], "", "q"))]
    return case(nodes, {"x": f32(1, -1)}, "y has:bool", opset=15)


@report("microsoft/onnxruntime 12134", "a graph input of an optional type, given",
        "refused by the command line; Python took None only")
def optional_input():
    nodes = [n("OptionalHasElement", "o", "has"), n("OptionalGetElement", "o", "p"), n("Relu", "p", "y")]
    return case(nodes, {"o": f32(1, -1)}, "y has:bool", inputs="o:opt(f32)[2]", opset=18)


@report("microsoft/onnxscript 280", "a graph input of an optional type that is left out: a bound of clamp",
        "refused by the command line")
def optional_left_out():
    nodes = [n("OptionalHasElement", "o", "has"),
             n("If", "has", then_branch=body([n("OptionalGetElement", "o", "limit"), n("Min", "x limit", "p")], "",
             "p"),
               else_branch=body([n("Identity", "x", "q")], "", "q"))]
    x = f32(1, -1)
    made = case(nodes, {"x": x, "o": x}, "y has:bool", inputs="x:f32[2] o:opt(f32)[2]", opset=18,
        oracle={"y": x, "has": np.array(False)})
    made.feeds = {"x": x}
    return made


@report("PINTO0309/onnx2tf 372", "an optional of a sequence, emptied and read by position")
def optional_sequence():
    nodes = [n("SequenceConstruct", "a b", "s"), n("Optional", "s", "o"), n("OptionalGetElement", "o", "t"),
        n("SequenceAt", "t k", "y"),
             n("OptionalHasElement", "o", "has")]
    return case(nodes, {"a": rand(2), "b": rand(3)}, "y has:bool", {"k": np.array(-1)}, opset=18)


@report("microsoft/onnxruntime 927", "Split of text")
def split_text():
    return case([n("Split", "x", "a b", axis=1)], {"x": np.array([["a", "bé", "", "日本"]])}, "a:str b:str", opset=11)


@report("microsoft/onnxruntime 14511", "Tile, Expand, Slice, Concat, Gather, Transpose, Reshape and Squeeze of text")
def move_text():
    nodes = [n("Tile", "x r", "a"), n("Expand", "x e", "b"), n("Slice", "x s t", "c"), n("Concat", "x x", "d", axis=0),
        n("Gather", "x i", "e1", axis=1),
             n("Transpose", "x", "f"), n("Reshape", "x m", "g"), n("Squeeze", "x z", "h")]
    return case(nodes, {"x": np.array([["a", "bé", "日本"]])}, "a:str b:str c:str d:str e1:str f:str g:str h:str",
                {"r": i64(2, 2), "e": i64(2, 3), "s": i64(0, 1), "t": i64(1, 3), "i": i64(-1, 0), "m": i64(-1),
                "z": i64(0)}, opset=13)


@report("onnx/tensorflow-onnx 2100", "Where and Equal of text, and a table that turns text into text")
def choose_text():
    nodes = [n("Equal", "x k", "q"), n("Where", "q d x", "w"),
             n("LabelEncoder", "w", "y", "ai.onnx.ml", keys_strings=["a", "none"], values_strings=["alpha", "nothing"],
             default_string="?")]
    return case(nodes, {"x": np.array(["a", "b", ""])}, "w:str y:str",
                {"k": np.array([""]).astype(object), "d": np.array(["none"]).astype(object)},
                opset=19, ml=2)


@report("onnx/onnx 5339", "StringConcat with broadcasting, RegexFullMatch (opset 20)")
def join_text():
    return case([n("StringConcat", "x s", "y"), n("RegexFullMatch", "y", "m", pattern=r"\w+@[a-z]+\.(com|net)")],
                {"x": np.array([["ann", "bob"], ["c d", ""]]), "s": np.array(["@mail.com", "@mail.net"])},
                "y:str m:bool", opset=20)


@report("onnx/onnx 5574", "Cast of floats and integers, including NaN and infinities, to text and back")
def cast_text():
    nodes = [n("Cast", "x", "s", to=8), n("Cast", "s", "f", to=1), n("Cast", "i", "t", to=8), n("Cast", "t", "j", to=7)]
    return case(nodes, {"x": f32(1, .5, 1e-7, 1234.5, np.nan, np.inf, -np.inf), "i": i64(0, -7, 2 ** 60)},
                "s:str f t:str j:i64", opset=13,
                oracle="onnx")


@report("onnx/onnx 3162", "Cast of a word to a float")
def cast_word():
    return case([n("Cast", "x", "y", to=1, name="Cast_text")], {"x": np.array(["1.5", "ERROR"])}, opset=13,
                says=("Cast_text", "ERROR"))


@report("onnx/onnx 2398",
        "MaxUnpool with output_shape, fed with MaxPool's indices, sizes that its window does not divide",
        "refused, and elements misplaced where the indices were small")
def unpool():
    nodes = [n("MaxPool", "x", "p i", kernel_shape=[2, 2], strides=[2, 2]), n("Shape", "x", "s"),
             n("MaxUnpool", "p i s", "y", kernel_shape=[2, 2], strides=[2, 2])]
    return case(nodes, {"x": rand(1, 2, 5, 7)}, opset=13)


@report("microsoft/onnxruntime 2175", "BatchNormalization with spatial 0, a scale per pixel (MXNet)")
def batch_norm_pixels():
    return case([n("BatchNormalization", "x s b m v", "y", spatial=0)], {"x": rand(2, 2, 3, 3)}, opset=7,
                constants={"s": rand(2, 3, 3), "b": rand(2, 3, 3), "m": rand(2, 3, 3), "v": np.abs(rand(2, 3, 3))})


@report("microsoft/onnxruntime 16867", "BatchNormalization left in training mode, with its three outputs")
def batch_norm_training():
    return case([n("BatchNormalization", "x s b m v", "y rm rv", training_mode=1, momentum=.8)],
                {"x": rand(4, 3, 2, 2)}, "y rm rv", opset=15,
                constants={"s": rand(3), "b": rand(3), "m": rand(3), "v": np.abs(rand(3))}, oracle="onnx")


@report("microsoft/onnxruntime 11453", "Conv, MaxPool, BatchNormalization and Gemm in 64-bit floats")
def doubles():
    nodes = [n("Conv", "x w", "c", pads=[1, 1, 1, 1]), n("BatchNormalization", "c s b m v", "k"), n("Relu", "k", "r"),
             n("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[1, 1]), n("Flatten", "p", "f"), n("Gemm", "f g", "y")]
    wide = {k: v.astype(np.float64) for k, v in {"w": rand(3, 2, 3, 3), "s": rand(3), "b": rand(3), "m": rand(3),
                                                 "v": np.abs(rand(3)), "g": rand(27, 2)}.items()}
    x = rand(1, 2, 4, 4)
    # ONNX Runtime has these kernels for f32 only
    single = case(nodes, {"x": x}, constants={k: v.astype(np.float32) for k, v in wide.items()}, opset=13)
    y = onnxruntime.InferenceSession(single.model.SerializeToString()).run(None, single.feeds)[0]
    return case(nodes, {"x": x.astype(np.float64)}, "y:f64", wide, opset=13, oracle={"y": y.astype(np.float64)})


@report("openvinotoolkit/openvino 33570", "Resize and ReduceMean in 64-bit floats")
def double_resize():
    return case([n("Resize", "x - s", "r", mode="linear"), n("ReduceMean", "r", "y", axes=[2, 3])],
                {"x": rand(1, 2, 3, 3).astype(np.float64)}, "y:f64",
                {"s": f32(1, 1, 2, 2)}, opset=13, oracle="onnx")


@report("microsoft/onnxruntime 28339", "LSTM in 64-bit floats")
def double_lstm():
    wide = {k: rand(*s).astype(np.float64) for k, s in {"w": (1, 12, 2), "r": (1, 12, 3), "b": (1, 24)}.items()}
    return case([n("LSTM", "x w r b", "y yh", hidden_size=3)], {"x": rand(4, 2, 2).astype(np.float64)}, "y:f64 yh:f64",
                wide, opset=14, oracle="onnx")


@report("openvinotoolkit/openvino 37770",
        "GridSample of volumes: linear, nearest, with reflection and borders (opset 20)")
def grid_volume():
    grid = (rand(1, 2, 3, 2, 3) * .9).astype(np.float32)
    nodes = [n("GridSample", "x g", "a", mode="linear", padding_mode="zeros"),
        n("GridSample", "x g", "b", mode="nearest", padding_mode="border"),
             n("GridSample", "x g", "c", mode="linear", padding_mode="reflection", align_corners=1)]
    return case(nodes, {"x": rand(1, 2, 3, 4, 5), "g": grid}, "a b c", opset=20)


@report("onnx/sklearn-onnx 793", "Normalizer by maximum of rows whose largest magnitude is negative, and of one axis")
def normalizer():
    return case([n("Normalizer", "x", "y", "ai.onnx.ml", norm="MAX"), n("Normalizer", "v", "w", "ai.onnx.ml",
                norm="L2")],
                {"x": f32([1, -4, 2], [-1, -2, -3]), "v": f32(3, 4)}, "y w", ml=1)


@report("microsoft/onnxruntime 8373", "Imputer of NaN by a value per column, and of an integer")
def imputer():
    return case([n("Imputer", "x", "y", "ai.onnx.ml", imputed_value_floats=[1.0, 2.0],
                replaced_value_float=float("nan")),
                 n("Imputer", "i", "z", "ai.onnx.ml", imputed_value_int64s=[9], replaced_value_int64=-1)],
                {"x": f32([np.nan, 5], [7, np.nan]), "i": i64([-1, 3], [4, -1])}, "y z:i64", ml=1)


@report("openvinotoolkit/openvino 4462",
        "Add, Mul and Sub of opset 6 with broadcast and axis, a second operand of two axes")
def old_broadcast():
    nodes = [n("Add", "x b", "a", broadcast=1, axis=1), n("Mul", "a b", "m", broadcast=1, axis=1),
        n("Sub", "m c", "y", broadcast=1)]
    x, b, c = rand(2, 3, 4, 5), rand(3, 4), rand(5)
    wide = b.reshape(3, 4, 1)
    return case(nodes, {"x": x}, constants={"b": b, "c": c}, opset=6, oracle={"y": (x + wide) * wide - c})


@report("microsoft/onnxruntime 462", "PRelu whose slopes per channel lack their axes of one (ArcFace from MXNet)")
def prelu_wrong():
    return case([n("PRelu", "x s", "y", name="relu0")], {"x": rand(1, 6, 4, 4)}, constants={"s": rand(6)}, opset=8,
                says=("relu0",))


@report("microsoft/onnxruntime 8169", "dynamically quantised MatMul on open sizes")
def dynamic_quantised():
    nodes = [n("DynamicQuantizeLinear", "x", "q s z"), n("MatMulInteger", "q w z wz", "p"), n("Cast", "p", "c", to=1),
        n("Mul", "s ws", "k"),
             n("Mul", "c k", "h"), n("Add", "h b", "y")]
    return case(nodes, {"x": rand(2, 5, 8)},
                constants={"w": (rand(8, 6) * 40).astype(np.int8), "wz": np.int8(0), "ws": np.float32(.02),
                    "b": rand(6)},
                inputs="x:f32[batch,sequence,8]", opset=13)


@report("NVIDIA/retinanet-examples 203", "a picture of bytes, channels last, normalised in the model")
def bytes_in():
    nodes = [n("Cast", "x", "f", to=1), n("Sub", "f m", "d"), n("Div", "d s", "q"), n("Transpose", "q", "t",
        perm=[0, 3, 1, 2]), n("Conv", "t w", "y")]
    return case(nodes, {"x": np.arange(75, dtype=np.uint8).reshape(1, 5, 5, 3)}, inputs="x:u8[1,h,w,3]",
                constants={"m": f32(123, 116, 103), "s": f32(58, 57, 57), "w": rand(2, 3, 3, 3)})


@report("dotnet/machinelearning 4646", "sizes with neither a number nor a name, random forest with labels")
def unnamed_sizes():
    trees = dict(nodes_treeids=[0, 0, 0, 1], nodes_nodeids=[0, 1, 2, 0], nodes_featureids=[0, 0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
                 nodes_values=[.5, 0.0, 0.0, 0.0], nodes_truenodeids=[1, 0, 0, 0], nodes_falsenodeids=[2, 0, 0, 0],
                 class_treeids=[0] * 6 + [1] * 3, class_nodeids=[1, 1, 1, 2, 2, 2, 0, 0, 0], class_ids=[0, 1, 2] * 3,
                 class_weights=[.5, .0, .0, .0, .25, .25, .1, .2, .2], classlabels_int64s=[0, 1, 2],
                 post_transform="NONE")
    return case([n("TreeEnsembleClassifier", "x", "l p", "ai.onnx.ml", **trees)], {"x": f32([.1, 0], [.9, 0],
                [.5, 1])}, "l:i64 p:f32[,3]",
                inputs="x:f32[,2]", ml=1, opset=11)


@report("dotnet/machinelearning 3876",
        "classifier of Azure Custom Vision: a label of text by ArrayFeatureExtractor of ArgMax")
def custom_vision():
    labels = np.array([["cat", "dog", "none"]]).astype(object)
    nodes = [n("GlobalAveragePool", "data", "g"), n("Flatten", "g", "f"), n("Softmax", "f", "loss"),
        n("ArgMax", "loss", "k", axis=1),
             n("ArrayFeatureExtractor", "labels k", "classLabel", "ai.onnx.ml")]
    return case(nodes, {"data": rand(1, 3, 4, 4)}, "classLabel:str loss", {"labels": labels}, ml=1, opset=10)


@report("microsoft/onnxscript 1638", "DFT of a column of two axes along axis 0, one-sided, with its length (opset 20)")
def dft_column():
    return case([n("DFT", "x k a", "y", onesided=1)], {"x": rand(10, 1)},
                constants={"k": np.array(10), "a": np.array(0)}, opset=20)


@report("opencv/opencv 26179",
        "sizes of a picture computed into scales: Shape, Gather, ReduceMax, Div, Floor, Concat, Resize (SSD)")
def detector_sizes():
    nodes = [n("Shape", "x", "s"), n("Slice", "s two four", "hw"), n("Cast", "hw", "f", to=1),
        n("ReduceMax", "f", "m", keepdims=1),
             n("Div", "ten m", "q"), n("Mul", "f q", "t"), n("Floor", "t", "fl"), n("Cast", "fl", "i", to=7),
             n("Slice", "s zero two", "nc"),
             n("Concat", "nc i", "z", axis=0), n("Resize", "x - - z", "y", mode="linear")]
    return case(nodes, {"x": rand(1, 2, 6, 8)}, inputs="x:f32[1,2,h,w]", opset=13,
                constants={"two": i64(2), "four": i64(4), "zero": i64(0), "ten": f32(10)})


@report("ultralytics/ultralytics 13048", "a text table of batch 1, repeated for the batch of images (YOLO-World)")
def batch_of_texts():
    nodes = [n("Shape", "x", "s"), n("Gather", "s zero", "b"), n("Concat", "b minus", "shape", axis=0),
        n("Expand", "texts shape", "t"),
             n("Reshape", "t r", "u"), n("MatMul", "x u", "y")]
    return case(nodes, {"x": rand(3, 5, 4)}, inputs="x:f32[batch,5,4]",
                constants={"zero": i64(0), "minus": i64(4, 6), "texts": rand(1, 4, 6), "r": i64(0, -1, 6)})


@report("deepinsight/insightface 2705",
        "declared output sizes that differ from the actual ones (SCRFD at another input size)")
def declared_sizes():
    return case([n("Conv", "x w", "c", strides=[2, 2]), n("Reshape", "c r", "y")], {"x": rand(1, 3, 9, 9)},
                "y:f32[12800,2]",
                {"w": rand(2, 3, 3, 3), "r": i64(-1, 2)}, inputs="x:f32[1,3,?,?]")
