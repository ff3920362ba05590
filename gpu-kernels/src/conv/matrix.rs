//! The text of a convolution on matrix units.

use super::Conv;
use crate::{Error, Kernel, Limits, Result};

impl Conv {
    pub(super) fn matrix_kernel(&self, _limits: &Limits) -> Result<Kernel> {
        Err(Error::new("the device has no matrix units for convolutions"))
    }
}
