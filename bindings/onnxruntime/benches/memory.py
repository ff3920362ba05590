"""Session creation: processor time and resident memory, with either provider and from compiled models.

    python benches/memory.py [--rounds N] [--threads N] [--size NAME=N] MODEL.onnx...

Each session is created in a process of its own, interleaved, and runs once; the table shows medians. Processor time, unlike
elapsed time, is steady on a busy machine. Memory is what the process has resident beyond its state before the session: at the
peak of the creation, and after the first run. Linux only.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime as ort
import polychip_ort
from models import NAME, feed
from sessions import megabytes, options, same

WAYS = ["ONNX Runtime", "provider", "compiled, in a file", "compiled, in nodes"]


def resident(field: str) -> int:
    """A field of this process's status, in bytes."""
    status = pathlib.Path("/proc/self/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
    if found is None:
        raise SystemExit(f"/proc/self/status has no {field}")
    return 1024 * int(found.group(1))


def one(path: str, given: dict[str, str] | None, sizes: dict[str, int], answer: str) -> None:
    """Creates a session, runs it once and prints the figures. Compares the answer with that in a file, or writes it."""
    ort.set_default_logger_severity(3)
    if given is not None:
        ort.register_execution_provider_library(NAME, polychip_ort.get_library_path())
    chosen = options(given)
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    start = time.process_time()
    session = ort.InferenceSession(path, chosen)
    created = time.process_time() - start
    peak = resident("VmHWM") - before
    outputs = session.run(None, feed(session, sizes))
    after = resident("VmRSS") - before
    file = pathlib.Path(answer)
    if given is not None and file.is_file():
        with np.load(file) as wanted:
            if not same(outputs, [wanted[name] for name in wanted.files]):
                raise SystemExit(f"{path} answers otherwise than the model")
    elif given is not None:
        np.savez(file, *outputs)
    print(json.dumps([created, peak, after]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one(*json.loads(arguments.one))
        return
    sizes = {name: int(size) for name, size in (pair.split("=") for pair in arguments.size)}
    base = {"threads": str(arguments.threads)}
    ort.set_default_logger_severity(3)
    ort.register_execution_provider_library(NAME, polychip_ort.get_library_path())
    print(f"ONNX Runtime {ort.__version__}, {arguments.threads} threads; processor time, peak, resident after the first run")
    print(f"| model | size | {' | '.join(WAYS)} | compiled |")
    print(f"|{'---|' * (len(WAYS) + 3)}")
    for path in arguments.models:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            files = []
            for embeds in ("0", "1"):
                file = folder / f"{embeds}.onnx"
                settings = {
                    "ep.context_enable": "1",
                    "ep.context_file_path": str(file),
                    "ep.context_embed_mode": embeds,
                }
                given = base | {"context-sizes": ",".join(arguments.size)}
                ort.InferenceSession(path, options(given, settings))
                files.append(file)
            answer = str(folder / "answer.npz")
            ways = [(path, None), (path, base), (str(files[0]), base), (str(files[1]), base)]
            figures: list[list[list[float]]] = [[] for _ in ways]
            for _ in range(arguments.rounds):
                for (file, given), taken in zip(ways, figures, strict=True):
                    call = json.dumps([str(file), given, sizes, answer])
                    done = subprocess.run(
                        [sys.executable, __file__, "--one", call], stdout=subprocess.PIPE, text=True, check=True
                    )
                    taken.append(json.loads(done.stdout.splitlines()[-1]))
            cells = []
            for taken in figures:
                created, peak, after = (statistics.median(column) for column in zip(*taken, strict=True))
                cells.append(f"{created * 1e3:.0f} ms, {peak / 1e6:.0f} MB, {after / 1e6:.0f} MB")
            source = megabytes(pathlib.Path(path), pathlib.Path(path + ".data"))
            beside = files[0].with_name(f"{files[0].stem}_{NAME}.bin")
            compiled = f"{megabytes(files[0], beside)}, {megabytes(files[1])}"
            print(f"| {path.rsplit('/', 1)[-1]} | {source} | {' | '.join(cells)} | {compiled} |", flush=True)


if __name__ == "__main__":
    main()
