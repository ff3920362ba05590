//! Errors of the runtime as exceptions, one class for each kind.
//!
//! Invariant: a class is named once, in the table, with its words and the kinds of error that become it.

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

        /// An error of the runtime, as an exception of its kind.
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
    BadModelError [BadModel] "The model cannot be read, is malformed, or breaks the ONNX standard.";
    BadInputError [BadInput] "An input has the wrong name, shape, type or device, or an argument is out of range.";
    NoDeviceError [NoDevice] "No device that was asked for can run some part of the model.";
    BadPlanError [BadPlan] "A plan is malformed or for another model or device.";
    BadPluginError [BadPlugin] "A plugin or device that was asked for is not there, or was refused.";
    DeviceError [DeviceFailed, DeviceLost] "A device failed or was lost.";
    InFlightError [InFlight] "Memory or a place among the runs is in use by a run in flight.";
    TimedOutError [Timeout] "The wait ran out of time; the run goes on.";
    CancelledError [Cancelled] "The run was cancelled.";
    DroppedError [Dropped] "The run was dropped because it was late.";
    NotAdmittedError [NotAdmitted] "Admission refused the sessions; `refusal` says what stands against them.";
    BadProfileError [BadProfile] "The profile database is foreign, corrupt or cannot be written.";
    ForkError [] "The process was forked after the runtime was made.";
}
