//! Shapes of ops of classical machine learning.
//!
//! Not here: whether trees are trees; whoever computes them says so.

use crate::infer::call::{Call, Out, Result, bad_input, bail};
use crate::{Attr, Dim, Op};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    match call.op {
        Op::LabelEncoder => encode(call),
        _ => trees(call),
    }
}

/// Every element is looked up by itself; what it becomes has the type of the values.
fn encode(call: &Call<'_>) -> Result<Vec<Out>> {
    let (Some(keys), Some(values)) = (
        call.attributes.tensor(Attr::KeysTensor),
        call.attributes.tensor(Attr::ValuesTensor),
    ) else {
        bail!(call, Attribute, "keys_tensor or values_tensor is missing");
    };
    if keys.elements() != values.elements() {
        bail!(
            call,
            Attribute,
            "{:?} keys for {:?} values",
            keys.shape,
            values.shape
        );
    }
    if call.dtype(0).is_some_and(|dtype| dtype != keys.dtype) {
        bad_input!(call, 0, "not {} as the keys are", keys.dtype);
    }
    let default = call.attributes.tensor(Attr::DefaultTensor);
    if default.is_some_and(|default| default.dtype != values.dtype || default.elements() != Some(1)) {
        bail!(call, Attribute, "default_tensor is not one {}", values.dtype);
    }
    let same = call.dims(0).map(<[_]>::to_vec);
    Ok(vec![Out::new(same).typed(Some(values.dtype))])
}

/// A row of features gives a row of targets; one row may come without its batch.
fn trees(call: &Call<'_>) -> Result<Vec<Out>> {
    let targets = call.size_from(call.attributes.int(Attr::NTargets).unwrap_or(1), 1, "n_targets")?;
    Ok(vec![match call.dims(0) {
        None => Out::unranked(),
        Some([_]) => Out::dims(vec![Dim::Known(1), Dim::Known(targets)]),
        Some([batch, _]) => Out::dims(vec![batch.clone(), Dim::Known(targets)]),
        Some(_) => bad_input!(call, 0, "not of rank 1 or 2"),
    }])
}
