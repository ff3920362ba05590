"""Reports on single ops: attributes, optional inputs, opsets, sizes of zero, indices."""
import numpy as np

from build import case, f32, i64, n, rand, report


@report("onnx/onnx 2451", "Resize by sizes; roi and scales are empty names")
def resize_sizes():
    return case([n("Resize", "x - - s", mode="nearest")], {"x": rand(1, 2, 3, 4)}, constants={"s": i64(1, 2, 6, 9)})


@report("microsoft/onnxruntime 6279", "Resize by sizes, linear, align_corners; scales is a constant without elements")
def resize_empty_scales():
    return case([n("Resize", "x r e s", mode="linear", coordinate_transformation_mode="align_corners")],
                {"x": rand(1, 2, 5, 4)}, opset=11,
                constants={"r": f32(0, 0, 0, 0, 1, 1, 1, 1), "e": f32(), "s": i64(1, 2, 7, 9)})


@report("openvinotoolkit/openvino 35895", "Resize whose roi is a graph input without elements, scales a graph input")
def resize_roi_input():
    return case([n("Resize", "x roi scales", mode="nearest", coordinate_transformation_mode="asymmetric")],
                {"x": rand(2, 2, 2, 2), "roi": f32(), "scales": f32(1, 1, 3, 3)}, "y:f32[,,,]", inputs="roi:f32[rois]",
                opset=13)


@report("tracel-ai/burn-onnx 3", "Resize by scales computed from Shape at run time")
def resize_runtime_scales():
    nodes = [n("Shape", "like", "s"), n("Cast", "s", "sf", to=1), n("Shape", "x", "t"), n("Cast", "t", "tf", to=1),
             n("Div", "sf tf", "q"), n("Resize", "x - q", mode="cubic", cubic_coeff_a=-0.5)]
    return case(nodes, {"x": rand(1, 1, 4, 4), "like": rand(1, 1, 7, 6)}, inputs="x:f32[1,1,h,w] like:f32[1,1,H,W]")


@report("microsoft/onnxruntime 10513",
        "Resize, cubic, by sizes that shrink to one; scales is a constant without elements")
def resize_cubic_sizes():
    return case([n("Resize", "x e e s", mode="cubic", coordinate_transformation_mode="pytorch_half_pixel")],
                {"x": rand(1, 3, 9, 8)}, constants={"e": f32(), "s": i64(1, 3, 4, 1)}, opset=13)


@report("microsoft/onnxruntime 8327", "Resize in 16-bit floats whose scales a converter made 16-bit too")
def resize_half_scales():
    return case([n("Resize", "x - s", mode="nearest", name="Resize_288")], {"x": rand(1, 1, 2, 2).astype(np.float16)},
                "y:f16", {"s": np.array([1, 1, 2, 2], np.float16)}, says=("Resize_288", "scales"))


@report("microsoft/onnxconverter-common 272", "Resize with scales and sizes at once")
def resize_both():
    return case([n("Resize", "x - s z", mode="nearest", name="Resize__846")], {"x": rand(1, 1, 2, 2)},
                constants={"s": f32(1, 1, 2, 2), "z": i64(1, 1, 4, 4)}, says=("Resize__846", "scales", "sizes"))


@report("apache/tvm 19544", "NonMaxSuppression without max_output_boxes_per_class, whose default is 0")
def nms_no_max():
    boxes = f32(0, 0, 1, 1, 0, 0, 1, 1.1, 2, 2, 3, 3).reshape(1, 3, 4)
    return case([n("NonMaxSuppression", "b s", "y")], {"b": boxes, "s": f32(.9, .8, .7).reshape(1, 1, 3)}, "y:i64")


@report("microsoft/onnxruntime 1610", "NonMaxSuppression over two images and two classes, boxes by their centers")
def nms_batches():
    boxes = np.abs(rand(2, 6, 4)) + .1
    return case([n("NonMaxSuppression", "b s m i t", "y", center_point_box=1)],
                {"b": boxes, "s": np.abs(rand(2, 2, 6))}, "y:i64", {"m": i64(3), "i": f32(.3), "t": f32(.2)})


