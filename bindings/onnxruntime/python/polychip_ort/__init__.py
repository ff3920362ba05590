"""Polychip as an execution provider of ONNX Runtime.

    import onnxruntime, polychip_ort

    onnxruntime.register_execution_provider_library(polychip_ort.get_ep_name(), polychip_ort.get_library_path())
    devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == polychip_ort.get_ep_name()]
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(devices[:1], {"threads": "1"})
    session = onnxruntime.InferenceSession("model.onnx", options)

The provider's options are the words of Polychip's command line; one that is not known is an error that lists them.
"""

from __future__ import annotations

import ctypes
import json
import pathlib
import typing

__all__ = ["get_ep_name", "get_ep_names", "get_library_path", "reports"]


def get_library_path() -> str:
    """The library, for `onnxruntime.register_execution_provider_library`."""
    folder = pathlib.Path(__file__).parent
    found = sorted(folder.glob("_polychip_ort*.so")) or sorted(folder.glob("_polychip_ort*.pyd"))
    if not found:
        raise FileNotFoundError(f"{folder} holds no library of the provider: the package is damaged, install it again")
    return str(found[0])


def get_ep_name() -> str:
    """The provider's name, for `onnxruntime.get_ep_devices`."""
    return "PolychipExecutionProvider"


def get_ep_names() -> list[str]:
    """The names of all providers in the library: one."""
    return [get_ep_name()]


def reports() -> list[dict[str, typing.Any]]:
    """What became of each open session that has the provider, in the order in which the sessions were made.

    Each has `nodes` and `claimed` (how many there are, and how many are run by Polychip), `refused` (op, count, reason) and
    `parts`: each set of nodes that is run as one, with its report (by the schema of `polychip run --json`), and bytes that
    were copied because their size or kind left no other way.
    """
    call = ctypes.CDLL(get_library_path()).polychip_ort_reports
    call.argtypes, call.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_size_t
    room = 1 << 16
    while True:
        text = ctypes.create_string_buffer(room)
        needed = call(text, room)
        if needed <= room:
            return typing.cast("list[dict[str, typing.Any]]", json.loads(text.value or b"[]"))
        # a session more may have come meanwhile
        room = 2 * needed
