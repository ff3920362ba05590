#!/usr/bin/env python3
"""Draw the pictures that the `shapes` model is trained and judged on.

    draw.py OUT.png [--split SPLIT] [--count N]      a contact sheet, to look at

A picture is 96 x 96 RGB and shows one shape of one class somewhere on a cluttered ground, under
uneven light, partly covered, blurred and noisy. It depends on nothing but its split and its index:
each picture has a generator of its own, seeded with [SPLIT, index], so that the splits cannot
overlap and any picture can be drawn again alone. Needs numpy and pillow only.
"""
import argparse
import math

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

CLASSES = ["arrow", "bolt", "circle", "crescent", "cross", "drop", "heart", "hexagon", "ring", "square", "star", "triangle"]
SIZE = 96
SUPER = 3  # drawn this many times larger, then averaged down: smooth edges
SPLITS = {"train": 1, "calibration": 2, "held-out": 3, "sheet": 4, "shipped": 5}


def regular(n, phase=0.0, radius=1.0):
    a = phase + np.arange(n) * (2 * math.pi / n)
    return radius * np.stack([np.cos(a), np.sin(a)], 1)


def outline(name, rng):
    """The shape's outer polygon, centred and of radius about 1, and its hole or None."""
    if name == "arrow":
        w, h, neck = rng.uniform(0.20, 0.30), rng.uniform(0.60, 0.80), rng.uniform(-0.05, 0.2)
        return np.array([(1, 0), (neck, h), (neck, w), (-0.95, w), (-0.95, -w), (neck, -w), (neck, -h)]), None
    if name == "bolt":
        return np.array([(0.15, -1), (-0.6, 0.15), (-0.08, 0.15), (-0.3, 1), (0.6, -0.25), (0.06, -0.25), (0.5, -1)]), None
    if name == "circle":
        return regular(64), None
    if name == "crescent":
        # The disc less a second disc of radius r whose centre lies d to the right.
        d, r = rng.uniform(0.45, 0.6), rng.uniform(0.78, 0.88)
        x = (1 + d * d - r * r) / (2 * d)
        y = math.sqrt(1 - x * x)
        a, b = math.atan2(y, x), math.atan2(y, x - d)
        outer = np.linspace(a, 2 * math.pi - a, 40)
        inner = np.linspace(2 * math.pi - b, b, 40)
        arc = np.concatenate([np.stack([np.cos(outer), np.sin(outer)], 1), np.stack([d + r * np.cos(inner), r * np.sin(inner)], 1)])
        return arc + [0.25, 0], None
    if name == "cross":
        w = rng.uniform(0.24, 0.36)
        return np.array([(w, 1), (w, w), (1, w), (1, -w), (w, -w), (w, -1), (-w, -1), (-w, -w), (-1, -w), (-1, w), (-w, w), (-w, 1)]), None
    if name == "drop":
        t = np.linspace(0, 2 * math.pi, 48, endpoint=False)
        return np.stack([np.cos(t) * 1.05, rng.uniform(0.95, 1.1) * np.sin(t) * np.sin(t / 2) ** 1.6], 1), None
    if name == "heart":
        t = np.linspace(0, 2 * math.pi, 60, endpoint=False)
        y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
        return np.stack([16 * np.sin(t) ** 3, -(y + 2.5)], 1) / 16, None
    if name == "hexagon":
        return regular(6), None
    if name == "ring":
        return regular(64), regular(64, radius=rng.uniform(0.45, 0.68))
    if name == "square":
        return regular(4, math.pi / 4, 1.1), None
    if name == "star":
        radius = np.where(np.arange(10) % 2 == 0, 1.1, rng.uniform(0.42, 0.54))
        return regular(10) * radius[:, None], None
    if name == "triangle":
        return regular(3, radius=1.15), None
    raise ValueError(name)


def colour(rng):
    return rng.uniform(0, 255, 3)


def rgb(c):
    return tuple(int(v) for v in np.clip(c, 0, 255))


