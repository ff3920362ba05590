//! Reading and writing structs of the contract whose size may differ from ours.
//!
//! Invariants:
//! 1. No byte outside the writer's own `struct_size` is read, none outside the reader's is written.
//! 2. Null, misaligned and torn structs, and arrays that do not fit the address space, are errors.
//!
//! Not here: what the fields mean.

#![allow(unsafe_code, reason = "the pointers of the contract are followed here")]

use std::marker::PhantomData;

use polychip_abi::layout::{Fields, is_whole};
use polychip_abi::{self as abi, polychip_bytes, polychip_text};

use crate::{Error, Result};

/// Copies the common prefix of a struct; fields that the writer does not know keep their defaults.
///
/// # Safety
/// A non-null, aligned `from` points to a struct that is readable for its `struct_size` bytes.
pub(crate) unsafe fn read<T: Fields + abi::Sized>(from: *const T) -> Result<T> {
    // SAFETY: as the caller promises.
    let size = unsafe { struct_size(from) }?;
    let mut value = T::sized();
    // SAFETY: both sides hold `size.min(size_of::<T>())` bytes; `T` is plain data of the contract, for
    // which every bit pattern that another build wrote is valid.
    unsafe {
        std::ptr::copy_nonoverlapping(
            from.cast::<u8>(),
            (&raw mut value).cast::<u8>(),
            size.min(size_of::<T>()),
        );
    }
    Ok(value)
}

/// Writes the common prefix of a struct; `struct_size` stays as the caller of the contract set it.
///
/// # Safety
/// A non-null, aligned `to` points to a struct that is readable and writable for its `struct_size` bytes.
pub(crate) unsafe fn write<T: Fields>(to: *mut T, value: &T) -> Result<()> {
    // SAFETY: as the caller promises.
    let size = unsafe { struct_size(to) }?.min(size_of::<T>());
    let skip = size_of::<u32>();
    // SAFETY: both sides hold `size` bytes, at least those of `struct_size`, and cannot overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(
            (&raw const *value).cast::<u8>().add(skip),
            to.cast::<u8>().add(skip),
            size - skip,
        );
    }
    Ok(())
}

/// The checked `struct_size` of an extensible struct.
///
/// # Safety
/// A non-null, aligned `of` is readable for 4 bytes.
unsafe fn struct_size<T: Fields>(of: *const T) -> Result<usize> {
    if of.is_null() {
        return Err(Error::bad_argument(format!("{} is null", T::NAME)));
    }
    if !of.is_aligned() {
        return Err(Error::bad_argument(format!("{} is not aligned", T::NAME)));
    }
    // SAFETY: `struct_size: u32` is the first field of every extensible struct.
    let size = unsafe { of.cast::<u32>().read() } as usize;
    if is_whole::<T>(size) {
        Ok(size)
    } else {
        Err(Error::bad_argument(format!(
            "struct_size {size} of {} ends inside a field",
            T::NAME
        )))
    }
}

/// An array of extensible structs, `stride` bytes apart.
pub(crate) struct Rows<'a, T> {
    first: *const T,
    count: usize,
    stride: usize,
    life: PhantomData<&'a T>,
}

impl<T> Clone for Rows<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Rows<'_, T> {}

