"""Three models at once in ONNX Runtime: peer_lanes.py CAMERA SPEECH BACKGROUND CAMERA_MS SPEECH_MS SECONDS.

Each has a session with a pool of one thread and a thread of its own that calls it. Says in one line of JSON the nanoseconds of
each frame from when it was due, the runs of the background, and the seconds in which they were made.
"""

import json
import sys
import threading
import time

import numpy as np
import onnxruntime as ort

TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8}


def made(path):
    """A session and what its runs are given."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    sizes = lambda shape: [size if isinstance(size, int) else 1 for size in shape]
    given = {one.name: np.zeros(sizes(one.shape), TYPES[one.type]) for one in session.get_inputs()}
    return session, given


def periodic(model, period, seconds, times):
    session, given = model
    start, due = time.perf_counter(), 0.0
    while due < seconds:
        left = due - (time.perf_counter() - start)
        if left > 0:
            time.sleep(left)
        session.run(None, given)
        times.append(int((time.perf_counter() - start - due) * 1e9))
        due += period


def main():
    camera_ms, speech_ms, seconds = map(float, sys.argv[4:7])
    models = [made(path) for path in sys.argv[1:4]]
    for session, given in models:
        for _ in range(5):
            session.run(None, given)
    camera, speech, stop, count = [], [], threading.Event(), [0]

    def endless():
        session, given = models[2]
        while not stop.is_set():
            session.run(None, given)
            count[0] += 1

    start = time.perf_counter()
    background = threading.Thread(target=endless)
    frames = [
        threading.Thread(target=periodic, args=(models[0], camera_ms / 1e3, seconds, camera)),
        threading.Thread(target=periodic, args=(models[1], speech_ms / 1e3, seconds, speech)),
    ]
    for thread in [background, *frames]:
        thread.start()
    for thread in frames:
        thread.join()
    stop.set()
    background.join()
    took = time.perf_counter() - start
    print(json.dumps({"camera": camera, "speech": speech, "background": count[0], "seconds": took}), flush=True)


main()
