//! Sequences, optionals and strings as bytes: how they cross the edge of a part or a model, where all is flat memory.
//!
//! The form, little-endian, from the first byte: `u32` what it is (0 nothing, 1 a tensor, 2 a sequence), `u32` how many
//! tensors follow, `u64` the bytes of the whole; then per tensor `u32` data type (its ONNX code), `u32` rank, as many `u64`
//! sizes, `u64` bytes of the elements, the elements as in [`Literal`], and zeros up to a multiple of 8.
//!
//! Invariants:
//! 1. The bytes say themselves how many they are: what follows in a larger buffer is not looked at.
//! 2. Bytes that contradict themselves are `None`, never a panic; nothing is allocated that they do not pay for.

use crate::{DType, Literal};

/// Most bytes that a packed value has where nobody says otherwise: the size of a buffer for one.
pub const PACKED_BYTES: usize = 4 << 20;

/// Bytes of a buffer for a tensor of which not even a bound is known before the run. Systems that commit memory at its first
/// use give no more than the run writes.
pub const UNBOUNDED_BYTES: usize = 64 << 20;

const HEADER: usize = 16;

/// A value that is no plain tensor of numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Packed {
    /// An optional that holds nothing.
    Nothing,
    /// An optional that holds a tensor, or a tensor of strings.
    Tensor(Literal),
    /// A sequence of tensors, or an optional that holds one.
    Sequence(Vec<Literal>),
}

impl Packed {
    /// The tensors in it.
    #[must_use]
    pub fn tensors(&self) -> &[Literal] {
        match self {
            Packed::Nothing => &[],
            Packed::Tensor(tensor) => std::slice::from_ref(tensor),
            Packed::Sequence(tensors) => tensors,
        }
    }

    /// The bytes.
    ///
    /// ```
    /// use polychip_ops::{Literal, Packed};
    /// let sequence = Packed::Sequence(vec![Literal::f32s(&[1.0, 2.0]), Literal::i64s(&[])]);
    /// assert_eq!(Packed::from_bytes(&sequence.to_bytes()), Some(sequence));
    /// ```
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let (kind, tensors) = match self {
            Packed::Nothing => (0u32, &[][..]),
            Packed::Tensor(_) => (1, self.tensors()),
            Packed::Sequence(_) => (2, self.tensors()),
        };
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&kind.to_le_bytes());
        bytes.extend_from_slice(&(tensors.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
        for tensor in tensors {
            bytes.extend_from_slice(&tensor.dtype.code().to_le_bytes());
            bytes.extend_from_slice(&(tensor.shape.len() as u32).to_le_bytes());
            for &size in tensor.shape.iter().chain([&tensor.bytes.len()]) {
                bytes.extend_from_slice(&(size as u64).to_le_bytes());
            }
            bytes.extend_from_slice(&tensor.bytes);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        let whole = bytes.len() as u64;
        bytes[8..HEADER].copy_from_slice(&whole.to_le_bytes());
        bytes
    }

    /// How many of these bytes are the value; `None` where they cannot be one.
    #[must_use]
    pub fn byte_len(bytes: &[u8]) -> Option<usize> {
        let whole = u64::from_le_bytes(bytes.get(8..HEADER)?.try_into().ok()?);
        usize::try_from(whole)
            .ok()
            .filter(|&whole| whole >= HEADER && whole <= bytes.len())
    }

    /// The sizes of the tensor in these bytes, without a look at its elements; `None` where they hold no tensor, or a
    /// sequence.
    ///
    /// ```
    /// use polychip_ops::{Literal, Packed};
    /// let texts = Packed::Tensor(Literal::from_strings(&["a", "b"]).unwrap());
    /// assert_eq!(Packed::shape_in(&texts.to_bytes()), Some(vec![2]));
    /// assert_eq!(Packed::shape_in(&Packed::Sequence(Vec::new()).to_bytes()), None);
    /// ```
    #[must_use]
    pub fn shape_in(bytes: &[u8]) -> Option<Vec<usize>> {
        let mut rest = Reader(&bytes[..Packed::byte_len(bytes)?]);
        let (kind, count, _) = (rest.u32()?, rest.u32()?, rest.size()?);
        if (kind, count) != (1, 1) {
            return None;
        }
        rest.form().map(|(_, shape)| shape)
    }

    /// The value in these bytes; `None` where they contradict themselves.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Packed> {
        let mut rest = Reader(&bytes[..Packed::byte_len(bytes)?]);
        let (kind, count, _) = (rest.u32()?, rest.u32()?, rest.size()?);
        let mut tensors = Vec::new();
        for _ in 0..count {
            tensors.push(rest.tensor()?);
        }
        if !rest.0.is_empty() {
            return None;
        }
        match (kind, tensors.len()) {
            (0, 0) => Some(Packed::Nothing),
            (1, 1) => tensors.pop().map(Packed::Tensor),
            (2, _) => Some(Packed::Sequence(tensors)),
            _ => None,
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn size(&mut self) -> Option<usize> {
        usize::try_from(u64::from_le_bytes(self.take(8)?.try_into().ok()?)).ok()
    }

    /// Type and sizes of a tensor.
    fn form(&mut self) -> Option<(DType, Vec<usize>)> {
        let dtype = DType::from_code(self.u32()?)?;
        let rank = self.u32()?;
        let mut shape = Vec::new();
        for _ in 0..rank {
            shape.push(self.size()?);
        }
        Some((dtype, shape))
    }

    fn tensor(&mut self) -> Option<Literal> {
        let (dtype, shape) = self.form()?;
        let len = self.size()?;
        let bytes = self.take(len)?;
        self.take(len.checked_next_multiple_of(8)? - len)?;
        Literal::new(dtype, shape, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_from_larger_buffers() {
        let texts = Literal::from_strings(&["a", "été", ""]).unwrap();
        let odd = Literal::from_ints(DType::U8, vec![3], &[1, 2, 3]).unwrap();
        let empty = Literal::from_ints(DType::I32, vec![0, 4], &[]).unwrap();
        for value in [
            Packed::Nothing,
            Packed::Tensor(texts.clone()),
            Packed::Sequence(Vec::new()),
            Packed::Sequence(vec![odd, texts, empty, Literal::scalar_f32(1.0)]),
        ] {
            let mut bytes = value.to_bytes();
            let len = bytes.len();
            assert_eq!(len % 8, 0);
            bytes.resize(len + 100, 7);
            assert_eq!(Packed::byte_len(&bytes), Some(len));
            assert_eq!(Packed::from_bytes(&bytes), Some(value));
        }
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let good = Packed::Sequence(vec![Literal::i64s(&[1, 2]), Literal::f32s(&[3.0])]).to_bytes();
        for cut in 0..good.len() {
            assert_eq!(Packed::from_bytes(&good[..cut]), None, "cut at {cut}");
        }
        for at in 0..good.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= flip;
                // whatever comes out is whole
                if let Some(value) = Packed::from_bytes(&bad) {
                    assert!(value.tensors().len() <= 2);
                }
            }
        }
        // four thousand million tensors that are not there
        let mut many = Packed::Sequence(Vec::new()).to_bytes();
        many[4..8].fill(0xff);
        assert_eq!(Packed::from_bytes(&many), None);
        // a rank without its sizes
        let mut wide = good;
        wide[20..24].fill(0xff);
        assert_eq!(Packed::from_bytes(&wide), None);
    }
}