@report("microsoft/onnxruntime 6680", "NonMaxSuppression of boxes and scores of different counts")
def nms_mismatch():
    return case([n("NonMaxSuppression", "b s m", "y", name="NonMaxSuppression__1600")],
                {"b": np.abs(rand(1, 6, 4)), "s": np.abs(rand(1, 2, 5))}, "y:i64", {"m": i64(3)},
                inputs="b:f32[1,n,4] s:f32[1,2,m]", says=("NonMaxSuppression__1600",))


@report("Unity-Technologies/barracuda-release 173",
        "a detector that finds nothing: NonMaxSuppression of 0 boxes, then Gather")
def nms_nothing():
    nodes = [n("NonMaxSuppression", "b s m i t", "k"), n("Gather", "k one", "g", axis=1), n("Gather", "flat g", "y")]
    return case(nodes, {"b": np.abs(rand(1, 5, 4)), "s": np.zeros((1, 1, 5), np.float32), "flat": rand(5, 4)},
                constants={"m": i64(9), "i": f32(.5), "t": f32(.5), "one": np.array(2)})


@report("pytorch/vision 2251",
        "Mask R-CNN on an image without objects: nothing through NonZero, GatherND, Concat, Mul, ReduceSum")
def no_objects():
    nodes = [n("Greater", "p h", "m"), n("NonZero", "m", "z"), n("Transpose", "z", "t", perm=[1, 0]),
             n("GatherND", "p t", "kept"), n("Unsqueeze", "kept a", "col"), n("Concat", "col col", "two", axis=1),
             n("Mul", "two h", "scaled"), n("ReduceSum", "scaled", "total"), n("Shape", "scaled", "rows")]
    return case(nodes, {"p": -np.abs(rand(7))}, "scaled total rows:i64", {"h": np.float32(.5), "a": i64(1)})


@report("microsoft/onnxruntime 7563", "ReduceMax over zero boxes, keepdims 0")
def reduce_max_nothing():
    return case([n("ReduceMax", "x", axes=[0], keepdims=0, name="Max_2080")], {"x": rand(0, 4)}, opset=13,
                inputs="x:f32[n,4]")


