"""Reports on files and on what is asked: weights beside the model, names, wrong inputs, broken files, many at once."""
import numpy as np

from build import Case, body, case, external, f32, i64, model, n, rand, report

MASK = np.array([[1, 1, 0, 1, 0], [1, 0, 1, 1, 1], [0, 1, 1, 1, 1]], bool)


def weights(count=64):
    return rand(count, 8)


@report("microsoft/onnxruntime 6696",
        "weights in a file beside a model that lies in another folder than the current one")
def other_folder():
    w = weights()
    return case([n("MatMul", "x w")], {"x": rand(2, 64)}, constants={"w": external("w", w, "net.onnx.data")},
                path="t/sub/net.onnx", files={"t/sub/net.onnx.data": w.tobytes()})


@report("microsoft/onnxruntime 5418", "weights named by `./folder/file` below the model's folder")
def folder_below():
    w = weights()
    return case([n("MatMul", "x w")], {"x": rand(2, 64)}, constants={"w": external("w", w, "./weights/a.bin", 0,
                w.nbytes)},
                files={"weights/a.bin": w.tobytes()})


@report("onnx/onnx 5761", "Chinese characters, spaces and signs in the names of folder, model and weights")
def names():
    w = weights()
    return case([n("MatMul", "输入:0 w")], {"输入:0": rand(2, 64)}, constants={"w": external("w", w, "权重 #1 %20.bin", 0,
                w.nbytes)},
                path="模型 dir/士大夫 v1.0.onnx", files={"模型 dir/权重 #1 %20.bin": w.tobytes()})


@report("onnx/onnx 8482", "weights in one file, out of order, unaligned, one read twice")
def offsets():
    a, b = rand(3, 5), rand(5, 2)
    data = b"\0" * 7 + b.tobytes() + b"\1" * 3 + a.tobytes()
    at = 7 + b.nbytes + 3
    return case([n("MatMul", "x a", "p"), n("MatMul", "p b", "q"), n("MatMul", "x again", "r"),
                n("MatMul", "r b", "s"), n("Add", "q s")],
                {"x": rand(2, 3)},
                constants={"a": external("a", a, "d.bin", at, a.nbytes), "b": external("b", b, "d.bin", 7, b.nbytes),
                           "again": external("again", a, "d.bin", at, a.nbytes)}, files={"d.bin": data})


@report("onnx/onnx 6226", "weights at multiples of the page size, after a hole in the file")
def pages():
    a, b = rand(1024, 2), rand(2)
    return case([n("MatMul", "x a", "p"), n("Add", "p b")], {"x": rand(1, 1024)},
                constants={"a": external("a", a, "d.bin", 4096, a.nbytes), "b": external("b", b, "d.bin", 65536)},
                files={"d.bin": b"\0" * 4096 + a.tobytes() + b"\0" * (65536 - 4096 - a.nbytes) + b.tobytes()})


@report("danielgatis/rembg 790", "sizes of Split and a shape for Reshape among the weights in another file")
def external_sizes():
    split, shape = i64(2, 3, 1), i64(-1, 6)
    return case([n("Split", "x split", "a b c", axis=1), n("Concat", "c b a", "t", axis=1),
                n("Reshape", "t shape", "y")],
                {"x": rand(1, 6, 4)}, constants={"split": external("split", split, "s.data", 0, 24),
                "shape": external("shape", shape, "s.data", 24, 16)},
                files={"s.data": split.tobytes() + shape.tobytes()}, oracle="onnx")


@report("microsoft/onnxruntime 11848", "a weights file that is shorter than the model states")
def short_weights():
    w = weights()
    return case([n("MatMul", "x onnx::MatMul_4622")], {"x": rand(2, 64)},
                constants={"w": external("onnx::MatMul_4622", w, "big.data", 0, w.nbytes)},
                files={"big.data": w.tobytes()[:600]}, says=("onnx::MatMul_4622", "big.data", "600"))


@report("onnx/onnx-tensorflow 915", "a model whose weights file was not copied along",
        "refused; the remedy was to export the model again")
def missing_weights():
    w = weights()
    return case([n("MatMul", "x w")], {"x": rand(2, 64)}, constants={"w": external("w", w, "model.onnx_data", 0,
                w.nbytes)},
                says=("\"w\"", "model.onnx_data", "copy it"))


@report("openvinotoolkit/openvino 22736", "only the weights are a link, to another folder of the same cache")
def linked_weights():
    w = weights()
    return case([n("MatMul", "x w")], {"x": rand(2, 64)}, constants={"w": external("w", w, "model.onnx_data", 0,
                w.nbytes)},
                path="cache/snapshots/one/model.onnx", says=None,
                files={"cache/blobs/77ab": w.tobytes(), "cache/snapshots/one/model.onnx_data": "->../../blobs/77ab"})


