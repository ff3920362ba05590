//! Errors of the runtime as exceptions, one class for each kind.

use polychip::ErrorKind;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::{PyErr, create_exception};

create_exception!(polychip, Error, PyException, "An error of Polychip.");
create_exception!(
    polychip,
    BadModelError,
    Error,
    "The model cannot be read, is malformed, or breaks the ONNX standard."
);
create_exception!(
    polychip,
    BadInputError,
    Error,
    "An input has the wrong name, shape, type or device, or an argument is out of range."
);
create_exception!(
    polychip,
    NoDeviceError,
    Error,
    "No device that was asked for can run some part of the model."
);
create_exception!(
    polychip,
    BadPlanError,
    Error,
    "A plan is malformed or for another model or device."
);
create_exception!(
    polychip,
    BadPluginError,
    Error,
    "A plugin or device that was asked for is not there, or was refused."
);
create_exception!(polychip, DeviceError, Error, "A device failed or was lost.");
create_exception!(
    polychip,
    InFlightError,
    Error,
    "Memory or a place among the runs is in use by a run in flight."
);
create_exception!(
    polychip,
    TimedOutError,
    Error,
    "The wait ran out of time; the run goes on."
);
create_exception!(polychip, CancelledError, Error, "The run was cancelled.");
create_exception!(
    polychip,
    DroppedError,
    Error,
    "The run was dropped because it was late."
);
create_exception!(
    polychip,
    BadProfileError,
    Error,
    "The profile database is foreign, corrupt or cannot be written."
);
create_exception!(
    polychip,
    ForkError,
    Error,
    "The process was forked after the runtime was made."
);

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("BadModelError", py.get_type::<BadModelError>())?;
    module.add("BadInputError", py.get_type::<BadInputError>())?;
    module.add("NoDeviceError", py.get_type::<NoDeviceError>())?;
    module.add("BadPlanError", py.get_type::<BadPlanError>())?;
    module.add("BadPluginError", py.get_type::<BadPluginError>())?;
    module.add("DeviceError", py.get_type::<DeviceError>())?;
    module.add("InFlightError", py.get_type::<InFlightError>())?;
    module.add("TimedOutError", py.get_type::<TimedOutError>())?;
    module.add("CancelledError", py.get_type::<CancelledError>())?;
    module.add("DroppedError", py.get_type::<DroppedError>())?;
    module.add("BadProfileError", py.get_type::<BadProfileError>())?;
    module.add("ForkError", py.get_type::<ForkError>())
}

/// An error of the runtime, as an exception of its kind.
pub(crate) fn of(error: polychip::Error) -> PyErr {
    let words = error.to_string();
    match error.kind() {
        ErrorKind::BadModel => BadModelError::new_err(words),
        ErrorKind::BadInput => BadInputError::new_err(words),
        ErrorKind::NoDevice => NoDeviceError::new_err(words),
        ErrorKind::BadPlan => BadPlanError::new_err(words),
        ErrorKind::BadPlugin => BadPluginError::new_err(words),
        ErrorKind::DeviceFailed | ErrorKind::DeviceLost => DeviceError::new_err(words),
        ErrorKind::InFlight => InFlightError::new_err(words),
        ErrorKind::Timeout => TimedOutError::new_err(words),
        ErrorKind::Cancelled => CancelledError::new_err(words),
        ErrorKind::Dropped => DroppedError::new_err(words),
        ErrorKind::BadProfile => BadProfileError::new_err(words),
        ErrorKind::Io => pyo3::exceptions::PyOSError::new_err(words),
        // admission has no words here yet
        _ => Error::new_err(words),
    }
}
