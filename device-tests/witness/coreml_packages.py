"""Judges packages for Core ML with Apple's own readers, on any system.

For each package in a folder: the package's validator, the reader of weight files, and the front end of coremltools, which
parses the program and infers every type anew. Then, of some of them, broken variants that all must be refused: a wrong
declared shape, a misspelt op, a weight's offset off by one entry.

Usage: coreml_packages.py FOLDER [BROKEN], where BROKEN is how many packages are broken in each way. Prints a JSON object.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import logging

logging.disable(logging.WARNING)

from coremltools import proto  # noqa: E402
from coremltools.converters.mil.frontend.milproto import load as milproto  # noqa: E402
from coremltools.libmilstoragepython import _BlobStorageReader as Reader  # noqa: E402
from coremltools.libmodelpackage import ModelPackage  # noqa: E402

DATA = "Data/com.apple.CoreML"


def spec_of(package):
    spec = proto.Model_pb2.Model()
    spec.ParseFromString((package / DATA / "model.mlmodel").read_bytes())
    return spec


def weights_of(spec):
    """Each constant that lies in the file of weights: its type and its offset."""
    for operation in operations(spec):
        for value in stored_of(operation):
            yield value.type.tensorType, value.blobFileValue.offset


def stored_of(operation):
    """Values of a constant, or of an operation that makes one, that lie in the file of weights."""
    if operation.type == "const" or operation.type.startswith("constexpr_"):
        for value in operation.attributes.values():
            if value.HasField("blobFileValue"):
                yield value


def read_weights(package, spec):
    path = package / DATA / "weights/weight.bin"
    found = list(weights_of(spec))
    if not found:
        return 0
    reader = Reader(str(path))
    types = proto.MIL_pb2
    for tensor, offset in found:
        elements = 1
        for dimension in tensor.dimensions:
            elements *= dimension.constant.size
        read = {
            types.FLOAT32: reader.read_float_data,
            types.FLOAT16: reader.read_fp16_data,
            types.INT32: reader.read_int32_data,
            types.INT8: reader.read_int8_data,
            types.UINT8: reader.read_uint8_data,
        }[tensor.dataType]
        count = len(read(offset))
        assert count == elements, f"{count} elements at {offset} for {elements}"
    return len(found)


def infer(package, spec):
    """Parses the program and infers all types: what is declared wrong raises."""
    program = milproto.load(
        spec,
        specification_version=spec.specificationVersion,
        file_weights_dir=str(package / DATA / "weights"),
    )
    return sum(len(function.operations) for function in program.functions.values())


def judge(package):
    assert ModelPackage.isValid(str(package)), "the validator refuses it"
    assert ModelPackage(str(package)).getRootModel() is not None, "no root model"
    spec = spec_of(package)
    return read_weights(package, spec), infer(package, spec), ops_of(spec)


def ops_of(spec):
    blocks = spec.mlProgram.functions["main"].block_specializations.values()
    return {operation.type for block in blocks for operation in block.operations}


def operations(spec):
    for block in spec.mlProgram.functions["main"].block_specializations.values():
        yield from block.operations


def wrong_shape(spec):
    # a wrong shape of an output without readers is caught only by inference
    for operation in operations(spec):
        tensor = operation.outputs[0].type.tensorType
        if operation.type not in ("const", "identity") and tensor.dimensions:
            tensor.dimensions[0].constant.size += 1
            return True
    return False


def misspelt(spec):
    for operation in operations(spec):
        if operation.type != "const":
            operation.type += "x"
            return True
    return False


def wrong_offset(spec):
    for operation in operations(spec):
        for value in stored_of(operation):
            value.blobFileValue.offset += 64
            return True
    return False


def broken(package, how):
    """Whether a broken variant is refused; None where the package cannot be broken so."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "broken.mlpackage"
        shutil.copytree(package, copy)
        spec = spec_of(copy)
        if not how(spec):
            return None
        (copy / DATA / "model.mlmodel").write_bytes(spec.SerializeToString())
        try:
            judge(copy)
        except Exception:
            return True
        return False


def main():
    folder = Path(sys.argv[1])
    variants = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    packages = sorted(folder.glob("*.mlpackage"))
    report = {"packages": len(packages), "weights": 0, "operations": 0, "refused": [], "broken": {}, "accepted": []}
    ops = set()
    for package in packages:
        try:
            weights, count, found = judge(package)
            report["weights"] += weights
            report["operations"] += count
            ops |= found
        except Exception as error:
            words = " ".join(f"{type(error).__name__}: {error}".split())[:400]
            report["refused"].append([package.name, sorted(ops_of(spec_of(package)) - {"const"}), words])
    step = max(1, len(packages) // max(1, variants))
    for how in (wrong_shape, misspelt, wrong_offset):
        tried = 0
        for package in packages if how is wrong_offset else packages[::step]:
            refused = broken(package, how)
            if refused is None:
                continue
            tried += 1
            if not refused:
                report["accepted"].append([how.__name__, package.name, sorted(ops_of(spec_of(package)) - {"const"})])
            if tried >= variants:
                break
        report["broken"][how.__name__] = tried
    report["ops"] = sorted(ops - {"const"})
    print(json.dumps(report))


main()
