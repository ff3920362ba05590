//! Errors of the runtime as exceptions, one class for each kind.
//!
//! Invariant: the table names each class once, with its docstring and the error kinds that map to
//! it.

use polychip::ErrorKind;
use pyo3::exceptions::{PyException, PyOSError};
use pyo3::prelude::*;
use pyo3::{PyErr, create_exception};

create_exception!(polychip, Error, PyException, "An error of Polychip.");

/// Makes the classes, gives them to the module, and finds the one of an error.
macro_rules! exceptions {
    ($($class:ident [$($kind:ident),*] $words:literal;)+) => {
        $(create_exception!(polychip, $class, Error, $words);)+

        pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
            let py = module.py();
            module.add("Error", py.get_type::<Error>())?;
            $(module.add(stringify!($class), py.get_type::<$class>())?;)+
            Ok(())
        }

        /// Converts an error of the runtime to an exception of its kind.
        pub(crate) fn of(error: polychip::Error) -> PyErr {
            let words = error.to_string();
            match error.kind() {
                $($(ErrorKind::$kind => $class::new_err(words),)*)+
                ErrorKind::Io => PyOSError::new_err(words),
                _ => Error::new_err(words),
            }
        }
    };
}

exceptions! {
    BadModelError [BadModel] "The model cannot be read, is malformed, or violates the ONNX standard.";
    BadInputError [BadInput] "An input has the wrong name, shape, type or device, or an argument is out of range.";
    NoDeviceError [NoDevice] "No requested device can run some part of the model.";
    BadPlanError [BadPlan] "A plan is malformed or belongs to another model or device.";
    BadPluginError [BadPlugin] "A requested plugin or device is missing, or was refused.";
    DeviceError [DeviceFailed, DeviceLost] "A device failed or was lost.";
    InFlightError [InFlight] "Memory is in use by a run in flight, or the limit of runs in flight is reached.";
    WouldBlockError [WouldBlock] "`try_submit` would have to wait for a run or a plan; submit again later.";
    TimedOutError [Timeout] "The wait timed out; the run continues.";
    CancelledError [Cancelled] "The run was cancelled.";
    DroppedError [Dropped] "The run was dropped because it was late.";
    NotAdmittedError [NotAdmitted] "Admission refused the sessions; `refusal` states the reason.";
    BadProfileError [BadProfile] "The profile database was not written by Polychip, is corrupt or cannot be written.";
    ForkError [] "The process was forked after the runtime was made.";
}
