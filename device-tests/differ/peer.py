"""ONNX Runtime's side: draws graphs, runs them, cuts them down, and asks ONNX's reference evaluator.

Answers each line of JSON with one: {"draw": index} makes a graph with inputs and ONNX Runtime's outputs, {"cut": names} a
part of it with its nodes {"keep": names}, on the input values of {"given": tensors} if present, {"judge": true} what
the referee makes of the last part, and what evidence there is of why it differs.
"""

import copy
import json
import pathlib
import sys
import warnings

import numpy as np
import onnx
import onnxruntime as ort

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import contrib  # noqa: E402, F401
import evidence  # noqa: E402
import images  # noqa: E402, F401
import quantised  # noqa: E402, F401
import recurrent  # noqa: E402
import values  # noqa: E402, F401
from drafts import CONTRIB, Draft, Refused, Unfit, options, reads, run, session  # noqa: E402
from recipes import RECIPES  # noqa: E402

# draws that come to nothing, for a node
PATIENCE = 40


class Peer:
    def __init__(self, seed, folder, only):
        self.seed, self.folder = seed, pathlib.Path(folder)
        self.only = only
        self.drafts = {}
        self.part = None

    def draft(self, index):
        """The graph of this index; what it is made of depends on nothing else."""
        d = Draft(self.seed, index)
        wanted = d.rng.choices(range(1, 12), [3, 3, 3, 2, 2, 2, 1, 1, 1, 1, 1])[0]
        ops = [op for op, (_, _, since, until) in RECIPES.items() if since <= d.opset <= until and known(op, d.opset)]
        mine = [op for op in ops if op in self.only]
        weights = [RECIPES[op][1] for op in ops]
        refused = {}
        for place in range(wanted):
            for _ in range(PATIENCE):
                op = d.rng.choices(ops, weights)[0] if not self.only or place % 2 and mine else d.pick(mine or ops)
                try:
                    RECIPES[op][0](d, op)
                    break
                except Unfit:
                    pass
                except Refused as error:
                    refused.setdefault(op, str(error)[:200])
        return d, refused

    def draw(self, index):
        d, refused = self.draft(index)
        self.drafts[index] = d
        self.drafts.pop(index - 16, None)
        answer = self.written(d, d.nodes, f"{index}")
        extreme = any(is_extreme(value) or is_infinite(value) for value in d.values.values())
        return answer | {"extreme": extreme, "refused": refused, "opset": d.opset}

    def written(self, d, nodes, stem):
        """A model with inputs and what ONNX Runtime makes of them, in files."""
        if not nodes:
            return {"ops": [], "refusal": "nothing fits"}
        model = d.model(nodes)
        path = self.folder / f"{stem}.onnx"
        path.write_bytes(model.SerializeToString())
        feed = {name: d.values[name] for name in d.feeds(model)}
        self.part = (model, feed)
        names = list(dict.fromkeys(of_group(node) for node in nodes))
        answer = {
            "model": str(path),
            "ops": [d.labels[name] for name in names],
            "nodes": names,
            "inputs": [self.file(f"{stem}.{name}", name, value) for name, value in feed.items()],
        }
        try:
            found = run(model, feed)
        except Exception as error:
            return answer | {"refusal": str(error)[:300]}
        self.outputs = dict(zip([value.name for value in model.graph.output], found))
        return answer | {"outputs": [self.file(f"{stem}.{name}", name, value) for name, value in self.outputs.items()]}

    def file(self, stem, name, value):
        path = self.folder / f"{stem}.bin"
        value = np.ascontiguousarray(value).reshape(value.shape)
        path.write_bytes(value.tobytes())
        return {"name": name, "dtype": str(value.dtype), "shape": list(value.shape), "file": str(path)}

    def cut(self, index, keep, given):
        d = self.drafts.get(index) or self.draft(index)[0]
        self.drafts[index] = d
        if given:
            d = copy.copy(d)
            d.values = d.values | {one["name"]: read(one) for one in given}
        nodes = [node for node in d.nodes if of_group(node) in keep]
        return self.written(d, nodes, f"{index}.part")

    def judge(self):
        """What others make of the last part: the referee, ONNX's checker, and ONNX Runtime with its optimisations."""
        model, feed = self.part
        answer = {"text": onnx.printer.to_text(model)[:6000]}
        attributes = {}
        for node in model.graph.node:
            for one in node.attribute:
                if one.type not in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.TENSOR):
                    value = onnx.helper.get_attribute_value(one)
                    attributes[one.name] = value.decode() if isinstance(value, bytes) else str(value)
        answer["attributes"] = attributes
        read = list(feed.values()) + [onnx.numpy_helper.to_array(one) for one in model.graph.initializer]
        inf, made = any(map(is_infinite, read)), map(is_infinite, self.outputs.values())
        answer["not_finite"] = any(value.dtype.kind == "f" and not np.isfinite(value).all() for value in read)
        answer["extreme"] = any(map(is_extreme, read + list(self.outputs.values()))) or not inf and any(made)
        try:
            onnx.checker.check_model(model, full_check=True)
        except Exception as error:
            answer["invalid"] = str(error)[:500]
        names = [value.name for value in model.graph.output]
        if len(model.graph.node) > 1:
            answer["rounded"] = [
                [self.file(f"rounded{place}.{name}", name, value) for name, value in zip(names, found)]
                for place, found in enumerate(evidence.rounded(model, feed, session, reads))
            ]
        elif found := evidence.products(model, feed):
            answer["products"] = [self.file(f"products.{name}", name, value) for name, value in found.items()]
        if len(model.graph.node) == 1 and (found := evidence.averages(model, feed, reference)) is not None:
            answer["averages"] = [self.file("averages", names[0], found)]
        for what, compute in (("referee", reference), ("optimised", optimised)):
            try:
                found = compute(model, feed)
                answer[what] = [self.file(f"{what}.{name}", name, np.asarray(value)) for name, value in zip(names, found)]
            except Exception as error:
                answer[f"{what}_refusal"] = f"{type(error).__name__}: {error}"[:300]
        return answer


