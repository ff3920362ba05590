//! Byte ports: no array of iOS 17 holds bytes, so the part has its own f16 arrays, which the host
//! fills before a run and reads after it.
//!
//! Invariant: f16 represents every byte exactly.

use half::f16;
use polychip_ops::DType;
use polychip_sdk::{AlignedBytes, HostBuffer, Port, PortBuffer, Result};

/// Alignment of the arrays.
const ALIGN: usize = 64;

/// A port of bytes and its array.
pub(crate) struct Widened {
    signed: bool,
    bytes: Vec<u8>,
    halves: AlignedBytes,
}

impl Widened {
    /// What a port needs; nothing where an array holds its elements.
    pub(crate) fn of(port: &Port) -> Result<Option<Widened>> {
        let signed = match port.dtype {
            DType::I8 => true,
            DType::U8 => false,
            _ => return Ok(None),
        };
        let bytes = port.bytes as usize;
        Ok(Some(Widened {
            signed,
            bytes: vec![0; bytes],
            halves: AlignedBytes::zeroed(2 * bytes, ALIGN)?,
        }))
    }

    /// The array's memory.
    pub(crate) fn address(&mut self) -> *mut u8 {
        self.halves.as_mut_ptr()
    }

    /// Bytes of the array's memory.
    pub(crate) fn size(&self) -> usize {
        self.halves.len()
    }

    /// Fills the array from where the port is bound.
    pub(crate) fn widen(&mut self, from: &PortBuffer<HostBuffer>) -> Result<()> {
        from.copy_out(0, &mut self.bytes)?;
        for (half, &byte) in self.halves.as_chunks_mut::<2>().0.iter_mut().zip(&self.bytes) {
            let value = if self.signed {
                i16::from(byte as i8)
            } else {
                i16::from(byte)
            };
            *half = f16::from_f32(f32::from(value)).to_le_bytes();
        }
        Ok(())
    }

    /// Writes the array to where the port is bound.
    pub(crate) fn narrow(&mut self, to: &PortBuffer<HostBuffer>) -> Result<()> {
        for (byte, half) in self.bytes.iter_mut().zip(self.halves.as_chunks::<2>().0) {
            let value = f16::from_le_bytes(*half).to_f32();
            *byte = if self.signed {
                value as i8 as u8
            } else {
                value as u8
            };
        }
        to.copy_in(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_ports_have_arrays_and_others_have_none() {
        let port = |dtype| Port::dense(false, dtype, &[2, 3]).unwrap();
        let widened = Widened::of(&port(DType::U8)).unwrap().unwrap();
        assert_eq!((widened.size(), widened.signed), (12, false));
        assert!(Widened::of(&port(DType::I8)).unwrap().unwrap().signed);
        assert!(Widened::of(&port(DType::F16)).unwrap().is_none());
    }
}
