//! A constant that is read when weights are packed, and not before.

use polychip_ops::DType;
use polychip_sdk::{Error, Result};

use super::convert;
use crate::part::Encoding;

/// A constant whose values are read as f32 when weights are packed.
#[derive(Clone)]
pub(crate) struct Source {
    pub(super) dtype: DType,
    pub(super) dims: Vec<usize>,
    pub(super) constant: Option<polychip_sdk::Constant>,
    /// What all values are where there is no constant.
    pub(super) fill: f32,
    pub(super) encoding: Option<Encoding>,
}

impl Source {
    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// The values, decoded and as f32.
    pub(crate) fn values(&self) -> Result<Vec<f32>> {
        match &self.constant {
            None => {
                let mut values = room(&self.dims)?;
                values.resize(self.len(), self.fill);
                Ok(values)
            }
            Some(constant) if self.dtype == DType::F32 && self.encoding.is_none() => {
                let needed = super::bytes_of(DType::F32, &self.dims)?;
                if needed > constant.bytes().len() {
                    return Err(Error::bad_argument(format!(
                        "{} bytes do not hold shape {:?}",
                        constant.bytes().len(),
                        self.dims
                    )));
                }
                let mut values = room(&self.dims)?;
                constant.blocks(|block| {
                    values.extend(block.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)));
                });
                values.truncate(self.len());
                Ok(values)
            }
            Some(constant) => {
                convert::decode_bytes(self.dtype, &self.dims, constant.bytes(), self.encoding.as_ref())
            }
        }
    }
}

/// An empty vector with room for a constant of these extents.
fn room(dims: &[usize]) -> Result<Vec<f32>> {
    let mut values = Vec::new();
    values.try_reserve_exact(dims.iter().product()).map_err(|_| {
        let words = format!("no memory for a constant of shape {dims:?}");
        Error::new(polychip_sdk::ErrorKind::OutOfMemory, words)
    })?;
    Ok(values)
}
