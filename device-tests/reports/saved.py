#!/usr/bin/env python3
"""Run networks as ONNX Runtime saves them in ONNX Runtime and in Polychip, and compare.

    saved.py POLYCHIP [--out DIR] [--markdown FILE] [NAME...]

The networks are small and have random weights: what counts is the graph. Optimum and PyTorch export them here; ONNX
Runtime then saves each at its levels BASIC and EXTENDED, by its transformer optimiser (in f32 and in f16) and by its
quantisers, and what those write at EXTENDED again. NAME is a network, a form, or both joined by a colon. Ends with 1
if a file does not run or is not equal.

Needs what `requirements.txt` beside `reports.py` needs, and torch, transformers and optimum-onnx.
"""
import argparse
import pathlib
import sys
import types
import warnings
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime as ort

import networks
from forms import FORMS
from reports import polychip

TEXT = """\
# Networks saved by ONNX Runtime

{files} files: {networks} networks, each as PyTorch or Optimum exports it and as ONNX Runtime saves it. The
networks have the layers of the real ones, but small sizes and random weights.
[`device-tests/reports/saved.py`](../../device-tests/reports/saved.py) makes them. It needs `pip
install torch transformers optimum-onnx` in addition to `device-tests/requirements.txt`.

```sh
target/venv/bin/python device-tests/reports/saved.py target/release/polychip --markdown docs/benchmarks/saved.md
```

ONNX Runtime and `polychip run` each run every file on the same inputs. A figure is the largest
difference between their outputs, divided by the largest value of the output. A float file passes
below {limit:g}. A file with f16 values passes below {half:g}, a few units in the last place of f16. ONNX
Runtime's CPU provider has no kernel for `RelativePositionBias`; for files with this op, the
reference is its output for the exported network.

8-bit networks have three figures, `whole / own (node)`:

- `node`: the largest difference of any single node. To find it, every value becomes an output, so
  that each node is computed as the file states, and only nodes with equal inputs are compared. It
  must be below {step:.4f}, about one of 255 steps.
- `whole`: the difference for the whole network, against ONNX Runtime with or without
  optimizations, whichever is closer.
- `own`: the largest difference of ONNX Runtime from itself, for the same file and inputs, between
  {variants}. For files that it saved at
  EXTENDED, the file that it read counts too, without optimizations.

Three things make the networks differ as a whole ([differences](../differences.md)):

- The quantizer rounds after every primitive op of a Gelu or a normalization. Polychip computes the
  Gelu or normalization as one op, without these roundings
  ([decision](../decisions/2026-11-20-rounded-graphs.md)). Keeping them was tried: on one thread of a
  Zen 4, MiniLM in three forms then took 32.6 instead of 11.1 ms.
- A seventh of the outputs of ONNX Runtime's QLinearSoftmax, which it writes at EXTENDED, are one
  step from its formula.
- In the encoder of Whisper, a value of Erf lies on the midpoint between two codes, to the last
  place of f32.

A rounding that turns out differently moves a code by one step, and the layers behind it amplify the
step. So `whole` must be below one step, or no larger than `own`, or else Polychip's answer must be
no farther from that of the network before quantization than ONNX Runtime's, by the root mean square
(marked ≈). **{strict} of {coded} 8-bit files are within one step as a whole**; ONNX Runtime is so
with itself for {consistent}.

Weights have 7 bits (`reduce_range`), as ONNX Runtime's documentation recommends for processors
without VNNI, where its 8-bit products can saturate.

**{passed} of {files} pass**; the others are bold. `–`: ONNX Runtime's tool does not write this file.

{table}

{ops}
"""
LIMIT, HALF, STEP = 1e-4, 4e-3, 1.1 / 255
# seconds that a run may take: a build without optimisations is slow
PATIENCE = 600