impl<'a, T: Fields + abi::Sized> Rows<'a, T> {
    /// Checks address, count and stride of an array, without reading it.
    pub(crate) fn new(first: *const T, count: u64, stride: u64) -> Result<Self> {
        let bad = |what: &str| {
            Error::bad_argument(format!(
                "array of {count} {} with stride {stride} {what}",
                T::NAME
            ))
        };
        let life = PhantomData;
        if count == 0 {
            return Ok(Rows {
                first,
                count: 0,
                stride: size_of::<T>(),
                life,
            });
        }
        if first.is_null() {
            return Err(bad("is null"));
        }
        if !first.is_aligned()
            || !stride.is_multiple_of(align_of::<T>() as u64)
            || stride < size_of::<u32>() as u64
        {
            return Err(bad("is not aligned"));
        }
        let bytes = count
            .checked_mul(stride)
            .ok_or_else(|| bad("does not fit the address space"))?;
        if bytes > isize::MAX as u64 || (first as u64).checked_add(bytes).is_none() {
            return Err(bad("does not fit the address space"));
        }
        Ok(Rows {
            first,
            count: count as usize,
            stride: stride as usize,
            life,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Address of an element.
    pub(crate) fn at(&self, index: usize) -> *const T {
        assert!(index < self.count, "index {index} of {}", self.count);
        self.first.wrapping_byte_add(index * self.stride)
    }

    /// The common prefix of an element.
    ///
    /// # Safety
    /// `first` is readable for `count` times `stride` bytes.
    pub(crate) unsafe fn read(&self, index: usize) -> Result<T> {
        // SAFETY: inside the array by the assertion, aligned as `first` and `stride` are.
        let element = self.at(index);
        // SAFETY: an element begins with its size and lies in the array.
        let size = unsafe { struct_size(element) }?;
        if size > self.stride {
            return Err(Error::bad_argument(format!(
                "struct_size {size} of {} {index} is larger than its stride {}",
                T::NAME,
                self.stride
            )));
        }
        // SAFETY: the element is readable for its size, which is within the stride.
        unsafe { read(element) }
    }
}

/// A slice of plain values.
///
/// # Safety
/// A non-null, aligned `data` is readable for `count` values during `'a`, and is not written to.
pub(crate) unsafe fn slice<'a, T: Copy>(data: *const T, count: u64, what: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    let bad = |how: &str| Error::bad_argument(format!("{count} values of {what} {how}"));
    if data.is_null() {
        return Err(bad("are null"));
    }
    if !data.is_aligned() {
        return Err(bad("are not aligned"));
    }
    let bytes = count.checked_mul(size_of::<T>() as u64);
    if bytes.is_none_or(|bytes| bytes > isize::MAX as u64 || (data as u64).checked_add(bytes).is_none()) {
        return Err(bad("do not fit the address space"));
    }
    // SAFETY: not null, aligned, within the address space, and readable as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts(data, count as usize) })
}

/// Text, checked to be UTF-8.
///
/// # Safety
/// As for [`slice`].
pub(crate) unsafe fn text<'a>(text: polychip_text, what: &str) -> Result<&'a str> {
    // SAFETY: as the caller promises.
    let bytes = unsafe { slice(text.data, text.len, what) }?;
    std::str::from_utf8(bytes).map_err(|error| Error::bad_argument(format!("{what} is not UTF-8: {error}")))
}

/// Text as the contract has it.
pub(crate) fn to_text(text: &str) -> polychip_text {
    polychip_text {
        data: if text.is_empty() {
            std::ptr::null()
        } else {
            text.as_ptr()
        },
        len: text.len() as u64,
    }
}

/// Bytes as the contract has them.
pub(crate) fn to_bytes(bytes: &[u8]) -> polychip_bytes {
    polychip_bytes {
        data: if bytes.is_empty() {
            std::ptr::null()
        } else {
            bytes.as_ptr()
        },
        len: bytes.len() as u64,
    }
}

/// Bytes posing as text.
#[cfg(test)]
pub(crate) fn to_text_of(bytes: &'static [u8]) -> polychip_text {
    polychip_text {
        data: bytes.as_ptr(),
        len: bytes.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polychip_abi::{Sized as _, polychip_cost, polychip_node};

    #[test]
    fn smaller_struct_keeps_our_defaults() {
        let mut node = polychip_node::sized();
        node.op = 7;
        node.input_count = 3;
        node.struct_size = 56;
        // SAFETY: a whole struct of ours.
        let seen = unsafe { read(&raw const node) }.unwrap();
        assert_eq!((seen.op, seen.input_count), (7, 0));
    }

    #[test]
    fn larger_struct_is_read_and_written_in_part() {
        #[repr(C)]
        struct Later {
            cost: polychip_cost,
            more: u64,
        }
        let mut later = Later {
            cost: polychip_cost::sized(),
            more: 77,
        };
        later.cost.struct_size = size_of::<Later>() as u32;
        later.cost.time_ns = 5;
        // SAFETY: a whole struct that is larger than ours.
        let seen = unsafe { read((&raw const later).cast::<polychip_cost>()) }.unwrap();
        assert_eq!(seen.time_ns, 5);
        let ours = polychip_cost {
            energy_uj: 9,
            ..polychip_cost::sized()
        };
        // SAFETY: as above, and writable.
        unsafe { write((&raw mut later).cast::<polychip_cost>(), &ours) }.unwrap();
        assert_eq!((later.cost.energy_uj, later.more), (9, 77));
        assert_eq!(later.cost.struct_size as usize, size_of::<Later>());
    }

    #[test]
    fn torn_null_and_oversized_inputs_are_refused() {
        let mut node = polychip_node::sized();
        node.struct_size = 50;
        // SAFETY: readable for more than its size.
        assert!(unsafe { read(&raw const node) }.is_err());
        // SAFETY: null is allowed.
        assert!(unsafe { read(std::ptr::null::<polychip_node>()) }.is_err());
        assert!(Rows::new(&raw const node, u64::MAX, 200).is_err());
        assert!(Rows::new(&raw const node, 2, 13).is_err());
        assert!(Rows::<polychip_node>::new(std::ptr::null(), 1, 200).is_err());
        assert_eq!(
            Rows::<polychip_node>::new(std::ptr::null(), 0, 0).unwrap().len(),
            0
        );
    }
}