@report("microsoft/onnxruntime 27353", "model and weights are links into one folder of unnamed blobs")
def linked_both():
    w = weights()
    made = model([n("MatMul", "x w")], {"x": rand(2, 64)}, constants={"w": external("w", w, "encoder.onnx.data", 0,
        w.nbytes)})
    return Case(None, {"x": rand(2, 64)}, path="hub/snapshots/abd2/encoder.onnx",
                files={"hub/blobs/5f": made.SerializeToString(), "hub/blobs/c6": w.tobytes(),
                       "hub/snapshots/abd2/encoder.onnx": "->../../blobs/5f",
                       "hub/snapshots/abd2/encoder.onnx.data": "->../../blobs/c6"})


@report("QIN2DIM/hcaptcha-challenger 256", "a file whose download was interrupted",
        "refused as unreadable, without the cause and the remedy")
def truncated():
    made = model([n("MatMul", "x w")], {"x": rand(2, 64)}, constants={"w": weights(64)})
    return Case(made.SerializeToString()[:-900], {"x": rand(2, 64)},
        says=("model.onnx", "ends early", "fetch it again"))


@report("levihsu/OOTDiffusion 118", "a file of 0 bytes, left by a download")
def no_bytes():
    return Case(b"", {"x": rand(2)}, says=("model.onnx", "empty"))


@report("awslabs/multi-model-server 249", "the folder of the model is named instead of the model")
def folder():
    made = case([n("Relu", "x")], {"x": rand(2)})
    made.files = {"squeezenet.onnx/model.onnx": made.model.SerializeToString()}
    made.model, made.path, made.says = None, "squeezenet.onnx", ("squeezenet.onnx", "folder")
    return made


@report("microsoft/onnxruntime 8796", "a file of a newer IR version")
def future_ir():
    return case([n("Relu", "x")], {"x": rand(2)}, ir=99, says=("99",))


@report("microsoft/onnxruntime 11898", "a file of a newer opset")
def future_opset():
    made = case([n("Relu", "x")], {"x": rand(2)}, says=("90",))
    made.model.opset_import[0].version = 90
    return made


@report("pytorch/pytorch 21677", "an input by a name that the model does not have")
def wrong_name():
    made = case([n("Relu", "input.1")], {"input.1": rand(2)}, says=("data", "input.1"))
    made.feeds = {"data": rand(2)}
    return made


@report("elbruno/ElBruno.Whisper 2", "an input that is not given (use_cache_branch of a merged decoder)")
def missing_input():
    branches = dict(then_branch=body([n("Neg", "x", "p")], "", "p"), else_branch=body([n("Relu", "x", "q")], "", "q"))
    made = case([n("If", "use_cache_branch", **branches)], {"x": rand(2), "use_cache_branch": np.array([True])},
                says=("use_cache_branch",))
    made.feeds = {"x": made.feeds["x"]}
    return made


@report("huggingface/optimum 647", "merged decoder: If by use_cache_branch, caches of no length at the first step")
def merged_decoder():
    then = body([n("Concat", "past k", "kv", axis=2)], "", "kv:f32[1,2,total,4]")
    other = body([n("Identity", "k", "kv2")], "", "kv2:f32[1,2,total2,4]")
    nodes = [n("If", "use_cache_branch", "present", then_branch=then, else_branch=other),
        n("Transpose", "present", "t", perm=[0, 1, 3, 2]),
             n("MatMul", "k t", "s"), n("Softmax", "s", "p"), n("MatMul", "p present", "y")]
    return case(nodes, {"k": rand(1, 2, 3, 4), "past": rand(1, 2, 0, 4), "use_cache_branch": np.array([True])},
                "present y",
                inputs="k:f32[1,2,n,4] past:f32[1,2,past_length,4]")


@report("microsoft/onnxruntime 27654", "a tensor of four axes for an input of five")
def wrong_rank():
    made = case([n("Relu", "input")], {"input": rand(1, 2, 3, 4, 4)}, says=("input", "4", "5"))
    made.feeds = {"input": rand(1, 3, 4, 4)}
    return made


@report("KutsuyaYuki/ABG_extension 14", "an image with an alpha channel for an input of three channels")
def wrong_size():
    made = case([n("Relu", "img")], {"img": rand(1, 3, 8, 8)}, says=("img", "4", "3"))
    made.feeds = {"img": rand(1, 4, 8, 8)}
    return made


