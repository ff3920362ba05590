//! A tensor's memory as the devices of one plan see it.
//!
//! Invariants:
//! 1. A device that can import the memory uses it in place. Any other has its own buffer or, if
//!    only this memory does not suit it (app memory at any address), imports staging memory, which
//!    is made here once.
//! 2. Importing devices see each other's writes: all import an output's memory, or all its staging
//!    memory.
//!
//! Not here: copies between these locations (`super`).

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polychip_host::{Access, AccessGuard, Buffer, Device, Memory};
use polychip_ops::DType;

use crate::error::{Error, ErrorKind, Result, kind_of_host};
use crate::session::arena::ALIGNMENT;

/// A tensor's memory as the devices of one plan see it.
#[derive(Debug)]
pub(crate) struct PlanMemory {
    /// Which plan of the session.
    pub(super) plan: u64,
    pub(super) memory: Memory,
    /// Importing devices come first: the host reads and writes through the first buffer.
    pub(super) buffers: Vec<DeviceBuffer>,
    /// What devices import that cannot import `memory`.
    staging: Option<Memory>,
    /// Held by the run that copies.
    copying: Mutex<()>,
}

#[derive(Debug)]
pub(crate) struct DeviceBuffer {
    /// Index of the device in the plan.
    pub(crate) device: usize,
    pub(crate) buffer: Arc<Buffer>,
    /// It is over the tensor's memory.
    pub(super) is_import: bool,
    /// An input is copied to it: it is a device's own, or the first over the staging memory.
    pub(super) is_copy: bool,
    /// It is over the staging memory.
    pub(super) is_staged: bool,
    /// Which elements it holds, where it is copied to: `u64::MAX` before the first copy.
    pub(super) copied: AtomicU64,
}

/// The owner of the memory, which determines what a failed import means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Made for these devices: a refused import is an error.
    Made,
    /// Memory of the app that devices read.
    LentInput,
    /// Memory of the app that devices write.
    LentOutput,
}

impl PlanMemory {
    pub(super) fn new(
        (name, dtype, bytes): (&str, DType, u64),
        plan: u64,
        memory: Memory,
        devices: &[(usize, Device)],
        usage: Use,
    ) -> Result<Arc<PlanMemory>> {
        let failed = |error| no_memory(name, error);
        let mut imports = Vec::with_capacity(devices.len());
        for (_, device) in devices {
            let import = match (device.info().imports_memory(), usage) {
                (false, _) => None,
                (true, Use::Made) => Some(device.import_buffer(&memory).map_err(failed)?),
                (true, Use::LentInput | Use::LentOutput) => import_lent(name, dtype, device, &memory)?,
            };
            imports.push(import);
        }
        let is_staged = |(_, device): &(usize, Device), import: &Option<Buffer>| {
            device.info().imports_memory() && import.is_none()
        };
        let any_staged = devices
            .iter()
            .zip(&imports)
            .any(|(device, import)| is_staged(device, import));
        if any_staged && usage == Use::LentOutput {
            // the plan counts on devices that import to see what the others write
            imports.iter_mut().for_each(|import| *import = None);
        }
        let staging = if any_staged {
            let staged = devices.iter().zip(&imports);
            let staged = staged.filter(|(device, import)| is_staged(device, import));
            let staged = staged.map(|((_, device), _)| device.info());
            Some(Memory::for_devices(bytes, staged).map_err(failed)?)
        } else {
            None
        };
        let mut buffers = Vec::with_capacity(devices.len());
        let mut is_first_staged = true;
        for ((index, device), import) in devices.iter().zip(imports) {
            let is_import = import.is_some();
            let (buffer, is_copy, is_staged) = match (import, &staging) {
                (Some(buffer), _) => (buffer, false, false),
                (None, Some(staging)) if device.info().imports_memory() => {
                    let buffer = device.import_buffer(staging).map_err(failed)?;
                    (buffer, std::mem::take(&mut is_first_staged), true)
                }
                (None, _) => {
                    let own = device.create_buffer(bytes.max(1), ALIGNMENT);
                    (own.map_err(failed)?, true, false)
                }
            };
            buffers.push(DeviceBuffer {
                device: *index,
                buffer: Arc::new(buffer),
                is_import,
                is_copy,
                is_staged,
                copied: AtomicU64::new(u64::MAX),
            });
        }
        Ok(Arc::new(PlanMemory {
            plan,
            memory,
            buffers,
            staging,
            copying: Mutex::default(),
        }))
    }

    pub(crate) fn buffers(&self) -> &[DeviceBuffer] {
        &self.buffers
    }

    pub(crate) fn buffer(&self, device: usize) -> Option<&Arc<Buffer>> {
        let found = self.buffers.iter().find(|bound| bound.device == device);
        found.map(|bound| &bound.buffer)
    }

    /// Whether a run that was started and not seen to end uses the memory.
    pub(super) fn is_in_flight(&self) -> bool {
        self.memory.is_in_flight() || self.buffers.iter().any(|bound| bound.buffer.is_in_flight())
    }

    /// Opens the staging memory, whose device is lost, for reading.
    pub(super) fn staging_access(&self) -> Option<polychip_host::Result<AccessGuard<'static>>> {
        self.staging.as_ref().map(|staging| staging.access(Access::Read))
    }

    /// Held by the run that copies: another run that reads the tensor needs the same copy, and waits for it.
    pub(super) fn copying(&self) -> MutexGuard<'_, ()> {
        self.copying.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A device's buffer over memory of the app; none where the device does not take it as it lies.
fn import_lent(name: &str, dtype: DType, device: &Device, memory: &Memory) -> Result<Option<Buffer>> {
    // whatever a device imports, its kernels read whole elements; a complex one is a pair of floats
    let element = match dtype {
        DType::C64 => 4,
        DType::C128 => 8,
        dtype => dtype.byte_width().unwrap_or(1),
    };
    if !memory.is_aligned(element) || !memory.suits([device.info()]) {
        return Ok(None);
    }
    match device.import_buffer(memory) {
        Ok(buffer) => Ok(Some(buffer)),
        Err(error) if kind_of_host(error.kind()) == ErrorKind::DeviceLost => Err(no_memory(name, error)),
        // an address off the device's alignment, a size, a kind of memory that its driver does not take
        Err(error) => {
            tracing::debug!("tensor {:?} is copied for {}: {error}", name, device.name());
            Ok(None)
        }
    }
}

/// That there is no memory for a tensor.
pub(super) fn no_memory(name: &str, error: polychip_host::Error) -> Error {
    let kind = match (error.kind(), kind_of_host(error.kind())) {
        (_, ErrorKind::DeviceLost) => ErrorKind::DeviceLost,
        (polychip_host::ErrorKind::Unsupported, _) => ErrorKind::BadInput,
        _ => ErrorKind::DeviceFailed,
    };
    Error::caused(kind, format!("memory of tensor {name:?}"), error)
}
