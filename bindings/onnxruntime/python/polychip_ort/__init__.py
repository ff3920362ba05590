"""Polychip as an execution provider of ONNX Runtime.

    import onnxruntime, polychip_ort

    onnxruntime.register_execution_provider_library(polychip_ort.get_ep_name(), polychip_ort.get_library_path())
    devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == polychip_ort.get_ep_name()]
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(devices[:1], {"threads": "1"})
    session = onnxruntime.InferenceSession("model.onnx", options)

The provider's options are named like those of Polychip's command line. An unknown option is an error that lists the
known ones.
"""

from __future__ import annotations

import ctypes
import json
import pathlib
import typing

__all__ = ["get_ep_name", "get_ep_names", "get_library_path", "reports"]


def get_library_path() -> str:
    """Path of the library, for `onnxruntime.register_execution_provider_library`."""
    folder = pathlib.Path(__file__).parent
    found = sorted(folder.glob("_polychip_ort*.so")) or sorted(folder.glob("_polychip_ort*.pyd"))
    if not found:
        raise FileNotFoundError(f"{folder} holds no provider library: the package is damaged; install it again")
    return str(found[0])


def get_ep_name() -> str:
    """Name of the provider, for `onnxruntime.get_ep_devices`."""
    return "PolychipExecutionProvider"


def get_ep_names() -> list[str]:
    """Names of all providers in the library: one."""
    return [get_ep_name()]


def reports() -> list[dict[str, typing.Any]]:
    """Reports on the open sessions of the provider, in order of creation. Thread-safe.

    Each report has `nodes` and `claimed` (the number of nodes, and of those that Polychip runs), `refused` (op, count,
    reason) and `parts`: each set of nodes that runs as one, with its report (in the schema of `polychip run --json`) and
    the bytes that had to be copied because of their size or kind.
    """
    call = ctypes.CDLL(get_library_path()).polychip_ort_reports
    call.argtypes, call.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_size_t
    room = 1 << 16
    while True:
        text = ctypes.create_string_buffer(room)
        needed = call(text, room)
        if needed <= room:
            return typing.cast("list[dict[str, typing.Any]]", json.loads(text.value or b"[]"))
        # another session may have been created meanwhile
        room = 2 * needed
