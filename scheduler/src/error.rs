//! The error of this crate: the failure, its kind, and the remedy.
//!
//! Invariant: a message names the subject (model, node, tensor, device, file), the limit and the
//! value seen; nothing falls back silently.

use std::fmt;
use std::path::PathBuf;

/// The kind of an [`Error`], for callers that act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The model file cannot be read, is malformed, or breaks the ONNX standard.
    BadModel,
    /// An input has the wrong name, shape or data type, or an argument is out of range.
    BadInput,
    /// No allowed device can run some part of the model.
    NoDevice,
    /// A plan is malformed, for another model or device, or breaks a rule of the checker.
    BadPlan,
    /// A requested plugin or device does not exist, or a library was refused.
    BadPlugin,
    /// A device failed while compiling, loading or running.
    DeviceFailed,
    /// A device was lost or hung in a run, and the run was not retried or its retries failed too.
    DeviceLost,
    /// A run in flight uses the memory, or as many runs are in flight as the policy allows.
    InFlight,
    /// A call that never waits would have to: as many runs are in flight as the policy allows, or a plan
    /// is not ready ([`Session::try_submit`](crate::Session::try_submit)).
    WouldBlock,
    /// The session was closed ([`Session::close`](crate::Session::close)).
    Closed,
    /// The wait timed out; the run continues.
    Timeout,
    /// The run was cancelled.
    Cancelled,
    /// The run was dropped before all of its parts were submitted: its deadline passed, a newer run
    /// of its session came ([`Late`](crate::Late)), or it waited for a device for longer than
    /// [`Policy::hang_timeout`](crate::Policy::hang_timeout).
    Dropped,
    /// Admission refused the sessions ([`Runtime::admit`](crate::Runtime::admit)).
    NotAdmitted,
    /// The profile database was not written by Polychip, is corrupt, has another version, or cannot
    /// be written.
    BadProfile,
    /// A file cannot be read or written, or another process truncated it while it was in use.
    Io,
}

/// An error of the runtime.
///
/// The message states what failed and why. `Debug` prints the message too, followed by any causes
/// that the message does not contain. So `fn main() -> Result<(), polychip::Error>` and `unwrap`
/// print readable text; `{:#?}` prints the fields.
///
/// ```
/// let runtime = polychip::Runtime::builder().build()?;
/// let error = runtime.load("no/such.onnx").unwrap_err();
/// assert_eq!(error.kind(), polychip::ErrorKind::Io);
/// assert!(format!("{error:?}").starts_with("no/such.onnx: "));
/// # Ok::<(), polychip::Error>(())
/// ```
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Inner>);

#[derive(Debug, thiserror::Error)]
enum Inner {
    #[error("{message}")]
    Plain { kind: ErrorKind, message: String },
    #[error("{message}")]
    Device {
        kind: ErrorKind,
        device: String,
        message: String,
    },
    #[error("{context}: {source}")]
    Caused {
        kind: ErrorKind,
        context: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error(transparent)]
    Profile(polychip_profile::Error),
    #[error(transparent)]
    Governor(polychip_governor::Error),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
}

impl Error {
    /// An error with this message.
    pub(crate) fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self(Box::new(Inner::Plain {
            kind,
            message: message.to_string(),
        }))
    }

    /// An error of a device, with this message.
    pub(crate) fn of_device(kind: ErrorKind, device: &str, message: impl fmt::Display) -> Self {
        Self(Box::new(Inner::Device {
            kind,
            device: device.to_owned(),
            message: message.to_string(),
        }))
    }

    /// An error with a cause, and the operation that failed.
    pub(crate) fn caused(
        kind: ErrorKind,
        context: impl fmt::Display,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self(Box::new(Inner::Caused {
            kind,
            context: context.to_string(),
            source: source.into(),
        }))
    }

    /// A file that cannot be read or written.
    pub(crate) fn file(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self(Box::new(Inner::File {
            path: path.into(),
            source,
        }))
    }

    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match &*self.0 {
            Inner::Plain { kind, .. } | Inner::Device { kind, .. } | Inner::Caused { kind, .. } => *kind,
            Inner::Profile(error) => match error.kind() {
                polychip_profile::ErrorKind::Io => ErrorKind::Io,
                _ => ErrorKind::BadProfile,
            },
            Inner::Governor(_) => ErrorKind::BadPlan,
            Inner::File { .. } => ErrorKind::Io,
        }
    }
}

