"""Names the shape in a picture, as the first command of the README does, in Python.

python label.py examples/shapes/shapes.onnx examples/shapes/star.ppm examples/shapes/labels.txt
"""

import sys

import numpy

import polychip


def read_ppm(path: str) -> numpy.ndarray:
    """A PPM picture of 8 bits as f32 [1, 3, height, width], from 0 to 1."""
    with open(path, "rb") as file:
        content = file.read()
    words: list[bytes] = []
    rest = content
    while len(words) < 4:
        line, _, rest = rest.partition(b"\n")
        words += line.partition(b"#")[0].split()
    if words[0] != b"P6" or words[3] != b"255":
        raise SystemExit(f"{path} is no PPM picture of 8 bits")
    width, height = int(words[1]), int(words[2])
    pixels = numpy.frombuffer(rest, numpy.uint8, width * height * 3).reshape(height, width, 3)
    return numpy.ascontiguousarray(pixels.transpose(2, 0, 1)[None], numpy.float32) / 255


def main() -> None:
    if len(sys.argv) != 4:
        raise SystemExit("usage: label.py MODEL.onnx PICTURE.ppm LABELS.txt")
    model, picture, labels = sys.argv[1:]
    session = polychip.Runtime().load(model).session(polychip.Policy.latency())
    inputs = {session.inputs[0].name: read_ppm(picture)}
    session.run(inputs)  # a first run, and one that is warm, for the report
    probabilities = session.run(inputs)[session.outputs[0].name].ravel()
    best = int(probabilities.argmax())
    with open(labels) as file:
        print(f"{file.read().splitlines()[best]}: probability {probabilities[best]:.4f}\n")
    print(session.report())


if __name__ == "__main__":
    main()
