//! One run: bindings, fences to wait for, priority, deadline; checked before the plugin sees it.
//!
//! Invariants:
//! 1. Each port has exactly one binding, inside its buffer and at least as large as the port.
//! 2. Nothing here allocates.

#![allow(unsafe_code, reason = "handles become references here")]

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

use polychip_abi::{self as abi, polychip_binding, polychip_fence, polychip_submit};

use crate::raw::{self, Rows};
use crate::{Buffer, Error, Fence, Result};

/// Urgency of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Priority {
    /// Background work.
    Batch = abi::POLYCHIP_PRIORITY_BATCH,
    /// Normal work.
    Normal = abi::POLYCHIP_PRIORITY_NORMAL,
    /// A user waits for it.
    Urgent = abi::POLYCHIP_PRIORITY_URGENT,
}

/// An `Arc` that a handle of the host holds; `.clone()` returns an owned `Arc`.
pub struct Shared<'a, T>(ManuallyDrop<Arc<T>>, PhantomData<&'a T>);

impl<T> Shared<'_, T> {
    /// # Safety
    /// `handle` came from `Arc::into_raw` and the handle is not destroyed during the lifetime.
    pub(crate) unsafe fn new(handle: *const T) -> Self {
        // SAFETY: the count is not given back, as the `Arc` is never dropped.
        Shared(ManuallyDrop::new(unsafe { Arc::from_raw(handle) }), PhantomData)
    }
}

impl<T> Deref for Shared<'_, T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.0
    }
}

/// A buffer bound to a port.
pub struct Binding<'a, B> {
    /// Port number.
    pub port: u32,
    /// Buffer.
    pub buffer: Shared<'a, B>,
    /// Start of the tensor in the buffer, in bytes.
    pub offset: usize,
    /// Bytes from `offset` that belong to the tensor.
    pub bytes: usize,
    /// Actual extents of an input whose port states upper bounds.
    pub dims: Option<&'a [i64]>,
}

/// A run to start, already checked.
pub struct Submit<'a, B, F> {
    raw: polychip_submit,
    bindings: Rows<'a, polychip_binding>,
    waits: &'a [*mut polychip_fence],
    /// Whether binding `i` is that of port `i`.
    in_order: bool,
    of: PhantomData<fn(B) -> F>,
}

impl<'a, B: Buffer, F: Fence> Submit<'a, B, F> {
    /// # Safety
    /// `submit` keeps the contract during `'a`: arrays are readable, buffers and fences are handles of
    /// this plugin instance.
    pub(crate) unsafe fn new(submit: *const polychip_submit, ports: &[abi::polychip_port]) -> Result<Self> {
        // SAFETY: as the caller promises.
        let raw = unsafe { raw::read(submit) }?;
        let bindings = Rows::new(raw.bindings, raw.binding_count, raw.binding_stride)?;
        if bindings.len() != ports.len() {
            return Err(Error::bad_argument(format!(
                "{} bindings for {} ports",
                bindings.len(),
                ports.len()
            )));
        }
        // SAFETY: as the caller promises.
        let waits = unsafe { raw::slice(raw.waits, raw.wait_count, "waits") }?;
        if waits.iter().any(|wait| wait.is_null()) {
            return Err(Error::bad_argument("a fence to wait for is null"));
        }
        let mut in_order = true;
        for index in 0..bindings.len() {
            // SAFETY: the array is readable as the caller promises.
            let binding = unsafe { bindings.read(index) }?;
            in_order &= binding.port as usize == index;
            let Some(port) = ports.get(binding.port as usize) else {
                return Err(Error::bad_argument(format!(
                    "binding {index} is for port {} of {}",
                    binding.port,
                    ports.len()
                )));
            };
            let bad = |what: String| Err(Error::bad_argument(what).at_tensor(binding.port));
            if binding.buffer.is_null() {
                return bad(format!("port {} has no buffer", binding.port));
            }
            // SAFETY: a handle of a live buffer of this plugin.
            let size = unsafe { &*binding.buffer.cast::<B>() }.bytes() as u64;
            if binding
                .offset
                .checked_add(binding.bytes)
                .is_none_or(|end| end > size)
            {
                return bad(format!(
                    "port {} is bound to {} bytes at {} of a buffer of {size}",
                    binding.port, binding.bytes, binding.offset
                ));
            }
            let partial = port.flags & abi::POLYCHIP_PORT_UPPER_BOUND != 0;
            let given = !binding.dims.is_null();
            if binding.bytes < port.bytes && !(partial && given) {
                return bad(format!(
                    "port {} needs {} bytes and is bound to {}",
                    binding.port, port.bytes, binding.bytes
                ));
            }
            if given {
                // SAFETY: as the caller promises.
                let dims = unsafe { raw::slice(binding.dims, binding.rank, "binding extents") }?;
                let bounds = &port.dims[..(port.rank as usize).min(port.dims.len())];
                if !fits(dims, bounds, partial) {
                    return bad(format!(
                        "port {} is bound with extents {dims:?} and states {bounds:?}",
                        binding.port
                    ));
                }
            }
        }
        if !in_order {
            for index in 0..bindings.len() {
                // SAFETY: read before.
                let port = unsafe { bindings.read(index) }?.port;
                for other in 0..index {
                    // SAFETY: read before.
                    if unsafe { bindings.read(other) }?.port == port {
                        return Err(
                            Error::bad_argument(format!("port {port} is bound twice")).at_tensor(port)
                        );
                    }
                }
            }
        }
        Ok(Submit {
            raw,
            bindings,
            waits,
            in_order,
            of: PhantomData,
        })
    }

