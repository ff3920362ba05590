//! Inputs and outputs of sessions, and their binding to tensors.

use std::ffi::CString;

use polychip::{Session, TensorSpec};

/// An input or output of a session's model.
pub(crate) struct Port {
    pub(crate) spec: TensorSpec,
    pub(crate) name: CString,
    /// It is an input with a default.
    pub(crate) is_optional: bool,
}

/// The port of a session that a tensor is bound to.
#[derive(Clone, Copy)]
pub(crate) struct PortBinding<'a> {
    /// The session's handle.
    pub(crate) handle: u64,
    pub(crate) session: &'a Session,
    pub(crate) port: &'a Port,
    pub(crate) index: usize,
    /// Whether the session of a handle still exists.
    pub(crate) is_there: fn(u64) -> bool,
}
