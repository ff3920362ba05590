"""What a person does with the provider, and what goes wrong."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading

import numpy as np
import onnxruntime as ort
import polychip_ort
import pytest
from conftest import FLOAT, NAME, WORDS, cpu, devices, left_to_others, model, rows_of_words, session
from onnx import TensorProto, helper


def test_the_library_is_registered_and_its_device_offered() -> None:
    [device, *_] = devices()
    assert (device.ep_name, device.ep_vendor) == (NAME, "Polychip")
    assert "cpu:0" in device.ep_metadata["polychip_devices"]
    if "library_path" in device.ep_metadata:
        # newer releases say where it came from
        assert os.path.samefile(device.ep_metadata["library_path"], polychip_ort.get_library_path())


def test_model_runs_on_this_provider_and_the_report_shows_it(relu: bytes) -> None:
    own = session(relu)
    assert NAME in own.get_providers()
    for rows in (1, 7, 2, 7):
        x = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
        np.testing.assert_array_equal(own.run(None, {"x": x})[0], cpu(relu).run(None, {"x": x})[0])
    report = polychip_ort.reports()[-1]
    assert (report["nodes"], report["claimed"], report["refused"]) == (2, 2, [])
    [part] = report["parts"]
    # sizes were open, and yet nothing was copied
    assert (part["copied_input_bytes"], part["copied_output_bytes"]) == (0, 0)
    assert part["report"]["runs"] >= 1


def test_assignment_is_read_back_from_onnx_runtime(relu: bytes) -> None:
    if not hasattr(ort.InferenceSession, "get_provider_graph_assignment_info"):
        pytest.skip("this ONNX Runtime does not tell which provider runs what")
    own = session(relu, settings={"session.record_ep_graph_assignment_info": "1"})
    assigned = own.get_provider_graph_assignment_info()
    assert {part.ep_name for part in assigned} == {NAME}
    assert sum(len(part.get_nodes()) for part in assigned) == 2


def test_closed_sessions_are_not_reported(relu: bytes) -> None:
    # those of other tests
    gc.collect()
    before = len(polychip_ort.reports())
    own = session(relu)
    assert len(polychip_ort.reports()) == before + 1
    del own
    gc.collect()
    assert len(polychip_ort.reports()) == before


def test_report_is_written_to_the_path_of_the_option(relu: bytes, tmp_path) -> None:
    file = tmp_path / "report.json"
    own = session(relu, {"report": str(file)})
    own.run(None, {"x": np.ones((2, 3), np.float32)})
    del own
    gc.collect()
    report = json.loads(file.read_text())
    assert report["claimed"] == 2
    assert [part["report"]["runs"] for part in report["parts"]] == [1]


def test_unknown_ops_are_left_to_others_with_a_warning(relu: bytes, tmp_path) -> None:
    made = model(
        [
            helper.make_node("Relu", ["x"], ["a"]),
            left_to_others("a", "d"),
            helper.make_node("Neg", ["d"], ["e"]),
            helper.make_node("Abs", ["e"], ["y"]),
        ],
        {"x": (FLOAT, [4, 3])},
        {"y": (FLOAT, [4, 4])},
        opsets={"com.microsoft": 1},
    )
    file = tmp_path / "partly.onnx"
    file.write_bytes(made)
    program = f"""
import numpy as np, onnxruntime as ort, polychip_ort
ort.register_execution_provider_library({NAME!r}, polychip_ort.get_library_path())
options = ort.SessionOptions()
devices = [device for device in ort.get_ep_devices() if device.ep_name == {NAME!r}]
options.add_provider_for_devices(devices[:1], {{"threads": "1", "only-given-folders": "yes"}})
own = ort.InferenceSession({str(file)!r}, options)
x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
right = ort.InferenceSession({str(file)!r}, providers=["CPUExecutionProvider"]).run(None, {{"x": x}})[0]
np.testing.assert_allclose(own.run(None, {{"x": x}})[0], right, rtol=1e-6)
[report] = polychip_ort.reports()
assert (report["nodes"], report["claimed"], len(report["parts"])) == (4, 3, 2), report
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "runs 3 of 4 nodes" in done.stderr and "com.microsoft.FusedGemm" in done.stderr, done.stderr


