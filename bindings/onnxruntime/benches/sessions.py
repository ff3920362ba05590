"""Time to the first output: plain models, models with the provider's option `cache`, and compiled models.

    python benches/sessions.py [--rounds N] [--threads N] [--trained] [--only FILE]... MODEL.onnx...

Each round makes a session in each of these ways, by turns, and runs it once; what is shown are medians. A model that leaves sizes
open is compiled for those of the run (option `context-sizes`), since its sessions plan at the first run. `--trained` adds the
models of packages that `cargo xtask trained --fetch` has fetched, `--only` leaves out those with other file names. It fails where
a compiled model answers otherwise than the model that it was made of.
"""

from __future__ import annotations

import argparse
import gc
import pathlib
import statistics
import tempfile
import time
import typing

import numpy as np
import onnxruntime as ort
import polychip_ort
from models import NAME, feed, trained

WAYS = ["ONNX Runtime", "provider", "provider, `cache`", "compiled, in a file", "compiled, in nodes"]


def options(given: dict[str, str] | None, settings: dict[str, str] | None = None) -> ort.SessionOptions:
    """Options of a session with the provider, or without it."""
    made = ort.SessionOptions()
    made.log_severity_level = 3
    made.intra_op_num_threads = int((given or {}).get("threads", "1"))
    for key, value in (settings or {}).items():
        made.add_session_config_entry(key, value)
    if given is not None:
        found = [device for device in ort.get_ep_devices() if device.ep_name == NAME]
        made.add_provider_for_devices(found[:1], given)
    return made


def sizes(report: dict[str, typing.Any]) -> str:
    """The sizes of open dimensions that a session was run with, as the option has them."""
    named: dict[str, int] = {}
    for part in report["parts"]:
        for kept in (part["report"]["shapes"] or {"kept": []})["kept"]:
            named |= kept["sizes"]
    return ",".join(f"{name}={size}" for name, size in named.items())


def megabytes(*files: pathlib.Path) -> str:
    return f"{sum(file.stat().st_size for file in files if file.is_file()) / 1e6:.1f} MB"


def same(left: list[typing.Any], right: list[typing.Any]) -> bool:
    return all(np.array_equal(one, other, equal_nan=True) for one, other in zip(left, right, strict=True))


def measure(path: str, given: dict[str, np.ndarray] | None, rounds: int, threads: int, folder: pathlib.Path) -> str:
    """A row of the table."""
    base = {"threads": str(threads)}
    first = ort.InferenceSession(path, options(base))
    given = feed(first, {}) if given is None else given
    right = first.run(None, given)
    report = polychip_ort.reports()[-1]
    wanted = base | {"context-sizes": sizes(report)}
    del first
    files, taken_compiling = [], []
    for embeds in ("0", "1"):
        file = folder / f"{embeds}.onnx"
        settings = {"ep.context_enable": "1", "ep.context_file_path": str(file), "ep.context_embed_mode": embeds}
        start = time.perf_counter()
        ort.InferenceSession(path, options(wanted, settings))
        taken_compiling.append(time.perf_counter() - start)
        files.append(file)
    cached = base | {"cache": str(folder / "cache")}
    ways: list[tuple[str, dict[str, str] | None]] = [
        (path, None),
        (path, base),
        (path, cached),
        (str(files[0]), base),
        (str(files[1]), base),
    ]
    times: list[list[float]] = [[] for _ in ways]
    for turn in range(rounds + 1):
        for (file, chosen), taken in zip(ways, times, strict=True):
            gc.collect()
            start = time.perf_counter()
            own = ort.InferenceSession(file, options(chosen))
            answer = own.run(None, given)
            # the first turn fills the cache, and reads files
            if turn > 0:
                taken.append(time.perf_counter() - start)
            if chosen is not None and not same(answer, right):
                raise SystemExit(f"{file} of {path} answers otherwise")
            del own
    cells = [f"{statistics.median(taken) * 1e3:.1f} ms" for taken in times]
    beside = files[0].with_name(f"{files[0].stem}_{NAME}.bin")
    compiling = f"{min(taken_compiling) * 1e3:.0f} ms"
    weights = megabytes(pathlib.Path(path), pathlib.Path(path + ".data"))
    parts = f"{report['claimed']} of {report['nodes']}"
    name = path.rsplit("/", 1)[-1]
    return f"| {name} | {parts} | {' | '.join(cells)} | {compiling} | {weights} | {megabytes(files[0], beside)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--trained", action="store_true")
    parser.add_argument("--only", action="append", default=[], metavar="FILE")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    ort.set_default_logger_severity(3)
    ort.register_execution_provider_library(NAME, polychip_ort.get_library_path())
    every: list[tuple[str, dict[str, np.ndarray] | None]] = [(path, None) for path in arguments.models]
    if arguments.trained:
        every += trained()
    print(f"ONNX Runtime {ort.__version__}, {arguments.threads} threads; session and first run")
    print(f"| model | nodes run here | {' | '.join(WAYS)} | compiling | model | compiled |")
    print(f"|{'---|' * (len(WAYS) + 5)}")
    for path, given in every:
        if arguments.only and path.rsplit("/", 1)[-1] not in arguments.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            print(measure(path, given, arguments.rounds, arguments.threads, pathlib.Path(folder)), flush=True)


if __name__ == "__main__":
    main()
