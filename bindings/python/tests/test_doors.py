"""Plans as text, explained and measured; sessions that learn, are governed and are admitted: on scripted devices and virtual
time, so that each run of a test sees the same figures."""

import json
import os
from pathlib import Path

import numpy
import pytest
from onnx import helper

import polychip
from conftest import ROOT, model, value

# stated to take 100 and 150 µs, truly 200 and 150: the first plan is the first device, the best one the second
SCRIPT = """
[[device]]
name = "a"
cost = { fixed_ns = 50000, ps_per_byte = 0.0, fixed_nj = 1e3, pj_per_byte = 0.0 }
actual = [{ time_permille = 2000 }]
[[device]]
name = "b"
cost = { fixed_ns = 75000, ps_per_byte = 0.0, fixed_nj = 1e3, pj_per_byte = 0.0 }
actual = [{ time_permille = 1000 }]
"""
X = numpy.arange(4, dtype=numpy.float32)


def abs_of_neg():
    """b = |-x| for f32 [4]."""
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Abs", ["a"], ["b"])]
    return model(nodes, [value("x", [4])], [value("a", [4]), value("b", [4])])


@pytest.fixture
def scripted(tmp_path):
    library = Path(os.environ.get("POLYCHIP_NULL", ROOT / "target/debug/libpolychip_plugin_null.so"))
    if not library.is_file():
        pytest.skip("the plugin of scripted devices is not built (package polychip-plugin-null)")
    (tmp_path / library.name).symlink_to(library)
    return polychip.Runtime(
        plugins=tmp_path, settings={"null.script": SCRIPT}, only_given_folders=True, virtual_time=True
    )


def latency(**settings):
    return polychip.Policy.latency(devices="null", **settings)


def drive(session, runs):
    for _ in range(runs):
        numpy.testing.assert_array_equal(session.run({"x": X})["b"], X)


def learning(session):
    return session.report().to_dict()["learning"]


def test_session_learns_until_stopped(scripted):
    session = scripted.load(abs_of_neg()).session(latency())
    drive(session, 1)
    assert not learning(session)["settled"]
    assert learning(session)["words"] == "on null:0; other plans are not made yet"
    drive(session, 300)
    assert learning(session)["settled"]
    assert learning(session)["words"] in str(session.report())
    assert session.plan().devices == ["null:1"]
    session.set(learn=False, deadline=33)
    assert learning(session)["mode"] == "no"
    assert session.report().to_dict()["deadline_ns"] == 33_000_000
    session.set(deadline=None)
    assert session.report().to_dict()["deadline_ns"] is None
    for setting, words in [({"learn": "1%"}, "2% to 20%"), ({"threads": 1}, "in the session's policy"), ({"max_power": 5}, "governed")]:
        with pytest.raises(polychip.BadInputError, match=words):
            session.set(**setting)


@pytest.mark.parametrize(("learn", "mode"), [("no", None), (False, None), ("watch", "watch"), (True, "5%"), ("10%", "10%")])
def test_learn_setting_controls_learning(scripted, learn, mode):
    session = scripted.load(abs_of_neg()).session(latency(learn=learn))
    said = learning(session)
    assert (said and said["mode"]) == mode


def test_plans_round_trip_as_text(scripted):
    loaded = scripted.load(abs_of_neg())
    plan = loaded.plan(latency())
    assert plan.devices == ["null:0"]
    assert "null:0" in repr(plan)
    assert "terms" in json.loads(plan.to_json(lock=True))
    again = loaded.read_plan(plan.to_json(), latency())
    session = loaded.session(latency(), plan=again)
    drive(session, 100)
    # a plan that was given stays
    assert learning(session) is None
    assert json.loads(session.plan().to_json())["parts"] == json.loads(plan.to_json())["parts"]
    explained = plan.explain()
    assert explained.to_dict()["nodes"][0]["device"] == "null:0"
    assert "not null:1:" in str(explained)
    with pytest.raises(polychip.BadPlanError, match="not a plan"):
        loaded.read_plan("{")
    other = model([helper.make_node("Abs", ["x"], ["y"])], [value("x", [4])], [value("y", [4])])
    with pytest.raises(polychip.BadPlanError):
        scripted.load(other).read_plan(plan.to_json(), latency())