@report("microsoft/onnxruntime 1879", "convolution network on a batch of size 0 between two stages")
def zero_batch():
    nodes = [n("Conv", "x w b", "c", pads=[1, 1, 1, 1]), n("BatchNormalization", "c s b m v", "bn"),
             n("Relu", "bn", "r"), n("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
             n("GlobalAveragePool", "p", "g"), n("Flatten", "g", "f"), n("Gemm", "f k", "y", transB=1)]
    return case(nodes, {"x": rand(0, 3, 8, 8)}, inputs="x:f32[n,3,8,8]",
                constants={"w": rand(4, 3, 3, 3), "b": rand(4), "s": rand(4), "m": rand(4), "v": np.abs(rand(4)),
                           "k": rand(5, 4)})


@report("microsoft/onnxruntime 4559", "Linear on an input with an axis of size 0")
def zero_rows():
    return case([n("MatMul", "x w", "h"), n("Add", "h b")], {"x": rand(1, 0, 30)}, inputs="x:f32[1,boxes,30]",
                constants={"w": rand(30, 8), "b": rand(8)})


@report("openvinotoolkit/openvino 37966",
        "MatMul of 64-bit integers over a batch of size 0, and over an inner axis of size 0")
def zero_matmul():
    return case([n("MatMul", "a b", "y"), n("MatMul", "c d", "z")],
                {"a": np.ones((0, 4, 8), np.int64), "b": np.ones((0, 8, 4), np.int64), "c": rand(3, 0),
                "d": rand(0, 2)},
                "y:i64 z")


@report("openvinotoolkit/openvino 35889", "ReduceProd with an empty axes input and noop_with_empty_axes")
def reduce_noop():
    return case([n("ReduceProd", "x axes", keepdims=1, noop_with_empty_axes=1)], {"x": rand(3, 5), "axes": i64()},
                opset=18)


@report("openvinotoolkit/openvino 35894", "ArgMax over an axis of size 0")
def argmax_nothing():
    return case([n("ArgMax", "x", axis=2, keepdims=0, name="argmax_empty")], {"x": rand(2, 4, 0)}, "y:i64[2,4]",
                opset=18, says=("argmax_empty",))


@report("microsoft/onnxruntime 11024", "Mul that broadcasts an axis of size 0 against one of size 1")
def zero_broadcast():
    return case([n("Mul", "a b", "m"), n("Sum", "m m c")], {"a": rand(2, 0, 3), "b": rand(1, 1, 3), "c": rand(3)},
                inputs="a:f32[2,k,3]")


@report("apache/tvm 19532", "Slice with a negative step whose end is after its start: empty output")
def slice_backwards_nothing():
    return case([n("Slice", "x s e a t")], {"x": rand(10)},
                constants={"s": i64(0), "e": i64(5), "a": i64(0), "t": i64(-1)})


@report("apache/tvm 19531", "Gather with negative indices from an input")
def gather_negative():
    return case([n("Gather", "x i", axis=0)], {"x": rand(5, 2), "i": i64(-1, -3, 0)})


@report("apache/tvm 20217", "GatherElements, GatherND, ScatterND and OneHot with negative indices")
def indices_negative():
    nodes = [n("GatherElements", "x e", "a", axis=1), n("GatherND", "x g", "b"), n("ScatterND", "x s u", "c"),
             n("OneHot", "o d v", "h")]
    return case(nodes, {"x": rand(3, 4), "e": np.full((3, 4), -1), "g": i64([-1, -1], [0, -2]), "s": i64([-1], [0]),
                        "u": rand(2, 4), "o": i64(0, 2, 4, -1)}, "a b c h", {"d": np.array(5), "v": f32(0, 1)})


@report("apache/tvm 18135", "CumSum in reverse, and exclusive in reverse")
def cumsum_reverse():
    return case([n("CumSum", "x a", "y", reverse=1), n("CumSum", "x a", "z", reverse=1, exclusive=1)],
                {"x": rand(3, 4)}, "y z", {"a": np.array(-1)})


@report("apache/tvm 15271", "ReduceL1, ReduceL2, ReduceSumSquare, ReduceLogSum with axes as an input (opset 18)")
def reduce_axes_input():
    ops = ["ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"]
    return case([n(op, "x a", f"y{i}", keepdims=0) for i, op in enumerate(ops)], {"x": np.abs(rand(2, 3, 4))},
                "y0 y1 y2 y3 y4", {"a": i64(-1, 0)}, opset=18)


@report("apache/tvm 18698", "ReduceMean with axes as an attribute at opset 13, after Conv")
def reduce_axes_attribute():
    return case([n("Conv", "x w", "c"), n("ReduceMean", "c", axes=[2], keepdims=0)], {"x": rand(1, 6, 4, 9)},
                constants={"w": rand(8, 6, 1, 1)}, opset=13)


@report("apache/tvm 18598", "PRelu with slopes per channel, scalar, and of the last axis")
def prelu_slopes():
    return case([n("PRelu", "x a", "p"), n("PRelu", "x b", "q"), n("PRelu", "x c", "r")], {"x": rand(2, 3, 4, 4)},
                "p q r",
                {"a": rand(3, 1, 1), "b": f32(.2), "c": rand(4)})


@report("apache/tvm 7270", "Flatten at axis 0 of six axes, then ReduceSum")
def flatten_zero():
    return case([n("Flatten", "x", "f", axis=0), n("Abs", "f", "a"), n("ReduceSum", "a o", keepdims=1)],
                {"x": rand(3, 3, 2, 3, 2, 5)}, constants={"o": i64(0)})


@report("apache/tvm 17991", "BitwiseNot, And, Or and Xor on 32-bit integers")
def bitwise():
    a = np.array([[1, -7, 2 ** 31 - 1], [0, 12, -2 ** 31]], np.int32)
    nodes = [n("BitwiseNot", "a", "p"), n("BitwiseAnd", "a b", "q"), n("BitwiseOr", "a b", "r"),
        n("BitwiseXor", "a b", "s")]
    return case(nodes, {"a": a, "b": np.array([5, 6, 7], np.int32)}, "p:i32 q:i32 r:i32 s:i32", opset=18)


@report("openvinotoolkit/openvino 13491", "ArgMin and ArgMax with ties and select_last_index")
def argmin_last():
    return case([n("ArgMin", "x", "y", axis=1, select_last_index=1), n("ArgMax", "x", "z", axis=0, keepdims=0)],
                {"x": f32([2, 1, 1], [3, 3, 3])}, "y:i64 z:i64")


@report("openvinotoolkit/openvino 20977",
        "SoftmaxCrossEntropyLoss with class weights, and with ignore_index and log_prob")
def cross_entropy():
    return case([n("SoftmaxCrossEntropyLoss", "x t w", "y", reduction="mean"),
                 n("SoftmaxCrossEntropyLoss", "x t w", "z p", reduction="none", ignore_index=1)],
                {"x": rand(3, 5), "t": i64(0, 1, 4), "w": np.abs(rand(5))}, "y z p", opset=13)


@report("openvinotoolkit/openvino 20879", "MaxPool with dilations, ceil_mode and Indices in column order")
def maxpool_indices():
    return case([n("MaxPool", "x", "y i", kernel_shape=[2, 2], strides=[2, 1], dilations=[1, 2], ceil_mode=1,
                   storage_order=1)], {"x": rand(1, 1, 5, 5)}, "y i:i64")


@report("pytorch/pytorch 183528", "AveragePool with ceil_mode and count_include_pad (opset 19)")
def avgpool_ceil():
    return case([n("AveragePool", "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1,
                   count_include_pad=1)], {"x": rand(1, 1, 4, 4)}, opset=19)


@report("microsoft/onnxruntime 16203", "AveragePool of one axis, window 7, pads 3, ceil_mode")
def avgpool_line():
    return case([n("AveragePool", "x", kernel_shape=[7], strides=[3], pads=[3, 3], ceil_mode=1, count_include_pad=1)],
                {"x": rand(1, 2, 9)}, opset=19)


@report("onnx/onnx 4958", "pools with ceil_mode whose last window would begin outside the input")
def pool_outside():
    nodes = [n("AveragePool", "x", "a", kernel_shape=[1, 1], strides=[2, 2], ceil_mode=1),
             n("MaxPool", "x", "m", kernel_shape=[1, 1], strides=[2, 2], ceil_mode=1)]
    return case(nodes, {"x": rand(1, 1, 4, 5)}, "a m", opset=22)


@report("microsoft/onnxruntime 4086", "ConvTranspose with auto_pad SAME_UPPER and strides of one")
def deconv_same():
    return case([n("ConvTranspose", "x w", auto_pad="SAME_UPPER", strides=[1, 1])],
                {"x": rand(1, 1, 2, 2), "w": rand(1, 1, 3, 3)})


@report("microsoft/onnxruntime 11927", "ConvTranspose with auto_pad SAME_UPPER, strides of two and output_padding")
def deconv_same_padding():
    return case([n("ConvTranspose", "x w", auto_pad="SAME_UPPER", strides=[2, 2], output_padding=[1, 1])],
                {"x": rand(1, 2, 3, 3), "w": rand(2, 1, 3, 3)})


@report("onnx/keras-onnx 555", "Keras Conv2DTranspose of 4 x 4, padding same, on open sizes")
def deconv_keras():
    nodes = [n("Transpose", "x", "t", perm=[0, 3, 1, 2]),
             n("ConvTranspose", "t w", "c", auto_pad="SAME_LOWER", strides=[2, 2], kernel_shape=[4, 4]),
             n("Transpose", "c", "y", perm=[0, 2, 3, 1])]
    return case(nodes, {"x": rand(1, 5, 7, 3)}, inputs="x:f32[N,h,w,3]", constants={"w": rand(3, 6, 4, 4)})


@report("alibaba/MNN 461", "ConvTranspose with output_padding, groups and a bias (pixel upsampling)")
def deconv_output_padding():
    return case([n("ConvTranspose", "x w b", strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1], group=2)],
                {"x": rand(1, 4, 4, 3)}, constants={"w": rand(4, 3, 3, 3), "b": rand(6)})


