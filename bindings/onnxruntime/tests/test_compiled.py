"""Compiled models: made by one session, run by another one, in another process, in another folder; and what is refused."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import typing

import numpy as np
import onnx
import onnxruntime as ort
import polychip_ort
import pytest
from conftest import FLOAT, NAME, devices, left_to_others, model, session
from onnx import TensorProto, helper

RELEASE = int(ort.__version__.split(".")[1])


def compiled(
    source: str | bytes, target: pathlib.Path, embeds: str, options: dict[str, str] | None = None
) -> pathlib.Path:
    """The compiled model of a model, in this file."""
    settings = {"ep.context_enable": "1", "ep.context_file_path": str(target), "ep.context_embed_mode": embeds}
    made = session(source, options, settings)
    assert NAME in made.get_providers() and target.is_file()
    return target


def beside(target: pathlib.Path) -> pathlib.Path:
    """The file beside a compiled model, in which its content is."""
    return target.with_name(f"{target.stem}_{NAME}.bin")


def refusal(
    source: str | bytes, capfd, options: dict[str, str] | None = None, settings: dict[str, str] | None = None
) -> str:
    """Why there is no session of a model. Where there is no provider, ONNX Runtime's module prints it and tries without."""
    capfd.readouterr()
    with pytest.raises(Exception) as error:  # noqa: PT011
        assert NAME not in session(source, options, settings).get_providers()
        raise RuntimeError("a session without the provider")
    return f"{error.value}\n{capfd.readouterr().out}"


def context_nodes(file: pathlib.Path) -> list[onnx.NodeProto]:
    return [node for node in onnx.load(file).graph.node if node.op_type == "EPContext"]


def attribute(node: onnx.NodeProto, name: str) -> typing.Any:
    return next(helper.get_attribute_value(one) for one in node.attribute if one.name == name)


def with_content(file: pathlib.Path, content: bytes) -> bytes:
    """A compiled model whose first node has other content."""
    changed = onnx.load(file)
    node = next(node for node in changed.graph.node if node.op_type == "EPContext")
    next(one for one in node.attribute if one.name == "ep_cache_context").s = content
    return changed.SerializeToString()


@pytest.fixture
def classes() -> bytes:
    """`y = softmax(relu(x w) v)` of f32 `[4, 16]`, with constants."""
    generator = np.random.default_rng(3)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["l"]),
        helper.make_node("Softmax", ["l"], ["y"]),
    ]
    constants = {
        "w": generator.standard_normal((16, 32)).astype(np.float32),
        "v": generator.standard_normal((32, 10)).astype(np.float32),
    }
    return model(nodes, {"x": (FLOAT, [4, 16])}, {"y": (FLOAT, [4, 10])}, constants)


@pytest.fixture
def partly() -> bytes:
    """Four nodes, of which the second stays with others: two parts are ours."""
    return model(
        [
            helper.make_node("Mul", ["x", "w"], ["a"]),
            left_to_others("a", "d"),
            helper.make_node("Neg", ["d"], ["e"]),
            helper.make_node("Add", ["e", "v"], ["y"]),
        ],
        {"x": (FLOAT, [4, 3])},
        {"y": (FLOAT, [4, 4])},
        {"w": np.array([1.0, -2.0, 0.5], np.float32), "v": np.arange(4, dtype=np.float32)},
        opsets={"com.microsoft": 1},
    )