def ground(rng, side):
    """A colour gradient with a soft random texture."""
    a, b, t = colour(rng), colour(rng), rng.uniform(0, 2 * math.pi)
    y, x = np.mgrid[0:side, 0:side] / side - 0.5
    mix = np.clip(0.5 + (x * math.cos(t) + y * math.sin(t)) * rng.uniform(0.2, 1.2), 0, 1)[..., None]
    n = int(rng.integers(3, 14))
    coarse = Image.fromarray(rng.integers(0, 256, (n, n, 3), dtype=np.uint8))
    texture = np.asarray(coarse.resize((side, side), Image.Resampling.BICUBIC), np.float32) - 127.5
    return np.clip(a * mix + b * (1 - mix) + texture * rng.uniform(0, 0.3), 0, 255).astype(np.uint8)


def blob(rng, centre, radius):
    """An irregular polygon that no class resembles."""
    n = int(rng.integers(5, 9))
    a = np.sort(rng.uniform(0, 2 * math.pi, n))
    r = radius * rng.uniform(0.35, 1.0, n)
    return [tuple(p) for p in np.asarray(centre) + np.stack([np.cos(a) * r, np.sin(a) * r], 1)]


def clutter(pen, rng, side):
    """Strips, lines, dots and blobs behind the shape, all small or thin beside it."""
    for _ in range(int(rng.integers(0, 8))):
        kind, c = rng.integers(0, 3), rgb(colour(rng))
        p = rng.uniform(0, side, 2)
        if kind == 0:
            pen.line([*p, *rng.uniform(0, side, 2)], c, int(rng.integers(2, 14)))
        elif kind == 1:
            pen.polygon(blob(rng, p, rng.uniform(8, 30)), c)
        else:
            r = rng.uniform(2, 9)
            pen.ellipse([p[0] - r, p[1] - r, p[0] + r, p[1] + r], c)


