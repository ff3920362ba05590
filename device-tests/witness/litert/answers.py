"""What LiteRT's own kernels answer for the pieces of models that a vendor's plugin took.

    answers.py (ORIGINAL.tflite COMPILED.tflite OUT)...

OUT becomes a folder: `index.json` tells how many ops the original has and how many are left beside the pieces, and for
each piece its bytes, `N.bin`, and its inputs and outputs with their values, in files of .npy. The values are those of one
run of the original on LiteRT's reference kernels, every tensor kept, with seeded inputs.
"""

import json
import pathlib
import sys

import flatbuffers.flexbuffers as flexbuffers
import numpy as np
from ai_edge_litert import interpreter as litert
from ai_edge_litert import schema_py_generated as tflite

# what LiteRT calls the op in the place of a piece
DISPATCH = b"DISPATCH_OP"


def model(path):
    bytes_ = path.read_bytes()
    return bytes_, tflite.ModelT.InitFromObj(tflite.Model.GetRootAsModel(bytes_, 0))


def is_piece(graph_model, operator):
    code = graph_model.operatorCodes[operator.opcodeIndex].customCode
    return code is not None and (code if isinstance(code, bytes) else code.encode()) == DISPATCH


def run(path):
    """The values of all tensors of the first graph, by name."""
    interpreter = litert.Interpreter(
        model_path=str(path),
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    generator = np.random.default_rng(1)
    for detail in interpreter.get_input_details():
        shape, kind = detail["shape"], detail["dtype"]
        if np.issubdtype(kind, np.floating):
            value = generator.uniform(-1, 1, shape).astype(kind)
        elif kind == np.bool_:
            value = generator.integers(0, 2, shape).astype(kind)
        elif kind in (np.int8, np.uint8):
            value = generator.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)
        else:
            value = generator.integers(0, 2, shape).astype(kind)
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    values = {}
    for detail in interpreter.get_tensor_details():
        try:
            value = interpreter.get_tensor(detail["index"])
        except ValueError:
            # of a kind that has no values, as a resource
            continue
        values.setdefault(detail["name"], []).append(value)
    return values


def answer(original, compiled, out):
    out.mkdir(parents=True, exist_ok=True)
    _, before = model(original)
    bytes_, after = model(compiled)
    pieces = []
    values = None
    for graph in after.subgraphs:
        for operator in graph.operators or []:
            if not is_piece(after, operator):
                continue
            options = flexbuffers.GetRoot(bytearray(operator.customOptions)).AsMap
            place = {key: options[key].Value for key in ("bytecode_offset", "bytecode_size", "name")}
            start, size = place["bytecode_offset"], place["bytecode_size"]
            assert start > 0 and start + size <= len(bytes_), f"bytes {start} to {start + size} of {len(bytes_)}"
            number = len(pieces)
            (out / f"{number}.bin").write_bytes(bytes_[start : start + size])
            values = values if values is not None else run(original)
            piece = {"name": place["name"], "inputs": [], "outputs": []}
            for side, tensors in [("inputs", operator.inputs), ("outputs", operator.outputs)]:
                for at, index in enumerate(tensors):
                    tensor = graph.tensors[index]
                    name = tensor.name if isinstance(tensor.name, str) else tensor.name.decode()
                    found = values.get(name, [])
                    assert len(found) == 1, f"{len(found)} tensors are called {name!r}"
                    file = f"{number}-{side}-{at}.npy"
                    np.save(out / file, np.ascontiguousarray(found[0]))
                    piece[side].append({"name": name, "file": file, "shape": list(found[0].shape)})
            pieces.append(piece)
    count = lambda model: sum(len(graph.operators or []) for graph in model.subgraphs)
    left = count(after) - len(pieces)
    (out / "index.json").write_text(json.dumps({"ops": count(before), "left": left, "pieces": pieces}))


def main():
    paths = [pathlib.Path(argument) for argument in sys.argv[1:]]
    assert len(paths) % 3 == 0, __doc__
    for original, compiled, out in zip(paths[0::3], paths[1::3], paths[2::3]):
        try:
            answer(original, compiled, out)
        except Exception as error:
            raise RuntimeError(f"{original}: {error}") from error


if __name__ == "__main__":
    main()
