//! Specifications of a model's inputs and outputs, with open sizes, as apps see them.
//!
//! Invariant: a packed tensor has the form of packed bytes, regardless of the model's sizes; a run
//! gives those of strings.

use polychip_ops::{Dim, Packed};

use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Input, TensorSpec};

/// A tensor at the edge of a model whose sizes may be open.
pub(crate) fn open_spec(tensor: &polychip_graph::Tensor) -> TensorSpec {
    if tensor.is_packed() {
        return TensorSpec::of_packed(&tensor.name);
    }
    sizes_spec(tensor)
}

/// As [`open_spec`], of strings with their own sizes.
pub(crate) fn sizes_spec(tensor: &polychip_graph::Tensor) -> TensorSpec {
    let dims = tensor.ty.shape.as_deref().unwrap_or_default();
    let open = |(axis, dim): (usize, &Dim)| match dim {
        Dim::Known(_) => None,
        Dim::Symbol(name) => Some((axis, name.to_string())),
        Dim::Unknown => Some((axis, "?".to_owned())),
    };
    let open: Vec<(usize, String)> = dims.iter().enumerate().filter_map(open).collect();
    let shape: Vec<usize> = dims.iter().map(|dim| dim.known().unwrap_or(0)).collect();
    let any_rank = tensor.ty.shape.is_none();
    let bytes = polychip_ops::axis::product(&shape).and_then(|elements| tensor.ty.dtype.byte_len(elements));
    TensorSpec {
        name: tensor.name.clone(),
        dtype: tensor.ty.dtype,
        bytes: if open.is_empty() && !any_rank {
            bytes.unwrap_or(0) as u64
        } else {
            0
        },
        shape,
        open,
        any_rank,
        upper_bound: tensor.upper_bound,
        packed: tensor.is_packed(),
    }
}

/// The sizes of the strings that an input holds.
pub(crate) fn sizes_of_strings(input: &Input) -> Result<Vec<usize>> {
    let bytes = input.memory.read_input()?;
    Packed::shape_in(&bytes).ok_or_else(|| {
        let words = format!(
            "input {:?} holds no strings, and the model leaves their sizes open; write them first (Input::write_packed)",
            input.name()
        );
        Error::new(ErrorKind::BadInput, words)
    })
}
