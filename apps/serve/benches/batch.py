"""Chats at once, with and without batches: tokens per second of all together, and the time to the first token.

    cargo build --release -p polychip-cli --features serve
    python apps/serve/benches/batch.py target/release/polychip MODEL.gguf README.md --threads 2 --save OUT.json

Starts `polychip serve` twice, with `--max-batch 1`, which answers by turns, and with `--max-batch 16`, and asks both in turns: 1, 4 and
16 clients at once go on with pieces of a text, no two of them the same, greedily, for so many tokens. Prints a table of medians over
the rounds, and writes every round to a file. Standard library alone.
"""

import argparse
import json
import statistics
import subprocess
import threading
import time
import urllib.request

MODES = {"by turns": "1", "batched": "16"}


def serve(arguments, batch):
    command = [arguments.polychip, "serve", arguments.model, "--json", "--port", "0", "--max-active", "16"]
    command += ["--max-batch", batch, "--threads", str(arguments.threads), "--context", str(arguments.context)]
    command += ["--devices", arguments.devices, *(["--precision", "reduced"] if arguments.reduced else [])]
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    answer = json.loads(process.stdout.readline())
    return process, answer["url"], time.monotonic() - started


def ask(url, prompt, tokens, begin, out):
    """One client: when its first and last token came, and how many they were."""
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}}
    request = urllib.request.Request(
        url + "/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    begin.wait()
    asked = time.monotonic()
    first, usage = None, None
    with urllib.request.urlopen(request) as stream:
        for line in stream:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event.get("choices") and first is None:
                first = time.monotonic()
            usage = event.get("usage") or usage
    out.append((asked, first, time.monotonic(), usage["completion_tokens"], usage["prompt_tokens"]))


def round_of(url, prompts, tokens):
    begin, out = threading.Event(), []
    clients = [threading.Thread(target=ask, args=(url, prompt, tokens, begin, out)) for prompt in prompts]
    for client in clients:
        client.start()
    begin.set()
    for client in clients:
        client.join()
    if len(out) < len(prompts):
        raise SystemExit(f"{len(prompts) - len(out)} of {len(prompts)} clients failed")
    took = max(row[2] for row in out) - min(row[0] for row in out)
    last_first = max(row[1] for row in out)
    end = max(row[2] for row in out)
    answered = sum(row[3] for row in out)
    return {
        "tokens": answered,
        "prompt_tokens": [row[4] for row in out],
        "tokens_per_s": answered / took,
        # once all have their first token
        "decode_tokens_per_s": (answered - len(out)) / (end - min(row[1] for row in out)) if end > last_first else None,
        "first_token_s": sorted(row[1] - row[0] for row in out),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("polychip")
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--devices", default="cpu")
    parser.add_argument("--reduced", action="store_true", help="multiply with 8 bits, as other runtimes do")
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--chats", default="1,4,16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--characters", type=int, default=400)
    parser.add_argument("--save")
    arguments = parser.parse_args()
    text = open(arguments.text).read()
    at = 0

    def piece():
        nonlocal at
        at = (at + arguments.characters) % max(len(text) - arguments.characters, 1)
        return f"{at}: " + text[at : at + arguments.characters]

    servers, starts = {}, {}
    rows = []
    try:
        for mode, batch in MODES.items():
            servers[mode], url, starts[mode] = serve(arguments, batch)
            servers[mode].url = url
        for chats in [int(count) for count in arguments.chats.split(",")]:
            for number in range(arguments.rounds):
                for mode in list(MODES)[:: 1 if number % 2 == 0 else -1]:
                    prompts = [piece() for _ in range(chats)]
                    row = round_of(servers[mode].url, prompts, arguments.tokens)
                    rows.append({"mode": mode, "chats": chats, "round": number, **row})
    finally:
        for server in servers.values():
            server.terminate()
    print("| chats | tokens a second, by turns | batched | first token ms, by turns | batched |\n|---|---|---|---|---|")
    for chats in sorted({row["chats"] for row in rows}):
        cells = [str(chats)]
        for figure in (
            lambda row: row["tokens_per_s"],
            lambda row: 1000 * statistics.median(row["first_token_s"]),
        ):
            for mode in MODES:
                found = [figure(row) for row in rows if row["mode"] == mode and row["chats"] == chats]
                cells.append(f"{statistics.median(found):.0f}")
        print("| " + " | ".join(cells) + " |")
    print(f"start of the server, s: {starts}")
    if arguments.save:
        with open(arguments.save, "w") as file:
            settings = {key: value for key, value in vars(arguments).items() if key not in ("polychip", "save")}
            json.dump({"settings": settings, "start_s": starts, "rows": rows}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
