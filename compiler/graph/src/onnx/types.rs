//! Declared types of inputs, outputs and intermediate values.
//!
//! Invariant: a negative or unnamed size is unknown, not an error: exporters write −1 for "any". Those of a model's inputs
//! get names of ours, since somebody has to bind them.

use polychip_ops::{DType, Dim, TensorType};

use super::messages::{DimensionValue, Shape, TensorKind, Type, TypeValue, ValueInfo};
use super::weights;
use crate::{Container, Error};

/// What exporters write as the name of a size without a name: two of them are two sizes.
const UNNAMED: [&str; 7] = ["", "?", "None", "none", "null", "-1", "*"];

/// What a model declares of a value.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    /// Element type and shape; `None` where the element type is left out.
    pub(super) ty: Option<TensorType>,
    pub(super) container: Container,
}

/// The declaration in a value info.
pub(super) fn declared(info: &ValueInfo) -> Result<Declared, Error> {
    let what = || format!("value \"{}\"", info.name);
    match &info.r#type {
        Some(ty) => read(ty, &what, Container::Tensor),
        None => Ok(Declared {
            ty: None,
            container: Container::Tensor,
        }),
    }
}

/// The declaration in a type message.
pub(super) fn read(ty: &Type, what: &dyn Fn() -> String, outer: Container) -> Result<Declared, Error> {
    let wrap = |container: Container| match (outer, container) {
        (Container::Tensor, inner) => Some(inner),
        (Container::Optional, Container::Sequence) => Some(Container::OptionalSequence),
        _ => None,
    };
    let element = |element: &Option<Box<Type>>, container: Container| match (element, wrap(container)) {
        (Some(element), Some(container)) => read(element, what, container),
        (None, Some(container)) => Ok(Declared { ty: None, container }),
        _ => Ok(Declared {
            ty: None,
            container: Container::Other,
        }),
    };
    match &ty.value {
        Some(TypeValue::Tensor(kind)) => Ok(Declared {
            ty: tensor(kind, what)?,
            container: outer,
        }),
        Some(TypeValue::Sequence(kind)) => element(&kind.elem_type, Container::Sequence),
        Some(TypeValue::Optional(kind)) => element(&kind.elem_type, Container::Optional),
        Some(TypeValue::SparseTensor(_) | TypeValue::Map(_) | TypeValue::Opaque(_)) => Ok(Declared {
            ty: None,
            container: Container::Other,
        }),
        None => Ok(Declared {
            ty: None,
            container: outer,
        }),
    }
}

fn tensor(kind: &TensorKind, what: &dyn Fn() -> String) -> Result<Option<TensorType>, Error> {
    if kind.elem_type == 0 {
        return Ok(None);
    }
    let dtype: DType = weights::dtype(kind.elem_type, what)?;
    Ok(Some(TensorType {
        dtype,
        shape: kind.shape.as_ref().map(shape),
    }))
}

fn shape(shape: &Shape) -> Vec<Dim> {
    let dim = |value: &Option<DimensionValue>| match value {
        Some(DimensionValue::Value(size)) => usize::try_from(*size).map_or(Dim::Unknown, Dim::Known),
        Some(DimensionValue::Param(name)) if !UNNAMED.contains(&name.as_str()) => Dim::symbol(name),
        _ => Dim::Unknown,
    };
    shape.dim.iter().map(|d| dim(&d.value)).collect()
}

/// Names the sizes that a model's input leaves open without a name by the input and the axis, as `image.2`, so that they
/// can be bound.
pub(super) fn name_open(input: &str, shape: &mut [Dim]) {
    for (axis, dim) in shape.iter_mut().enumerate() {
        if *dim == Dim::Unknown {
            *dim = Dim::symbol(&format!("{input}.{axis}"));
        }
    }
}
