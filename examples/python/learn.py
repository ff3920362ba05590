"""Runs a model until its session has settled on a plan, and prints its learning state before and after, in Python.

python learn.py examples/shapes/shapes.onnx cpu,openvino 400
"""

import sys

import numpy

import polychip


def run(session: polychip.Session, inputs: dict, runs: int) -> None:
    for _ in range(runs):
        session.run(inputs)
    learning = session.report().to_dict()["learning"]
    print("settled" if learning["settled"] else "cold", "on", learning["plan"])


def main() -> None:
    if len(sys.argv) != 4:
        raise SystemExit("usage: learn.py MODEL.onnx DEVICES RUNS")
    model, devices, runs = sys.argv[1:]
    session = polychip.Runtime().load(model).session(polychip.Policy.latency(devices=devices, learn="10%"))
    inputs = {info.name: numpy.zeros(info.shape, info.dtype) for info in session.inputs}
    run(session, inputs, 1)
    run(session, inputs, int(runs))


if __name__ == "__main__":
    main()
