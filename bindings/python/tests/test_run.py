"""Runs, and what they give."""

import base64
import gzip
import json
import re
import subprocess
import sys

import numpy
import pytest
from onnx import TensorProto, helper

import polychip
from conftest import ROOT, double, model, value


def test_example_prints_the_output_of_the_readmes_first_command():
    example = ROOT / "examples/python/label.py"
    files = ["examples/shapes/shapes.onnx", "examples/shapes/star.ppm", "examples/shapes/labels.txt"]
    said = subprocess.run([sys.executable, example, *files], cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout.startswith("star: probability 0.9747\n"), said.stdout


def test_outputs_equal_numpys_and_the_report_lists_the_parts(doubler, x):
    y = doubler.run({"x": x})["y"]
    assert isinstance(y, numpy.ndarray) and y.dtype == numpy.float32
    numpy.testing.assert_array_equal(y, x + x)
    report = doubler.report().to_dict()
    assert report["runs"] == 1 and report["copies"] == 0
    assert report["parts"][0]["device"] == "cpu:0"
    assert "cpu:0" in str(doubler.report())


@pytest.mark.parametrize(
    "dtype",
    ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"],
)
def test_every_numpy_type_round_trips(runtime, dtype):
    x = numpy.arange(12).reshape(3, 4).astype(dtype)
    session = runtime.load(double([3, 4], helper.np_dtype_to_tensor_dtype(x.dtype))).session()
    y = session.run({"x": x})["y"]
    assert y.dtype == x.dtype
    numpy.testing.assert_array_equal(y, x + x)


def test_output_is_unchanged_by_later_runs(doubler, x):
    kept = [(turn, doubler.run({"x": x + turn})["y"]) for turn in range(40)]
    for turn, y in kept:
        numpy.testing.assert_array_equal(y, 2 * (x + turn))
    assert len({y.ctypes.data for _, y in kept}) == 40


def test_memory_of_released_outputs_is_reused(doubler, x):
    places = set()
    for _ in range(50):
        y = doubler.run({"x": x})["y"]
        places.add(y.ctypes.data)
        del y
    assert len(places) <= 2, places


def test_an_output_may_be_written(doubler, x):
    y = doubler.run({"x": x})["y"]
    y += 1
    numpy.testing.assert_array_equal(y, 2 * x + 1)


def test_open_sizes_take_any_shape(runtime):
    session = runtime.load(double(["rows", 3])).session()
    assert session.inputs[0].shape == ("rows", 3)
    for rows in (1, 5, 2, 0):
        x = numpy.full((rows, 3), rows, numpy.float32)
        numpy.testing.assert_array_equal(session.run({"x": x})["y"], x + x)
    session.prepare({"x": [7, 3]})


def test_output_with_a_size_known_only_to_the_run(runtime):
    nonzero = model(
        [helper.make_node("NonZero", ["x"], ["y"])], [value("x", [6])], [value("y", [1, None], TensorProto.INT64)]
    )
    session = runtime.load(nonzero).session()
    x = numpy.array([0, 1, 0, 2, 3, 0], numpy.float32)
    numpy.testing.assert_array_equal(session.run({"x": x})["y"], [[1, 3, 4]])


def test_strings_are_lists(runtime):
    text = model(
        [helper.make_node("Identity", ["x"], ["y"])],
        [value("x", [2, 2], TensorProto.STRING)],
        [value("y", [2, 2], TensorProto.STRING)],
    )
    session = runtime.load(text).session()
    words = [["a", "bä"], ["", "d"]]
    assert session.run({"x": words})["y"] == words
    for kind in (object, str):
        assert session.run({"x": numpy.array(words, kind)})["y"] == words
    plain = [["a", "bc"], ["", "d"]]
    assert session.run({"x": numpy.array(plain, "S")})["y"] == plain


def test_an_array_of_no_strings_keeps_its_shape(runtime):
    text = model(
        [helper.make_node("Shape", ["x"], ["y"])],
        [value("x", ["n", 2], TensorProto.STRING)],
        [value("y", [2], TensorProto.INT64)],
    )
    session = runtime.load(text).session()
    assert session.run({"x": numpy.empty((0, 2), str)})["y"].tolist() == [0, 2]


def test_random_numbers_follow_the_seed_and_the_run(runtime):
    noise = model(
        [helper.make_node("RandomNormalLike", ["x"], ["y"])], [value("x", [4, 5])], [value("y", [4, 5])]
    )
    x = {"x": numpy.zeros((4, 5), numpy.float32)}

    def drawn(**policy):
        session = runtime.load(noise).session(polychip.Policy.latency(**policy))
        return [session.run(x)["y"] for _ in range(2)]

    first, second = drawn()
    assert not numpy.array_equal(first, second)
    numpy.testing.assert_array_equal(drawn(seed=0), [first, second])
    assert not numpy.array_equal(drawn(seed=7)[0], first)


def test_a_scalar_and_an_empty_tensor(runtime):
    session = runtime.load(double([])).session()
    for three in (numpy.float32(3), numpy.array(3, numpy.float32)):
        y = session.run({"x": three})["y"]
        assert y.shape == () and y == 6
    session = runtime.load(double([0, 4])).session()
    assert session.run({"x": numpy.zeros((0, 4), numpy.float32)})["y"].shape == (0, 4)


def test_a_state_stays_with_the_session(runtime):
    add = model(
        [helper.make_node("Add", ["x", "was"], ["now"]), helper.make_node("Identity", ["now"], ["y"])],
        [value("x", [1]), value("was", [1])],
        [value("y", [1]), value("now", [1])],
    )
    session = runtime.load(add).session()
    session.bind_state("was", "now")
    one = {"x": numpy.ones(1, numpy.float32)}
    assert [float(session.run(one)["y"][0]) for _ in range(3)] == [1, 2, 3]
    assert "now" not in session.run(one)
    session.reset_state()
    assert session.run(one)["y"][0] == 1


def test_a_notebook_shows_the_page(doubler):
    shown = doubler._repr_html_()
    page = doubler.report().to_html()
    assert shown.startswith("<iframe") and page.startswith("<!")
    packed = re.search(r'id="data">([^<]+)<', page).group(1)
    data = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert "Add" in json.dumps(data["nodes"])


def test_the_program_is_in_the_module():
    said = subprocess.run([sys.executable, "-m", "polychip", "devices"], capture_output=True, text=True, check=True)
    assert "cpu:0" in said.stdout
    wrong = subprocess.run([sys.executable, "-m", "polychip", "nothing"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "nothing" in wrong.stderr


def test_inputs_with_a_default_are_given_or_left_out(runtime):
    nodes = [helper.make_node("Mul", ["x", "s"], ["y"])]
    default = helper.make_tensor("s", TensorProto.FLOAT, [1], [3.0])
    made = model(nodes, [value("x", ["n"]), value("s", ["k"])], [value("y", None)], [default])
    session = runtime.load(made).session()
    assert [info.name for info in session.inputs] == ["x"]
    assert [info.name for info in session.optional_inputs] == ["s"]
    x = numpy.array([1, 2], numpy.float32)
    numpy.testing.assert_array_equal(session.run({"x": x})["y"], [3, 6])
    numpy.testing.assert_array_equal(session.run({"x": x, "s": x})["y"], [1, 4])
    numpy.testing.assert_array_equal(session.run({"x": x})["y"], [3, 6])


def test_an_input_of_an_optional_type_is_an_array_or_none(runtime):
    ty = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    given = helper.make_value_info("o", helper.make_optional_type_proto(ty))
    then = [helper.make_node("OptionalGetElement", ["o"], ["t"])]
    default = helper.make_tensor("seven", TensorProto.FLOAT, [2], [7.0, 7.0])
    other = [helper.make_node("Constant", [], ["e"], value=default)]
    nodes = [
        helper.make_node("OptionalHasElement", ["o"], ["has"]),
        helper.make_node(
            "If",
            ["has"],
            ["y"],
            then_branch=helper.make_graph(then, "then", [], [value("t", [2])]),
            else_branch=helper.make_graph(other, "else", [], [value("e", [2])]),
        ),
    ]
    session = runtime.load(model(nodes, [given], [value("y", [2])])).session()
    x = numpy.array([1, 2], numpy.float32)
    for _ in range(2):
        numpy.testing.assert_array_equal(session.run({"o": x})["y"], x)
        numpy.testing.assert_array_equal(session.run({"o": None})["y"], [7, 7])


def test_names_of_sizes_are_hints(runtime):
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    made = model(nodes, [value("a", ["n", 2]), value("b", ["n", 2])], [value("y", ["n", 2])])
    a, b = numpy.ones((3, 2), numpy.float32), numpy.ones((1, 2), numpy.float32)
    numpy.testing.assert_array_equal(runtime.load(made).session().run({"a": a, "b": b})["y"], a + b)


def test_a_rank_that_the_model_leaves_open_is_that_of_the_array(runtime):
    made = model([helper.make_node("Neg", ["x"], ["y"])], [value("x", None)], [value("y", None)])
    session = runtime.load(made).session()
    assert session.inputs[0].shape is None
    for shape in [(2, 3), (6,), (1, 2, 3)]:
        x = numpy.arange(6, dtype=numpy.float32).reshape(shape)
        numpy.testing.assert_array_equal(session.run({"x": x})["y"], -x)


def test_a_list_of_one_is_given_for_a_scalar(runtime):
    nodes = [helper.make_node("Mul", ["x", "s"], ["y"])]
    session = runtime.load(model(nodes, [value("x", [2]), value("s", [])], [value("y", [2])])).session()
    x = numpy.array([1, 2], numpy.float32)
    for s in [numpy.array([4], numpy.float32), numpy.array(4, numpy.float32)]:
        numpy.testing.assert_array_equal(session.run({"x": x, "s": s})["y"], 4 * x)
