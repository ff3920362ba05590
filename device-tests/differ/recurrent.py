"""GRU, LSTM and RNN in f64, by the equations of their specification: the referee for parts with these ops.

ONNX's reference evaluator does not read `activations`, `clip`, `direction` and `sequence_lens` of all three, and computes in
the type of the tensors. These run inside it, in its own ops' stead, and give the type that a model states.

Not here: `activation_alpha` and `activation_beta`, and activations that `images.py` does not draw; they are refused.
"""

import numpy as np
from onnx.reference.op_run import OpRun

ACTIVATIONS = {
    "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
}


def wide(value):
    return None if value is None else np.asarray(value, "float64")


def run(cell, gates, states, x, w, r, b, lengths, initial, more):
    """Every output of a recurrent op: `cell(t, w, r, b, state)` makes the next state of one sequence from its input of one step."""
    if more.get("activation_alpha") or more.get("activation_beta"):
        raise NotImplementedError("activations with parameters")
    out = np.asarray(x).dtype
    x, w, r = wide(x), wide(w), wide(r)
    swapped = bool(more.get("layout"))
    x = x.swapaxes(0, 1) if swapped else x
    initial = [None if one is None else wide(one).swapaxes(0, 1) if swapped else wide(one) for one in initial]
    (steps, batch, _), (ways, _, hidden) = x.shape, r.shape
    b = np.zeros((ways, 2 * gates * hidden)) if b is None else wide(b)
    lengths = [steps] * batch if lengths is None else np.asarray(lengths).tolist()
    y = np.zeros((steps, ways, batch, hidden))
    last = [np.zeros((ways, batch, hidden)) for _ in range(states)]
    for way in range(ways):
        backwards = more.get("direction") == "reverse" or way == 1
        for one in range(batch):
            state = [np.zeros(hidden) if given is None else given[way, one] for given in initial]
            order = range(lengths[one])
            for step in reversed(order) if backwards else order:
                state = cell(x[step, one], way, w[way], r[way], b[way], state)
                y[step, way, one] = state[0]
            for kept, value in zip(last, state):
                kept[way, one] = value
    if swapped:
        y, last = y.transpose(2, 0, 1, 3), [value.swapaxes(0, 1) for value in last]
    return tuple(value.astype(out) for value in [y, *last])


def activations(more, default, way):
    """The functions of one direction, each after the clip of its argument."""
    names = more.get("activations") or default * 2
    clip = more.get("clip")
    limited = (lambda x: x) if clip is None else lambda x: np.clip(x, -clip, clip)
    chosen = names[way * len(default) : (way + 1) * len(default)]
    return [lambda x, of=ACTIVATIONS[name]: of(limited(x)) for name in chosen]


class LSTM(OpRun):
    op_domain = ""

    def _run(self, x, w, r, b=None, lengths=None, h=None, c=None, p=None, **more):
        def cell(x, way, w, r, b, state):
            f, g, _ = activations(more, ["Sigmoid", "Tanh", "Tanh"], way)
            # "clip … is applied to the input of activations": of the gates' alone, as ONNX Runtime has it
            _, _, k = activations(more | {"clip": None}, ["Sigmoid", "Tanh", "Tanh"], way)
            hidden, (h, c) = len(state[0]), state
            to_i, to_o, to_f = np.zeros((3, hidden)) if p is None else wide(p)[way].reshape(3, hidden)
            i, o, forget, new = (w @ x + r @ h + b[: 4 * hidden] + b[4 * hidden :]).reshape(4, hidden)
            i = f(i + to_i * c)
            forget = 1 - i if more.get("input_forget") else f(forget + to_f * c)
            c = forget * c + i * g(new)
            return [f(o + to_o * c) * k(c), c]

        return run(cell, 4, 2, x, w, r, b, lengths, [h, c], more)[: len(self.onnx_node.output)]


class GRU(OpRun):
    op_domain = ""

    def _run(self, x, w, r, b=None, lengths=None, h=None, **more):
        def cell(x, way, w, r, b, state):
            f, g = activations(more, ["Sigmoid", "Tanh"], way)
            hidden, (h,) = len(state[0]), state
            (of_z, of_r, of_h), (wz, wr, wh) = r.reshape(3, hidden, hidden), (w @ x + b[: 3 * hidden]).reshape(3, hidden)
            bz, br, bh = b[3 * hidden :].reshape(3, hidden)
            z, reset = f(wz + of_z @ h + bz), f(wr + of_r @ h + br)
            before = more.get("linear_before_reset")
            new = g(wh + reset * (of_h @ h + bh)) if before else g(wh + of_h @ (reset * h) + bh)
            return [(1 - z) * new + z * h]

        return run(cell, 3, 1, x, w, r, b, lengths, [h], more)[: len(self.onnx_node.output)]


class RNN(OpRun):
    op_domain = ""

    def _run(self, x, w, r, b=None, lengths=None, h=None, **more):
        def cell(x, way, w, r, b, state):
            (f,) = activations(more, ["Tanh"], way)
            hidden = len(state[0])
            return [f(w @ x + r @ state[0] + b[:hidden] + b[hidden:])]

        return run(cell, 1, 1, x, w, r, b, lengths, [h], more)[: len(self.onnx_node.output)]
