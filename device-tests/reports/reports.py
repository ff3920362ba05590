#!/usr/bin/env python3
"""Run the patterns of public bug reports in ONNX Runtime and in Polychip, and compare.

    reports.py POLYCHIP [--out DIR] [--markdown FILE] [NAME...]

Each case of `ops.py`, `graphs.py`, `values.py` and `files.py` is a model of the same pattern as a public report, made
here. Both run it on the same inputs, each in a process of its own: shapes, types, integers, booleans and text equal,
floats within 1e-4 of the largest value. Where ONNX Runtime refuses the model or the request, Polychip must refuse it
too, with an error that holds the words which the case names. Some cases have another oracle: ONNX's reference
evaluator where ONNX Runtime has no kernel, or outputs written out. Ends with 1 if a case fails.
Needs onnx and onnxruntime (`device-tests/requirements.txt`).
"""
import argparse
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys

import numpy as np

import build
import ops  # noqa: F401, I001  (each registers its cases; their order is that of the table)
import graphs  # noqa: F401
import values  # noqa: F401
import files  # noqa: F401

#: docs/benchmarks/reports.md; `reports.py --markdown` writes it
TEXT = """\
# Public bug reports, run here

{cases} small models and requests reproduce the patterns of {sources} public reports about ONNX Runtime, ONNX,
TVM, OpenVINO, TensorRT, tract, Burn, RTen, candle, MNN, ncnn, OpenCV, the converters of
scikit-learn and TensorFlow, and apps. Polychip's command line and ONNX Runtime run each case on the
same inputs. [device-tests/reports](../../device-tests/reports/reports.py) makes the models, with
one function per case; nothing is copied from a report.

```sh
target/venv/bin/python device-tests/reports/reports.py target/release/polychip --markdown docs/benchmarks/reports.md
```

A case passes in one of two ways:

- Shapes, types, integers and text are equal, and floats agree within 1e-4 of the largest value
  (2e-4 for STFT, one step for quantized networks).
- ONNX Runtime refuses the model or request, and Polychip refuses it too, with an error that names
  the node or input and the cause.

ONNX's reference evaluator takes the place of ONNX Runtime where ONNX Runtime has no kernel or
departs from the specification ([differences](../differences.md)).

**{passed} of {cases} pass.** When first run, {first} failed or gave an unhelpful error.

| result now | cases |
|---|---|
{counts}

## Cases

| report | pattern | first | now |
|---|---|---|---|
{table}
"""

#: What the other side runs: `ORACLE model feeds out`
ORT = """
import pickle, sys
import onnxruntime as ort
options = ort.SessionOptions()
options.log_severity_level = 4
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
values = session.run(None, pickle.load(open(sys.argv[2], "rb")))
pickle.dump({o.name: v for o, v in zip(session.get_outputs(), values)}, open(sys.argv[3], "wb"))
"""
REFERENCE = """
import pickle, sys
import onnx, onnx.reference
model = onnx.load(sys.argv[1])
values = onnx.reference.ReferenceEvaluator(model).run(None, pickle.load(open(sys.argv[2], "rb")))
pickle.dump({o.name: v for o, v in zip(model.graph.output, values)}, open(sys.argv[3], "wb"))
"""


def write(case, folder):
    for name, content in case.files.items():
        path = folder / name
        if isinstance(content, int):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.symlink_to(content.removeprefix("->"))
        else:
            path.write_bytes(content)
    path = folder / case.path
    path.parent.mkdir(parents=True, exist_ok=True)
    if case.model is not None:
        path.write_bytes(case.model if isinstance(case.model, bytes) else case.model.SerializeToString())
    for name, content in case.files.items():
        if isinstance(content, int):
            os.chmod(folder / name, content)
    for k, array in enumerate(case.feeds.values()):
        np.save(folder / f"input-{k}.npy", array)