@report("tracel-ai/burn 4253", "Conv and MaxPool with asymmetric pads")
def conv_asymmetric():
    return case([n("Conv", "x w", "c", pads=[0, 1, 2, 0], strides=[2, 1]),
                 n("MaxPool", "c", kernel_shape=[3, 3], pads=[0, 0, 2, 1])], {"x": rand(1, 3, 9, 8)},
                constants={"w": rand(4, 3, 3, 2)})


@report("microsoft/onnxruntime 495", "Conv with auto_pad SAME_UPPER and SAME_LOWER, strides of two, odd sizes")
def conv_same():
    return case([n("Conv", "x w", "y", auto_pad="SAME_UPPER", strides=[2, 2]),
                 n("Conv", "x w", "z", auto_pad="SAME_LOWER", strides=[2, 2])],
                {"x": rand(1, 1, 7, 5), "w": rand(1, 1, 3, 3)}, "y z")


@report("NVIDIA/TensorRT 203", "Pad at opset 2, with attributes, along batch and channels")
def pad_channels():
    return case([n("Pad", "x", pads=[0, 1, 1, 0, 0, 1, 1, 0], mode="constant", value=0.5)], {"x": rand(1, 2, 3, 4)},
                opset=7)


@report("NVIDIA/TensorRT 4702", "Mod of large 32-bit and 64-bit integers, negative ones too")
def mod_large():
    a = np.array([18542495, 2147483647, 1800000000, -18542495, -1], np.int32)
    return case([n("Mod", "a b", "y"), n("Mod", "c d", "z"), n("Mod", "a b", "f", fmod=1)],
                {"a": a, "c": a.astype(np.int64) * 3}, "y:i32 z:i64 f:i32",
                {"b": np.array(32, np.int32), "d": np.array(-7)})