def of_group(node):
    """The name of the group that a node is of: a node by itself is one."""
    return node.name.split(".")[0]


def read(file):
    """The tensor of a file that the other side has written."""
    return np.fromfile(file["file"], file["dtype"]).reshape(file["shape"])


def is_extreme(value):
    """Whether products of such floats leave the range of their type."""
    if value.dtype.kind != "f":
        # larger integers are not exact in f64, the type of means and roots
        return value.dtype.kind in "iu" and bool((np.abs(value.astype("float64")) > 2.0**53).any())
    size = np.abs(value[np.isfinite(value) & (value != 0)].astype("float64"))
    high, low = (128, 1e-3) if value.dtype == np.float16 else (1e15, 1e-15)
    return bool((size > high).any() or (size < low).any())


def is_infinite(value):
    return value.dtype.kind == "f" and bool(np.isinf(value).any())


def reference(model, feed):
    from onnx.reference import ReferenceEvaluator

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        of_recurrent = [recurrent.GRU, recurrent.LSTM, recurrent.RNN]
        return ReferenceEvaluator(model, new_ops=of_recurrent).run(None, feed)


def optimised(model, feed):
    return run(model, feed, options(ort.GraphOptimizationLevel.ORT_ENABLE_ALL))


def known(op, opset):
    if op.startswith(CONTRIB) or op in values.GROUPS:
        return True
    try:
        return not onnx.defs.get_schema(op, opset).deprecated
    except onnx.defs.SchemaError:
        return False


def main():
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    if sys.argv[1] == "ops":
        print(json.dumps(sorted(RECIPES)))
        return
    seed, folder, only = sys.argv[1], sys.argv[2], sys.argv[3:]
    peer = Peer(seed, folder, set(only))
    for line in sys.stdin:
        asked = json.loads(line)
        if "draw" in asked:
            answer = peer.draw(asked["draw"])
        elif "cut" in asked:
            answer = peer.cut(asked["cut"], set(asked["keep"]), asked.get("given"))
        else:
            answer = peer.judge()
        print(json.dumps(answer), flush=True)


main()
