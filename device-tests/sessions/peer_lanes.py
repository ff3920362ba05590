"""Three models at once in a peer: peer_lanes.py PEER CAMERA SPEECH BACKGROUND CAMERA_MS SPEECH_MS SECONDS.

PEER is onnxruntime or openvino. Each model has a session with one thread and a thread of its own that calls it. In OpenVINO,
MODEL_PRIORITY makes camera and speech high and the background low, as in ours, where its CPU device accepts that. Prints one
line of JSON: the nanoseconds of each frame from when it was due, the runs of the background, the seconds in which they were made,
and what the peer is.
"""

import json
import sys
import threading
import time

import numpy as np

TYPES = {
    "tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8,
    "f32": np.float32, "i64": np.int64, "i32": np.int32, "u8": np.uint8,
}
PRIORITIES = ["HIGH", "HIGH", "LOW"]
# threads that submit the camera's frames alternately, as on our side
IN_FLIGHT = 3


def onnxruntime(paths):
    """Calls that run a model each, and what they are of."""
    import onnxruntime as ort

    def made(path):
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        sizes = lambda shape: [size if isinstance(size, int) else 1 for size in shape]
        given = {one.name: np.zeros(sizes(one.shape), TYPES[one.type]) for one in session.get_inputs()}
        return lambda: session.run(None, given)

    return [made(path) for path in paths], f"ONNX Runtime {ort.__version__}, a pool each"


def openvino(paths):
    """The same of OpenVINO: one stream of one thread each, in f32 as the others."""
    import openvino as ov

    core = ov.Core()
    usual = {
        "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32",
    }
    version = "OpenVINO " + ov.__version__.split("-")[0]

    def made(path, more):
        compiled = core.compile_model(path, "CPU", {**usual, **more})
        request = compiled.create_infer_request()
        for one in compiled.inputs:
            shape = [size.get_length() if size.is_static else 1 for size in one.get_partial_shape()]
            request.set_tensor(one, ov.Tensor(np.zeros(shape, TYPES[one.get_element_type().get_type_name()])))
        lock = threading.Lock()

        def call():
            # a request takes one caller at a time
            with lock:
                request.infer()

        return call

    try:
        models = [made(path, {"MODEL_PRIORITY": priority}) for path, priority in zip(paths, PRIORITIES)]
        return models, f"{version}, a stream each, MODEL_PRIORITY"
    except RuntimeError as error:
        if "PRIORITY" not in str(error):
            raise
        return [made(path, {}) for path in paths], f"{version}, a stream each (its CPU refuses MODEL_PRIORITY)"


def periodic(model, period, seconds, start, at, of, times):
    due = at * period
    while due < seconds:
        left = due - (time.perf_counter() - start)
        if left > 0:
            time.sleep(left)
        model()
        times.append(int((time.perf_counter() - start - due) * 1e9))
        due += of * period


def main():
    peer = {"onnxruntime": onnxruntime, "openvino": openvino}[sys.argv[1]]
    camera_ms, speech_ms, seconds = map(float, sys.argv[5:8])
    models, words = peer(sys.argv[2:5])
    for model in models:
        for _ in range(5):
            model()
    camera, speech, stop, count = [], [], threading.Event(), [0]

    def endless():
        while not stop.is_set():
            models[2]()
            count[0] += 1

    start = time.perf_counter()
    background = threading.Thread(target=endless)
    frames = [
        threading.Thread(target=periodic, args=(models[0], camera_ms / 1e3, seconds, start, at, IN_FLIGHT, camera))
        for at in range(IN_FLIGHT)
    ]
    frames.append(threading.Thread(target=periodic, args=(models[1], speech_ms / 1e3, seconds, start, 0, 1, speech)))
    for thread in [background, *frames]:
        thread.start()
    for thread in frames:
        thread.join()
    stop.set()
    background.join()
    took = time.perf_counter() - start
    found = {"peer": words, "camera": camera, "speech": speech, "background": count[0], "seconds": took}
    print(json.dumps(found), flush=True)


main()
