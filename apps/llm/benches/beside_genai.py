"""Compares Polychip with ONNX Runtime GenAI on the same folder: logits of given tokens, and greedy texts of a few prompts.

    python apps/llm/benches/genai_model.py MODEL.gguf FOLDER        # and tokenizer.json, tokenizer_config.json of the model beside it
    ORT_DISABLE_TELEMETRY=1 python apps/llm/benches/beside_genai.py FOLDER --gguf MODEL.gguf --polychip target/release/polychip

Needs NumPy and the Python package onnxruntime-genai. Prints for each pair the mean KL divergence over the tokens, and how often the
most likely token is the same. Exits with status 1 if the mean divergence from Polychip's reading of the GGUF file of the same weights
exceeds 1e-5, or that from GenAI exceeds `--within`. GenAI rounds activations to 8 bits for a folder with `accuracy_level` 4, which
alone gives 5e-3; it computes a folder of `genai_model.py --accuracy-level 1` in f32, which passes `--within 1e-5`.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

PROMPTS = ["The capital of France is", "Once upon a time, there was", "def fibonacci(n):"]
TEXT = (
    "Polychip runs one model over all chips of a device. A plan says "
    "which part of a graph runs where, and a measurement says whether the plan was right. "
    "The sun rose over the hills, and the river was silver in its light; nobody had been there for years."
)


def ours(polychip, model, tokens, precision="exact"):
    with tempfile.TemporaryDirectory() as folder:
        ids, out = pathlib.Path(folder) / "ids.npy", pathlib.Path(folder) / "out.npy"
        np.save(ids, np.array(tokens, np.int64))
        words = [polychip, "logits", model, "--tokens", str(ids), "--save", str(out), "--devices", "cpu", "--precision", precision]
        subprocess.run(words, check=True, capture_output=True)
        return np.load(out).astype(np.float64).reshape(len(tokens), -1)


def generator(genai, model, length):
    params = genai.GeneratorParams(model)
    params.set_search_options(max_length=length, do_sample=False)
    return genai.Generator(model, params)


def theirs(genai, model, tokens):
    run, rows = generator(genai, model, len(tokens) + 1), []
    for token in tokens:
        run.append_tokens(np.array([token], np.int32))
        rows.append(np.array(run.get_logits()).reshape(-1).astype(np.float64))
    return np.stack(rows)


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def compare(name, a, b):
    p, q = log_softmax(a), log_softmax(b)
    divergence = (np.exp(p) * (p - q)).sum(-1).mean()
    same = (a.argmax(-1) == b.argmax(-1)).mean()
    off = np.linalg.norm(a - b) / np.linalg.norm(b)
    print(f"{name}: KL {divergence:.2e}, most likely token the same {same:.4f}, logits off by {off:.2e} of their size")
    return divergence


def greedy(genai, model, tokens, count):
    run = generator(genai, model, len(tokens) + count)
    run.append_tokens(np.array(tokens, np.int32))
    while not run.is_done():
        run.generate_next_token()
    return run.get_sequence(0)[len(tokens) :]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--gguf")
    parser.add_argument("--polychip", default="target/release/polychip")
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--within", type=float, default=0.02)
    options = parser.parse_args()
    import onnxruntime_genai as genai

    model = genai.Model(options.folder)
    tokenizer = genai.Tokenizer(model)
    tokens = [int(token) for token in tokenizer.encode(TEXT)]
    print(f"{len(tokens)} tokens")
    exact = ours(options.polychip, options.folder, tokens)
    reduced = ours(options.polychip, options.folder, tokens, "reduced")
    other = theirs(genai, model, tokens)
    bad = compare("exact beside onnxruntime-genai", exact, other) > options.within
    compare("reduced beside onnxruntime-genai", reduced, other)
    if options.gguf:
        file = ours(options.polychip, options.gguf, tokens)
        bad |= compare("exact beside the GGUF file", exact, file) > 1e-5
        compare("onnxruntime-genai beside the GGUF file", other, file)
    for prompt in PROMPTS:
        words = [options.polychip, "generate", options.folder, "--prompt", prompt, "--raw", "--greedy", "--json"]
        words += ["--max-tokens", str(options.tokens), "--devices", "cpu", "--precision", "exact"]
        run = subprocess.run(words, check=True, capture_output=True, text=True)
        here = json.loads(run.stdout)["text"]
        there = tokenizer.decode(greedy(genai, model, tokenizer.encode(prompt), options.tokens))
        print("same" if here == there else "DIFFERENT", repr(prompt), repr(here), "" if here == there else repr(there))
    sys.exit(bad)


if __name__ == "__main__":
    main()