@report("microsoft/onnxruntime 4787", "64-bit token ids for a model of 32-bit ones")
def wrong_type():
    made = case([n("Gather", "e input_ids")], {"input_ids": np.array([[1, 2]], np.int32)}, constants={"e": rand(4, 3)},
                says=("input_ids", "i64", "i32"))
    made.feeds = {"input_ids": i64([1, 2])}
    return made


@report("deepinsight/insightface 2652", "a batch of three for a network whose Reshape holds the batch of its export")
def baked_batch():
    made = case([n("Relu", "x", "r"), n("Reshape", "r s", "y", name="/blocks.0/attn/Reshape")], {"x": rand(3, 4, 6)},
                constants={"s": i64(1, 4, 3, 2)}, inputs="x:f32[batch,4,6]", says=("/blocks.0/attn/Reshape",))
    return made


@report("deepinsight/insightface 2300", "a batch that a Flatten before Gemm folds into the features")
def baked_gemm():
    return case([n("Reshape", "x s", "f"), n("Gemm", "f w", "y", transB=1, name="Gemm_185")], {"x": rand(4, 2, 3)},
                constants={"s": i64(1, -1), "w": rand(5, 6)}, inputs="x:f32[None,2,3]", says=("Gemm_185",))


@report("AXERA-TECH/pyaxengine 47", "an input stored in column order")
def stored_by_columns():
    return case([n("MatMul", "x w")], {"x": np.asfortranarray(rand(3, 4))},
                constants={"w": rand(4, 2)})


@report("microsoft/onnxruntime 14788", "a read-only model in a read-only folder")
def read_only():
    w = weights()
    return case([n("MatMul", "x w")], {"x": rand(2, 64)}, constants={"w": external("w", w, "w.bin", 0, w.nbytes)},
                path="ro/rate.onnx",
                files={"ro/w.bin": w.tobytes(), "ro": 0o555})


@report("microsoft/onnxruntime 7846", "one model run by six processes at once")
def processes():
    nodes = [n("Conv", "x w", "c", pads=[1, 1, 1, 1]), n("Relu", "c", "r"), n("Conv", "r v", "y", pads=[1, 1, 1, 1])]
    return case(nodes, {"x": rand(1, 3, 32, 32)}, constants={"w": rand(8, 3, 3, 3), "v": rand(4, 8, 3, 3)}, processes=6)


@report("onnx/tensorflow-onnx 169", "names with dots, slashes, colons and spaces for inputs and outputs")
def odd_names():
    return case([n("Relu", "serving_default_mobilenet_1.00/224:0", "StatefulPartitionedCall/model/..:1")],
                {"serving_default_mobilenet_1.00/224:0": rand(2, 2)}, "StatefulPartitionedCall/model/..:1")


@report("microsoft/onnxruntime 26262", "Attention of opset 23, causal, with a present cache but no past one")
def attention_present():
    return case([n("Attention", "q k v", "y present_key present_value", is_causal=1)],
                {"q": rand(1, 2, 3, 8), "k": rand(1, 2, 3, 8), "v": rand(1, 2, 3, 8)}, "y present_key present_value",
                opset=23,
                oracle="onnx")


@report("huggingface/candle 2848", "Attention of opset 23 on three axes, grouped heads, soft cap, boolean mask")
def attention_grouped():
    return case([n("Attention", "q k v m", q_num_heads=4, kv_num_heads=2, softcap=3.0, scale=.4)],
                {"q": rand(2, 3, 32), "k": rand(2, 5, 16), "v": rand(2, 5, 16), "m": MASK}, opset=23, oracle="onnx")


@report("microsoft/onnxruntime 24556", "RotaryEmbedding and RMSNormalization of opset 23, part of each head rotated")
def rotary():
    angles = rand(6, 2)
    nodes = [n("RMSNormalization", "x g", "r", axis=-1, epsilon=1e-6),
             n("RotaryEmbedding", "r c s p", "y", rotary_embedding_dim=4, interleaved=1, num_heads=2)]
    return case(nodes, {"x": rand(1, 3, 16), "p": i64([0, 4, 5])},
                constants={"g": rand(16), "c": np.cos(angles), "s": np.sin(angles)},
                opset=23, oracle="onnx")


@report("onnx/models 266", "a model without an input")
def no_inputs():
    return case([n("Constant", "", "c", value_floats=[1.0, 2.0]), n("Range", "a b d", "r"), n("Add", "c r")], {},
                constants={"a": f32(0)[0], "b": f32(2)[0], "d": f32(1)[0]})
