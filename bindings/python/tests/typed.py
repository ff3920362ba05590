"""Input for type checkers, never run: `cargo xtask python --wheel`."""

import numpy

import polychip


def run() -> int:
    runtime = polychip.Runtime(profiles=["device.profile"], settings={"cpu.isa": "avx2"})
    policy = polychip.Policy.latency(threads=1, devices=["cpu:0"], pin={"Conv_*": "cpu:0"}, deadline=33)
    session = runtime.load("model.onnx").session(policy)
    outputs = session.run({"x": numpy.zeros((1, 2), numpy.float32)}, timeout_ms=100)
    image = session.input("x", [1, 2])
    numpy.asarray(image)[:] = 1
    memoryview(image)
    sizes: tuple[int | str | None, ...] = session.inputs[0].shape
    print(outputs["y"].argmax(), session.report().to_dict()["runs"], sizes)
    plan = runtime.load("model.onnx").plan(policy)
    print(plan.explain().to_dict()["nodes"], runtime.measure([runtime.load("model.onnx")], policy, seconds=5))
    session.set(learn="watch", max_power=None)
    cameras = runtime.admit({"camera": (runtime.load("model.onnx"), polychip.Policy.latency(period=33))})
    print(cameras["camera"].takes_frame(), runtime.admitted, session.decisions())
    return len(runtime.devices[0].name)


async def wait(session: polychip.Session) -> None:
    first = await session.run_async({"x": 1})
    second = await session.submit({"x": 1})
    print(first["y"], second["y"])
