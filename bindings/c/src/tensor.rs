//! Tensors: memory with a type and a shape, which sessions use in place.
//!
//! Invariants:
//! 1. A tensor belongs to no session: one session may write it and another read it, without a copy.
//! 2. A session's view of a tensor is cached with the tensor, so that the next run finds it.
//! 3. While a tensor is mapped no run uses it, and while a run uses it, it cannot be mapped.

use std::sync::{Arc, Mutex, PoisonError};

use polychip::{Access, AccessGuard, DType, DeviceError, DeviceErrorKind, Input, Memory, Output};
use smallvec::SmallVec;

use crate::failure::{Failure, Result};
use crate::handle::{Kind, Object, Table};
use crate::port::{Port, PortBinding};
use crate::status::{POLYCHIP_ERROR_BAD_INPUT, POLYCHIP_ERROR_DEVICE_FAILED, POLYCHIP_ERROR_IN_FLIGHT};

/// Type and shape of a tensor that is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: u64,
}

impl Form {
    /// A tensor of this type and shape, whose elements lie in row-major order without gaps; `strides` may say so, in
    /// elements.
    pub(crate) fn new(dtype: u32, shape: &[u64], strides: Option<&[i64]>) -> Result<Form> {
        let known = DType::from_code(dtype);
        let dtype = known.ok_or_else(|| {
            Failure::argument(format!(
                "dtype {dtype} is not a POLYCHIP_DTYPE_* value of this version"
            ))
        })?;
        let size = |size: &u64| usize::try_from(*size).ok();
        let sizes: Option<Vec<usize>> = shape.iter().map(size).collect();
        let elements = sizes
            .as_ref()
            .and_then(|sizes| sizes.iter().try_fold(1usize, |all, size| all.checked_mul(*size)));
        let bytes = elements.and_then(|elements| dtype.byte_len(elements));
        let bytes = bytes.filter(|bytes| *bytes <= isize::MAX as usize);
        let (Some(sizes), Some(bytes)) = (sizes, bytes) else {
            let words = match dtype {
                DType::String => {
                    "a tensor of strings has no fixed size: its bytes are given as u8, packed".to_owned()
                }
                _ => format!("a tensor of {} with shape {shape:?} is too large", dtype.name()),
            };
            return Err(Failure::argument(words));
        };
        if let Some(strides) = strides {
            dense(&sizes, strides)?;
        }
        Ok(Form {
            dtype,
            shape: sizes,
            bytes: bytes as u64,
        })
    }
}

/// Whether strides are those of elements in row-major order without gaps.
fn dense(shape: &[usize], strides: &[i64]) -> Result<()> {
    if shape.contains(&0) {
        return Ok(());
    }
    let mut wanted = 1i64;
    for (axis, (size, stride)) in shape.iter().zip(strides).enumerate().rev() {
        // of an axis of one element no stride is ever taken
        if *size != 1 && *stride != wanted {
            return Err(Failure::argument(format!(
                "stride {stride} of axis {axis}: row-major order without gaps requires {wanted}; \
                 copy the tensor into that order"
            )));
        }
        wanted = wanted.saturating_mul(i64::try_from(*size).unwrap_or(i64::MAX));
    }
    Ok(())
}

/// A tensor.
pub(crate) struct Tensor {
    pub(crate) form: Form,
    memory: Memory,
    session_tensors: Mutex<SmallVec<[SessionTensor; 2]>>,
    mapped: Mutex<Option<AccessGuard<'static>>>,
}

/// A tensor as one port of a session uses it.
struct SessionTensor {
    session: u64,
    index: usize,
    side: Side,
}

#[derive(Clone)]
enum Side {
    Read(Arc<Input>),
    Written(Arc<Output>),
}

impl Tensor {
    /// A tensor in this memory, which has room for it.
    pub(crate) fn new(form: Form, memory: Memory) -> Result<Tensor> {
        Ok(Tensor {
            form,
            memory,
            session_tensors: Mutex::default(),
            mapped: Mutex::default(),
        })
    }

    /// A tensor of these bytes, in memory of the host.
    pub(crate) fn holding(dtype: DType, shape: Vec<usize>, bytes: &[u8]) -> Result<Tensor> {
        let form = Form {
            dtype,
            shape,
            bytes: bytes.len() as u64,
        };
        let memory = Memory::new(form.bytes).map_err(of_memory)?;
        memory.access(Access::Write).map_err(of_memory)?[..bytes.len()].copy_from_slice(bytes);
        Tensor::new(form, memory)
    }