@pytest.fixture
def heavy() -> bytes:
    """A convolution, whose packed weights are larger than its own, and two products of the same weights, of which one is in
    another part: 2.2 MB of constants."""
    generator = np.random.default_rng(4)
    nodes = [
        helper.make_node("Conv", ["x", "k", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Reshape", ["p", "shape"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["m"]),
        left_to_others("m", "d"),
        helper.make_node("Mul", ["m", "d"], ["s"]),
        helper.make_node("MatMul", ["s", "w"], ["y"]),
    ]
    constants = {
        "k": generator.standard_normal((512, 256, 3, 3)).astype(np.float32)[:, :64],
        "b": generator.standard_normal(512).astype(np.float32),
        "shape": np.array([1, 512]),
        "w": generator.standard_normal((512, 512)).astype(np.float32) / 22,
    }
    shapes = {"x": (FLOAT, [1, 64, 14, 14])}
    return model(nodes, shapes, {"y": (FLOAT, [1, 512])}, constants, opsets={"com.microsoft": 1})


IMAGE = np.random.default_rng(7).standard_normal((1, 64, 14, 14)).astype(np.float32)
X = np.random.default_rng(5).standard_normal((4, 16)).astype(np.float32)
THREE = np.random.default_rng(6).standard_normal((4, 3)).astype(np.float32)


def test_a_compiled_model_stands_alone(classes: bytes, tmp_path) -> None:
    for embeds in ("0", "1"):
        target = compiled(classes, tmp_path / f"{embeds}.onnx", embeds)
        made = onnx.load(target)
        # constants are within what was compiled
        assert [node.op_type for node in made.graph.node] == ["EPContext"] and not made.graph.initializer
        [node] = made.graph.node
        assert (attribute(node, "embed_mode"), attribute(node, "main_context")) == (int(embeds), 1)
        assert attribute(node, "source") == NAME.encode() and attribute(node, "ep_sdk_version")
        assert attribute(node, "hardware_architecture").startswith(b"cpu")
        assert beside(target).is_file() == (embeds == "0")
        if embeds == "0":
            assert attribute(node, "ep_cache_context").decode() == beside(target).name
        right = session(classes).run(None, {"x": X})[0]
        own = session(str(target))
        np.testing.assert_array_equal(own.run(None, {"x": X})[0], right)
        report = polychip_ort.reports()[-1]
        assert (report["claimed"], report["refused"]) == (1, [])
        [part] = report["parts"]
        assert all(one["cached"] for one in part["report"]["parts"]), "it was compiled again"


@pytest.mark.parametrize("embeds", ["0", "1"])
@pytest.mark.parametrize("kind", ["classes", "partly"])
def test_one_process_compiles_and_another_one_runs(kind: str, embeds: str, request, tmp_path) -> None:
    source: bytes = request.getfixturevalue(kind)
    x = X if kind == "classes" else THREE
    file = tmp_path / "source.onnx"
    file.write_bytes(source)
    (tmp_path / "made").mkdir()
    target = compiled(str(file), tmp_path / "made" / "model.onnx", embeds)
    file.unlink()
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", session(source).run(None, {"x": x})[0])
    parts = len(context_nodes(target))
    assert parts == (1 if kind == "classes" else 2)
    program = f"""
import numpy as np, onnxruntime as ort, polychip_ort
ort.register_execution_provider_library({NAME!r}, polychip_ort.get_library_path())
options = ort.SessionOptions()
devices = [device for device in ort.get_ep_devices() if device.ep_name == {NAME!r}]
options.add_provider_for_devices(devices[:1], {{"threads": "1", "only-given-folders": "yes"}})
own = ort.InferenceSession({str(target)!r}, options)
x, y = np.load({str(tmp_path / "x.npy")!r}), np.load({str(tmp_path / "y.npy")!r})
np.testing.assert_array_equal(own.run(None, {{"x": x}})[0], y)
[report] = polychip_ort.reports()
assert report["claimed"] == len(report["parts"]) == {parts}, report
[first, *_] = report["parts"]
assert all(one["cached"] for one in first["report"]["parts"]), report
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_all_parts_lie_in_one_file(partly: bytes, tmp_path) -> None:
    target = compiled(partly, tmp_path / "model.onnx", "0")
    names = {attribute(node, "ep_cache_context") for node in context_nodes(target)}
    assert names == {beside(target).name.encode()}
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([target.name, beside(target).name])
    own = session(str(target))
    report = polychip_ort.reports()[-1]
    assert NAME in own.get_providers() and report["claimed"] == 2
    [left] = report["refused"]
    assert left["op"] == "com.microsoft.FusedGemm" and "when the model was compiled" in left["reason"]


@pytest.mark.parametrize("external", [False, True])
def test_weights_are_stored_once(heavy: bytes, external: bool, tmp_path) -> None:
    file = tmp_path / "source.onnx"
    if external:
        onnx.save(onnx.load_from_string(heavy), file, save_as_external_data=True, location="source.data")
        assert file.stat().st_size < 4096 < (tmp_path / "source.data").stat().st_size
    else:
        file.write_bytes(heavy)
    right = session(str(file)).run(None, {"x": IMAGE})[0]
    np.testing.assert_array_equal(session(str(file), {"constants": "copied"}).run(None, {"x": IMAGE})[0], right)
    for embeds in ("0", "1"):
        target = compiled(str(file), tmp_path / f"{embeds}.onnx", embeds)
        assert len(context_nodes(target)) == 2
        size = target.stat().st_size + (beside(target).stat().st_size if embeds == "0" else 0)
        # with contents in nodes, each of the two has the weights that it uses
        shared = 4 * 512 * 512 if embeds == "1" else 0
        assert size - shared <= 1.1 * len(heavy), (size, len(heavy))
        own = session(str(target))
        np.testing.assert_array_equal(own.run(None, {"x": IMAGE})[0], right)
        parts = polychip_ort.reports()[-1]["parts"]
        assert all(one["cached"] for part in parts for one in part["report"]["parts"]), "it was compiled again"


def test_weights_are_packed_again_for_another_instruction_set(heavy: bytes, tmp_path, capfd) -> None:
    other = {"set": "cpu.isa=scalar"}
    right = session(heavy, other).run(None, {"x": IMAGE})[0]
    for embeds in ("0", "1"):
        target = str(compiled(heavy, tmp_path / f"{embeds}.onnx", embeds))
        assert "the driver was" in refusal(target, capfd, other)
        own = session(target, other | {"stale-context": "replan"})
        np.testing.assert_array_equal(own.run(None, {"x": IMAGE})[0], right)


def test_open_sizes_may_have_plans_for_some_values(relu: bytes, tmp_path) -> None:
    options = {"context-sizes": "n=2; n=5,other=7"}
    target = compiled(relu, tmp_path / "open.onnx", "1", options)
    own, right = session(str(target)), session(relu)
    for rows in (5, 2, 3, 5):
        x = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
        np.testing.assert_array_equal(own.run(None, {"x": x})[0], right.run(None, {"x": x})[0])
    [part] = next(report for report in polychip_ort.reports()[-2:] if report["nodes"] == 1)["parts"]
    assert part["report"]["shapes"]["misses"] == 1, "but three rows, all are planned for"
    # without sizes to plan for there is no plan, and it runs all the same
    target = compiled(relu, tmp_path / "none.onnx", "0")
    x = np.ones((7, 3), np.float32)
    np.testing.assert_array_equal(session(str(target)).run(None, {"x": x})[0], right.run(None, {"x": x})[0])


def test_ranks_may_be_known_only_to_the_run(tmp_path) -> None:
    made = model([helper.make_node("Neg", ["x"], ["y"])], {"x": (FLOAT, None)}, {"y": (FLOAT, None)})
    own = session(str(compiled(made, tmp_path / "ranks.onnx", "1")))
    for rank in (2, 0, 3):
        x = np.full([2] * rank, 3, np.float32)
        np.testing.assert_array_equal(own.run(None, {"x": x})[0], -x)


def test_strings_stay_with_other_providers_and_inputs_may_repeat(tmp_path) -> None:
    string = TensorProto.STRING
    made = model(
        [helper.make_node("StringConcat", ["a", "b"], ["y"]), helper.make_node("Sub", ["p", "q"], ["z"])],
        {"a": (string, [2]), "b": (string, [2]), "p": (FLOAT, [2]), "q": (FLOAT, [2])},
        {"y": (string, [2]), "z": (FLOAT, [2])},
        opsets={"": 20},
    )
    target = compiled(made, tmp_path / "strings.onnx", "1")
    # ONNX Runtime's op for compiled nodes takes no strings
    assert sorted(node.op_type for node in onnx.load(target).graph.node) == ["EPContext", "StringConcat"]
    given = {"a": np.array(["x", "ü"]), "b": np.array(["", "y"])}
    p, q = np.array([3.0, 4.0], np.float32), np.array([1.0, 7.0], np.float32)
    y, z = session(str(target)).run(None, {**given, "p": p, "q": q})
    assert list(y) == ["x", "üy"] and list(z) == [2.0, -3.0]
    # an editor of compiled models may give one value twice, or a constant
    joined = onnx.load(target)
    for node in joined.graph.node:
        node.input[:] = ["p" if name == "q" else name for name in node.input]
    _, z = session(joined.SerializeToString()).run(None, {**given, "p": p, "q": q})
    assert list(z) == [0.0, 0.0]
    fixed = onnx.load(target)
    fixed.graph.initializer.append(onnx.numpy_helper.from_array(q, "q"))
    kept = [one for one in fixed.graph.input if one.name != "q"]
    del fixed.graph.input[:]
    fixed.graph.input.extend(kept)
    _, z = session(fixed.SerializeToString()).run(None, {**given, "p": p})
    assert list(z) == [2.0, -3.0]


def test_bodies_are_compiled_with_their_nodes(tmp_path) -> None:
    then = helper.make_graph(
        [helper.make_node("Mul", ["x", "two"], ["t"])], "then", [], [helper.make_tensor_value_info("t", FLOAT, [3])]
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["o"])], "else", [], [helper.make_tensor_value_info("o", FLOAT, [3])]
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    # older releases do not pass values that only a body reads, so a node reads it here too
    also = helper.make_node("Abs", ["x"], ["a"])
    two = {"two": np.array([2.0], np.float32)}
    inputs = {"c": (TensorProto.BOOL, []), "x": (FLOAT, [3])}
    made = model([also, node], inputs, {"y": (FLOAT, [3]), "a": (FLOAT, [3])}, two)
    target = compiled(made, tmp_path / "body.onnx", "1")
    own, right = session(str(target)), session(made)
    x = np.array([1.0, -2.0, 3.0], np.float32)
    for c in (True, False):
        given = {"c": np.array(c), "x": x}
        for one, wanted in zip(own.run(None, given), right.run(None, given), strict=True):
            np.testing.assert_array_equal(one, wanted)


def test_body_nodes_are_not_compiled_separately(tmp_path) -> None:
    """The node around it stays with others: ONNX Runtime has no compiled nodes within bodies."""
    inner = [
        left_to_others("x", "d"),
        helper.make_node("Neg", ["d"], ["t"]),
    ]
    then = helper.make_graph(inner, "then", [], [helper.make_tensor_value_info("t", FLOAT, [4, 4])])
    # no constants: ONNX Runtime makes no compiled model where a body that stays reads one around it, and older releases
    # write one within a body twice
    inner = [helper.make_node("Transpose", ["x"], ["k"]), helper.make_node("MatMul", ["x", "k"], ["o"])]
    other = helper.make_graph(inner, "else", [], [helper.make_tensor_value_info("o", FLOAT, [4, 4])])
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    inputs = {"c": (TensorProto.BOOL, []), "x": (FLOAT, [4, 3])}
    made = model(nodes, inputs, {"y": (FLOAT, [4, 4]), "a": (FLOAT, [4, 3])}, opsets={"com.microsoft": 1})
    target = compiled(made, tmp_path / "body.onnx", "1")
    assert sorted(node.op_type for node in onnx.load(target).graph.node) == ["EPContext", "If"]
    own = session(str(target))
    for c in (True, False):
        given = {"c": np.array(c), "x": THREE}
        for one, wanted in zip(own.run(None, given), session(made).run(None, given), strict=True):
            np.testing.assert_allclose(one, wanted, rtol=1e-6)


def test_stale_content_is_refused_with_the_reason_or_replanned(classes: bytes, tmp_path, capfd) -> None:
    for embeds in ("0", "1"):
        target = str(compiled(classes, tmp_path / f"{embeds}.onnx", embeds))
        said = refusal(target, capfd, {"threads": "2"})
        assert "the number of threads was 1 when it was compiled and is 2 now" in said and "stale-context" in said
        assert "precision" in refusal(target, capfd, {"precision": "reduced"})
        assert "devices asked for" in refusal(target, capfd, {"devices": "cpu"})
        assert "objective was" in refusal(target, capfd, {"deadline": "20"})
        own = session(target, {"threads": "2", "stale-context": "replan"})
        np.testing.assert_allclose(own.run(None, {"x": X})[0], session(classes).run(None, {"x": X})[0], rtol=1e-5)
        # what changes no plan is no reason
        session(target, {"in-flight": "3", "report": str(tmp_path / "report.json")})
    assert "refuse" in refusal(target, capfd, {"stale-context": "perhaps"})


def test_replanning_is_warned_of(classes: bytes, tmp_path) -> None:
    target = compiled(classes, tmp_path / "model.onnx", "1")
    program = f"""
import onnxruntime as ort, polychip_ort
ort.register_execution_provider_library({NAME!r}, polychip_ort.get_library_path())
options = ort.SessionOptions()
devices = [device for device in ort.get_ep_devices() if device.ep_name == {NAME!r}]
given = {{"threads": "2", "only-given-folders": "yes", "stale-context": "replan"}}
options.add_provider_for_devices(devices[:1], given)
ort.InferenceSession({str(target)!r}, options)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "the number of threads was 1" in done.stderr and "compiled anew" in done.stderr, done.stderr


def test_torn_and_changed_content_is_an_error(classes: bytes, tmp_path, capfd) -> None:
    inside = compiled(classes, tmp_path / "inside.onnx", "1")
    outside = compiled(classes, tmp_path / "outside.onnx", "0")
    content = attribute(context_nodes(inside)[0], "ep_cache_context")
    good = beside(outside).read_bytes()
    assert len(content) > 4096

    def broken(whole: bytes) -> typing.Iterator[tuple[bytes, str]]:
        for end in (0, 7, 63, 64, 1000, len(whole) - 1):
            yield whole[:end], "truncated"
        for place in (64, 200, len(whole) // 2, len(whole) - 1):
            yield whole[:place] + bytes([whole[place] ^ 0x20]) + whole[place + 1 :], "hash does not match"
        yield whole[:8] + b"\x63" + whole[9:], "version is 99"
        yield b"\0" + whole[1:], "not content compiled"

    for wrong, why in broken(content):
        # a runtime may leave out an attribute that is empty
        assert why in refusal(with_content(inside, wrong), capfd), (len(wrong), why)
        # nothing is planned anew of what cannot be believed
        assert why in refusal(with_content(inside, wrong), capfd, {"stale-context": "replan"})
    for wrong, why in broken(good):
        beside(outside).write_bytes(wrong)
        said = refusal(str(outside), capfd)
        assert why in said and beside(outside).name in said, said
    # another model's
    other = compiled(with_other_constants(classes), tmp_path / "other.onnx", "0")
    shutil.copy(beside(other), beside(outside))
    assert "not the one that was made with this compiled model" in refusal(str(outside), capfd)
    beside(outside).write_bytes(good)
    np.testing.assert_array_equal(session(str(outside)).run(None, {"x": X})[0], session(classes).run(None, {"x": X})[0])


def with_other_constants(source: bytes) -> bytes:
    """A model with other constants."""
    changed = onnx.load_from_string(source)
    one = changed.graph.initializer[0]
    one.CopyFrom(onnx.numpy_helper.from_array(2 * onnx.numpy_helper.to_array(one), one.name))
    return changed.SerializeToString()


def test_node_with_contradicting_attributes_is_an_error(classes: bytes, tmp_path, capfd) -> None:
    target = compiled(classes, tmp_path / "model.onnx", "1")

    def changed(change: typing.Callable[[onnx.ModelProto, onnx.NodeProto], None]) -> bytes:
        made = onnx.load(target)
        change(made, made.graph.node[0])
        return made.SerializeToString()

    def partition(made: onnx.ModelProto, node: onnx.NodeProto) -> None:
        next(one for one in node.attribute if one.name == "partition_name").s = b"another"

    def more_inputs(made: onnx.ModelProto, node: onnx.NodeProto) -> None:
        made.graph.input.append(helper.make_tensor_value_info("more", FLOAT, [1]))
        node.input.append("more")

    assert 'no part "another"' in refusal(changed(partition), capfd)
    assert "has 2 inputs, and was compiled with 1" in refusal(changed(more_inputs), capfd)

    def other_type(made: onnx.ModelProto, node: onnx.NodeProto) -> None:
        made.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE

    own = session(changed(other_type))
    with pytest.raises(Exception, match="takes f32, and f64 was given"):
        own.run(None, {"x": X.astype(np.float64)})


def test_a_compiled_model_is_moved_with_its_file(classes: bytes, tmp_path, capfd) -> None:
    target = compiled(classes, tmp_path / "model.onnx", "0")
    right = session(classes).run(None, {"x": X})[0]
    moved = tmp_path / "elsewhere" / "model.onnx"
    moved.parent.mkdir()
    target.rename(moved)
    assert beside(moved).name in refusal(str(moved), capfd), "the file is missing"
    beside(target).rename(beside(moved))
    np.testing.assert_array_equal(session(str(moved)).run(None, {"x": X})[0], right)
    # from memory its folder must be named
    assert "ep.context_file_path" in refusal(moved.read_bytes(), capfd)
    own = session(moved.read_bytes(), settings={"ep.context_file_path": str(moved)})
    np.testing.assert_array_equal(own.run(None, {"x": X})[0], right)
    # no file elsewhere is read
    (tmp_path / "out.bin").write_bytes(beside(moved).read_bytes())
    for name in (b"../out.bin", str(tmp_path / "out.bin").encode(), b""):
        moved.write_bytes(with_content(moved, name))
        assert "not one in the model's folder" in refusal(str(moved), capfd)


def test_model_in_memory_requires_an_output_path(classes: bytes, tmp_path, capfd) -> None:
    said = refusal(classes, capfd, settings={"ep.context_enable": "1", "ep.context_embed_mode": "0"})
    # newer releases say it themselves
    assert "ep.context_file_path" in said or "ep_context_path" in said


def test_compiled_models_without_constants_are_refused(classes: bytes, tmp_path, capfd) -> None:
    settings = {
        "ep.context_enable": "1",
        "ep.context_file_path": str(tmp_path / "light.onnx"),
        "ep.enable_weightless_ep_context_nodes": "1",
    }
    try:
        session(classes, settings=settings)
    except Exception as error:  # noqa: BLE001
        said = str(error)
    else:
        said = capfd.readouterr().out
    assert "holds its constants" in said


def test_a_compiled_model_is_not_compiled_again(classes: bytes, tmp_path, capfd) -> None:
    target = compiled(classes, tmp_path / "model.onnx", "1")
    file = str(tmp_path / "again.onnx")
    again = {"ep.context_enable": "1", "ep.context_file_path": file, "ep.context_embed_mode": "1"}
    assert "is already compiled" in refusal(str(target), capfd, settings=again)


@pytest.mark.skipif(not hasattr(ort, "ModelCompiler"), reason="this ONNX Runtime has no ModelCompiler")
def test_onnx_runtimes_compile_api_makes_compiled_models(classes: bytes, partly: bytes, tmp_path) -> None:
    for source, x in ((classes, X), (partly, THREE)):
        right = session(source).run(None, {"x": x})[0]
        for embeds in (False, True):
            target = tmp_path / f"{embeds}-{len(source)}.onnx"
            options = ort.SessionOptions()
            given = {"threads": "1", "only-given-folders": "yes"}
            options.add_provider_for_devices(devices()[:1], given)
            compiler = ort.ModelCompiler(options, source, embed_compiled_data_into_model=embeds)
            compiler.compile_to_file(str(target))
            assert context_nodes(target) and beside(target).is_file() != embeds
            np.testing.assert_array_equal(session(str(target)).run(None, {"x": x})[0], right)
        options = ort.SessionOptions()
        options.add_provider_for_devices(devices()[:1], {"threads": "1", "only-given-folders": "yes"})
        made = ort.ModelCompiler(options, source, embed_compiled_data_into_model=True).compile_to_bytes()
        np.testing.assert_array_equal(session(made).run(None, {"x": x})[0], right)


def test_compiled_model_names_its_compiler(classes: bytes, tmp_path) -> None:
    target = compiled(classes, tmp_path / "model.onnx", "1")
    told = {one.key: one.value for one in onnx.load(target).metadata_props}
    key = f"ep_compatibility_info.{NAME}"
    if key not in told:
        assert RELEASE < 24, told
        pytest.skip("this ONNX Runtime keeps no word of who compiled")
    assert '"cpu' in told[key] and '"form":2' in told[key]
    module = ort.capi.onnxruntime_pybind11_state
    ask = getattr(module, "get_model_compatibility_for_ep_devices", None)
    if ask is None:
        pytest.skip("this ONNX Runtime's module has no such question")
    words = module.OrtCompiledModelCompatibility
    assert ask(devices()[:1], told[key]) == words.EP_SUPPORTED_OPTIMAL
    other = told[key].replace('"polychip":"', '"polychip":"9')
    assert ask(devices()[:1], other) == words.EP_SUPPORTED_PREFER_RECOMPILATION
    assert ask(devices()[:1], told[key].replace('"form":2', '"form":3')) == words.EP_UNSUPPORTED
    assert ask(devices()[:1], "another provider's") == words.EP_NOT_APPLICABLE