def oracle(case, folder):
    """Its outputs by name, or its error."""
    if isinstance(case.oracle, dict):
        return case.oracle, None
    feeds = {k: v.astype(object) if v.dtype.kind == "U" else v for k, v in case.feeds.items()}
    (folder / "feeds.pickle").write_bytes(pickle.dumps(feeds))
    script = ORT if case.oracle == "ort" else REFERENCE
    done = subprocess.run([sys.executable, "-c", script, case.path, "feeds.pickle", "expected.pickle"], cwd=folder,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None, (done.stderr.strip().splitlines() or [f"ended by signal {-done.returncode}"])[-1]
    return pickle.loads((folder / "expected.pickle").read_bytes()), None


def polychip(program, case, folder):
    """What `polychip run` gives: outputs by name, or its error."""
    command = [program, "run", case.path, "--json", "--threads", "1", *case.options]
    for k, name in enumerate(case.feeds):
        command += ["--input", f"{name}=input-{k}.npy"]
    running = [subprocess.Popen([*command, "--save", f"out-{p}"], cwd=folder, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True) for p in range(case.processes)]
    found = []
    for p, process in enumerate(running):
        try:
            out, err = process.communicate(timeout=case.patience)
        except subprocess.TimeoutExpired:
            process.kill()
            return None, f"no end in {case.patience} s", None
        if process.returncode != 0:
            return None, err.strip(), process.returncode
        outputs = {}
        for entry in json.loads(out)["outputs"]:
            file = folder / f"out-{p}" / pathlib.Path(entry.get("file") or "none").name
            outputs[entry["name"]] = np.load(file) if file.exists() else entry
        found.append(outputs)
    return found, "", 0


def differ(expected, got, tolerance):
    """How two values differ, or None."""
    if isinstance(got, dict):
        return f"no file: {got}"
    expected = np.asarray(expected)
    if expected.dtype.kind in "OUS":
        texts = [t.decode() if isinstance(t, bytes) else str(t) for t in got.ravel()]
        return None if got.shape == expected.shape and [str(t) for t in expected.ravel()] == texts else \
            f"text {expected.ravel()[:4]} and {texts[:4]}, shapes {expected.shape} and {got.shape}"
    if expected.shape != got.shape:
        return f"shape {expected.shape} and {got.shape}"
    if expected.dtype != got.dtype:
        return f"type {expected.dtype} and {got.dtype}"
    if expected.dtype.kind in "iub":
        return None if np.array_equal(expected, got) else f"{expected.ravel()[:6]} and {got.ravel()[:6]}"
    expected, got = expected.astype(np.float64), got.astype(np.float64)
    same = (expected == got) | (np.isnan(expected) & np.isnan(got))
    finite = np.isfinite(expected) & np.isfinite(got)
    if not np.all(same | finite):
        return f"{expected.ravel()[:6]} and {got.ravel()[:6]}"
    if not finite.any():
        return None
    apart, largest = np.abs(expected - got)[finite].max(), np.abs(expected[finite]).max()
    return None if apart <= tolerance * max(largest, 1e-6) else f"apart by {apart:.2g} of {largest:.2g}"


def judge(program, make, folder):
    """(passed, what happened)"""
    build.RANDOM = np.random.default_rng(7)
    case = make()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write(case, folder)
    expected, refused = oracle(case, folder)
    found, error, status = polychip(program, case, folder)
    if status is None or status < 0 or status == 101:
        return False, f"ended by {status}: {error[-300:]}"
    if expected is None:
        if found is not None:
            return not case.says, f"runs; ONNX Runtime: {refused[:200]}"
        missing = [word for word in case.says or () if word not in error]
        what = f"error lacks {missing}" if missing else "refused"
        return not missing, f"{what}: {error[:500]} | ORT: {refused[:160]}"
    if found is None:
        return False, f"refused: {error[:600]}"
    for outputs in found:
        for name, value in expected.items():
            apart = differ(value, outputs[name], case.tolerance) if name in outputs else f"not among {list(outputs)}"
            if apart:
                return False, f"{name}: {apart}"
    return True, "equal" + (", although an error was expected" if case.says else "")


def page(rows, failed):
    """The text of docs/benchmarks/reports.md."""
    first = sum(row[2] != "passed" for row in rows)
    results = [row[3] for row in rows]
    counts = "\n".join(f"| {result} | {results.count(result)} |" for result in sorted(set(results)))
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return TEXT.format(cases=len(rows), passed=len(rows) - failed, first=first, counts=counts, table=table,
                       sources=len({row[0] for row in rows}))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("polychip", type=pathlib.Path)
    arguments.add_argument("names", nargs="*")
    arguments.add_argument("--out", type=pathlib.Path, default=pathlib.Path("target/reports"))
    arguments.add_argument("--markdown", type=pathlib.Path, help="write the table of docs/benchmarks/reports.md here")
    options = arguments.parse_args()
    rows, failed = [], 0
    for number, (make, source, pattern, first) in enumerate(build.REPORTS, 1):
        if options.names and make.__name__ not in options.names:
            continue
        passed, what = judge(options.polychip.resolve(), make, (options.out / f"{number:03}-{make.__name__}").resolve())
        failed += not passed
        print("ok  " if passed else "FAIL", make.__name__, "|", source, "|", what.replace("\n", " "), flush=True)
        now = ("passes" if what.startswith("equal") else "refused with a reason, as in ONNX Runtime"
               if what.startswith("refused") else "runs, which ONNX Runtime refuses") if passed else "fails"
        rows.append((source, pattern, first or "passed", now))
    print(f"{len(rows)} cases, {failed} fail")
    if options.markdown:
        options.markdown.write_text(page(rows, failed), encoding="utf-8")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
