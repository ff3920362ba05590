"""Runs a model until its session has settled on a plan, and prints its learning state before and after, through ONNX Runtime with the
Polychip provider.

python learn.py examples/shapes/shapes.onnx cpu,openvino 400
"""

import sys

import numpy
import onnxruntime

import polychip_ort

TYPES = {"tensor(float)": numpy.float32, "tensor(int64)": numpy.int64}


def run(session: onnxruntime.InferenceSession, inputs: dict, runs: int) -> None:
    for _ in range(runs):
        session.run(None, inputs)
    learning = polychip_ort.reports()[0]["parts"][0]["report"]["learning"]
    print("settled" if learning["settled"] else "cold", "on", learning["plan"])


def main() -> None:
    if len(sys.argv) != 4:
        raise SystemExit("usage: learn.py MODEL.onnx DEVICES RUNS")
    model, devices, runs = sys.argv[1:]
    name = polychip_ort.get_ep_name()
    onnxruntime.register_execution_provider_library(name, polychip_ort.get_library_path())
    offered = [device for device in onnxruntime.get_ep_devices() if device.ep_name == name]
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(offered[:1], {"devices": devices, "learn": "10%"})
    session = onnxruntime.InferenceSession(model, options)
    inputs = {info.name: numpy.zeros(info.shape, TYPES[info.type]) for info in session.get_inputs()}
    run(session, inputs, 1)
    run(session, inputs, int(runs))


if __name__ == "__main__":
    main()