def inputs(path, sizes):
    """Values for every input of a model, whose named axes have these sizes."""
    rng, feeds = np.random.default_rng(7), {}
    weights = {one.name for one in onnx.load(path, load_external_data=False).graph.initializer}
    for value in onnx.load(path, load_external_data=False).graph.input:
        if value.name in weights:
            continue
        kind = value.type.tensor_type
        shape = [axis.dim_value or sizes[axis.dim_param] for axis in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if value.name.endswith("mask"):
            made = np.ones(shape)
            made[-1:, -1:] = 0 if value.name == "attention_mask" and sizes.get("padded") else 1
        elif value.name == "position_ids":
            made = np.arange(shape[-1])[None].repeat(shape[0], 0)
        elif "token_type" in value.name:
            made = rng.integers(0, 2, shape)
        elif dtype.kind in "iu":
            made = rng.integers(0, networks.WORDS, shape)
        elif dtype.kind == "b":
            made = np.ones(shape)
        else:
            made = rng.normal(0, 1, shape)
        feeds[value.name] = made.astype(dtype)
    return feeds


def apart(expected, got):
    """The largest difference of two values as a share of the largest value, or words."""
    if isinstance(got, dict) or expected.shape != got.shape or expected.dtype != got.dtype:
        return f"{expected.dtype} {expected.shape} and {got if isinstance(got, dict) else (got.dtype, got.shape)}"
    a, b = expected.astype("float64"), got.astype("float64")
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return "NaN in one of them"
    if a.size == 0:
        return 0.0
    return float(np.nanmax(np.abs(a - b)) / max(np.nanmax(np.abs(a)), 1e-6))


#: levels and options at which ONNX Runtime is compared with itself; the first two are what we are compared with
LEVELS = ort.GraphOptimizationLevel
VARIANTS = {
    "all optimizations": (LEVELS.ORT_ENABLE_ALL, {}),
    "none": (LEVELS.ORT_DISABLE_ALL, {}),
    "EXTENDED": (LEVELS.ORT_ENABLE_EXTENDED, {}),
    "all with `session.disable_quant_qdq`": (LEVELS.ORT_ENABLE_ALL, {"session.disable_quant_qdq": "1"}),
}


def theirs(path, feeds, level, more=None):
    """What ONNX Runtime makes of a model at a level and with more options, by name."""
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads, options.graph_optimization_level = 4, 1, level
    for key, value in (more or {}).items():
        options.add_session_config_entry(key, value)
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return dict(zip([value.name for value in session.get_outputs()], session.run(None, feeds)))


def expected(path, feeds, exported, codes):
    """What the outputs may be: ONNX Runtime's, and those that it gives without optimisations, where fused nodes on codes
    round otherwise; of codes, with each variant. Its CPU has no kernel for all that its optimiser writes: such a file gives
    what the exported one does.
    """
    variants = list(VARIANTS.values())
    try:
        return [theirs(path, feeds, *variant) for variant in (variants if codes else variants[:2])]
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error):
            raise
        return [theirs(exported, feeds, LEVELS.ORT_ENABLE_ALL)]


def far(answer, real):
    """How far an answer is from that of the network before it was quantised: the root of the mean of squares."""
    pairs = [(real[name].astype("float64"), value.astype("float64")) for name, value in answer.items() if name in real]
    squares = [np.mean((a - b) ** 2) / max(np.abs(a).max(), 1e-6) ** 2 for a, b in pairs if a.shape == b.shape and a.size]
    return float(np.sqrt(np.mean(squares)))


def opened(path):
    """The same model with every value an output, so that each is computed as the file says: nothing becomes one node."""
    model = onnx.load(path)
    there = {value.name for value in model.graph.output}
    for name in [name for node in model.graph.node for name in node.output if name]:
        if name not in there:
            model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    made = path.with_name(f"{path.stem}-opened.onnx")
    onnx.save(model, made)
    return made


def run(program, path, feeds):
    """Polychip's outputs by name, or words."""
    folder = path.parent / f"{path.stem}.run"
    folder.mkdir(exist_ok=True)
    for k, array in enumerate(feeds.values()):
        np.save(folder / f"input-{k}.npy", array)
    case = types.SimpleNamespace(path=str(path), feeds=feeds, options=(), processes=1, patience=PATIENCE)
    found, error, _ = polychip(program, case, folder)
    return f"refused: {error[:900]}" if found is None else found[0]


def furthest(answers, found):
    """How far outputs are from the nearest of some answers, or words."""
    figures = []
    for answer in answers:
        each = [apart(value, found.get(name, {})) for name, value in answer.items()]
        words = [one for one in each if isinstance(one, str)]
        if words:
            return words[0]
        figures.append(max(each))
    return min(figures)


@dataclass
class Judged:
    """How far the outputs of a file are apart."""

    #: of the whole network, or words
    whole: float | str
    #: of ONNX Runtime from itself
    own: float | None = None
    #: of a node, or words
    node: float | str | None = None
    #: Polychip's and ONNX Runtime's distance from the network before it was quantised
    real: tuple[float, float] | None = None

    def is_strict(self, limit):
        words = [one for one in (self.whole, self.node) if isinstance(one, str)]
        return not words and self.whole <= limit and (self.node is None or self.node <= limit)

    def passes(self, limit):
        if self.is_strict(limit) or self.own is None or isinstance(self.whole, str) or isinstance(self.node, str):
            return self.is_strict(limit)
        return self.node <= limit and (self.whole <= self.own or self.real[0] <= self.real[1])

    def text(self, limit):
        figure = lambda one: one if isinstance(one, str) else f"{one:.0e}"
        if self.own is None:
            return figure(self.whole)
        mark = "" if isinstance(self.whole, str) or self.whole <= max(limit, self.own) else "≈"
        return f"{figure(self.whole)}{mark} / {figure(self.own)} ({figure(self.node)})"


