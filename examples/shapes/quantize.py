#!/usr/bin/env python3
"""Make shapes-int8.onnx, the shipped pictures and the figures from shapes.onnx.

    quantize.py [--held-out N] [--calibration N]

Writes into its own folder: shapes-int8.onnx (static QDQ: u8 activations, s8 weights per channel),
labels.txt, pictures/CLASS.png, held-out.png (a sheet for the accuracy test), expected/MODEL.npy
(ONNX Runtime's probabilities for the shipped pictures, [12, 12] f32, a row per picture in the order
of labels.txt) and figures.json. Fails where the int8 model loses more than a point of accuracy or
the float model is right less than 97 times in 100. Needs onnx, onnxruntime, numpy and pillow.
"""
import argparse
import json
import os
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime import quantization as q
from onnxruntime.quantization.shape_inference import quant_pre_process

import draw

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS, ROWS = 24, 12  # of held-out.png; 24 is twice the classes: each row shows every class twice
SHEET_STEP = 16  # the sheet's colours are multiples of this: it has to be small, and PNG cannot pack noise


def tensor(picture):
    """uint8 [96, 96, 3] → f32 [1, 3, 96, 96] in [0, 1]."""
    return np.ascontiguousarray(picture.transpose(2, 0, 1)[None], np.float32) / np.float32(255)


class Calibration(q.CalibrationDataReader):
    def __init__(self, n):
        self.rest = iter(range(n))

    def get_next(self):
        i = next(self.rest, None)
        return None if i is None else {"image": tensor(draw.draw("calibration", i)[0])}


def quantise(source, target, n):
    with tempfile.TemporaryDirectory() as folder:
        ready = os.path.join(folder, "ready.onnx")
        quant_pre_process(source, ready, skip_symbolic_shape=True)
        # The softmax stays in float: eight bits would round the probabilities to 256 steps.
        q.quantize_static(ready, target, Calibration(n), quant_format=q.QuantFormat.QDQ, per_channel=True,
                          activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8,
                          op_types_to_quantize=["Conv", "Clip", "Add", "GlobalAveragePool", "Flatten", "Gemm"],
                          extra_options={"WeightSymmetric": True, "ActivationSymmetric": False})
    m = onnx.load(target)
    m.graph.name = "shapes-int8"
    used = {node.domain for node in m.graph.node}
    for stated in [o for o in m.opset_import if o.domain not in used]:  # the quantiser states domains that it does not use
        m.opset_import.remove(stated)
    onnx.helper.set_model_props(m, {p.key: p.value for p in onnx.load(source).metadata_props})
    onnx.checker.check_model(m, full_check=True)
    onnx.save(m, target)


def session(path, plain=False):
    """`plain`: no graph optimisation, so that a QDQ model is computed as the standard words it."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    if plain:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def probabilities(s, pictures):
    return np.concatenate([s.run(None, {"image": tensor(p)})[0] for p in pictures])


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--held-out", type=int, default=12000)
    a.add_argument("--calibration", type=int, default=240)
    a = a.parse_args()
    at = lambda *p: os.path.join(HERE, *p)
    for folder in ("pictures", "expected"):
        os.makedirs(at(folder), exist_ok=True)
    with open(at("labels.txt"), "w") as f:
        f.write("".join(c + "\n" for c in draw.CLASSES))
    quantise(at("shapes.onnx"), at("shapes-int8.onnx"), a.calibration)
    names = ["shapes", "shapes-int8"]
    fast = {n: session(at(n + ".onnx")) for n in names}

    # A picture of each class: the first of its split that both models name rightly.
    n, shipped = len(draw.CLASSES), []
    for label in range(n):
        index = next(i for i in range(label, 100 * n, n)
                     if all(probabilities(s, [draw.draw("shipped", i)[0]]).argmax() == label for s in fast.values()))
        shipped.append(draw.draw("shipped", index)[0])
        draw.Image.fromarray(shipped[-1]).save(at("pictures", draw.CLASSES[label] + ".png"), optimize=True)
    figures = {"pictures": {}, "sheet": {"columns": COLUMNS, "rows": ROWS}, "held_out": {"pictures": a.held_out}}
    for name in names:
        want = probabilities(session(at(name + ".onnx"), plain=True), shipped)
        assert (want.argmax(1) == np.arange(n)).all(), name
        np.save(at("expected", name + ".npy"), want)
        figures["pictures"][name] = {"lowest_probability": round(float(want.max(1).min()), 4),
                                     "optimised_minus_plain": float(np.abs(probabilities(fast[name], shipped) - want).max())}

    pictures, labels = draw.batch("sheet", range(COLUMNS * ROWS))
    pictures = np.minimum((pictures.astype(np.uint16) + SHEET_STEP // 2) // SHEET_STEP * SHEET_STEP, 255).astype(np.uint8)
    draw.sheet(pictures, COLUMNS).save(at("held-out.png"), optimize=True)
    for name, s in fast.items():
        right = int((probabilities(s, pictures).argmax(1) == labels).sum())
        figures["sheet"][name] = {"right": right, "accuracy": round(right / len(labels), 4)}

    confused = {name: np.zeros((n, n), int) for name in names}
    for i in range(a.held_out):
        picture, label = draw.draw("held-out", i)
        for name, s in fast.items():
            confused[name][label, probabilities(s, [picture])[0].argmax()] += 1
        if i % 2000 == 1999:
            print(f"{i + 1} of {a.held_out} held-out pictures", flush=True)
    for name, c in confused.items():
        figures["held_out"][name] = {"right": int(c.trace()), "accuracy": round(float(c.trace() / c.sum()), 4),
                                     "lowest_class": round(float((c.diagonal() / c.sum(1)).min()), 4)}
    figures["bytes"] = {name: os.path.getsize(at(name + ".onnx")) for name in names}
    with open(at("figures.json"), "w") as f:
        json.dump(figures, f, indent=1)
        f.write("\n")
    print(json.dumps(figures, indent=1))
    whole, small = (figures["held_out"][name]["accuracy"] for name in names)
    if whole < 0.97 or small < whole - 0.01:
        raise SystemExit(f"too inaccurate: float {whole}, int8 {small}")


if __name__ == "__main__":
    main()
