//! Values of small tensors of the file.

use crate::gguf::Gguf;
use crate::{Error, Result};

/// The values of a small tensor as f32.
pub(super) fn floats(file: &Gguf, name: &str) -> Result<Vec<f32>> {
    let tensor = file.tensor(name).ok_or_else(|| missing(name))?;
    let mut values = vec![0.0; tensor.len()];
    // not where the file is mapped: each page that is touched brings some of its neighbours
    file.read_weights(&tensor, 0, &mut values)?;
    Ok(values)
}

pub(super) fn missing(name: &str) -> Error {
    Error::config(format!("tensor {name:?} is missing"))
}
