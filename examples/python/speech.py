"""Detects speech in an audio file, as a stream of 32 ms steps; the session keeps the model's state.

python speech.py silero_vad_16k_op15.onnx SOUND.wav

SOUND is 16-bit mono at 16 kHz. The model is silero-vad's: cargo xtask trained --fetch --package silero-vad
"""

import sys
import wave
from collections.abc import Iterable, Iterator

import numpy

import polychip

RATE = 16000
STEP = 512  # samples that come at once
CONTEXT = 64  # samples of the step before that the model sees again
SPEECH = 0.5  # from this probability on


class Detector:
    """A stream: the result of each step depends on the steps before."""

    def __init__(self, model: str) -> None:
        self.session = polychip.Runtime().load(model).session(polychip.Policy.latency(threads=1))
        self.session.bind_state("state", "stateN")  # what a run writes the next one reads, in place
        self.sound = self.session.input("input", [1, CONTEXT + STEP])
        self.rate = numpy.array(RATE, numpy.int64)
        self.context = numpy.zeros(CONTEXT, numpy.float32)

    def restart(self) -> None:
        """Starts a new stream."""
        self.session.reset_state()
        self.context[:] = 0

    def step(self, samples: numpy.ndarray) -> float:
        """The probability of speech in the next samples, from -1 to 1."""
        sound = numpy.asarray(self.sound)  # the memory that devices read
        sound[0, :CONTEXT] = self.context
        sound[0, CONTEXT:] = samples
        self.context[:] = samples[-CONTEXT:]
        del sound  # closes it for the run
        return float(self.session.run({"input": self.sound, "sr": self.rate})["output"].item())


def steps(path: str) -> Iterator[numpy.ndarray]:
    """Samples of a file in steps of equal size; the last step is padded with silence."""
    with wave.open(path) as file:
        if (file.getnchannels(), file.getsampwidth(), file.getframerate()) != (1, 2, RATE):
            raise SystemExit(f"{path} is not 16-bit mono at {RATE} Hz")
        while data := file.readframes(STEP):
            samples = numpy.frombuffer(data, "<i2").astype(numpy.float32) / 32768
            yield numpy.pad(samples, (0, STEP - len(samples)))


def spoken(probabilities: Iterable[float]) -> Iterator[tuple[float, float]]:
    """Start and end of each speech segment, in seconds."""
    begin = None
    count = 0
    for count, probability in enumerate(probabilities, 1):
        if probability >= SPEECH and begin is None:
            begin = count - 1
        elif probability < SPEECH and begin is not None:
            yield begin * STEP / RATE, (count - 1) * STEP / RATE
            begin = None
    if begin is not None:
        yield begin * STEP / RATE, count * STEP / RATE


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit("usage: speech.py silero_vad_16k_op15.onnx SOUND.wav")
    detector = Detector(sys.argv[1])
    for begin, end in spoken(map(detector.step, steps(sys.argv[2]))):
        print(f"speech from {begin:.2f} s to {end:.2f} s")


if __name__ == "__main__":
    main()