@report("microsoft/onnxruntime 6921", "RoiAlign with and without half-pixel offsets, boxes smaller than a pixel")
def roi_align():
    rois = f32([0, 0, .5, .5], [1, 1, 4, 3], [2.2, .3, 2.9, 3])
    attributes = dict(output_height=2, output_width=3, sampling_ratio=2, spatial_scale=1.0)
    return case([n("RoiAlign", "x r b", "y", coordinate_transformation_mode="half_pixel", **attributes),
                 n("RoiAlign", "x r b", "z", coordinate_transformation_mode="output_half_pixel", **attributes)],
                {"x": rand(2, 2, 5, 5), "r": rois, "b": i64(0, 1, 0)}, "y z")


@report("microsoft/onnxruntime 14265", "RoiAlign with mode max")
def roi_align_max():
    return case([n("RoiAlign", "x r b", mode="max", output_height=2, output_width=2, sampling_ratio=2,
                   coordinate_transformation_mode="half_pixel")],
                {"x": rand(1, 1, 6, 6), "r": f32([.5, .5, 4.5, 4.5]), "b": i64(0)})


@report("tracel-ai/burn-onnx 276", "Einsum: implicit output, ellipsis, three operands, diagonal, one-sided sums")
def einsum():
    equations = ["ij,jk", "...ij,...jk->...ik", "ij,jk,kl->il", "ii->i", "ij,kl->il", "ii"]
    a, b, c = rand(3, 3), rand(3, 3), rand(3, 3)
    inputs = ["a b", "a b", "a b c", "a", "a b", "a"]
    nodes = [n("Einsum", i, f"y{k}", equation=e) for k, (e, i) in enumerate(zip(equations, inputs))]
    return case(nodes, {"a": a, "b": b, "c": c}, " ".join(f"y{k}" for k in range(6)))


@report("robertknight/rten 302", "Einsum whose ellipsis broadcasts a batch of one")
def einsum_broadcast():
    return case([n("Einsum", "a b", equation="b...hd, ...kd -> ...bhk")], {"a": rand(2, 1, 3, 4), "b": rand(5, 6, 4)})


@report("onnx/onnx 8207", "Einsum whose ellipses cover different counts of axes, none and two")
def einsum_ranks():
    return case([n("Einsum", "a b", equation="...,...->...", name="einsum_ranks")],
                {"a": np.float32(2), "b": rand(2, 3)},
                inputs="a:f32 b:f32")


