#!/usr/bin/env python3
"""Write quantised models whose answers depend on their inputs, and ONNX Runtime's outputs for them.

    quantised.py OUT

OUT/NAME.onnx is a QDQ model by ONNX Runtime's quantisation tool; OUT/expected/NAME/SAMPLE/index.json maps
inputs and outputs to .npy files as expected.py does, and names the sample's class, the share of the
float model's outputs ("float": cosine and class) and the versions. The outputs are those of the QDQ graph
as it stands, node by node (optimisation is off).

mobilenet_v2_u8   u8 activations, s8 weights per channel, opset 17
mobilenet_v2_u16  u16 activations, s8 weights per channel, opset 21
encoder_u16       u16 activations, s8 weights per tensor, Q and DQ in the com.microsoft domain (opset 17)
encoder_mixed     the same with u8 activations but at normalisations, residual sums and softmax, opset 21

The architectures are make_models.py's. Random weights would give outputs that hardly depend on the
input, so: each convolution is scaled channel by channel to unit variance on sample pictures (what batch
normalisation does), and the last layer is fitted by ridge regression to tell apart classes of textures,
or of sequences with favourite words. Deterministic for one set of versions. Needs numpy, onnx and
onnxruntime.
"""
import copy
import json
import logging
import os
import shutil
import sys
import tempfile
import zlib

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T, helper as h, numpy_helper as nh, version_converter
from onnxruntime import quantization as q
from onnxruntime.quantization.execution_providers.qnn import get_qnn_qdq_config

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "peers"))
import make_models  # noqa: E402

CLASSES, TRAIN, CALIBRATE, EVALUATE = 24, 4, 12, 4
SEQUENCE, VOCABULARY = 64, 512


def seeded(*words):
    return np.random.default_rng([zlib.crc32(str(word).encode()) for word in words])


def session(model, plain=False):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    if plain:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def picture(kind, sample):
    """[1, 3, 224, 224]: the gratings of a class, moved a little, with noise and another contrast."""
    rng, own = seeded("picture", kind), seeded("picture", kind, sample)
    y, x = np.mgrid[0:224, 0:224].astype(np.float32) / 224
    image = np.zeros((3, 224, 224), np.float32)
    for _ in range(4):
        # periods that divide the 32 pixels of one place of the last layer, so that means keep the signal
        (across, down), colour = 7 * rng.integers(-3, 4, 2), rng.standard_normal(3)
        phase = rng.uniform(0, 2 * np.pi) + own.uniform(-0.3, 0.3)
        wave = np.sin(2 * np.pi * (x * across + y * down) + phase)
        image += colour[:, None, None].astype(np.float32) * wave.astype(np.float32)
    image = image / image.std() * np.float32(own.uniform(0.9, 1.1))
    return (image + np.float32(0.1) * own.standard_normal(image.shape, dtype=np.float32))[None]