    /// Urgency of the run.
    #[must_use]
    pub fn priority(&self) -> Priority {
        match self.raw.priority {
            abi::POLYCHIP_PRIORITY_BATCH => Priority::Batch,
            abi::POLYCHIP_PRIORITY_NORMAL => Priority::Normal,
            _ => Priority::Urgent,
        }
    }

    /// Time after which the result is worthless, on the host's clock, in nanoseconds.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        (self.raw.deadline_ns != abi::POLYCHIP_NO_DEADLINE).then_some(self.raw.deadline_ns)
    }

    /// Whether the device must measure every step of the run.
    #[must_use]
    pub fn measures_steps(&self) -> bool {
        self.raw.flags & abi::POLYCHIP_SUBMIT_STEPS != 0
    }

    /// Number of bindings, which equals the number of ports.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bindings.len()
    }

    /// Whether the executable has no ports.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bindings.len() == 0
    }

    /// The binding of a port.
    ///
    /// # Panics
    /// The port does not exist.
    #[must_use]
    pub fn binding(&self, port: u32) -> Binding<'a, B> {
        assert!((port as usize) < self.len(), "port {port} of {}", self.len());
        let index = if self.in_order {
            port as usize
        } else {
            (0..self.len())
                .find(|&index| self.row(index).port == port)
                .expect("invariant: every port is bound once")
        };
        let row = self.row(index);
        Binding {
            port,
            // SAFETY: a live buffer of this plugin, as the maker of `self` promised.
            buffer: unsafe { Shared::new(row.buffer.cast::<B>()) },
            offset: row.offset as usize,
            bytes: row.bytes as usize,
            dims: if row.dims.is_null() {
                None
            } else {
                // SAFETY: checked when `self` was made.
                unsafe { raw::slice(row.dims, row.rank, "binding extents") }.ok()
            },
        }
    }

    /// The bindings in port order.
    pub fn bindings(&self) -> impl ExactSizeIterator<Item = Binding<'a, B>> {
        (0..self.len()).map(|port| self.binding(port as u32))
    }

    /// Fences that must signal before the run starts.
    pub fn waits(&self) -> impl ExactSizeIterator<Item = Shared<'a, F>> {
        // SAFETY: live fences of this plugin, as the maker of `self` promised.
        self.waits
            .iter()
            .map(|wait| unsafe { Shared::new(wait.cast::<F>()) })
    }

    fn row(&self, index: usize) -> polychip_binding {
        // SAFETY: the array was read when `self` was made, and outlives it.
        unsafe { self.bindings.read(index) }.expect("invariant: checked when made")
    }
}

/// Whether extents equal those of a port or, if it states upper bounds, stay within them. A port of
/// unknown rank states one extent: the room for a tensor of any rank.
fn fits(dims: &[i64], bounds: &[i64], is_upper_bound: bool) -> bool {
    let elements = dims
        .iter()
        .try_fold(1i64, |product, &dim| product.checked_mul(dim));
    let is_within = |(&dim, &bound): (&i64, &i64)| (0..=bound).contains(&dim);
    match bounds {
        _ if dims.len() == bounds.len() => dims.iter().zip(bounds).all(is_within),
        [room] if is_upper_bound && dims.len() <= abi::POLYCHIP_MAX_RANK => {
            dims.iter().all(|&dim| dim >= 0) && elements.is_some_and(|elements| elements <= *room)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn extents_are_checked_against_bounds_or_room() {
        assert!(fits(&[1, 3], &[2, 3], true));
        assert!(!fits(&[1, 4], &[2, 3], true));
        assert!(!fits(&[1, -1], &[2, 3], true));
        assert!(fits(&[1, 501, 4], &[1 << 24], true));
        assert!(fits(&[], &[1 << 24], true));
        assert!(!fits(&[1, 501, 4], &[1 << 24], false));
        assert!(!fits(&[2, 1 << 24], &[1 << 24], true));
        assert!(!fits(&[-1, -4], &[1 << 24], true));
        assert!(!fits(&[i64::MAX, 2], &[1 << 24], true));
        assert!(!fits(&[1, 501, 4], &[501, 4], true));
        assert!(!fits(&[1; 17], &[1 << 24], true), "more extents than a port has");
    }
}