@report("sonos/tract 1901", "DFT of real signals, one-sided, along an inner axis (opset 17)")
def dft_onesided():
    return case([n("DFT", "x", axis=1, onesided=1)], {"x": rand(2, 16, 1)}, opset=17)


@report("onnx/onnx 5920", "DFT inverse and one-sided (irfft) after a one-sided DFT (opset 20)")
def dft_inverse():
    x = rand(1, 8, 1)
    return case([n("DFT", "x - a", "f", onesided=1), n("DFT", "f - a", "y", onesided=1, inverse=1)], {"x": x}, "f y",
                {"a": np.array(1)}, opset=20)


@report("onnx/onnx 4798", "DFT of 10 x 10 samples along axis 1, not a power of two, and its inverse")
def dft_ten():
    return case([n("DFT", "x", "f", axis=1), n("DFT", "f", "y", axis=1, inverse=1)],
                {"x": rand(1, 10, 10, 1)}, "f y", opset=17)


@report("microsoft/onnxruntime 14316", "STFT with a window of 400, steps of 160, one-sided, on open sizes")
def stft():
    return case([n("STFT", "x step window length", onesided=1)], {"x": rand(1, 1600)}, inputs="x:f32[1,samples]",
                constants={"step": np.array(160), "window": np.hanning(400).astype(np.float32),
                    "length": np.array(400)},
                tolerance=2e-4)


@report("microsoft/onnxruntime 851", "bidirectional LSTM with sequence_lens, both initial states and peepholes")
def lstm_bidirectional():
    return case([n("LSTM", "x w r b l h c p", "y yh yc", hidden_size=3, direction="bidirectional")],
                {"x": rand(5, 2, 4), "l": np.array([5, 3], np.int32)}, "y yh yc",
                {"w": rand(2, 12, 4), "r": rand(2, 12, 3), "b": rand(2, 24), "h": rand(2, 2, 3), "c": rand(2, 2, 3),
                 "p": rand(2, 9)})


@report("onnx/onnx-tensorflow 408", "LSTM with initial_h but without initial_c")
def lstm_half_state():
    return case([n("LSTM", "x w r b - h", "y - yc", hidden_size=3)], {"x": rand(4, 1, 2)}, "y yc",
                {"w": rand(1, 12, 2), "r": rand(1, 12, 3), "b": rand(1, 24), "h": rand(1, 1, 3)})


@report("microsoft/onnxruntime 10768", "LSTM with a sequence length greater than its input's")
def lstm_too_long():
    return case([n("LSTM", "x w r - l", "y", hidden_size=3, name="LSTM_30")],
                {"x": rand(4, 1, 2), "l": np.array([9], np.int32)}, "y", {"w": rand(1, 12, 2), "r": rand(1, 12, 3)},
                says=("LSTM_30", "9"))


@report("opencv/opencv 26456", "LSTM with the batch first (layout 1)")
def lstm_layout():
    return case([n("LSTM", "x w r", "y yh", hidden_size=3, layout=1)], {"x": rand(3, 2, 2)}, "y yh",
                {"w": rand(1, 12, 2), "r": rand(1, 12, 3)}, oracle="onnx")


@report("microsoft/onnxruntime 24538", "GroupNormalization at opset 21, scale and bias per channel")
def groupnorm_channels():
    return case([n("GroupNormalization", "x s b", num_groups=2, epsilon=1e-3)], {"x": rand(2, 6, 3, 3)}, opset=21,
                constants={"s": rand(6), "b": rand(6)})


@report("onnx/onnx 5466", "GroupNormalization at opset 18, scale and bias per group")
def groupnorm_groups():
    return case([n("GroupNormalization", "x s b", num_groups=2)], {"x": rand(2, 6, 5)}, opset=18,
                constants={"s": rand(2), "b": rand(2)})


@report("ROCm/AMDMIGraphX 2239", "ScatterElements with duplicate indices by add, mul, min, max")
def scatter_reductions():
    nodes = [n("ScatterElements", "x i u", r, axis=1, reduction=r) for r in ("add", "mul", "min", "max")]
    return case(nodes, {"x": rand(2, 5), "i": i64([0, 0, -1, 2], [3, 3, 3, 1]), "u": rand(2, 4)}, "add mul min max",
                opset=18)


