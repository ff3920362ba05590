//! Outputs of runs, converted to Python.
//!
//! Invariant: a capable device writes an output whose size is known before the run directly into
//! memory that Python then sees. Other outputs are copied once, from memory of the run or of the
//! device.

use std::sync::Arc;

use polychip::{DType, Literal, Outputs, Packed};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error;
use crate::export::Form;
use crate::pool::{OutputMemory, OutputTransfer, Pool};
use crate::tensor::{Store, Tensor, array};

/// Outputs of a run by name, in the model's order.
pub(crate) fn named<'py>(
    py: Python<'py>,
    outputs: &Outputs,
    pools: &[Arc<Pool>],
    places: Vec<Option<OutputMemory>>,
) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for (index, (pool, place)) in pools.iter().zip(places).enumerate() {
        let spec = &pool.spec;
        let value = match place {
            Some(place) => {
                let form = Form::new(spec.dtype, spec.shape.clone());
                array(
                    py,
                    Tensor::new(form, Store::OutputMemory(Some(place), Arc::clone(pool))),
                )?
            }
            None if pool.way() == OutputTransfer::State => continue,
            None => {
                let view = outputs.at(index).map_err(error::of)?;
                if spec.packed {
                    let packed = Packed::from_bytes(view.bytes());
                    let words = "a value that is not a tensor cannot be read";
                    unpacked(py, &packed.ok_or_else(|| error::DeviceError::new_err(words))?)?
                } else {
                    let form = Form::new(view.dtype(), view.shape().to_vec());
                    array(py, Tensor::new(form, Store::copy(view.bytes())))?
                }
            }
        };
        all.set_item(&spec.name, value)?;
    }
    Ok(all)
}

/// A sequence as a list, an empty optional as None, strings as nested lists.
fn unpacked<'py>(py: Python<'py>, packed: &Packed) -> PyResult<Bound<'py, PyAny>> {
    match packed {
        Packed::Nothing => Ok(py.None().into_bound(py)),
        Packed::Tensor(tensor) => literal(py, tensor),
        Packed::Sequence(tensors) => {
            let all: PyResult<Vec<_>> = tensors.iter().map(|tensor| literal(py, tensor)).collect();
            Ok(PyList::new(py, all?)?.into_any())
        }
    }
}

fn literal<'py>(py: Python<'py>, tensor: &Literal) -> PyResult<Bound<'py, PyAny>> {
    if tensor.dtype != DType::String {
        let form = Form::new(tensor.dtype, tensor.shape.clone());
        return array(py, Tensor::new(form, Store::copy(&tensor.bytes)));
    }
    let strings = tensor.strings().unwrap_or_default();
    nested(py, &tensor.shape, &mut strings.into_iter())
}

fn nested<'py, 'a>(
    py: Python<'py>,
    shape: &[usize],
    strings: &mut impl Iterator<Item = &'a str>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some((size, rest)) = shape.split_first() else {
        return Ok(strings.next().unwrap_or_default().into_pyobject(py)?.into_any());
    };
    let items: PyResult<Vec<_>> = (0..*size).map(|_| nested(py, rest, strings)).collect();
    Ok(PyList::new(py, items?)?.into_any())
}
