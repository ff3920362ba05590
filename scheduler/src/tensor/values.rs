//! Tensors as slices of Rust types, in place.
//!
//! Invariant: a slice exists only if the memory holds that type and is aligned for it; nothing is
//! copied.
//!
//! Not here: shaped views of the crate ndarray (`array`).

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use half::{bf16, f16};
use polychip_host::AccessGuard;
use polychip_ops::DType;

use crate::error::{Error, ErrorKind, Result};

/// A Rust type of tensor elements.
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

/// Elements of a tensor, open for reading until this is dropped.
pub struct Values<'a, T> {
    open: AccessGuard<'a>,
    shape: Box<[usize]>,
    element: PhantomData<T>,
}

/// Elements of a tensor, open for writing until this is dropped.
pub struct ValuesMut<'a, T>(Values<'a, T>);

impl<'a, T: Element> Values<'a, T> {
    /// `name` identifies the tensor in errors, e.g. `input "x"`.
    pub(crate) fn new(name: String, dtype: DType, shape: &[usize], open: AccessGuard<'a>) -> Result<Self> {
        check_dtype::<T>(&name, dtype)?;
        if let Err(wrong) = bytemuck::try_cast_slice::<u8, T>(&open) {
            let words = format!(
                "{name}: its memory is not a slice of {}: {wrong}",
                T::DTYPE.name()
            );
            return Err(Error::new(ErrorKind::BadInput, words));
        }
        Ok(Values {
            open,
            shape: shape.into(),
            element: PhantomData,
        })
    }
}

impl<'a, T: Element> ValuesMut<'a, T> {
    pub(crate) fn new(name: String, dtype: DType, shape: &[usize], open: AccessGuard<'a>) -> Result<Self> {
        Values::new(name, dtype, shape, open).map(ValuesMut)
    }
}

/// The tensor holds this type, or an error names both.
pub(crate) fn check_dtype<T: Element>(name: &str, dtype: DType) -> Result<()> {
    if T::DTYPE == dtype {
        return Ok(());
    }
    let words = format!("{name} holds {}, not {}", dtype.name(), T::DTYPE.name());
    Err(Error::new(ErrorKind::BadInput, words))
}

impl<T> Values<'_, T> {
    /// Shape in ONNX order; an upper bound if the true shape is known only after the run.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }
}

impl<T> ValuesMut<'_, T> {
    /// Shape in ONNX order.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.0.shape()
    }
}

impl<T: Element> Deref for Values<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.open)
    }
}

impl<T: Element> Deref for ValuesMut<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Element> DerefMut for ValuesMut<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.0.open)
    }
}

impl<T> std::fmt::Debug for Values<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Values").field(&self.shape).finish()
    }
}

impl<T> std::fmt::Debug for ValuesMut<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ValuesMut").field(&self.0.shape).finish()
    }
}