def shape(picture, name, rng, side):
    """Draw the shape on the picture; returns its centre and radius."""
    outer, hole = outline(name, rng)
    radius = rng.uniform(0.19, 0.43) * side
    margin = radius * 0.95
    centre = rng.uniform(margin, side - margin, 2)
    t, stretch, shear = rng.uniform(0, 2 * math.pi), rng.uniform(0.82, 1.22), rng.uniform(-0.18, 0.18)
    u = rng.uniform(0, 2 * math.pi)  # the direction of stretch and shear, independent of the pose
    turn = lambda v: np.array([[math.cos(v), -math.sin(v)], [math.sin(v), math.cos(v)]])
    pose = radius * turn(u) @ np.array([[stretch, shear], [0, 1 / stretch]]) @ turn(-u) @ turn(t)
    place = lambda polygon, s=1.0: [tuple(p) for p in centre + s * polygon @ pose.T]

    # A fill that stands out from the ground it lies on.
    x, y = (int(np.clip(v, 0, side - 1)) for v in centre)
    near = np.asarray(picture.crop((max(0, x - 30), max(0, y - 30), x + 30, y + 30)), np.float32).mean((0, 1))
    fill = colour(rng)
    while np.linalg.norm(fill - near) < 80:
        fill = colour(rng)

    mask = Image.new("L", (side, side), 0)
    pen = ImageDraw.Draw(mask)
    pen.polygon(place(outer), 255)
    if hole is not None:
        pen.polygon(place(hole), 0)
    if rng.random() < 0.3:  # a shadow
        shift = rng.uniform(-0.12, 0.12, 2) * radius
        dark = mask.transform(mask.size, Image.Transform.AFFINE, (1, 0, -shift[0], 0, 1, -shift[1])).filter(ImageFilter.GaussianBlur(4))
        picture.paste((0, 0, 0), (0, 0), dark.point(lambda v: v // 2))
    paint = Image.new("RGB", (side, side), rgb(fill))
    if rng.random() < 0.5:  # shaded from one colour to a near one
        tint = Image.fromarray(np.linspace(0, 255, 64, dtype=np.uint8)[None].repeat(64, 0)).rotate(float(rng.uniform(0, 360))).resize((side, side))
        paint.paste(rgb(fill + rng.uniform(-60, 60, 3)), (0, 0), tint)
    pen = ImageDraw.Draw(paint)
    if rng.random() < 0.25:  # stripes
        c, step, width = rgb(fill + rng.uniform(-70, 70, 3)), int(rng.integers(14, 40)), int(rng.integers(3, 9))
        slope = int(rng.integers(-side, side))
        for k in range(-side, 2 * side, step):
            pen.line([k, 0, k + slope, side], c, width)
    if rng.random() < 0.3:  # a thin rim
        c, w = rgb(colour(rng)), max(3, int(radius * rng.uniform(0.06, 0.14)))
        for polygon in (outer, hole):
            if polygon is not None:
                p = place(polygon)
                pen.line([*p, p[0], p[1]], c, w, joint="curve")
    picture.paste(paint, (0, 0), mask)
    return centre, radius


def cover(pen, rng, centre, radius):
    """Something in front of the shape: a bar across it, or a blob over its edge."""
    c = rgb(colour(rng))
    a = rng.uniform(0, 2 * math.pi)
    d = np.array([math.cos(a), math.sin(a)])
    if rng.random() < 0.5:
        middle = centre + np.array([-d[1], d[0]]) * rng.uniform(-0.8, 0.8) * radius
        pen.line([*(middle - 400 * d), *(middle + 400 * d)], c, int(radius * rng.uniform(0.06, 0.22)))
    else:
        pen.polygon(blob(rng, centre + d * radius * rng.uniform(0.7, 1.1), radius * rng.uniform(0.25, 0.45)), c)


def draw(split, index):
    """The picture `index` of a split: (uint8 [96, 96, 3], label). Labels go round."""
    rng = np.random.default_rng([SPLITS[split], index])
    label, side = index % len(CLASSES), SIZE * SUPER
    picture = Image.fromarray(ground(rng, side))
    clutter(ImageDraw.Draw(picture), rng, side)
    centre, radius = shape(picture, CLASSES[label], rng, side)
    if rng.random() < 0.45:
        cover(ImageDraw.Draw(picture), rng, centre, radius)
    if rng.random() < 0.4:
        picture = picture.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.5, 4.0))))
    p = np.asarray(picture.resize((SIZE, SIZE), Image.Resampling.BOX), np.float32)
    # Light: a ramp of brightness with a tint, then contrast, then the sensor's noise.
    y, x = np.mgrid[0:SIZE, 0:SIZE] / SIZE - 0.5
    t = rng.uniform(0, 2 * math.pi)
    ramp = 1 + rng.uniform(0, 0.7) * (x * math.cos(t) + y * math.sin(t))
    p = p * ramp[..., None] * rng.uniform(0.85, 1.1, 3)
    p = (p - 127.5) * rng.uniform(0.6, 1.15) + 127.5 + rng.uniform(-25, 25)
    if rng.random() < 0.6:
        p = p + rng.standard_normal(p.shape, dtype=np.float32) * rng.uniform(0, 14)
    return np.clip(np.rint(p), 0, 255).astype(np.uint8), label


def batch(split, indices):
    """Several pictures of a split: (uint8 [n, 96, 96, 3], int64 [n])."""
    pictures = [draw(split, i) for i in indices]
    return np.stack([p for p, _ in pictures]), np.array([c for _, c in pictures], np.int64)


def sheet(pictures, columns):
    """Pictures [n, 96, 96, 3] side by side in rows of `columns`, as one picture."""
    n = len(pictures)
    assert n % columns == 0, (n, columns)
    return Image.fromarray(pictures.reshape(n // columns, columns, SIZE, SIZE, 3).transpose(0, 2, 1, 3, 4).reshape(n // columns * SIZE, columns * SIZE, 3))


if __name__ == "__main__":
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("out")
    a.add_argument("--split", choices=SPLITS, default="train")
    a.add_argument("--count", type=int, default=96)
    a = a.parse_args()
    sheet(batch(a.split, range(a.count // 12 * 12))[0], 12).save(a.out)
