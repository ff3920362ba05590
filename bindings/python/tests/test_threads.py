"""Threads, asyncio, processes, the end of Python."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest

import polychip
from conftest import double

AT_THE_END = """
import sys, numpy, polychip
session = polychip.Runtime().load(sys.argv[1]).session(polychip.Policy.latency(in_flight=4))
x = numpy.ones((512, 512), numpy.float32)
runs = [session.submit({"x": x}) for _ in range(4)]
kept = session.input("x")
view = memoryview(kept)
"""


def test_sixteen_threads_share_a_session(runtime, x):
    session = runtime.load(double([2, 3])).session(polychip.Policy.latency(threads=1, in_flight=4))

    def work(seed):
        for turn in range(25):
            given = x + seed * 100 + turn
            numpy.testing.assert_array_equal(session.run({"x": given})["y"], given + given)
        return seed

    with ThreadPoolExecutor(16) as pool:
        assert sorted(pool.map(work, range(16))) == list(range(16))
    assert session.report().to_dict()["runs"] == 16 * 25


def test_two_threads_give_the_same_inputs_in_another_order(runtime):
    from onnx import helper

    from conftest import model, value

    add = model([helper.make_node("Add", ["a", "b"], ["y"])], [value("a", [3]), value("b", [3])], [value("y", [3])])
    session = runtime.load(add).session(polychip.Policy.latency(in_flight=2))
    a, b = session.input("a"), session.input("b")
    a.write(numpy.ones(3, numpy.float32))
    b.write(numpy.ones(3, numpy.float32))

    def work(inputs):
        for _ in range(200):
            assert session.run(inputs)["y"].tolist() == [2, 2, 2]

    threads = [threading.Thread(target=work, args=[given]) for given in ({"a": a, "b": b}, {"b": b, "a": a})]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_a_hundred_runs_at_once_in_asyncio(runtime, x):
    session = runtime.load(double([2, 3])).session(polychip.Policy.latency(in_flight=8))

    async def all_runs():
        runs = [session.run_async({"x": x + turn}) for turn in range(100)]
        return await asyncio.gather(*runs)

    for turn, outputs in enumerate(asyncio.run(all_runs())):
        numpy.testing.assert_array_equal(outputs["y"], 2 * (x + turn))


def test_a_run_is_awaited(doubler, x):
    async def one():
        return await doubler.submit({"x": x})

    numpy.testing.assert_array_equal(asyncio.run(one())["y"], x + x)


def test_a_run_gives_its_outputs_once(doubler, x):
    run = doubler.submit({"x": x})
    run.wait()
    with pytest.raises(polychip.BadInputError, match="already delivered"):
        run.wait()


def test_more_runs_than_the_policy_allows_are_refused(runtime, x):
    session = runtime.load(double([2, 3])).session(polychip.Policy.latency(in_flight=1))
    first = session.submit({"x": x})
    with pytest.raises(polychip.InFlightError):
        session.submit({"x": x})
    first.wait()
    session.submit({"x": x}).wait()


def test_try_submit_waits_for_no_run_and_no_plan(runtime, x):
    session = runtime.load(double([2, 3])).session(polychip.Policy.latency(in_flight=1))
    first = session.try_submit({"x": x})
    with pytest.raises(polychip.WouldBlockError, match="1 run is in flight"):
        session.try_submit({"x": x})
    first.wait()
    numpy.testing.assert_array_equal(session.try_submit({"x": x}).wait()["y"], x + x)

    session = runtime.load(double(["n", 3])).session()
    with pytest.raises(polychip.WouldBlockError, match="no plan for these sizes"):
        session.try_submit({"x": x})
    session.run({"x": x})
    numpy.testing.assert_array_equal(session.try_submit({"x": x}).wait()["y"], x + x)


def test_forked_child_receives_an_error(runtime, doubler, x):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        # a child that waits for ever is ended
        signal.alarm(60)
        said = "nothing"
        try:
            doubler.run({"x": x})
        except polychip.ForkError as error:
            said = str(error)
        except BaseException as error:  # noqa: BLE001
            said = repr(error)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        assert "forked" in file.read()
    os.waitpid(child, 0)


def test_python_ends_with_runs_in_flight(tmp_path):
    path = tmp_path / "double.onnx"
    path.write_bytes(double([512, 512]))
    for _ in range(5):
        subprocess.run([sys.executable, "-c", AT_THE_END, path], check=True, timeout=60)
