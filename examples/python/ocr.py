"""Reads the text of a picture: a detector finds its lines, a recogniser reads them. Sizes differ by picture and line.

python ocr.py DETECTOR.onnx RECOGNISER.onnx PICTURE [DRAWN.png]

Prints score, box and text of each line; DRAWN is the picture with the boxes. The models are PP-OCRv4's, as
examples/ocr/README.md fetches them. Needs pillow.
"""

import sys

import numpy
from PIL import Image, ImageDraw

import polychip

Box = tuple[float, float, float, float]

LONGEST_SIDE, STRIDE = 960, 32  # of what the detector sees
THRESHOLD, LEAST_SCORE, UNCLIP, LEAST_SIDE = 0.3, 0.6, 1.6, 3
DETECTOR_NORMAL = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's
LINE_HEIGHT, LEAST_WIDTH = 48, 16
LINE_NORMAL = (0.5,) * 3, (0.5,) * 3


def session(runtime: polychip.Runtime, path: str) -> polychip.Session:
    """A session that plans once for each new size."""
    return runtime.load(path).session(polychip.Policy.latency())


def write(picture: Image.Image, box: Box, into: polychip.Input, normal: tuple) -> None:
    """Writes a box of the picture into a session's input [1, 3, height, width], normalised: blue, green, red."""
    _, _, height, width = into.shape
    left, top, right, bottom = box
    scale = ((right - left) / width, 0, left, 0, (bottom - top) / height, top)
    resized = picture.transform((width, height), Image.Transform.AFFINE, scale, Image.Resampling.BILINEAR)
    pixels = numpy.asarray(resized, numpy.float32)
    tensor = numpy.asarray(into)  # the memory that devices read, until `tensor` goes
    for channel, (mean, deviation) in enumerate(zip(*normal)):
        tensor[0, channel] = (pixels[:, :, 2 - channel] / 255 - mean) / deviation


def areas(mask: numpy.ndarray) -> list[tuple[int, int, int, int]]:
    """Boxes around connected pixels of a mask."""
    left_over = {(int(y), int(x)) for y, x in zip(*numpy.nonzero(mask))}
    boxes = []
    while left_over:
        first = left_over.pop()
        near, rows, columns = [first], [first[0]], [first[1]]
        while near:
            y, x = near.pop()
            for pixel in [(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]:
                if pixel in left_over:
                    left_over.remove(pixel)
                    near.append(pixel)
                    rows.append(pixel[0])
                    columns.append(pixel[1])
        boxes.append((min(columns), min(rows), max(columns) + 1, max(rows) + 1))
    return boxes


def in_reading_order(boxes: list[Box]) -> list[Box]:
    """Boxes sorted by row from the top, then from the left. A box belongs to the row whose first box reaches below its
    center."""
    rows: list[list[Box]] = []
    for box in sorted(boxes, key=lambda box: box[1]):
        if rows and (box[1] + box[3]) / 2 < rows[-1][0][3]:
            rows[-1].append(box)
        else:
            rows.append([box])
    return [box for row in rows for box in sorted(row)]


class Reader:
    """Two sessions of one runtime."""

    def __init__(self, detector: str, recogniser: str) -> None:
        runtime = polychip.Runtime()
        self.detector = session(runtime, detector)
        model = runtime.load(recogniser)
        self.recogniser = model.session(polychip.Policy.latency())
        # before the letters stands the sign for none, behind them the space
        self.letters = ["", *model.metadata["character"].rstrip("\n").split("\n"), " "]

    def detect(self, picture: Image.Image) -> list[Box]:
        """Boxes of the lines, in the picture's pixels."""
        scale = min(1, LONGEST_SIDE / max(picture.size))
        width, height = (max(STRIDE, round(side * scale / STRIDE) * STRIDE) for side in picture.size)
        image = self.detector.input("x", [1, 3, height, width])
        write(picture, (0, 0, *picture.size), image, DETECTOR_NORMAL)
        [output] = self.detector.run({"x": image}).values()
        probabilities = output[0, 0]
        x, y = picture.width / width, picture.height / height
        boxes = []
        for left, top, right, bottom in areas(probabilities > THRESHOLD):
            wide, high = right - left, bottom - top
            if min(wide, high) < LEAST_SIDE or probabilities[top:bottom, left:right].mean() < LEAST_SCORE:
                continue
            # the model marks the core of a line
            more = UNCLIP * wide * high / (2 * (wide + high))
            left, top = max(0, (left - more) * x), max(0, (top - more) * y)
            right, bottom = min(picture.width, (right + more) * x), min(picture.height, (bottom + more) * y)
            boxes.append((left, top, right, bottom))
        return in_reading_order(boxes)

    def line(self, picture: Image.Image, box: Box) -> tuple[float, str]:
        """Score and text of a line."""
        left, top, right, bottom = box
        width = max(LEAST_WIDTH, round(LINE_HEIGHT * (right - left) / (bottom - top)))
        image = self.recogniser.input("x", [1, 3, LINE_HEIGHT, width])
        write(picture, box, image, LINE_NORMAL)
        [output] = self.recogniser.run({"x": image}).values()
        best = output[0].argmax(axis=1)
        # a letter counts where it differs from the step before
        kept = (best != 0) & numpy.concatenate([[True], best[1:] != best[:-1]])
        score = output[0, kept, best[kept]].mean() if kept.any() else 0.0
        return float(score), "".join(self.letters[letter] for letter in best[kept])

    def read(self, picture: Image.Image) -> list[tuple[float, Box, str]]:
        """Score, box and text of each line."""
        lines = []
        for box in self.detect(picture):
            score, text = self.line(picture, box)
            lines.append((score, box, text))
        return lines


def drawn(picture: Image.Image, boxes: list[Box]) -> Image.Image:
    """The picture with the boxes."""
    picture = picture.copy()
    draw = ImageDraw.Draw(picture)
    for box in boxes:
        draw.rectangle(box, outline=(255, 0, 0), width=2)
    return picture


def main() -> None:
    if len(sys.argv) not in (4, 5):
        raise SystemExit("usage: ocr.py DETECTOR.onnx RECOGNISER.onnx PICTURE [DRAWN.png]")
    picture = Image.open(sys.argv[3]).convert("RGB")
    lines = Reader(*sys.argv[1:3]).read(picture)
    for score, box, text in lines:
        print(f"{score:.2f} ", *(f"{side:4.0f}" for side in box), f" {text}")
    if len(sys.argv) == 5:
        drawn(picture, [box for _, box, _ in lines]).save(sys.argv[4])


if __name__ == "__main__":
    main()
