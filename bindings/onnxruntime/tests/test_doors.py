"""Sessions that learn behind ONNX Runtime, on scripted devices and virtual time."""

from __future__ import annotations

import os
import pathlib
import typing

import numpy as np
import onnxruntime as ort
import polychip_ort
import pytest
from conftest import FLOAT, model, session
from onnx import helper

ROOT = pathlib.Path(__file__).resolve().parents[3]
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
X = np.arange(4, dtype=np.float32)


@pytest.fixture
def scripted(tmp_path: pathlib.Path) -> dict[str, str]:
    """Options of a session on the scripted devices."""
    library = pathlib.Path(os.environ.get("POLYCHIP_NULL", ROOT / "target/debug/libpolychip_plugin_null.so"))
    if not library.is_file():
        pytest.skip("the plugin of scripted devices is not built (package polychip-plugin-null)")
    (tmp_path / library.name).symlink_to(library)
    script = tmp_path / "devices.toml"
    script.write_text(SCRIPT)
    return {
        "plugins": str(tmp_path),
        "set": f"null.script_file={script}",
        "virtual-time": "yes",
        "devices": "null",
        "threads": "0",
    }


def made(options: dict[str, str]) -> ort.InferenceSession:
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Abs", ["a"], ["b"])]
    return session(model(nodes, {"x": (FLOAT, [4])}, {"a": (FLOAT, [4]), "b": (FLOAT, [4])}), options)


def drive(own: ort.InferenceSession, runs: int) -> None:
    for _ in range(runs):
        np.testing.assert_array_equal(own.run(["b"], {"x": X})[0], X)


def learning() -> typing.Any:
    [part] = polychip_ort.reports()[-1]["parts"]
    return part["report"]["learning"]


def test_session_learns_and_reports_it(scripted: dict[str, str]) -> None:
    own = made(scripted)
    drive(own, 1)
    assert not learning()["settled"]
    assert learning()["words"] == "on null:0; other plans are not made yet"
    drive(own, 300)
    assert learning()["settled"]
    assert learning()["plan"] == "null:1"


@pytest.mark.parametrize(("learn", "mode"), [("no", None), ("watch", "watch"), ("yes", "5%"), ("10%", "10%")])
def test_learn_setting_controls_learning(scripted: dict[str, str], learn: str, mode: str | None) -> None:
    own = made({**scripted, "learn": learn})
    assert (learning() and learning()["mode"]) == mode
    del own


def test_settings_change_while_a_session_runs(scripted: dict[str, str]) -> None:
    own = made({**scripted, "learn": "watch"})
    if not hasattr(own, "set_ep_dynamic_options"):
        pytest.skip("this ONNX Runtime has no dynamic options in Python")
    own.set_ep_dynamic_options({"learn": "10%", "ep.other.option": "is another provider's"})
    assert learning()["mode"] == "10%"
    own.set_ep_dynamic_options({"ep.polychipexecutionprovider.learn": "no", "deadline": "33ms"})
    assert learning()["mode"] == "no"
    with pytest.raises(Exception, match="cannot change while it runs"):
        own.set_ep_dynamic_options({"threads": "1"})
    with pytest.raises(Exception, match="is now .*max-surface-temperature"):
        own.set_ep_dynamic_options({"max-surface": "42C"})


def test_former_names_of_options_answer_with_the_current_one(capfd: pytest.CaptureFixture[str]) -> None:
    # ONNX Runtime prints the reason and continues without the provider
    try:
        made({"hottest": "80C"})
    except Exception as error:  # noqa: BLE001
        printed = str(error)
    else:
        printed = "".join(capfd.readouterr())
    assert 'option "hottest" is now "max-temperature"' in printed


def test_a_governed_session_takes_hints(scripted: dict[str, str]) -> None:
    own = made({**scripted, "governed": "yes", "max-power": "5W"})
    drive(own, 1)
    [part] = polychip_ort.reports()[-1]["parts"]
    assert part["report"]["governed"]["candidates"]
    if hasattr(own, "set_ep_dynamic_options"):
        own.set_ep_dynamic_options({"background": "yes", "max-power": "no"})
    drive(own, 1)
