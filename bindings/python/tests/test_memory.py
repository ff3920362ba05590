"""Where elements are: nothing is copied that need not be, nothing is kept that is gone."""

import gc
import os
import subprocess
import sys
from array import array

import numpy
import pytest

import polychip
from conftest import ROOT, double

RUNS = int(os.environ.get("POLYCHIP_PYTHON_RUNS", "3000"))

WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
import polychip
session = polychip.Runtime().load(sys.argv[1]).session()
from array import array
x = memoryview(array("f", range(6))).cast("B").cast("f", [2, 3])
y = session.run({"x": x})["y"]
assert type(y) is polychip.Tensor and y.shape == (2, 3) and y.dtype == "float32" and y.nbytes == 24
assert memoryview(y).tolist() == [[0, 2, 4], [6, 8, 10]], memoryview(y).tolist()
"""


class OnlyDlpack:
    """An array that has DLPack and no buffer."""

    def __init__(self, of, versions=True):
        self.of, self.versions = of, versions

    def __dlpack__(self, **words):
        if not self.versions:
            if "max_version" in words:
                raise TypeError("max_version")
            return self.of.__dlpack__()
        return self.of.__dlpack__(**words)

    def __dlpack_device__(self):
        return self.of.__dlpack_device__()


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("versions", [True, False])
def test_dlpack_tensor_is_read(doubler, x, versions):
    numpy.testing.assert_array_equal(doubler.run({"x": OnlyDlpack(x, versions)})["y"], x + x)
    assert doubler.report().to_dict()["copies"] == 0


def test_array_is_released_once_the_next_run_reads_another(doubler, x):
    x = x.copy()
    before = sys.getrefcount(x)
    for given in (x, OnlyDlpack(x), x[:], x[:, ::-1]):
        doubler.run({"x": given})
    del given
    doubler.run({"x": x + 1})
    gc.collect()
    assert sys.getrefcount(x) == before


def test_arrays_in_other_orders_have_the_same_values(doubler, x):
    wide = numpy.zeros((4, 6), numpy.float32)
    wide[::2, ::2] = x
    for given in (wide[::2, ::2], numpy.asfortranarray(x), x[::-1, ::-1]):
        numpy.testing.assert_array_equal(doubler.run({"x": given})["y"], given + given)
    with pytest.raises(polychip.BadInputError, match="row-major"):
        doubler.run({"x": OnlyDlpack(wide[::2, ::2])})


def test_read_only_memory_is_an_input(doubler, x):
    x.flags.writeable = False
    numpy.testing.assert_array_equal(doubler.run({"x": x})["y"], x + x)
    flat = bytes(array("f", range(6)))
    y = doubler.run({"x": memoryview(flat).cast("f", [2, 3])})["y"]
    numpy.testing.assert_array_equal(y, x + x)


def test_output_is_used_in_place(doubler, x):
    y = doubler.run({"x": x})["y"]
    tensor = y.base.obj if isinstance(y.base, memoryview) else y.base
    assert isinstance(tensor, polychip.Tensor)
    again = numpy.from_dlpack(tensor)
    assert again.ctypes.data == numpy.asarray(tensor).ctypes.data == y.ctypes.data
    again[0, 0] = 7
    assert y[0, 0] == 7
    del y, tensor
    assert again[0, 0] == 7
    # and is an input in turn
    z = doubler.run({"x": again})["y"]
    numpy.testing.assert_array_equal(z, again + again)


def test_input_is_filled_in_place_and_refused_while_in_use(doubler, x):
    own = doubler.input("x")
    filled = numpy.asarray(own)
    filled[:] = x
    with pytest.raises(polychip.InFlightError, match="open as an array"):
        doubler.run({"x": own})
    del filled
    run = doubler.submit({"x": own})
    with pytest.raises(BufferError, match="in flight"):
        memoryview(own)
    numpy.testing.assert_array_equal(run.wait()["y"], x + x)
    again = numpy.asarray(own)
    numpy.testing.assert_array_equal(again, x)
    shared = numpy.from_dlpack(own)
    assert shared.ctypes.data == again.ctypes.data
    del again
    with pytest.raises(polychip.InFlightError):
        doubler.run({"x": own})
    del shared
    own.write(x + 1)
    numpy.testing.assert_array_equal(doubler.run({"x": own})["y"], 2 * (x + 1))


def test_bits_of_a_type_missing_in_numpy(runtime):
    from onnx import TensorProto

    session = runtime.load(double([4], TensorProto.BFLOAT16)).session()
    one = numpy.array([0x3F80, 0x4000, 0, 0xBF80], numpy.uint16)
    y = session.run({"x": one})["y"]
    assert type(y) is polychip.Tensor and y.dtype == "bfloat16"
    with pytest.raises(BufferError, match="bits"):
        memoryview(y)
    numpy.testing.assert_array_equal(numpy.asarray(y.bits()), [0x4000, 0x4080, 0, 0xC000])


def test_runs_do_not_leak_memory(runtime):
    session = runtime.load(double([256, 256])).session(polychip.Policy.latency(threads=1))
    x = numpy.ones((256, 256), numpy.float32)

    def some(runs):
        for _ in range(runs):
            session.run({"x": x})
        gc.collect()
        return resident()

    before = some(RUNS // 10)
    # a leak of one output a run would be 256 KiB times the runs
    assert some(RUNS) - before < 32 << 20


def test_numpy_is_not_needed(tmp_path):
    path = tmp_path / "double.onnx"
    path.write_bytes(double([2, 3]))
    subprocess.run([sys.executable, "-c", WITHOUT_NUMPY, path], check=True)


def test_output_in_device_memory_is_copied_back(tmp_path, x):
    plugin = ROOT / "target/debug/libpolychip_plugin_null.so"
    if not plugin.is_file():
        pytest.skip(f"{plugin} is not there: `cargo build -p polychip-plugin-null` makes it")
    (tmp_path / plugin.name).symlink_to(plugin)
    script = """
[[device]]
name = "npu"
ops = ["Add"]
launch_ns = 1000
cost = { fixed_ns = 10, ps_per_mac = 0.001, ps_per_byte = 0.001 }
imports = []
"""
    runtime = polychip.Runtime(plugins=tmp_path, settings={"null.script": script})
    assert "null:0" in [device.name for device in runtime.devices], runtime.refusals
    session = runtime.load(double([2, 3])).session(polychip.Policy.latency(devices=["null:0"]))
    for turn in range(3):
        y = session.run({"x": x + turn})["y"]
        numpy.testing.assert_array_equal(y, 2 * (x + turn))
        x += 1
    assert session.report().to_dict()["emulated"]
