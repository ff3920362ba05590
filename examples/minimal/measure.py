#!/usr/bin/env python3
"""What the least app weighs: with Polychip, with ONNX Runtime's and with LiteRT's C library.

    measure.py MODEL.onnx ... [--runs 20] [--json FILE]

Each of the three programs loads a model, runs it once on the CPU with its default settings, all inputs full of 0.5, and
prints the first values of each output. Measured are bytes on disk (the program stripped, and the runtime's library where it
needs one), the time from the start of the process to the first line of output, and the peak of resident memory; the
programs run alternately. The models stay in the system's page cache. Prints a table, and writes every figure to FILE.

Run by a Python that has the packages onnxruntime and ai-edge-litert (of which only the libraries are used) and numpy, onnx
and flatbuffers (which device-tests/peers/onnx2tflite.py makes LiteRT's model with); needs cargo, a C compiler and strip.
"""
import argparse
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGES = {"ONNX Runtime": "onnxruntime", "LiteRT": "ai-edge-litert"}


def library(package, pattern):
    """A file of an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    found = [path for place in spec.submodule_search_locations for path in pathlib.Path(place).glob(pattern)]
    if not found:
        sys.exit(f"{package} has no {pattern}")
    return found[0]


def compile_peer(source, lib, folder):
    """The program of a peer, linked to a library, which it then finds by its name inside the file."""
    program = folder / source.stem
    subprocess.run(
        ["cc", "-O2", "-s", source, "-o", program, lib, f"-Wl,-rpath,{folder}"], check=True
    )
    needed = subprocess.run(["readelf", "-d", program], check=True, capture_output=True, text=True).stdout
    for line in needed.splitlines():
        if "NEEDED" in line and lib.name.split(".so")[0] in line:
            name = line.split("[")[1].split("]")[0]
            if not (folder / name).exists():
                (folder / name).symlink_to(lib)
    return program


def once(command):
    """Seconds from the start of the process to its first line, peak resident bytes, and all that it printed."""
    read, write = os.pipe()
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=write, stderr=subprocess.DEVNULL)
    os.close(write)
    first, text = None, b""
    while piece := os.read(read, 1 << 16):
        text += piece
        if first is None and b"\n" in text:
            first = time.perf_counter() - began
    os.close(read)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0 or first is None:
        sys.exit(f"{command}: ended with {process.returncode} and {text!r}")
    return first, usage.ru_maxrss * 1024, text.decode()


def values(text):
    """The numbers after the colon of each line, of all outputs in order of their names."""
    lines = sorted(line.replace("[", " ").replace("]", " ").replace(",", " ") for line in text.splitlines())
    return [float(word) for line in lines for word in line.rsplit(":", 1)[1].split()]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("models", nargs="+", type=pathlib.Path, metavar="MODEL.onnx")
    arguments.add_argument("--runs", type=int, default=20)
    arguments.add_argument("--json", type=pathlib.Path)
    arguments = arguments.parse_args()

    build = ["cargo", "build", "--quiet", "--profile", "small", "--package", "polychip-example-minimal"]
    subprocess.run(build, check=True, cwd=ROOT)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    libraries = {
        "ONNX Runtime": library("onnxruntime", "capi/libonnxruntime.so.*"),
        "LiteRT": library("ai_edge_litert", "libLiteRt.so"),
    }
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        programs = {
            "Polychip": shutil.copy(target / "small" / "polychip-minimal", folder),
            "ONNX Runtime": compile_peer(HERE / "peers" / "onnxruntime.c", libraries["ONNX Runtime"], folder),
            "LiteRT": compile_peer(HERE / "peers" / "litert.c", libraries["LiteRT"], folder),
        }
        subprocess.run(["strip", programs["Polychip"]], check=True)
        report = {
            "machine": {"processor": processor(), "cores": os.cpu_count(), "system": platform.platform()},
            "versions": {name: importlib.metadata.version(package) for name, package in PACKAGES.items()},
            "sizes_bytes": {},
            "runs": [],
        }
        for name, program in programs.items():
            size = {"program": os.path.getsize(program)}
            if name in libraries:
                size["library"] = os.path.getsize(libraries[name])
            report["sizes_bytes"][name] = size
        for model in arguments.models:
            commands = {"Polychip": model, "ONNX Runtime": model}
            tflite = folder / f"{model.stem}.tflite"
            convert = [sys.executable, ROOT / "device-tests/peers/onnx2tflite.py", model, tflite, "--exact-pad"]
            converted = subprocess.run(convert, capture_output=True, text=True)
            if converted.returncode == 0:
                commands["LiteRT"] = tflite
            else:
                print(f"{model.name}: no model for LiteRT: {converted.stderr.splitlines()[-1]}", file=sys.stderr)
            commands = {name: [str(programs[name]), str(path)] for name, path in commands.items()}
            wanted = None
            for command in commands.values():
                found = values(once(command)[2])
                wanted = wanted or found
                # a program that computes something else is no comparison
                if len(found) != len(wanted) or any(abs(a - b) > 1e-3 * (1 + abs(b)) for a, b in zip(found, wanted)):
                    sys.exit(f"{command} gives {found}, not {wanted}")
            for turn in range(arguments.runs):
                names = list(commands)
                for name in names[turn % len(names):] + names[:turn % len(names)]:
                    seconds, peak, _ = once(commands[name])
                    report["runs"].append(
                        {"model": model.name, "with": name, "start_to_output_ms": seconds * 1e3, "peak_bytes": peak}
                    )
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    print(table(report))


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def table(report):
    """The figures as a table in Markdown: medians of all runs."""
    models = list(dict.fromkeys(run["model"] for run in report["runs"]))
    head = ["| with | program, MB | library, MB | both, MB |"] + [f" {model}: start to output, ms | peak, MB |" for model in models]
    lines = ["".join(head), "|---|---:|---:|---:|" + "---:|---:|" * len(models)]
    for name, size in report["sizes_bytes"].items():
        mb = lambda count: f"{count / 1e6:.2f}"
        both = sum(size.values())
        line = f"| {name} | {mb(size['program'])} | {mb(size['library']) if 'library' in size else '–'} | {mb(both)} |"
        for model in models:
            runs = [run for run in report["runs"] if (run["model"], run["with"]) == (model, name)]
            if not runs:
                line += " – | – |"
                continue
            times = statistics.median(run["start_to_output_ms"] for run in runs)
            line += f" {times:.1f} | {statistics.median(run['peak_bytes'] for run in runs) / 1e6:.1f} |"
        lines.append(line)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