def sequence(kind, sample):
    """Words of which most are favourites of the class; the end is masked."""
    rng, own = seeded("sequence", kind), seeded("sequence", kind, sample)
    favourites = rng.choice(VOCABULARY, 12, replace=False)
    words = np.where(own.random(SEQUENCE) < 0.8, own.choice(favourites, SEQUENCE), own.integers(0, VOCABULARY, SEQUENCE))
    mask = (np.arange(SEQUENCE) < own.integers(SEQUENCE // 2, SEQUENCE + 1)).astype(np.int64)
    types = (np.arange(SEQUENCE) >= SEQUENCE // 4).astype(np.int64)
    return {"input_ids": (words * mask).astype(np.int64)[None], "attention_mask": mask[None], "token_type_ids": types[None]}


def normalised(model):
    """The model with the same mean and variance in every channel of a convolution, on sample pictures."""
    rng = seeded("normalised")
    model = copy.deepcopy(model)
    kinds = {name: node.op_type for node in model.graph.node for name in node.input}
    weights = {i.name: nh.to_array(i).copy() for i in model.graph.initializer}
    values = {"input": np.concatenate([picture(k, -1) for k in range(CLASSES)])}
    for node in model.graph.node:
        one = h.make_model(h.make_graph([node], "one", [
            h.make_tensor_value_info(name, T.FLOAT, None) for name in dict.fromkeys(node.input)
        ], [h.make_tensor_value_info(name, T.FLOAT, None) for name in node.output]), opset_imports=model.opset_import)
        one.ir_version = 8
        feed = {name: values[name] if name in values else weights[name] for name in node.input}
        if node.op_type in ("Flatten", "Gemm", "Identity"):
            break
        result = session(one).run(None, feed)[0]
        if node.op_type == "Conv":
            mean, deviation = result.mean((0, 2, 3)), result.std((0, 2, 3)) + np.float32(1e-6)
            # Signals that mostly stay between the limits of the activation, and small residual branches:
            # otherwise 50 random layers make noise of every rounding.
            clipped = kinds[node.output[0]] == "Clip"
            shift = rng.normal(1.0, 0.3, mean.shape).astype(np.float32) * np.float32(clipped)
            deviation *= np.float32(1 if clipped else 2)
            weights[node.input[1]] /= deviation[:, None, None, None]
            weights[node.input[2]] = (weights[node.input[2]] - mean) / deviation + shift
            result = (result - mean[:, None, None]) / deviation[:, None, None] + shift[:, None, None]
        values[node.output[0]] = result
        for name in node.input:  # residuals are read once more at most 3 nodes later
            last = [n for n in model.graph.node if name in n.input][-1]
            if last.output[0] == node.output[0]:
                values.pop(name, None)
    replace(model, weights)
    return model


def replace(model, weights):
    for initializer in model.graph.initializer:
        initializer.CopyFrom(nh.from_array(np.ascontiguousarray(weights[initializer.name]), initializer.name))


def classifier(features, kinds, width):
    """Weights [width, features] and bias that tell the class of each row; strongly regularised, because
    directions of little variance would carry more rounding than signal.
    """
    mean, deviation = features.mean(0), features.std(0)
    deviation = deviation + np.float32(0.1) * deviation.mean()
    x = ((features - mean) / deviation).astype(np.float64)
    wanted = 10.0 * (np.asarray(kinds)[:, None] == np.arange(CLASSES)) - 10.0 / CLASSES
    gram = x @ x.T
    fitted = x.T @ np.linalg.solve(gram + 3 * np.trace(gram) / len(x) * np.eye(len(x)), wanted)
    if width > CLASSES:  # the rest are weak mixtures of the classes
        mixture = seeded("mixture").normal(0, 0.1, (CLASSES, width - CLASSES))
        fitted = np.concatenate([fitted, fitted @ mixture], 1)
    weights = (fitted / deviation[:, None]).T
    return weights.astype(np.float32), (10.0 / CLASSES - weights @ mean).astype(np.float32)


def outputs_at(model, value, feeds):
    """A value inside the model, for each of the inputs."""
    part = copy.deepcopy(model)
    del part.graph.output[:]
    part.graph.output.append(h.make_tensor_value_info(value, T.FLOAT, None))
    run = session(part)
    return np.concatenate([run.run([value], feed)[0].reshape(1, -1) for feed in feeds])


def fitted(model, last, feeds, kinds):
    """The model whose last Gemm tells the classes apart."""
    weights = {i.name: nh.to_array(i) for i in model.graph.initializer}
    weights[last.input[1]], weights[last.input[2]] = classifier(
        outputs_at(model, last.input[0], feeds), kinds, weights[last.input[1]].shape[0])
    replace(model, weights)
    return model


def mobilenet():
    g = make_models.G("mobilenet_v2")
    make_models.mobilenet_v2(g)
    model = normalised(g.model())
    pairs = [(k, s) for k in range(CLASSES) for s in range(TRAIN)]
    feeds = [{"input": picture(k, s)} for k, s in pairs]
    last = next(n for n in model.graph.node if n.op_type == "Gemm")
    return fitted(model, last, feeds, [k for k, _ in pairs]), lambda k, s: {"input": picture(k, s)}


def encoder():
    g = make_models.G("encoder")
    make_models.encoder(g, 3, 128, 4, 512, SEQUENCE, VOCABULARY)
    for initializer in g.inits:  # a mask within reach of 16 bits beside scores of a few units
        if initializer.dims == [] and nh.to_array(initializer) == np.float32(-10000):
            initializer.CopyFrom(nh.from_array(np.float32(-50.0), initializer.name))
    hidden = g.nodes[-1].input[0]
    pooled = g.op("ReduceMean", [hidden], axes=[1], keepdims=0)
    head = g.op("Gemm", [pooled, g.const(np.zeros((CLASSES, 128), np.float32)), g.const(np.zeros(CLASSES, np.float32))], transB=1)
    g.output(head, "logits", [1, CLASSES])
    for node in g.nodes:  # the tool asks for names
        node.name = node.name or node.output[0]
    model = g.model()
    pairs = [(k, s) for k in range(CLASSES) for s in range(4 * TRAIN)]
    last = next(n for n in model.graph.node if n.op_type == "Gemm")
    return fitted(model, last, [sequence(k, s) for k, s in pairs], [k for k, _ in pairs]), sequence


class Reader(q.CalibrationDataReader):
    def __init__(self, feeds):
        self.feeds = iter(feeds)

    def get_next(self):
        return next(self.feeds, None)


def quantised(model, sample, folder, activations, opset=None, qnn=True, overrides=None):
    """The QDQ model."""
    if opset:
        model = version_converter.convert_version(model, opset)
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    source, target = os.path.join(folder, "float.onnx"), os.path.join(folder, "qdq.onnx")
    onnx.save(model, source)
    feeds = Reader([sample(k, 100 + k) for k in range(CALIBRATE)])
    if qnn:
        config = get_qnn_qdq_config(source, feeds, activation_type=activations, weight_type=q.QuantType.QInt8,
                                    per_channel=True, init_overrides=overrides(model) if overrides else None)
        q.quantize(source, target, config)
    else:
        q.quantize_static(source, target, feeds, quant_format=q.QuantFormat.QDQ, per_channel=True,
                          activation_type=activations, weight_type=q.QuantType.QInt8,
                          extra_options={"WeightSymmetric": True, "ActivationSymmetric": False})
    return onnx.load(target)


def sensitive(model):
    """16 bits for what normalisations read and give, residual sums and what a softmax reads."""
    wide = set()
    made = {n.output[0]: n for n in model.graph.node}
    for node in model.graph.node:
        if node.op_type == "LayerNormalization":
            wide |= {node.input[0], node.output[0]}
        elif node.op_type == "Softmax":
            wide |= {node.input[0]}
    for name in list(wide):
        node = made.get(name)
        if node is not None and node.op_type == "Add":
            wide |= {i for i in node.input if i in made}
    return {name: [{"quant_type": q.QuantType.QUInt16}] for name in sorted(wide)}


def cosine(a, b):
    a, b = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def write(out, name, model, reference, sample):
    model.graph.name = name
    onnx.save(model, os.path.join(out, name + ".onnx"))
    run, exact = session(model, plain=True), session(reference)
    names = [v.name for v in run.get_outputs()]
    for index in range(EVALUATE):
        kind = (7 * index + 3) % CLASSES
        feed = sample(kind, 1000 + index)
        folder = os.path.join(out, "expected", name, str(index))
        os.makedirs(folder)
        results, floats = run.run(names, feed), exact.run(names, feed)
        answer = results[-1]
        note = {"onnxruntime": ort.__version__, "class": kind, "inputs": {}, "outputs": {},
                "float": {"cosine": cosine(answer, floats[-1]), "class": int(floats[-1].argmax())}}
        for what, pairs in (("input", feed.items()), ("output", zip(names, results))):
            for value, array in pairs:
                np.save(os.path.join(folder, f"{what}_{value}.npy"), np.ascontiguousarray(array))
                note[what + "s"][value] = f"{what}_{value}.npy"
        with open(os.path.join(folder, "index.json"), "w") as f:
            json.dump(note, f, indent=1)
            f.write("\n")
        best = np.sort(answer.ravel())
        print(f"{name}/{index}: class {kind}, answer {int(answer.argmax())} (float {int(floats[-1].argmax())}), "
              f"margin {best[-1] - best[-2]:.2f}, cosine with float {note['float']['cosine']:.5f}", flush=True)


def main(out):
    logging.getLogger().setLevel(logging.ERROR)
    shutil.rmtree(os.path.join(out, "expected"), ignore_errors=True)
    os.makedirs(out, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for make, variants in (
            (mobilenet, {"mobilenet_v2_u8": {"activations": q.QuantType.QUInt8, "qnn": False},
                         "mobilenet_v2_u16": {"activations": q.QuantType.QUInt16, "opset": 21}}),
            (encoder, {"encoder_u16": {"activations": q.QuantType.QUInt16},
                       "encoder_mixed": {"activations": q.QuantType.QUInt8, "opset": 21, "overrides": sensitive}}),
        ):
            model, sample = make()
            for name, options in variants.items():
                write(out, name, quantised(model, sample, folder, **options), model, sample)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
