//! Inputs and outputs of sessions, as tensors are bound to them.

use std::ffi::CString;

use polychip::{Session, TensorSpec};

/// An input or output of a session's model.
pub(crate) struct Port {
    pub(crate) spec: TensorSpec,
    pub(crate) name: CString,
}

/// Where a tensor is bound: a port of a session.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The session's handle.
    pub(crate) handle: u64,
    pub(crate) session: &'a Session,
    pub(crate) port: &'a Port,
    pub(crate) index: usize,
    /// Whether the session of a handle is there still.
    pub(crate) is_there: fn(u64) -> bool,
}
