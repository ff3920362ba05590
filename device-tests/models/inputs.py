"""Inputs such as trained models meet: drawn pages, speech-like sound, bytes, words. The same on every machine.

A description is a table of models.toml: `kind` names one of the functions below, `shape` what the model is given.
"""

import io

import numpy as np
from PIL import Image, ImageDraw, ImageFont

TEXT = (
    "Polychip runs one model across every chip. Invoice 2026-11-24: 3 lamps, 12.50 each, total 37.50. "
    "The quick brown fox jumps over the lazy dog while 14 ships sail from Bergen to Porto. "
)


def drawing(height, width, rows):
    """A white page with lines of text, a frame and a grey box, as bytes in height, width, channel."""
    picture = Image.new("RGB", (width, height), (250, 250, 246))
    pen = ImageDraw.Draw(picture)
    size = max(8, int(height / rows * 0.7))
    font = ImageFont.load_default(size)
    words = TEXT.split()
    at = 0
    for row in range(rows):
        line = ""
        while pen.textlength(line, font) < width * 0.85:
            line += words[at % len(words)] + " "
            at += 1
        pen.text((width * 0.04, row * height / rows + size * 0.15), line, (20, 22, 30), font)
    if rows > 1:
        pen.rectangle((width * 0.6, height * 0.7, width * 0.95, height * 0.9), (180, 185, 190), (40, 60, 120), 3)
    return np.asarray(picture, np.float32)


def planes(picture, given):
    """The picture in the range, order of channels and axes that a model was trained on."""
    picture = (picture / 255 - given.get("mean", 0.0)) / given.get("deviation", 1.0) * given.get("scale", 1.0)
    if given["shape"][1] == 1:
        picture = picture.mean(axis=2, keepdims=True)
    if given.get("order") != "NHWC":
        picture = picture.transpose(2, 0, 1)
    return np.broadcast_to(picture[None], given["shape"]).astype(np.float32)


def page(given):
    """A page of text."""
    height, width = given["shape"][1:3] if given.get("order") == "NHWC" else given["shape"][2:4]
    return planes(drawing(height, width, given.get("rows", max(2, height // 40))), given)


def line(given):
    """One line of text."""
    return planes(drawing(given["shape"][2], given["shape"][3], 1), given)


def speech(count, rate=16000):
    """Syllables: a gliding pitch with three formants, noise between them, and pauses."""
    random = np.random.default_rng(24)
    seconds = np.arange(count) / rate
    pitch = 120 + 25 * np.sin(2 * np.pi * 0.7 * seconds)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voice = np.zeros(count)
    for harmonic in range(1, 30):
        frequency = harmonic * pitch
        gain = sum(
            width / (width + np.abs(frequency - centre * (1 + 0.2 * np.sin(2 * np.pi * 2.3 * seconds + centre))))
            for centre, width in ((600, 60), (1400, 90), (2600, 120))
        )
        voice += gain / harmonic * np.sin(harmonic * phase)
    syllable = np.clip(np.sin(2 * np.pi * 3.1 * seconds), 0, 1)
    sound = voice * syllable + 0.02 * random.standard_normal(count)
    return (0.3 * sound / np.abs(sound).max()).astype(np.float32)


def sound(given):
    """Samples of speech-like sound, in order over all axes."""
    shape = given["shape"]
    return speech(int(np.prod(shape)), given.get("rate", 16000)).reshape(shape)


def spectrum(given):
    """Logarithmic magnitudes of speech-like sound; the last axis is frequency, or the one before with `order` FT."""
    shape = given["shape"]
    frames, bins = (shape[-1], shape[-2]) if given.get("order") == "FT" else (shape[-2], shape[-1])
    hop, size = 160, max(512, 2 * bins)
    samples = speech(frames * hop + size)
    window = np.hanning(size)
    starts = np.arange(frames)[:, None] * hop + np.arange(size)
    magnitudes = np.abs(np.fft.rfft(samples[starts] * window))[:, :bins]
    values = np.log10(np.maximum(magnitudes**2, 1e-7))
    values = (values - values.mean()) / 4 if given.get("centred", True) else values
    if given.get("order") == "FT":
        values = values.T
    return np.broadcast_to(values, shape).astype(np.float32)


def letters(given):
    """Numbers of letters below `below`, as words have them."""
    count = int(np.prod(given["shape"]))
    text = (TEXT * (count // len(TEXT) + 1))[:count]
    return np.array([1 + ord(c) % (given["below"] - 1) for c in text]).reshape(given["shape"]).astype(given["dtype"])


def document(given):
    """Bytes of a PNG file, as a file type detector reads them; the last number means padding."""
    file = io.BytesIO()
    Image.fromarray(drawing(240, 320, 6).astype(np.uint8)).save(file, "PNG")
    count = int(np.prod(given["shape"]))
    data = np.frombuffer(file.getvalue()[:count], np.uint8).astype(given["dtype"])
    return np.pad(data, (0, count - data.size), constant_values=256).reshape(given["shape"])


def zeros(given):
    """A state before the first call."""
    return np.zeros(given["shape"], given.get("dtype", "float32"))


def number(given):
    """One value everywhere."""
    return np.full(given["shape"], given["value"], given.get("dtype", "float32"))


def embedding(given):
    """A vector of unit variance."""
    return np.random.default_rng(7).standard_normal(given["shape"]).astype(np.float32)


def table(given):
    """Rows of numbers; a share of them `missing`, the first `kinds` columns whole numbers below five."""
    random = np.random.default_rng(11)
    rows = random.standard_normal(given["shape"]).astype(np.float32)
    kinds = given.get("kinds", 0)
    rows[:, :kinds] = random.integers(0, 5, (len(rows), kinds))
    rows[random.random(rows.shape) < given.get("missing", 0)] = np.nan
    return rows


def make(given):
    """The array of a description."""
    return globals()[given["kind"]](given)
