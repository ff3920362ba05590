//! Memory that a context knows by its descriptor: the chip reads and writes it in place.
//!
//! Invariants:
//! 1. What is registered is given back once, before its context ends.
//! 2. The library is told of a range as one axis of elements: extents of ports are not needed.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use polychip_sdk::{ErrorKind, Result};
use polychip_sys::qnn;
use polychip_sys::slot;

use super::library::{Session, unusable};
use crate::program::{self, Type};

/// A range of memory behind a descriptor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    /// The descriptor, open during the call.
    pub(crate) fd: i32,
    /// Start of the range.
    pub(crate) offset: u64,
    /// Bytes of all that the descriptor holds.
    pub(crate) whole: u64,
}

/// Registered memory of a context.
pub(crate) struct Registered {
    session: Arc<Session>,
    handle: qnn::Memory,
}

// SAFETY: the library takes calls from any thread; nothing is reached through the handle here.
unsafe impl Send for Registered {}

impl Session {
    /// Whether the library's table has the calls.
    pub(crate) fn registers(&self) -> bool {
        let table = self.table();
        table.memory_register.is_some() && table.memory_deregister.is_some()
    }

    /// Registers memory with a context, for a port of this type.
    pub(super) fn register(
        self: &Arc<Session>,
        context: qnn::Context,
        range: Range,
        ty: Type,
        bytes: usize,
    ) -> Result<Registered> {
        let register = slot!(self.table(), memory_register).map_err(unusable)?;
        let mut extent = (bytes / ty.bytes().max(1)) as u32;
        let custom = qnn::HtpMemory {
            kind: qnn::POLYCHIP_QNN_HTP_MEMORY_SHARED,
            size: range.whole,
            shared: qnn::HtpShared {
                fd: range.fd,
                offset: range.offset,
            },
        };
        let descriptor = qnn::MemoryDescriptor {
            shape: qnn::polychip_qnn_memory_shape {
                rank: 1,
                dimensions: &raw mut extent,
                shape_config: ptr::null(),
            },
            data_type: program::code(ty),
            kind: qnn::POLYCHIP_QNN_MEMORY_CUSTOM,
            source: qnn::polychip_qnn_memory_source {
                custom: (&raw const custom).cast::<c_void>(),
            },
        };
        let mut handle = ptr::null_mut();
        // SAFETY: a live context; the descriptor and all it points to live during the call; the place for the handle is ours.
        let code = unsafe { register(context, &raw const descriptor, 1, &raw mut handle) };
        self.check(code).map_err(|refused| {
            let what =
                format!("memRegister of {bytes} bytes; memory=address hands memory over by its address");
            refused.error(&what, ErrorKind::Persistent)
        })?;
        Ok(Registered {
            session: Arc::clone(self),
            handle,
        })
    }
}

impl Registered {
    pub(super) fn handle(&self) -> qnn::Memory {
        self.handle
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some(deregister) = self.session.table().memory_deregister {
            // SAFETY: registered by this library, given back once, and used by no run any more.
            let _ = unsafe { deregister(&raw const self.handle, 1) };
        }
    }
}