impl Error {
    /// The device's own error, if this is one.
    fn of_host(&self) -> Option<&polychip_host::Error> {
        match &*self.0 {
            Inner::Caused { source, .. } => source.downcast_ref(),
            _ => None,
        }
    }

    /// The device or plugin that failed, if one did.
    #[must_use]
    pub fn device(&self) -> Option<&str> {
        match &*self.0 {
            Inner::Device { device, .. } => Some(device),
            _ => self.of_host().map(polychip_host::Error::subject),
        }
    }

    /// Whether the same run may succeed next time, after a reset or by itself.
    pub(crate) fn may_pass(&self) -> bool {
        let transient = |error: &polychip_host::Error| error.kind() == polychip_host::ErrorKind::Transient;
        self.kind() == ErrorKind::DeviceLost || self.of_host().is_some_and(transient)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return fmt::Debug::fmt(&self.0, f);
        }
        let mut said = self.to_string();
        f.write_str(&said)?;
        let mut cause = std::error::Error::source(self);
        let mut is_first = true;
        while let Some(error) = cause {
            let words = error.to_string();
            // most messages end with that of their cause
            if !said.contains(&words) {
                f.write_str(if is_first {
                    "\n\nCaused by:\n    "
                } else {
                    "\n    "
                })?;
                f.write_str(&words)?;
                is_first = false;
                said = words;
            }
            cause = error.source();
        }
        Ok(())
    }
}

impl From<polychip_profile::Error> for Error {
    fn from(error: polychip_profile::Error) -> Self {
        Self(Box::new(Inner::Profile(error)))
    }
}

impl From<polychip_governor::Error> for Error {
    fn from(error: polychip_governor::Error) -> Self {
        Self(Box::new(Inner::Governor(error)))
    }
}

/// A result with the runtime's error.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of a device failure.
pub(crate) fn kind_of_host(kind: polychip_host::ErrorKind) -> ErrorKind {
    match kind {
        polychip_host::ErrorKind::DeviceLost => ErrorKind::DeviceLost,
        polychip_host::ErrorKind::Cancelled => ErrorKind::Cancelled,
        polychip_host::ErrorKind::Timeout => ErrorKind::Timeout,
        polychip_host::ErrorKind::InUse => ErrorKind::InFlight,
        polychip_host::ErrorKind::System => ErrorKind::Io,
        _ => ErrorKind::DeviceFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error whose words do not hold those of its cause, as those of many crates.
    #[derive(Debug, thiserror::Error)]
    #[error("no frame came")]
    struct Short(#[source] std::io::Error);

    #[test]
    fn debug_prints_every_cause_once() {
        let io = std::io::Error::other("the cable is out");
        let error = Error::caused(ErrorKind::DeviceFailed, "part p0", Short(io));
        assert_eq!(error.to_string(), "part p0: no frame came");
        assert_eq!(
            format!("{error:?}"),
            "part p0: no frame came\n\nCaused by:\n    the cable is out"
        );
        let nested = Error::caused(ErrorKind::DeviceLost, "not run again", error);
        assert_eq!(
            format!("{nested:?}"),
            "not run again: part p0: no frame came\n\nCaused by:\n    the cable is out"
        );
        let plain = Error::new(ErrorKind::BadInput, "input \"x\" is missing");
        assert_eq!(format!("{plain:?}"), "input \"x\" is missing");
        assert!(format!("{plain:#?}").contains("kind: BadInput"));
    }
}
