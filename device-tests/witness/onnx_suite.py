#!/usr/bin/env python3
"""Write the ONNX backend suite of the installed Python package `onnx` as files.

    onnx_suite.py OUT

OUT gets node/, simple/, pytorch-converted/ and pytorch-operator/; each case is a folder with
model.onnx and test_data_set_N/{input,output}_M.pb, the layout of the package's own data. A file
holds a TensorProto, or a SequenceProto or OptionalProto where the model declares such a value.
The package's `cmd_tools generate-data` writes the simple cases only, so the node cases are written
here from the same definitions. OUT/cases.json lists the counts and the suite's tolerances.
Needs onnx and numpy.
"""
import json
import os
import shutil
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case import model as models, node as nodes

DATA = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")


def message(value, info):
    """A case's value as the protobuf message that its declared type calls for."""
    if isinstance(value, onnx.TensorProto):
        return value
    kind = info.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.from_list(value, info.name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, info.name)
    if kind == "map_type":
        return numpy_helper.from_dict(value, info.name)
    return numpy_helper.from_array(np.asarray(value), info.name)


def write(folder, case):
    os.makedirs(folder)
    with open(os.path.join(folder, "model.onnx"), "wb") as f:
        f.write(case.model.SerializeToString())
    for i, (inputs, outputs) in enumerate(case.data_sets):
        data = os.path.join(folder, f"test_data_set_{i}")
        os.makedirs(data)
        graph = case.model.graph
        for what, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
            if len(values) > len(infos):
                raise SystemExit(f"{case.name}: {len(values)} values for {len(infos)} {what}s")
            for j, (value, info) in enumerate(zip(values, infos)):
                with open(os.path.join(data, f"{what}_{j}.pb"), "wb") as f:
                    f.write(message(value, info).SerializeToString())


def main(out):
    warnings.simplefilter("ignore")  # the cases divide by zero on purpose
    np.seterr(all="ignore")
    cases = [c for c in [*nodes.collect_testcases(None), *models.collect_testcases()] if c.kind in ("node", "simple")]
    counts, tolerances = {}, {(c.rtol, c.atol) for c in cases}
    if len(tolerances) != 1:
        raise SystemExit(f"one tolerance expected for all cases, found {sorted(tolerances)}")
    for kind in ("node", "simple", "pytorch-converted", "pytorch-operator"):
        folder = os.path.join(out, kind)
        if os.path.exists(folder):
            shutil.rmtree(folder)
        if os.path.isdir(os.path.join(DATA, kind)):
            shutil.copytree(os.path.join(DATA, kind), folder, copy_function=shutil.copyfile)
        for case in cases:
            if case.kind == kind:
                target = os.path.join(folder, case.name)
                if os.path.exists(target):
                    shutil.rmtree(target)
                write(target, case)
        counts[kind] = sum(os.path.exists(os.path.join(folder, n, "model.onnx")) for n in os.listdir(folder))
        print(f"{kind}: {counts[kind]} cases", flush=True)
    rtol, atol = tolerances.pop()
    with open(os.path.join(out, "cases.json"), "w") as f:
        json.dump({"onnx": onnx.__version__, "rtol": rtol, "atol": atol, "cases": counts}, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