def test_a_governed_session_takes_hints(scripted):
    session = scripted.load(abs_of_neg()).session(latency(governed=True, max_power=5))
    session.set(background=True, frame_period=33, max_power=None)
    assert session.takes_frame()
    drive(session, 3)
    assert [state["device"] for state in session.govern()["devices"]][:1] == ["null:0"]
    assert "foreground" in session.decisions()
    assert session.report().to_dict()["governed"]["candidates"]
    free = scripted.load(abs_of_neg()).session(latency())
    assert free.takes_frame()
    assert (free.govern(), free.decisions()) == (None, None)


def test_sessions_are_admitted_or_refused(scripted):
    loaded = scripted.load(abs_of_neg())
    sessions = scripted.admit({"camera": (loaded, latency(period=33, priority="urgent")), "search": (loaded, latency())})
    assert list(sessions) == ["camera", "search"]
    drive(sessions["camera"], 3)
    assert {session["session"] for session in scripted.admitted["sessions"]} == {"camera", "search"}
    with pytest.raises(polychip.NotAdmittedError) as refused:
        scripted.admit({"more": (loaded, latency(period=0.01))}, margin_percent=0)
    assert "more" in str(refused.value)
    assert refused.value.refusal
    del sessions
    assert scripted.admitted is None


def test_measurements_determine_the_next_plan(scripted):
    loaded = scripted.load(abs_of_neg())
    told = []

    def stop(*at):
        told.append(at)
        return False

    assert not scripted.measure([loaded], latency(), on_progress=stop)["complete"]
    assert len(told) == 1
    report = scripted.measure([loaded], latency(), on_progress=lambda *at: told.append(at))
    assert report["complete"]
    assert len(told) > 1
    assert [plan["devices"] for plan in report["plans"]] == [["null:1"]]

    def broken(*at):
        raise KeyError("of the app")

    with pytest.raises(KeyError, match="of the app"):
        scripted.measure([loaded], latency(), ops=True, goal=1e-9, on_progress=broken)


def test_unused_bundles_are_listed_with_the_reason(tmp_path):
    bundle = tmp_path / "phone.bundle"
    runtime = polychip.Runtime(profiles=bundle, trust="00" * 32, installation="b71c", allow_rollback=True)
    assert len(runtime.bundles) == 1
    assert "not used" in runtime.bundles[0]
    with pytest.raises(polychip.BadInputError, match="trust"):
        polychip.Runtime(trust="nobody")
    with pytest.raises(polychip.BadInputError, match="its settings are"):
        polychip.Runtime(bundle="x")


def test_state_is_saved_and_restored(runtime):
    nodes = [helper.make_node("Add", ["x", "s"], ["t"])]
    loaded = runtime.load(model(nodes, [value("x", [2]), value("s", [2])], [value("t", [2])]))
    session = loaded.session(polychip.Policy.latency(threads=1))
    session.bind_state("s", "t")
    session.run({"x": numpy.array([1, 2], numpy.float32)})
    shape, data = session.state("s")
    assert (shape, numpy.frombuffer(data, numpy.float32).tolist()) == ((2,), [1, 2])
    session.set_state("s", shape, numpy.array([5, 5], numpy.float32).tobytes())
    session.run({"x": numpy.array([1, 2], numpy.float32)})
    assert numpy.frombuffer(session.state("s")[1], numpy.float32).tolist() == [6, 7]
    session.close()
    with pytest.raises(polychip.Error, match="closed"):
        session.run({"x": numpy.array([1, 2], numpy.float32)})


def test_sessions_are_parked_and_resumed(scripted):
    session = scripted.load(abs_of_neg()).session(latency())
    drive(session, 1)
    loaded = session.resident_bytes
    freed = session.park()
    assert freed > 0 and session.parked
    assert session.resident_bytes == loaded - freed
    assert session.report().to_dict()["parked"]
    drive(session, 1)
    assert not session.parked and session.resident_bytes == loaded
    assert scripted.trim_memory("moderate") == 0
    assert scripted.trim_memory("critical") == freed and session.parked
    session.resume()
    assert not session.parked
    memory = scripted.memory
    assert memory["held_bytes"] == loaded and memory["parked"] == 2
    assert session.report().to_dict()["memory"] == memory
    with pytest.raises(polychip.BadInputError, match="moderate, critical"):
        scripted.trim_memory("severe")


def test_plan_above_the_memory_limit_is_refused():
    runtime = polychip.Runtime(only_given_folders=True, memory_limit="1kB")
    assert runtime.memory["limit_bytes"] == 1000
    with pytest.raises(polychip.OutOfMemoryError, match="raise the limit"):
        runtime.load(abs_of_neg()).session()
    with pytest.raises(polychip.BadInputError, match="GiB"):
        polychip.Runtime(memory_limit="little")