    /// What the tensor holds.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>> {
        let guard = self.memory.access(Access::Read).map_err(of_memory)?;
        Ok(guard[..self.form.bytes as usize].to_vec())
    }

    /// The tensor as an input of a session.
    pub(crate) fn input(&self, binding: &PortBinding<'_>) -> Result<Arc<Input>> {
        let port = binding.port;
        self.check_closed("input", port)?;
        let found = self.find(binding, |side| match side {
            Side::Read(input) => Some(Arc::clone(input)),
            Side::Written(_) => None,
        });
        if let Some(input) = found {
            return Ok(input);
        }
        self.check("input", port)?;
        let input = binding
            .session
            .input_from(&port.spec.name, &self.form.shape, &self.memory)?;
        let input = Arc::new(input);
        self.keep(binding, Side::Read(Arc::clone(&input)));
        Ok(input)
    }

    /// The tensor as an output of a session.
    pub(crate) fn output(&self, binding: &PortBinding<'_>) -> Result<Arc<Output>> {
        let port = binding.port;
        self.check_closed("output", port)?;
        let found = self.find(binding, |side| match side {
            Side::Written(output) => Some(Arc::clone(output)),
            Side::Read(_) => None,
        });
        if let Some(output) = found {
            return Ok(output);
        }
        self.check("output", port)?;
        let output = binding
            .session
            .output_in_memory(&port.spec.name, &self.form.shape, &self.memory)?;
        let output = Arc::new(output);
        self.keep(binding, Side::Written(Arc::clone(&output)));
        Ok(output)
    }

    pub(crate) fn check(&self, what: &str, port: &Port) -> Result<()> {
        let (own, wanted) = (self.form.dtype, port.spec.dtype);
        if own == wanted {
            return Ok(());
        }
        let words = format!(
            "{what} {:?} holds {}, the tensor {}",
            port.spec.name,
            wanted.name(),
            own.name()
        );
        Err(Failure::new(POLYCHIP_ERROR_BAD_INPUT, words))
    }

    /// A run may use the memory: the app has closed it.
    fn check_closed(&self, what: &str, port: &Port) -> Result<()> {
        if self
            .mapped
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_none()
        {
            return Ok(());
        }
        let words = format!(
            "{what} {:?}: the tensor is mapped: unmap it first (polychip_tensor_unmap)",
            port.spec.name
        );
        Err(Failure::new(POLYCHIP_ERROR_IN_FLIGHT, words))
    }

    fn find<T>(&self, binding: &PortBinding<'_>, side: impl Fn(&Side) -> Option<T>) -> Option<T> {
        let bound = self
            .session_tensors
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut same = bound
            .iter()
            .filter(|bound| bound.session == binding.handle && bound.index == binding.index);
        same.find_map(|bound| side(&bound.side))
    }

    fn keep(&self, binding: &PortBinding<'_>, side: Side) {
        let one = SessionTensor {
            session: binding.handle,
            index: binding.index,
            side,
        };
        let mut gone: SmallVec<[SessionTensor; 2]> = SmallVec::new();
        let mut bound = self
            .session_tensors
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // of sessions that were destroyed
        while let Some(at) = bound.iter().position(|bound| !(binding.is_there)(bound.session)) {
            gone.push(bound.swap_remove(at));
        }
        bound.push(one);
        drop(bound);
        drop(gone);
    }

    /// Opens the memory to the app; its address and bytes.
    pub(crate) fn map(&self, access: Access) -> Result<(*mut u8, u64)> {
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        if mapped.is_some() {
            return Err(Failure::new(
                POLYCHIP_ERROR_IN_FLIGHT,
                "the tensor is mapped already: unmap it first",
            ));
        }
        let mut guard = self.memory.access(access).map_err(of_memory)?;
        let data = match access {
            Access::Read => guard.as_ptr().cast_mut(),
            Access::Write => guard.as_mut_ptr(),
        };
        *mapped = Some(guard);
        Ok((data, self.form.bytes))
    }

    /// Closes the memory to the app.
    pub(crate) fn unmap(&self) -> Result<()> {
        let mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner).take();
        match mapped {
            Some(_) => Ok(()),
            None => Err(Failure::argument("the tensor is not mapped")),
        }
    }
}

/// A failure to use memory.
pub(crate) fn of_memory(error: DeviceError) -> Failure {
    let status = match error.kind() {
        DeviceErrorKind::InUse => POLYCHIP_ERROR_IN_FLIGHT,
        DeviceErrorKind::BadArgument | DeviceErrorKind::Unsupported => POLYCHIP_ERROR_BAD_INPUT,
        _ => POLYCHIP_ERROR_DEVICE_FAILED,
    };
    Failure::new(status, error)
}

impl Object for Tensor {
    fn table() -> &'static Table<Tensor> {
        static TABLE: Table<Tensor> = Table::new(Kind::Tensor);
        &TABLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::POLYCHIP_ERROR_BAD_ARGUMENT;

    fn refused(dtype: u32, shape: &[u64], strides: Option<&[i64]>) -> String {
        let failure = Form::new(dtype, shape, strides).unwrap_err();
        assert_eq!(failure.status, POLYCHIP_ERROR_BAD_ARGUMENT);
        failure.message
    }

    #[test]
    fn form_counts_its_bytes() {
        let f32s = DType::F32.code();
        assert_eq!(Form::new(f32s, &[1, 3, 2, 2], None).unwrap().bytes, 48);
        assert_eq!(Form::new(f32s, &[], None).unwrap().bytes, 4);
        assert_eq!(Form::new(f32s, &[0, 3], Some(&[7, 7])).unwrap().bytes, 0);
        assert_eq!(Form::new(DType::U4.code(), &[5], None).unwrap().bytes, 3);
        assert_eq!(Form::new(f32s, &[2, 1, 3], Some(&[3, 99, 1])).unwrap().bytes, 24);
    }

    #[test]
    fn unknown_types_sizes_and_orders_are_refused() {
        let f32s = DType::F32.code();
        assert!(refused(0, &[1], None).contains("dtype 0"));
        assert!(refused(99, &[1], None).contains("dtype 99"));
        assert!(refused(f32s, &[u64::MAX, 2], None).contains("too large"));
        assert!(refused(f32s, &[1 << 62], None).contains("too large"));
        assert!(refused(DType::String.code(), &[1], None).contains("packed"));
        assert!(refused(f32s, &[2, 3], Some(&[1, 2])).contains("stride 2 of axis 1"));
        assert!(refused(f32s, &[2, 3], Some(&[4, 1])).contains("stride 4 of axis 0"));
    }
}
