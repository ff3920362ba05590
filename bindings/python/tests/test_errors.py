"""What is wrong is an exception that names it."""

import os

import numpy
import pytest

import polychip
from conftest import double


def test_mismatched_inputs_are_refused(doubler, x):
    wrong = [
        ({"x": x.astype(numpy.float64)}, polychip.BadInputError, "float32, not float64"),
        ({"x": x.reshape(3, 2)}, polychip.BadInputError, r"\[3, 2\]"),
        ({"z": x}, polychip.BadInputError, "no input \"z\"; it has x"),
        ({}, polychip.BadInputError, "x"),
        ({1: x}, TypeError, "by name"),
        ({"x": "text"}, TypeError, "an input is an array"),
        ({"x": 3}, TypeError, "an input is an array"),
        ({"x": [1.0, 2.0]}, TypeError, "an input is an array"),
        ({"x": None}, TypeError, "an input is an array"),
        ({"x": x.astype(">f4")}, polychip.BadInputError, ">f"),
        ({"x": x.astype("datetime64[s]")}, polychip.BadInputError, "neither as a buffer"),
    ]
    for inputs, kind, words in wrong:
        with pytest.raises(kind, match=words):
            doubler.run(inputs)
    numpy.testing.assert_array_equal(doubler.run({"x": x})["y"], x + x)


def test_memory_of_another_input_or_session_is_refused(runtime, doubler, x):
    other = runtime.load(double([2, 3])).session()
    with pytest.raises(polychip.BadInputError):
        other.run({"x": doubler.input("x")})
    with pytest.raises(polychip.BadInputError, match="no input"):
        doubler.input("q")


def test_dlpack_array_on_another_device_is_refused(doubler):
    class OnGpu:
        def __dlpack__(self, **words):
            raise AssertionError("not asked")

        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(polychip.BadInputError, match="copy it there first"):
        doubler.run({"x": OnGpu()})


def test_invalid_models_are_refused(runtime, tmp_path):
    with pytest.raises((polychip.BadModelError, OSError)):
        runtime.load(tmp_path / "none.onnx")
    for bytes_ in (b"", b"\x00" * 100, os.urandom(1000), double([2])[:-3]):
        with pytest.raises(polychip.BadModelError):
            runtime.load(bytes_)
    with pytest.raises(TypeError, match="path or bytes"):
        runtime.load(7)


def test_unknown_settings_are_refused():
    with pytest.raises(polychip.Error, match="threads"):
        polychip.Policy.latency(thread=1)
    with pytest.raises(polychip.Error, match="exact"):
        polychip.Policy.latency(precision="roughly")
    with pytest.raises(TypeError, match="threads"):
        polychip.Policy.latency(threads=object())
    with pytest.raises(polychip.BadInputError):
        polychip.Runtime(settings={"isa": "avx2"})
    words = polychip.Policy.latency(
        deadline=33, devices=["cpu:0"], pin={"Conv_*": "cpu:0"}, background_planning=True, buckets={"n": [1, 4]}, in_flight=2
    )
    assert words == polychip.Policy.latency(
        deadline="33ms", devices="cpu:0", pin="Conv_*=cpu:0", background_planning="yes", buckets="n=1,4", in_flight="2"
    )
    assert polychip.Policy.latency(threads=2) == polychip.Policy.latency(threads=2) != polychip.Policy.energy()


def test_missing_device_is_refused(runtime):
    with pytest.raises(polychip.Error, match="nothing:0"):
        runtime.load(double([2])).session(polychip.Policy.latency(devices=["nothing:0"]))


def test_invalid_times_are_refused(doubler, x):
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(polychip.BadInputError, match="milliseconds"):
            doubler.run({"x": x}, timeout_ms=wrong)
