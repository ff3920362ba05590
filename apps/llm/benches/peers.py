"""Speed of language models in Polychip and other runtimes, measured alternately.

    python apps/llm/benches/peers.py MODEL.gguf [MODEL.gguf ...] --llama-bench PATH --openvino PYTHON --json OUT.json

Every round measures every runtime with every prompt length, so that other load on the machine affects all of them. Prints the
median tokens per second of prefill (pp) and of decoding (tg: 128 tokens after an empty prompt, or after the shortest prompt if a
runtime accepts no empty one), and in brackets the speed of Polychip with reduced precision relative to the runtime. Exact precision
rounds less than the other runtimes do and is not compared.

- Polychip: `polychip bench-llm`, as it is and with `--precision reduced`, which multiplies as the others do.
- llama.cpp: `llama-bench`, built on this machine for its processor (the source is in the Python package llama-cpp-python).
- OpenVINO GenAI: the Python package openvino-genai, in whatever interpreter `--openvino` names.
- mistral.rs: the Python package mistralrs in the interpreter that `--mistral` names, as it is published: it is not built for this
  processor, as llama.cpp is. Its prompts are words, of about so many tokens.
- ONNX Runtime GenAI: onnxruntime-genai in the interpreter that `--genai` names, of the folder `MODEL.gguf.genai` where there is
  one (`genai_model.py` makes it, of Q4_0; beside it belong the tokenizer's files). Polychip is asked of that folder, too.

With `--bandwidth` the example `memory_bandwidth` (`cargo build --release -p polychip-llm --example memory_bandwidth`) is asked in every round, too, and printed is what part of that rate an answer reads the
weights at: all of the file's tensors but the embeddings, or those where the head is them.

What a program needs to load a model is not counted, and it is asked once before it counts. With `--taken` another program computes on
the last core meanwhile.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ANSWER = 128


class Polychip:
    def __init__(self, program, model, threads, precision, of=""):
        self.name = f"polychip {precision}{of}"
        self.command = [program, "bench-llm", model, "--threads", str(threads), "--rounds", "1", "--devices", "cpu"]
        self.command += ["--precision", precision, "--json"]

    def measure(self, prompts):
        words = ["-p", ",".join(map(str, prompts)), "-n", str(ANSWER)]
        answer = json.loads(subprocess.run(self.command + words, check=True, capture_output=True, text=True).stdout)
        return {test["name"]: test["tokens_per_s"] for test in answer["tests"]} | {"bytes": answer["peak_bytes"]}


class Llama:
    name = "llama.cpp"

    def __init__(self, program, model, threads):
        self.command = [program, "-m", model, "-t", str(threads), "-r", "1", "-o", "json", "-ngl", "0"]

    def measure(self, prompts):
        words = ["-p", ",".join(map(str, prompts)), "-n", str(ANSWER)]
        run = subprocess.run(self.command + words, check=True, capture_output=True, text=True)
        rates = {}
        for test in json.loads(run.stdout):
            name = f"pp{test['n_prompt']}" if test["n_prompt"] else f"tg{test['n_gen']}"
            rates[name] = test["avg_ts"]
        return rates


class OpenVino:
    name = "openvino-genai"

    def __init__(self, python, model, threads):
        words = [python, __file__, "--openvino-worker", model, str(threads)]
        self.worker = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.measure([32])

    def measure(self, prompts):
        rates = {}
        for prompt in [*prompts, None]:
            tokens = 1 if prompt else ANSWER
            print(prompt or min(prompts), tokens, file=self.worker.stdin, flush=True)
            reading, answering = map(float, self.worker.stdout.readline().split())
            if prompt:
                rates[f"pp{prompt}"] = reading
            else:
                rates[f"tg{ANSWER}"] = answering
        return rates


def openvino_worker(model, threads):
    """Lines of tokens to read and to answer come in, tokens a second of both go out."""
    import numpy
    import openvino
    import openvino_genai

    # new tokens each time: what was read before is not read again
    random = numpy.random.default_rng(0)
    pipeline = openvino_genai.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=int(threads))
    for line in sys.stdin:
        prompt, answer = map(int, line.split())
        ids = openvino.Tensor(random.integers(100, 40_000, (1, prompt)))
        mask = openvino.Tensor(numpy.ones((1, prompt), numpy.int64))
        config = openvino_genai.GenerationConfig(max_new_tokens=answer, ignore_eos=True)
        config.do_sample = False
        metrics = pipeline.generate(openvino_genai.TokenizedInputs(ids, mask), config).perf_metrics
        after = 1000 / metrics.get_tpot().mean if answer > 1 else 0
        print(1000 * prompt / metrics.get_ttft().mean, after, flush=True)


class GenAi:
    name = "onnxruntime-genai"

    def __init__(self, python, folder, threads):
        words = [python, __file__, "--genai-worker", folder, str(threads)]
        environment = os.environ | {"ORT_DISABLE_TELEMETRY": "1"}
        pipe = subprocess.PIPE
        self.worker = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=environment)
        self.measure([32])

    measure = OpenVino.measure


def genai_worker(folder, threads):
    """As [`openvino_worker`]."""
    import time

    import numpy
    import onnxruntime_genai

    config = onnxruntime_genai.Config(folder)
    config.overlay(json.dumps({"model": {"decoder": {"session_options": {"intra_op_num_threads": int(threads)}}}}))
    model = onnxruntime_genai.Model(config)
    for line in sys.stdin:
        prompt, answer = map(int, line.split())
        parameters = onnxruntime_genai.GeneratorParams(model)
        parameters.set_search_options(max_length=prompt + answer, min_length=prompt + answer)
        generator = onnxruntime_genai.Generator(model, parameters)
        ids = numpy.random.default_rng(prompt).integers(100, 40_000, (1, prompt)).astype(numpy.int32)
        start = time.perf_counter()
        generator.append_tokens(ids)
        read = time.perf_counter() - start
        generator.generate_next_token()
        start = time.perf_counter()
        for _ in range(answer - 1):
            generator.generate_next_token()
        spent = time.perf_counter() - start
        print(prompt / read, (answer - 1) / spent, flush=True)


class MistralRs(OpenVino):
    name = "mistral.rs"

    def __init__(self, python, model, threads):
        words = [python, __file__, "--mistral-worker", model]
        environment = os.environ | {"RAYON_NUM_THREADS": str(threads), "RUST_LOG": "error"}
        pipe = subprocess.PIPE
        # it counts the cores that it may use, too
        cores = sorted(os.sched_getaffinity(0))[:threads]
        pin = lambda: os.sched_setaffinity(0, cores)
        self.worker = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=environment, preexec_fn=pin)
        self.measure([32])


def mistral_worker(model):
    """As [`openvino_worker`]."""
    import random

    import mistralrs

    path = pathlib.Path(model).resolve()
    which = mistralrs.Which.GGUF(quantized_model_id=str(path.parent), quantized_filename=path.name)
    runner = mistralrs.Runner(which=which, prefix_cache_n=0)
    words = " the of and to in is that it was for on are as with his they at be this from have or by one had".split()
    for line in sys.stdin:
        prompt, answer = map(int, line.split())
        text = "".join(f" {word}" for word in random.choices(words, k=prompt))
        request = mistralrs.CompletionRequest(model="", prompt=text, max_tokens=answer, temperature=0.0)
        usage = runner.send_completion_request(request).usage
        print(usage.avg_prompt_tok_per_sec, usage.avg_compl_tok_per_sec, flush=True)


class Bandwidth:
    name = "memory"

    def __init__(self, program, model, threads):
        self.command = [program, "--threads", str(threads)]
        self.token_bytes = weights_of_a_token(model)

    def measure(self, _):
        run = subprocess.run(self.command, check=True, capture_output=True, text=True)
        return {f"tg{ANSWER}": json.loads(run.stdout)["bytes_per_s"] / self.token_bytes}


def weights_of_a_token(model):
    """Bytes of weights that an answered token reads."""
    import gguf

    tensors = {tensor.name: int(tensor.n_bytes) for tensor in gguf.GGUFReader(model).tensors}
    return sum(tensors.values()) - (tensors["token_embd.weight"] if "output.weight" in tensors else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--polychip", default="target/release/polychip")
    parser.add_argument("--llama-bench")
    parser.add_argument("--openvino", metavar="PYTHON")
    parser.add_argument("--genai", metavar="PYTHON")
    parser.add_argument("--mistral", metavar="PYTHON")
    parser.add_argument("--bandwidth", metavar="PROGRAM")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--prompts", default="32,128,512,2048")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--taken", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    prompts = [int(word) for word in options.prompts.split(",")]
    if options.taken:
        last = max(os.sched_getaffinity(0))
        busy = f"import os; os.sched_setaffinity(0, [{last}])\nwhile os.getppid() == {os.getpid()}: pass"
        subprocess.Popen([sys.executable, "-c", busy])
    table = []
    for model in options.models:
        for threads in map(int, options.threads.split(",")):
            runtimes = [Polychip(options.polychip, model, threads, word) for word in ("exact", "reduced")]
            if options.llama_bench:
                runtimes.append(Llama(options.llama_bench, model, threads))
            if options.genai and pathlib.Path(folder := f"{model}.genai").exists():
                runtimes += [Polychip(options.polychip, folder, threads, word, ", folder") for word in ("exact", "reduced")]
                runtimes.append(GenAi(options.genai, folder, threads))
            if options.openvino:
                runtimes.append(OpenVino(options.openvino, model, threads))
            if options.mistral:
                runtimes.append(MistralRs(options.mistral, model, threads))
            if options.bandwidth:
                runtimes.append(Bandwidth(options.bandwidth, model, threads))
            raw = {runtime.name: [] for runtime in runtimes}
            for _ in range(options.rounds):
                for runtime in runtimes:
                    raw[runtime.name].append(runtime.measure(prompts))
            row = {"model": pathlib.Path(model).name, "threads": threads, "taken": options.taken, "raw": raw, "medians": {}}
            print(f"\n{row['model']}, {threads} threads")
            names = [*(f"pp{prompt}" for prompt in prompts), f"tg{ANSWER}"]
            print(" " * 24 + "".join(f"{name:>18}" for name in names))
            for name, rounds in raw.items():
                tests = [test for test in names if test in rounds[0]]
                medians = {test: statistics.median(one[test] for one in rounds) for test in tests}
                row["medians"][name] = medians
                base = row["medians"]["polychip reduced"] if not name.startswith("polychip exact") else medians
                cell = lambda test: f"{medians[test]:,.0f} ({base[test] / medians[test]:.2f})" if test in medians else ""
                print(f"{name:24}" + "".join(f"{cell(test):>18}" for test in names), flush=True)
            table.append(row)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--openvino-worker"]:
        openvino_worker(*sys.argv[2:])
    elif sys.argv[1:2] == ["--genai-worker"]:
        genai_worker(*sys.argv[2:])
    elif sys.argv[1:2] == ["--mistral-worker"]:
        mistral_worker(*sys.argv[2:])
    else:
        main()
