"""Compiles one ONNX model with rknn-toolkit2, in a process of its own.

The only argument names a file: a JSON object, the request. Its `result` names the file that the answer goes to, a JSON
object too: {"ok": true, "toolkit": VERSION} or {"ok": false, "kind": KIND, "stage": STAGE, "error": WORDS}.
All that the toolkit prints, the table of layers among it, goes to standard output and error, as it likes.
"""

import json
import os
import sys
import traceback


def version():
    from importlib import metadata

    return metadata.version("rknn-toolkit2")


def answer(request, **words):
    # whole or absent: a reader never sees half of it
    half = request["result"] + ".half"
    with open(half, "w") as file:
        json.dump(words, file)
    os.replace(half, request["result"])


def must(code, stage):
    if code not in (0, None):
        raise RuntimeError("%s returned %r" % (stage, code))


def compile(request, at):
    at.append("import")
    from rknn.api import RKNN

    at.append("config")
    rknn = RKNN(verbose=True)
    options = {
        "target_platform": request["target_platform"],
        "optimization_level": request["optimization_level"],
        "custom_string": request["custom_string"],
    }
    if request["single_core_mode"]:
        options["single_core_mode"] = True
    if request["quantized_dtype"]:
        options["quantized_dtype"] = request["quantized_dtype"]
        options["quantized_algorithm"] = request["quantized_algorithm"]
    must(rknn.config(**options), "config")
    at.append("load")
    must(rknn.load_onnx(model=request["model"]), "load_onnx")
    at.append("build")
    if request["quantized_dtype"]:
        must(rknn.build(do_quantization=True, dataset=request["dataset"]), "build")
    else:
        must(rknn.build(do_quantization=False), "build")
    at.append("export")
    must(rknn.export_rknn(request["blob"]), "export_rknn")
    simulate(rknn, request, at)
    rknn.release()


def simulate(rknn, request, at):
    """What the toolkit's simulator makes of inputs, for tests: .npy files in, .npy files out."""
    wanted = request.get("simulate")
    if not wanted:
        return
    at.append("simulate")
    import numpy

    must(rknn.init_runtime(), "init_runtime")
    inputs = [numpy.load(path) for path in wanted["inputs"]]
    layouts = ["nchw"] * len(inputs)
    outputs = rknn.inference(inputs=inputs, data_format=layouts)
    for path, output in zip(wanted["outputs"], outputs):
        numpy.save(path, numpy.asarray(output, dtype=numpy.float32))


def main():
    with open(sys.argv[1]) as file:
        request = json.load(file)
    at = ["version"]
    try:
        found = version()
        if request["ask"] == "compile":
            compile(request, at)
        sys.stdout.flush()
        answer(request, ok=True, toolkit=found)
    except ImportError as error:
        answer(request, ok=False, kind="missing", stage=at[-1], error=str(error))
    except MemoryError:
        answer(request, ok=False, kind="memory", stage=at[-1], error="memory ran out")
    except BaseException as error:
        traceback.print_exc()
        words = "%s: %s" % (type(error).__name__, error)
        answer(request, ok=False, kind="toolkit", stage=at[-1], error=words[:2000])


main()
