"""Runs one neural network across every chip of a device.

>>> import polychip
>>> session = polychip.Runtime().load("model.onnx").session(polychip.Policy.latency(threads=1))
>>> outputs = session.run({"x": array})
>>> print(session.report())
"""

from ._polychip import (
    BadInputError,
    BadModelError,
    BadPlanError,
    BadPluginError,
    BadProfileError,
    CancelledError,
    Device,
    DeviceError,
    DroppedError,
    Error,
    Explained,
    ForkError,
    InFlightError,
    Input,
    Model,
    NoDeviceError,
    NotAdmittedError,
    Plan,
    Policy,
    Report,
    Run,
    Runtime,
    Session,
    Tensor,
    TensorInfo,
    TimedOutError,
    WouldBlockError,
    __version__,
)

__all__ = [
    "BadInputError",
    "BadModelError",
    "BadPlanError",
    "BadPluginError",
    "BadProfileError",
    "CancelledError",
    "Device",
    "DeviceError",
    "DroppedError",
    "Error",
    "Explained",
    "ForkError",
    "InFlightError",
    "Input",
    "Model",
    "NoDeviceError",
    "NotAdmittedError",
    "Plan",
    "Policy",
    "Report",
    "Run",
    "Runtime",
    "Session",
    "Tensor",
    "TensorInfo",
    "TimedOutError",
    "WouldBlockError",
    "__version__",
]