def refusal(model: bytes, capsys, options: dict[str, str], settings: dict[str, str] | None = None) -> str:
    """Why there is no provider. Older releases print it, and make a session without."""
    try:
        assert NAME not in session(model, options, settings).get_providers()
    except AssertionError:
        raise
    except Exception as error:  # noqa: BLE001
        return str(error)
    return capsys.readouterr().out


def test_unknown_options_are_errors_that_list_the_known_ones(relu: bytes, capsys) -> None:
    def words(options: dict[str, str]) -> str:
        return refusal(relu, capsys, options)

    assert 'no option "thread"' in words({"thread": "1"})
    assert "deadline" in words({"deadline": "soon"})
    assert "there is no device npu:7" in words({"devices": "npu:7"})


def test_rank_may_be_known_only_to_the_run() -> None:
    """The output of a nonstandard op has no rank: its readers are compiled when a run provides one."""
    made = model(
        [
            rows_of_words("x", "d"),
            helper.make_node("Neg", ["d"], ["y"]),
        ],
        {"x": (TensorProto.INT32, ["n", 3])},
        {"y": (FLOAT, None)},
        WORDS,
        opsets={"com.microsoft": 1},
    )
    own, right = session(made), cpu(made)
    for rows in (2, 5, 2):
        x = np.random.default_rng(rows).integers(1, 9, (rows, 3)).astype(np.int32)
        np.testing.assert_allclose(own.run(None, {"x": x})[0], right.run(None, {"x": x})[0], rtol=1e-5)
    report = polychip_ort.reports()[-1]
    assert (report["claimed"], len(report["parts"])) == (1, 1)


def test_bodies_are_run_with_their_nodes() -> None:
    then = helper.make_graph(
        [helper.make_node("Mul", ["x", "two"], ["t"])], "then", [], [helper.make_tensor_value_info("t", FLOAT, [3])]
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["o"])], "else", [], [helper.make_tensor_value_info("o", FLOAT, [3])]
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    made = model(
        [node],
        {"c": (TensorProto.BOOL, []), "x": (FLOAT, [3])},
        {"y": (FLOAT, [3])},
        {"two": np.array([2.0], np.float32)},
    )
    own = session(made)
    x = np.array([1.0, 2.0, 3.0], np.float32)
    np.testing.assert_array_equal(own.run(None, {"c": np.array(True), "x": x})[0], 2 * x)
    np.testing.assert_array_equal(own.run(None, {"c": np.array(False), "x": x})[0], -x)
    report = polychip_ort.reports()[-1]
    # older releases do not pass values that only bodies read
    hands_over = int(ort.__version__.split(".")[1]) >= 31
    assert report["claimed"] == (report["nodes"] if hands_over else 0)


def test_string_inputs_and_outputs_are_counted_as_copied() -> None:
    nodes = [helper.make_node("StringConcat", ["a", "b"], ["y"])]
    string = TensorProto.STRING
    made = model(nodes, {"a": (string, [2]), "b": (string, [2])}, {"y": (string, [2])}, opsets={"": 20})
    own = session(made)
    got = own.run(None, {"a": np.array(["x", "ü"]), "b": np.array(["", "y"])})[0]
    assert list(got) == ["x", "üy"]
    part = polychip_ort.reports()[-1]["parts"][0]
    assert part["copied_output_bytes"] > 0


def test_data_dependent_output_has_its_actual_size() -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["y"])]
    made = model(nodes, {"x": (FLOAT, ["n"])}, {"y": (TensorProto.INT64, [1, "k"])})
    own = session(made)
    for values in ([0, 1, 2], [0, 0, 0], [5, 0]):
        x = np.array(values, np.float32)
        np.testing.assert_array_equal(own.run(None, {"x": x})[0], [np.flatnonzero(x)])


