"""Whether a folder of safetensors says here what it says in mistral.rs: greedy texts of a few prompts, word for word.

    python apps/llm/benches/make_checkpoint.py SmolLM2-135M-Instruct.Q4_1.gguf FOLDER
    python apps/llm/benches/beside_mistral.py FOLDER --polychip target/release/polychip

Needs the Python package mistralrs. Exit status 1 where a text differs; sums in another order can do that to a text, after its first
words at the earliest.
"""

import argparse
import json
import subprocess
import sys

PROMPTS = ["The capital of France is", "Once upon a time, there was", "def fibonacci(n):"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--polychip", default="target/release/polychip")
    parser.add_argument("--tokens", type=int, default=24)
    options = parser.parse_args()
    import mistralrs

    which = mistralrs.Which.Plain(model_id=options.folder, arch=mistralrs.Architecture.Llama)
    runner = mistralrs.Runner(which=which)
    different = 0
    for prompt in PROMPTS:
        words = [options.polychip, "generate", options.folder, "--prompt", prompt, "--raw", "--greedy", "--json"]
        words += ["--max-tokens", str(options.tokens), "--devices", "cpu", "--precision", "exact"]
        run = subprocess.run(words, check=True, capture_output=True, text=True)
        ours = json.loads(run.stdout)["text"]
        request = mistralrs.CompletionRequest(model="", prompt=prompt, max_tokens=options.tokens, temperature=0.0)
        theirs = runner.send_completion_request(request).choices[0].text
        different += ours != theirs
        print("same" if ours == theirs else "DIFFERENT", repr(prompt), repr(ours), "" if ours == theirs else repr(theirs))
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
