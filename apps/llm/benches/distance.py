"""How far the answers of `polychip logits` are from those of a plain model in f32 over the dequantised file.

    python apps/llm/benches/distance.py MODEL.gguf TEXT [-- options of polychip logits]

Both read the first tokens of the text, each knowing the true ones before it. Printed: the mean Kullback-Leibler divergence of
Polychip's distribution from the plain one's in nats, how often the most likely token is the same, and both perplexities. Needs
NumPy and the package gguf (`cargo xtask vendor gguf` has both in target/venv-llm).
"""

import argparse
import pathlib
import subprocess
import tempfile

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize


class Plain:
    """The model in NumPy; nothing of it is Polychip's."""

    def __init__(self, path):
        reader = GGUFReader(path)
        field = lambda name: reader.fields[name].contents()
        shape = lambda tensor: [int(size) for size in reversed(tensor.shape)]
        self.weights = {
            tensor.name: dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape(tensor))
            for tensor in reader.tensors
        }
        name = field("general.architecture")
        self.interleaved = name == "llama"
        self.layers = field(f"{name}.block_count")
        self.heads = field(f"{name}.attention.head_count")
        self.kv_heads = field(f"{name}.attention.head_count_kv")
        self.epsilon = field(f"{name}.attention.layer_norm_rms_epsilon")
        base = f"{name}.rope.freq_base"
        self.base = field(base) if base in reader.fields else 10_000.0

    def norm(self, x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon) * weight

    def rotate(self, x):
        rows, _, size = x.shape
        angles = np.arange(rows)[:, None] * self.base ** (-np.arange(0, size, 2) / size)
        cosines, sines = (of(angles)[:, None].astype(np.float32) for of in (np.cos, np.sin))
        pair = (slice(0, None, 2), slice(1, None, 2)) if self.interleaved else (slice(0, size // 2), slice(size // 2, None))
        a, b = x[..., pair[0]], x[..., pair[1]]
        y = np.empty_like(x)
        y[..., pair[0]], y[..., pair[1]] = a * cosines - b * sines, a * sines + b * cosines
        return y

    def linear(self, x, name):
        y = x @ self.weights[name + ".weight"].T
        return y + self.weights[name + ".bias"] if name + ".bias" in self.weights else y

    def logits(self, tokens):
        weights, rows = self.weights, len(tokens)
        x = weights["token_embd.weight"][tokens]
        mask = np.triu(np.full((rows, rows), -np.inf, np.float32), 1)
        for layer in range(self.layers):
            p = f"blk.{layer}."
            normed = self.norm(x, weights[p + "attn_norm.weight"])
            heads = lambda which, count: self.linear(normed, p + which).reshape(rows, count, -1)
            q, k, v = heads("attn_q", self.heads), heads("attn_k", self.kv_heads), heads("attn_v", self.kv_heads)
            if p + "attn_q_norm.weight" in weights:
                q, k = self.norm(q, weights[p + "attn_q_norm.weight"]), self.norm(k, weights[p + "attn_k_norm.weight"])
            q, k = self.rotate(q), self.rotate(k)
            attended = np.empty_like(q)
            for head in range(self.heads):
                shared = head * self.kv_heads // self.heads
                scores = q[:, head] @ k[:, shared].T / np.sqrt(q.shape[-1]) + mask
                scores = np.exp(scores - scores.max(-1, keepdims=True))
                attended[:, head] = scores / scores.sum(-1, keepdims=True) @ v[:, shared]
            x = x + self.linear(attended.reshape(rows, -1), p + "attn_output")
            normed = self.norm(x, weights[p + "ffn_norm.weight"])
            gate = self.linear(normed, p + "ffn_gate")
            x = x + self.linear(gate / (1 + np.exp(-gate)) * self.linear(normed, p + "ffn_up"), p + "ffn_down")
        x = self.norm(x, weights["output_norm.weight"])
        return x @ weights.get("output.weight", weights["token_embd.weight"]).T


def log_probabilities(logits):
    logits = logits.astype(np.float64)
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def perplexity(logs, tokens):
    return np.exp(-logs[np.arange(len(tokens) - 1), tokens[1:]].mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--first", type=int, default=512, help="tokens of the text")
    parser.add_argument("--polychip", default="target/release/polychip")
    parser.add_argument("options", nargs="*", help="of polychip logits")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ids, logits = pathlib.Path(folder, "ids.npy"), pathlib.Path(folder, "logits.npy")
        command = [given.polychip, "logits", given.model, "--text", given.text, "--first", str(given.first)]
        subprocess.run([*command, "--save-tokens", ids, "--save", logits, *given.options], check=True)
        tokens, found = np.load(ids).astype(np.int64), np.load(logits)
    wanted = Plain(given.model).logits(tokens)
    plain, ours = log_probabilities(wanted), log_probabilities(found)
    divergence = (np.exp(plain) * (plain - ours)).sum(-1).mean()
    same = (wanted.argmax(-1) == found.argmax(-1)).mean()
    print(f"{len(tokens)} tokens: KL {divergence:.2e}, most likely token the same {same:.4f},")
    print(f"perplexity {perplexity(plain, tokens):.3f} plain, {perplexity(ours, tokens):.3f} Polychip")


main()
