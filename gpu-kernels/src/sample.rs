//! A sample: input bytes for the bindings of a kernel, and the output that it must write.
//!
//! Invariant: the values come from a fixed sequence, so that a sample is the same on every machine.

use half::f16;

use crate::Scalar;

/// Values of a binding.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 16-bit floats.
    F16(Vec<f16>),
    /// 32-bit integers.
    I32(Vec<i32>),
    /// 64-bit integers.
    I64(Vec<i64>),
    /// 16-bit signed integers.
    I16(Vec<i16>),
    /// 16-bit unsigned integers.
    U16(Vec<u16>),
    /// Signed bytes.
    I8(Vec<i8>),
    /// Unsigned bytes; booleans too.
    U8(Vec<u8>),
}

impl Values {
    /// The bytes of a binding: little-endian, padded with zeros to a multiple of four.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = match self {
            Values::F32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Values::F16(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Values::I32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Values::I64(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Values::I16(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Values::U16(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Values::I8(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Values::U8(v) => v.clone(),
        };
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// Reads values of this type from bytes that a kernel wrote, as many as `self` has.
    ///
    /// # Panics
    /// There are fewer bytes.
    #[must_use]
    pub fn read_alike(&self, bytes: &[u8]) -> Vec<f64> {
        fn read<const N: usize>(bytes: &[u8], count: usize, one: fn([u8; N]) -> f64) -> Vec<f64> {
            let (rows, _) = bytes.as_chunks::<N>();
            rows[..count].iter().map(|row| one(*row)).collect()
        }
        match self {
            Values::F32(v) => read(bytes, v.len(), |b| f32::from_le_bytes(b).into()),
            Values::F16(v) => read(bytes, v.len(), |b| f16::from_le_bytes(b).into()),
            Values::I32(v) => read(bytes, v.len(), |b| i32::from_le_bytes(b).into()),
            Values::I64(v) => read(bytes, v.len(), |b| i64::from_le_bytes(b) as f64),
            Values::I16(v) => read(bytes, v.len(), |b| i16::from_le_bytes(b).into()),
            Values::U16(v) => read(bytes, v.len(), |b| u16::from_le_bytes(b).into()),
            Values::I8(v) => read(bytes, v.len(), |b| i8::from_le_bytes(b).into()),
            Values::U8(v) => read(bytes, v.len(), |b: [u8; 1]| b[0].into()),
        }
    }

    /// The values themselves.
    #[must_use]
    pub fn to_f64(&self) -> Vec<f64> {
        self.read_alike(&self.bytes())
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Values::F32(v) => v.len(),
            Values::F16(v) => v.len(),
            Values::I32(v) => v.len(),
            Values::I64(v) => v.len(),
            Values::I16(v) => v.len(),
            Values::U16(v) => v.len(),
            Values::I8(v) => v.len(),
            Values::U8(v) => v.len(),
        }
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `count` values in `-1..1`, the same each time for one `seed`.
    #[must_use]
    pub fn floats(seed: u32, count: usize) -> Vec<f32> {
        // a linear congruence (Numerical Recipes), of which the high bits are used; not `rand`, which no plugin has need of
        let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1u32 << 23) as f32 - 1.0
            })
            .collect()
    }
}

impl Values {
    /// `count` values of a type: floats in `-1..1`, bytes over their whole range; the same for one `seed`.
    pub(crate) fn samples(scalar: Scalar, seed: u32, count: usize) -> Values {
        let floats = Values::floats(seed, count);
        match scalar {
            Scalar::F16 => Values::F16(floats.into_iter().map(f16::from_f32).collect()),
            Scalar::I8 => Values::I8(floats.into_iter().map(|x| (x * 128.0) as i8).collect()),
            Scalar::U8 => Values::U8(floats.into_iter().map(|x| (x * 128.0 + 128.0) as u8).collect()),
            _ => Values::F32(floats),
        }
    }

    /// As many zeros of this type.
    pub(crate) fn blank(&self) -> Values {
        let count = self.len();
        match self {
            Values::F32(_) => Values::F32(vec![0.0; count]),
            Values::F16(_) => Values::F16(vec![f16::ZERO; count]),
            Values::I32(_) => Values::I32(vec![0; count]),
            Values::I8(_) => Values::I8(vec![0; count]),
            Values::I64(_) => Values::I64(vec![0; count]),
            _ => Values::U8(vec![0; self.bytes().len()]),
        }
    }

    /// These values as a type; bytes saturate.
    pub(crate) fn of(scalar: Scalar, all: &[f64]) -> Values {
        match scalar {
            Scalar::F16 => Values::F16(all.iter().map(|&x| f16::from_f64(x)).collect()),
            Scalar::I8 => Values::I8(all.iter().map(|&x| x as i8).collect()),
            Scalar::U8 => Values::U8(all.iter().map(|&x| x as u8).collect()),
            _ => Values::F32(all.iter().map(|&x| x as f32).collect()),
        }
    }
}

impl Scalar {
    /// Tolerance for results that are exact to `sums` before they are stored as this type: f16 rounds to 2^-11.
    pub(crate) fn tolerance(self, sums: f64) -> f64 {
        match self {
            Scalar::F16 => sums + 1.0e-3,
            Scalar::F32 => sums,
            // one step: a product may or may not be rounded before it is added to
            Scalar::I8 | Scalar::U8 => 1.0 / 60.0,
            _ => 0.0,
        }
    }
}

/// Input and expected output of a kernel, per binding.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Initial content of each binding; zeros or ones for a binding that is only written.
    pub before: Vec<Values>,
    /// Expected content of each binding after the run; `None` if it is only read.
    pub after: Vec<Option<Values>>,
    /// Largest allowed absolute difference, as a fraction of the largest expected absolute value.
    pub tolerance: f64,
}

impl Sample {
    /// What a generator gives whose kernel is refused.
    pub(crate) fn empty() -> Sample {
        Sample {
            before: Vec::new(),
            after: Vec::new(),
            tolerance: 0.0,
        }
    }

    /// Compares the bytes of binding `index` after a run. The error describes the first value that is too far off.
    ///
    /// # Errors
    /// A value is wrong.
    pub fn judge(&self, index: usize, bytes: &[u8]) -> Result<(), String> {
        let Some(expected) = self.after.get(index).and_then(Option::as_ref) else {
            return Ok(());
        };
        let right = expected.to_f64();
        let got = expected.read_alike(bytes);
        let largest = right
            .iter()
            .filter(|x| x.is_finite())
            .fold(0.0f64, |a, x| a.max(x.abs()));
        for (i, (&right, &got)) in right.iter().zip(&got).enumerate() {
            let same = right == got || (right.is_nan() && got.is_nan());
            // written so that a NaN is never near
            let near = (right - got).abs() <= self.tolerance * largest.max(f64::MIN_POSITIVE);
            if !same && !near {
                return Err(format!(
                    "value {i} of {} is {got}, should be {right}",
                    expected.len()
                ));
            }
        }
        Ok(())
    }
}