@report("onnx/onnx 4548", "ScatterND with negative and duplicate indices by add and max")
def scatter_nd_reductions():
    nodes = [n("ScatterND", "x i u", r, reduction=r) for r in ("add", "mul", "min", "max")]
    return case(nodes, {"x": rand(4, 3), "i": i64([-1], [0], [-1]), "u": rand(3, 3)}, "add mul min max", opset=18)


@report("onnx/onnx-mlir 3611", "ScatterND and GatherND whose index tuples are shorter and longer than their rank")
def scatter_nd_tuples():
    return case([n("ScatterND", "x i u", "y"), n("GatherND", "x i", "z"), n("GatherND", "x j", "b", batch_dims=1)],
                {"x": rand(4, 5, 2), "i": i64([[0, -1], [2, 3]], [[3, 3], [1, 0]]), "u": rand(2, 2, 2),
                 "j": i64([1], [4], [-5], [0])}, "y z b")


@report("alibaba/MNN 1566", "Reshape, Transpose and Expand of seven axes (convex upsampling)")
def seven_axes():
    nodes = [n("Reshape", "x s", "r"), n("Softmax", "r", "m", axis=2), n("Transpose", "m", "t", perm=[0, 1, 5, 3, 6, 4,
        2]),
             n("Mul", "t w", "p"), n("ReduceSum", "p a", "y", keepdims=0)]
    return case(nodes, {"x": rand(2, 576, 2, 3)}, constants={"s": i64(2, 1, 9, 8, 8, 2, 3), "w": rand(9), "a": i64(-1)})


@report("alibaba/MNN 2120", "MatMul with operands of one axis")
def matmul_vectors():
    return case([n("MatMul", "v m", "a"), n("MatMul", "m w", "b"), n("MatMul", "v v", "c")],
                {"v": rand(4), "m": rand(3, 4, 5), "w": rand(5)}, "a b c")


@report("opencv/opencv 22859", "MatMul with the constant on the left, and of two computed operands")
def matmul_sides():
    return case([n("MatMul", "k x", "a"), n("Relu", "x", "r"), n("Transpose", "r", "t", perm=[0, 2, 1]),
                 n("MatMul", "a t", "y")], {"x": rand(2, 6, 7)}, constants={"k": rand(5, 6)})


@report("Tencent/ncnn 6380", "Reshape with allowzero, with zeros that copy, and to a size of 0")
def reshape_zeros():
    return case([n("Reshape", "x s", "a", allowzero=1), n("Reshape", "z t", "b"),
                n("Reshape", "x u", "c", allowzero=1)],
                {"x": rand(0, 6, 2), "z": rand(2, 3, 4)}, "a b c", {"s": i64(3, 0, 4), "t": i64(0, -1),
                "u": i64(0, 12)},
                opset=14)


@report("opencv/opencv 22356", "layer norm in channels-last order from single ops (ConvNeXt)")
def convnext_norm():
    nodes = [n("Transpose", "x", "t", perm=[0, 2, 3, 1]), n("ReduceMean", "t", "m", axes=[-1]), n("Sub", "t m", "d"),
             n("Pow", "d two", "q"), n("ReduceMean", "q", "v", axes=[-1]), n("Add", "v e", "ve"), n("Sqrt", "ve", "s"),
             n("Div", "d s", "n"), n("Mul", "n g", "ng"), n("Add", "ng b", "o"), n("Transpose", "o", "y",
             perm=[0, 3, 1, 2])]
    return case(nodes, {"x": rand(1, 6, 5, 4)}, opset=14,
                constants={"two": np.float32(2), "e": np.float32(1e-6), "g": rand(6), "b": rand(6)})


@report("microsoft/onnxruntime 8020", "Concat of inputs that differ on another axis, which shows only at run time")
def concat_mismatch():
    return case([n("Concat", "a b", axis=0, name="Concat_17")], {"a": rand(2, 3), "b": rand(2, 4)},
                inputs="a:f32[n,p] b:f32[n,q]", says=("Concat_17",))
