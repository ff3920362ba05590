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
                let mut values = Vec::new();
                values.try_reserve_exact(self.len()).map_err(|_| {
                    let words = format!("no memory for a constant of shape {:?}", self.dims);
                    Error::new(polychip_sdk::ErrorKind::OutOfMemory, words)
                })?;
                values.resize(self.len(), self.fill);
                Ok(values)
            }
            Some(constant) => {
                convert::decode_bytes(self.dtype, &self.dims, constant.bytes(), self.encoding.as_ref())
            }
        }
    }
}
