//! Tensors that an app reads and writes: device memory of a session's inputs and outputs.
//!
//! Invariants:
//! 1. An input is memory that the reading devices use in place; nothing is copied at submit unless a
//!    device cannot import host memory.
//! 2. A write to an input that is in flight is refused, not delayed.

use std::sync::{Arc, Weak};

use bytemuck::Pod;
use half::{bf16, f16};
use polychip_host::{Access, AccessGuard, Buffer, Memory};
use polychip_ops::DType;

use crate::error::{Error, ErrorKind, Result};
use crate::session::Inner;

/// A Rust type that tensors hold elements of.
pub trait Element: Pod {
    /// The data type of the tensor.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),+ $(,)?) => {
        $(impl Element for $rust { const DTYPE: DType = DType::$dtype; })+
    };
}

elements! {
    f32 => F32, f64 => F64, f16 => F16, bf16 => BF16,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64,
}

/// Memory of one tensor, and the buffers of the devices that use it.
#[derive(Debug)]
pub(crate) struct TensorMemory {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    /// Upper bounds where the true sizes are known after the run.
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: u64,
    /// Buffers by device index of the plan; the first is the one the host writes and reads through.
    pub(crate) buffers: Vec<(usize, Arc<Buffer>)>,
}

impl TensorMemory {
    /// Memory for a tensor that these devices use.
    pub(crate) fn new(spec: &TensorSpec, devices: &[(usize, polychip_host::Device)]) -> Result<TensorMemory> {
        let failed = |error: polychip_host::Error| {
            Error::caused(
                ErrorKind::DeviceFailed,
                format!("memory of tensor {:?}", spec.name),
                error,
            )
        };
        let memory = Memory::new(spec.bytes).map_err(failed)?;
        let mut buffers = Vec::with_capacity(devices.len());
        for (index, device) in devices {
            let buffer = if device.info().imports_host_memory {
                device.import_buffer(&memory)
            } else {
                device.create_buffer(spec.bytes.max(1), 64)
            };
            buffers.push((*index, Arc::new(buffer.map_err(failed)?)));
        }
        Ok(TensorMemory {
            name: spec.name.clone(),
            dtype: spec.dtype,
            shape: spec.shape.clone(),
            bytes: spec.bytes,
            buffers,
        })
    }

    pub(crate) fn buffer(&self, device: usize) -> Option<&Arc<Buffer>> {
        self.buffers
            .iter()
            .find(|(index, _)| *index == device)
            .map(|(_, buffer)| buffer)
    }

    /// Whether a run uses the memory, as far as its end was not seen yet.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.buffers.iter().any(|(_, buffer)| buffer.is_in_flight())
    }

    /// As [`TensorMemory::access`], once runs of the session that nobody waits for and that have ended
    /// are taken note of.
    fn access_of(&self, owner: &Weak<Inner>, access: Access) -> Result<AccessGuard<'_>> {
        if self.is_in_flight()
            && let Some(owner) = owner.upgrade()
        {
            owner.reap_ended();
        }
        self.access(access)
    }

    pub(crate) fn access(&self, access: Access) -> Result<AccessGuard<'_>> {
        let (_, buffer) = self
            .buffers
            .first()
            .expect("invariant: a tensor is some device's");
        buffer.access(access, 0, self.bytes).map_err(|error| {
            let kind = match error.kind() {
                polychip_host::ErrorKind::InUse => ErrorKind::InFlight,
                _ => ErrorKind::DeviceFailed,
            };
            Error::caused(kind, format!("tensor {:?}", self.name), error)
        })
    }
}

/// Name, type and size of an input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name in the model.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Shape in ONNX order; upper bounds where `upper_bound`.
    pub shape: Vec<usize>,
    /// The true shape is known after the run.
    pub upper_bound: bool,
    /// Bytes of its memory.
    pub bytes: u64,
}

/// An input of a session: memory that the first devices read in place.
#[derive(Debug)]
pub struct Input {
    pub(crate) index: usize,
    pub(crate) session: usize,
    pub(crate) owner: Weak<Inner>,
    pub(crate) memory: TensorMemory,
}

impl Input {
    /// Name in the model.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.memory.name
    }

    /// Element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.memory.dtype
    }

    /// Shape in ONNX order.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.memory.shape
    }

    /// Writes all elements, in row-major order.
    ///
    /// # Errors
    /// The type or the number of elements is another, or a run that reads the input is in flight.
    pub fn write<T: Element>(&mut self, values: &[T]) -> Result<()> {
        let wanted: usize = self.memory.shape.iter().product();
        if T::DTYPE != self.memory.dtype || values.len() != wanted {
            let words = format!(
                "input {:?} holds {wanted} elements of {} (shape {:?}), not {} of {}",
                self.memory.name,
                self.memory.dtype.name(),
                self.memory.shape,
                values.len(),
                T::DTYPE.name()
            );
            return Err(Error::new(ErrorKind::BadInput, words));
        }
        self.write_bytes(bytemuck::cast_slice(values))
    }

    /// Writes all bytes: elements little-endian in row-major order, types of less than a byte packed.
    ///
    /// # Errors
    /// The number of bytes is another, or a run that reads the input is in flight.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() as u64 != self.memory.bytes {
            let words = format!(
                "input {:?} holds {} bytes, not {}",
                self.memory.name,
                self.memory.bytes,
                bytes.len()
            );
            return Err(Error::new(ErrorKind::BadInput, words));
        }
        self.bytes_mut()?.copy_from_slice(bytes);
        Ok(())
    }

    /// The memory itself, to be filled in place.
    ///
    /// # Errors
    /// A run that reads the input is in flight.
    pub fn bytes_mut(&mut self) -> Result<AccessGuard<'_>> {
        self.memory.access_of(&self.owner, Access::Write)
    }
}

/// An output that the app binds itself: runs write into its memory.
#[derive(Debug)]
pub struct Output {
    pub(crate) index: usize,
    pub(crate) session: usize,
    pub(crate) owner: Weak<Inner>,
    pub(crate) memory: TensorMemory,
}

impl Output {
    /// Name in the model.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.memory.name
    }

    /// The memory, to be read in place.
    ///
    /// # Errors
    /// A run that writes the output is in flight.
    pub fn bytes(&self) -> Result<AccessGuard<'_>> {
        self.memory.access_of(&self.owner, Access::Read)
    }
}
