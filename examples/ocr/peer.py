"""The same in ONNX Runtime, to be compared with: peer.py DETECTOR RECOGNISER PAGE THREADS FRAMES.

Does step by step what `src` does: two sessions in two threads, the detector one page ahead. Says in one line of JSON what
loading took, then answers lines: `frames` with the times of so many frames, `text` with the lines of the page, `peak` with
the bytes that it all added to the process.
"""

import json
import pathlib
import queue
import sys
import threading
import time

import numpy as np
import onnxruntime as ort
from PIL import Image

LONGEST_SIDE, STRIDE = 960, 32
THRESHOLD, LEAST_SCORE, UNCLIP, LEAST_SIDE = 0.3, 0.6, 1.6, 3
# of blue, green and red: the models were trained on pictures in that order
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LINE_HEIGHT, LEAST_WIDTH = 48, 16


def session(path, threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    # shapes change with each line: a third less memory at the same speed. Threads that spin, the default, are no slower
    options.enable_mem_pattern = False
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def planes(picture, box, width, height, mean, deviation):
    """A box of the picture in another size (bilinear), normalised, as a tensor."""
    left, top, right, bottom = box
    scale = ((right - left) / width, 0, left, 0, (bottom - top) / height, top)
    resized = picture.transform((width, height), Image.Transform.AFFINE, scale, Image.Resampling.BILINEAR)
    pixels = np.asarray(resized)
    tensor = np.empty((1, 3, height, width), np.float32)
    for channel in range(3):
        factor = 1 / (255 * deviation[channel])
        np.multiply(pixels[:, :, 2 - channel], np.float32(factor), out=tensor[0, channel])
        tensor[0, channel] -= np.float32(mean[channel] / deviation[channel])
    return tensor


def components(mask):
    """Boxes of the connected components of a mask: runs of rows, joined where they touch those of the row above."""
    edges = np.diff(np.pad(mask.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    rows, starts = np.nonzero(edges == 1)
    ends = np.nonzero(edges == -1)[1]
    rows, starts, ends = rows.tolist(), starts.tolist(), ends.tolist()
    parent = list(range(len(rows)))

    def root(run):
        while parent[run] != run:
            parent[run] = parent[parent[run]]
            run = parent[run]
        return run

    above = 0
    for run, (row, start, end) in enumerate(zip(rows, starts, ends)):
        while above < run and (rows[above] < row - 1 or (rows[above] == row - 1 and ends[above] < start)):
            above += 1
        touching = above
        while touching < run and rows[touching] == row - 1 and starts[touching] <= end:
            parent[root(run)] = root(touching)
            touching += 1
    boxes = {}
    for run, (row, start, end) in enumerate(zip(rows, starts, ends)):
        left, top, right, bottom = boxes.get(root(run), (start, row, end, row + 1))
        boxes[root(run)] = (min(left, start), min(top, row), max(right, end), max(bottom, row + 1))
    return boxes.values()


def in_reading_order(boxes):
    """Rows from the top, each from the left; a box is of the row whose first box reaches below its middle."""
    rows = []
    for box in sorted(boxes, key=lambda box: box[1]):
        if rows and (box[1] + box[3]) / 2 < rows[-1][0][3]:
            rows[-1].append(box)
        else:
            rows.append([box])
    return [box for row in rows for box in sorted(row)]


def detect(detector, picture):
    """Boxes of the lines in a picture, in its pixels."""
    longest = max(picture.size)
    scale = min(1, LONGEST_SIDE / longest)
    width, height = (max(STRIDE, round(side * scale / STRIDE) * STRIDE) for side in picture.size)
    whole = (0, 0, *picture.size)
    tensor = planes(picture, whole, width, height, MEAN, DEVIATION)
    start = time.perf_counter_ns()
    map_ = detector.run(None, {"x": tensor})[0][0, 0]
    ran = time.perf_counter_ns() - start
    boxes = []
    x, y = picture.width / width, picture.height / height
    for left, top, right, bottom in components(map_ > THRESHOLD):
        wide, high = right - left, bottom - top
        if min(wide, high) < LEAST_SIDE or map_[top:bottom, left:right].mean() < LEAST_SCORE:
            continue
        more = UNCLIP * wide * high / (2 * (wide + high))
        left, top = max(0, (left - more) * x), max(0, (top - more) * y)
        right, bottom = min(picture.width, (right + more) * x), min(picture.height, (bottom + more) * y)
        boxes.append((left, top, right, bottom))
    return in_reading_order(boxes), ran


def recognise(recogniser, letters, picture, box):
    """Text and score of a line."""
    left, top, right, bottom = box
    width = max(LEAST_WIDTH, round(LINE_HEIGHT * (right - left) / (bottom - top)))
    tensor = planes(picture, box, width, LINE_HEIGHT, (0.5,) * 3, (0.5,) * 3)
    start = time.perf_counter_ns()
    steps = recogniser.run(None, {"x": tensor})[0][0]
    ran = time.perf_counter_ns() - start
    best = steps.argmax(axis=1)
    # a letter counts where it differs from the step before; 0 stands for none
    kept = (best != 0) & np.concatenate([[True], best[1:] != best[:-1]])
    text = "".join(letters[index] for index in best[kept])
    score = float(steps[kept, best[kept]].mean()) if text else 0.0
    return {"text": text, "score": score, "box": box}, ran


class Reader:
    def __init__(self, detector, recogniser, threads):
        self.detector, self.recogniser = session(detector, threads), session(recogniser, threads)
        named = self.recogniser.get_modelmeta().custom_metadata_map["character"]
        self.letters = ["", *named.rstrip("\n").split("\n"), " "]

    def read(self, picture, count):
        """Reads so many frames; the lines of the last one, and the times."""
        pages, failed = queue.Queue(1), []

        def detect_all():
            try:
                for _ in range(count):
                    start = time.perf_counter_ns()
                    pages.put((start, *detect(self.detector, picture)))
                    # until its reader has it: one page ahead, never more
                    pages.join()
            except Exception as error:  # said by the other thread
                failed.append(error)
                pages.put(None)

        begin = time.perf_counter_ns()
        thread = threading.Thread(target=detect_all)
        thread.start()
        lines, times = [], {"frame_ns": [], "detector_ns": [], "recogniser_ns": []}
        for _ in range(count):
            page = pages.get()
            pages.task_done()
            if page is None:
                raise failed[0]
            start, boxes, detected = page
            found = [recognise(self.recogniser, self.letters, picture, box) for box in boxes]
            lines = [line for line, _ in found]
            times["frame_ns"].append(time.perf_counter_ns() - start)
            times["detector_ns"].append(detected)
            times["recogniser_ns"].append(sum(ran for _, ran in found))
        thread.join()
        return lines, {"whole_ns": time.perf_counter_ns() - begin, **times}


def resident(field):
    """A figure of /proc/self/status in bytes."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def say(value):
    print(json.dumps(value), flush=True)


def main():
    detector, recogniser, page, threads, count = sys.argv[1:6]
    picture = Image.open(page).convert("RGB")
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # starts VmHWM anew
    before = resident("VmRSS")
    start = time.perf_counter_ns()
    reader = Reader(detector, recogniser, int(threads))
    say({"load_ns": time.perf_counter_ns() - start, "version": ort.__version__})
    for line in sys.stdin:
        match line.strip():
            case "peak":
                say(max(0, resident("VmHWM") - before))
            case "text":
                say(reader.read(picture, 1)[0])
            case _:
                say(reader.read(picture, int(count))[1])


main()