def judge(program, path, feeds, exported, form):
    """How far the outputs are apart, and of codes those of every node."""
    found, answers = run(program, path, feeds), expected(path, feeds, exported, form.codes)
    whole = found if isinstance(found, str) else furthest(answers[:2], found)
    if isinstance(whole, str) or not form.codes:
        return Judged(whole)
    if form.source:
        answers.append(theirs(path.with_name(f"{form.source}.onnx"), feeds, LEVELS.ORT_DISABLE_ALL))
    own = max((furthest([answers[a]], answers[b]) for a in range(len(answers)) for b in range(a)), default=0.0)
    real = theirs(exported, feeds, LEVELS.ORT_ENABLE_ALL)
    distances = far(found, real), max(far(answer, real) for answer in answers)
    model = opened(path)
    found = run(program, model, feeds)
    node = found if isinstance(found, str) else node_by_node(model, theirs(model, feeds, LEVELS.ORT_DISABLE_ALL), found)
    return Judged(whole, own, node, distances)


def node_by_node(path, answer, found):
    """How far outputs of nodes are apart at most whose inputs are equal; or words. Of codes, in 255 steps.

    Wide integers are left out: in T5 places come from the logarithm of zero, which no integer is.
    """
    worst, differs = 0.0, set()
    for node in onnx.load(path).graph.node:
        for name in node.output:
            value = answer.get(name)
            if value is None or not (value.dtype.kind == "f" or value.dtype.itemsize == 1):
                continue
            one = apart(value, found.get(name, {}))
            if isinstance(one, str):
                return f"{name}: {one}"
            if value.dtype.kind in "iu":
                one = np.abs(value.astype(int) - found[name].astype(int)).max(initial=0) / 255
            if one > 1e-5:
                differs.add(name)
            if not differs & set(node.input):
                worst = max(worst, float(one))
    return worst


def limit(form):
    return STEP if form.codes else HALF if form.half else LIMIT


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("polychip", type=pathlib.Path)
    arguments.add_argument("names", nargs="*")
    arguments.add_argument("--out", type=pathlib.Path, default=pathlib.Path("target/saved"))
    arguments.add_argument("--markdown", type=pathlib.Path, help="write docs/benchmarks/saved.md here")
    arguments.add_argument("--only-make", action="store_true", help="write the files and run nothing")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    rows, ops, failed, files, codes = {}, {}, 0, 0, []
    for network in networks.NETWORKS:
        wanted = [form for form in FORMS if not options.names or {network.name, form.name, f"{network.name}:{form.name}"} & set(options.names)]
        if not wanted:
            continue
        exported = options.out.resolve() / network.name / "exported.onnx"
        if not exported.exists():
            exported.parent.mkdir(parents=True, exist_ok=True)
            network.export(exported)
        feeds = inputs(exported, network.sizes)
        for form in wanted:
            path = exported.with_name(f"{form.file}.onnx")
            why = "" if path.exists() else form.make(network, exported, path, feeds)
            if why:
                print("none", network.name, form.name, "|", why, flush=True)
                rows.setdefault(network.name, {})[form.name] = "–"
                continue
            files += 1
            for node in onnx.load(path, load_external_data=False).graph.node:
                if node.domain not in ("", "ai.onnx"):
                    ops.setdefault(node.op_type, set()).add(network.name)
            if options.only_make:
                print("made", path, flush=True)
                continue
            # f16 files may take f16 where the exported one takes f32
            judged = judge(options.polychip.resolve(), path, inputs(path, network.sizes), exported, form)
            passed, words = judged.passes(limit(form)), judged.text(limit(form))
            failed += not passed
            if form.codes:
                codes.append(judged)
            real = "" if judged.real is None else "| from the floats {:.2e}, ONNX Runtime {:.2e}".format(*judged.real)
            print("ok  " if passed else "FAIL", network.name, form.name, "|", words, real, flush=True)
            rows.setdefault(network.name, {})[form.name] = words if passed else f"**{words}**"
    strict = sum(judged.is_strict(STEP) for judged in codes)
    consistent = sum(judged.own is not None and judged.own <= STEP for judged in codes)
    print(f"{files} files, {failed} fail; {strict} of {len(codes)} of codes within a step as a whole, ONNX Runtime itself {consistent}")
    if options.markdown:
        head = "| network | " + " | ".join(form.name for form in FORMS) + " |\n|---|" + "---|" * len(FORMS)
        lines = [f"| {name} | " + " | ".join(row.get(form.name, "") for form in FORMS) + " |" for name, row in rows.items()]
        used = "Ops of ONNX Runtime's own domains in these files: " + ", ".join(f"`{op}`" for op in sorted(ops)) + "."
        options.markdown.write_text(TEXT.format(files=files, passed=files - failed, networks=len(rows), limit=LIMIT, half=HALF, step=STEP,
                                                strict=strict, coded=len(codes), consistent=consistent,
                                                variants=", ".join(VARIANTS),
                                                table="\n".join([head, *lines]), ops=used), encoding="utf-8")  # fmt: skip
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