def test_output_may_become_constant_once_sizes_are_known() -> None:
    nodes = [helper.make_node("Shape", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
    made = model(nodes, {"x": (FLOAT, ["n", 3])}, {"y": (TensorProto.INT64, [2]), "z": (FLOAT, ["n", 3])})
    own = session(made)
    for rows in (5, 2, 5):
        assert list(own.run(None, {"x": np.zeros((rows, 3), np.float32)})[0]) == [rows, 3]


def test_string_tensors_carry_their_size() -> None:
    nodes = [helper.make_node("StringConcat", ["a", "b"], ["y"]), helper.make_node("Shape", ["y"], ["n"])]
    string = TensorProto.STRING
    inputs = {"a": (string, ["n"]), "b": (string, ["n"])}
    made = model(nodes, inputs, {"y": (string, ["n"]), "n": (TensorProto.INT64, [1])}, opsets={"": 20})
    own = session(made)
    for texts in (["x", "y"], ["ü"], [], ["", "a", "b"]):
        b = [str(place) for place in range(len(texts))]
        y, count = own.run(None, {"a": np.array(texts, object), "b": np.array(b, object)})
        assert list(y) == [one + other for one, other in zip(texts, b, strict=True)] and count == [len(texts)]
    report = polychip_ort.reports()[-1]
    assert (report["claimed"], report["refused"]) == (report["nodes"], [])


def test_sessions_by_rank_are_bounded() -> None:
    made = model([helper.make_node("Neg", ["x"], ["y"])], {"x": (FLOAT, None)}, {"y": (FLOAT, None)})
    own = session(made)
    for rank in [*range(11), 0, 10, 3]:
        x = np.random.default_rng(rank).standard_normal([1] * rank).astype(np.float32)
        np.testing.assert_array_equal(own.run(None, {"x": x})[0], -x)
    report = polychip_ort.reports()[-1]
    with_runs = [part for part in report["parts"] if part["report"]["runs"]]
    # eleven, then those of 0 and 3 again, which had gone; the report tells of all
    assert report["claimed"] == 1 and len(with_runs) == 13


def test_dynamic_options_hold_for_sessions_that_later_runs_make() -> None:
    made = model([helper.make_node("Neg", ["x"], ["y"])], {"x": (FLOAT, None)}, {"y": (FLOAT, None)})
    own = session(made)
    if not hasattr(own, "set_ep_dynamic_options"):
        pytest.skip("this ONNX Runtime has no dynamic options in Python")
    own.set_ep_dynamic_options({"deadline": "100000"})
    own.run(None, {"x": np.ones((2, 3), np.float32)})
    [part] = polychip_ort.reports()[-1]["parts"]
    assert part["report"]["deadline_ns"] == 100_000_000_000


def test_threads_of_the_same_rank_wait_for_one_session() -> None:
    made = model([helper.make_node("Neg", ["x"], ["y"])], {"x": (FLOAT, None)}, {"y": (FLOAT, None)})
    own = session(made, {"in-flight": "4"})
    barrier, right = threading.Barrier(8), []

    def work(rank: int) -> None:
        x = np.full([2] * rank, rank, np.float32)
        barrier.wait()
        right.append(np.array_equal(own.run(None, {"x": x})[0], -x))

    threads = [threading.Thread(target=work, args=(1 + place % 2,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 8
    assert len(polychip_ort.reports()[-1]["parts"]) == 2


def said_by(nodes: list, tmp_path, run: str) -> tuple[int, str]:
    """Exit code and output of a process that runs a model whose first node's output has an unknown rank."""
    inputs = {"x": (TensorProto.INT32, ["n", 3])}
    made = model([rows_of_words("x", "d"), *nodes], inputs, {"y": (FLOAT, None)}, WORDS, opsets={"com.microsoft": 1})
    file = tmp_path / "open.onnx"
    file.write_bytes(made)
    program = f"""
import numpy as np, onnxruntime as ort, polychip_ort
ort.register_execution_provider_library({NAME!r}, polychip_ort.get_library_path())
options = ort.SessionOptions()
devices = [device for device in ort.get_ep_devices() if device.ep_name == {NAME!r}]
options.add_provider_for_devices(devices[:1], {{"threads": "1", "only-given-folders": "yes"}})
own = ort.InferenceSession({str(file)!r}, options)
report = polychip_ort.reports()[-1]
x = np.ones((4, 3), np.int32)
{run}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_inconsistent_sizes_are_left_to_others_with_the_reason(tmp_path) -> None:
    seven = helper.make_node("Transpose", ["d"], ["y"], perm=[6, 5, 4, 3, 2, 1, 0])
    code, said = said_by([seven], tmp_path, 'assert (report["nodes"], report["claimed"]) == (2, 0), report')
    assert code == 0, said
    assert "Transpose: how many sizes its inputs have is not known before a run, and none of 0 to 5 fits" in said, said


def test_unsupported_sizes_at_run_time_are_a_warning_and_an_error(tmp_path) -> None:
    # four sizes would do, and two come
    four = helper.make_node("Flatten", ["d"], ["y"], axis=4)
    run = """
assert report["claimed"] == 1, report
try:
    own.run(None, {"x": x})
except Exception as error:
    assert "Polychip" in str(error) and "axis" in str(error), error
else:
    raise SystemExit("it ran")
"""
    code, said = said_by([four], tmp_path, run)
    assert code == 0, said
    assert "was claimed when its sizes were open, and those of this run cannot be run" in said, said


def test_empty_tensors_are_supported(relu: bytes) -> None:
    own = session(relu)
    assert own.run(None, {"x": np.zeros((0, 3), np.float32)})[0].shape == (0, 3)


def test_threads_share_a_session(relu: bytes) -> None:
    own, right = session(relu, {"in-flight": "4"}), cpu(relu)
    failures: list[str] = []

    def work(seed: int) -> None:
        generator = np.random.default_rng(seed)
        for _ in range(50):
            x = generator.standard_normal((int(generator.integers(1, 9)), 3)).astype(np.float32)
            if not np.array_equal(own.run(None, {"x": x})[0], right.run(None, {"x": x})[0]):
                failures.append(f"thread {seed}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_hundred_sessions_are_open_at_once(relu: bytes) -> None:
    sessions = [session(relu) for _ in range(100)]
    x = np.ones((2, 3), np.float32)
    results = [own.run(None, {"x": x})[0] for own in sessions]
    assert all(np.array_equal(result, results[0]) for result in results)


def test_models_compiled_by_other_providers_are_left_to_them(tmp_path) -> None:
    node = helper.make_node("EPContext", ["x"], ["y"], domain="com.microsoft", source="Other", embed_mode=1)
    made = model([node], {"x": (FLOAT, [2])}, {"y": (FLOAT, [2])}, opsets={"com.microsoft": 1})
    file = tmp_path / "compiled.onnx"
    file.write_bytes(made)
    program = f"""
import onnxruntime as ort, polychip_ort
ort.register_execution_provider_library({NAME!r}, polychip_ort.get_library_path())
options = ort.SessionOptions()
devices = [device for device in ort.get_ep_devices() if device.ep_name == {NAME!r}]
options.add_provider_for_devices(devices[:1], {{"only-given-folders": "yes"}})
try:
    ort.InferenceSession({str(file)!r}, options)
except Exception:
    raise SystemExit(3)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 3, "no provider can run it"
    assert "EPContext: it holds what another provider compiled" in done.stderr, done.stderr


def test_forked_child_receives_an_error_and_may_release(relu: bytes, tmp_path) -> None:
    # a process of its own, and no threads of ONNX Runtime: a thread of its pool that holds a lock at the fork would stop the
    # child for ever, whatever the provider does
    file, report = tmp_path / "relu.onnx", tmp_path / "report.json"
    file.write_bytes(relu)
    program = f"""
import gc, os, pathlib, signal
import numpy as np, onnxruntime as ort, polychip_ort
ort.register_execution_provider_library({NAME!r}, polychip_ort.get_library_path())
options = ort.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
devices = [device for device in ort.get_ep_devices() if device.ep_name == {NAME!r}]
given = {{"threads": "1", "only-given-folders": "yes", "report": {str(report)!r}}}
options.add_provider_for_devices(devices[:1], given)
own = ort.InferenceSession({str(file)!r}, options)
x = np.ones((1, 3), np.float32)
own.run(None, {{"x": x}})
child = os.fork()
if child == 0:
    # a child that waits for ever is ended
    signal.alarm(60)
    try:
        own.run(None, {{"x": x}})
        words = "it ran"
    except Exception as error:
        words = str(error)
    # sessions of ours cannot end here, and the report is not this process's
    reports = polychip_ort.reports()
    del own
    gc.collect()
    print(f"{{words}}; {{reports}}; {{pathlib.Path({str(report)!r}).exists()}}", flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0, "the child did not end by itself"
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "forked" in done.stdout and done.stdout.endswith("; []; False\n"), done.stdout
