//! Ensembles of decision trees over rows of f32.
//!
//! Not here: what the lanes do not cover, and rows of other types; those stay on the reference.

use polychip_cpu_kernels::forest::CompiledForest;
use polychip_lowering::{Layout, Storage};
use polychip_ops::{DType, Op};
use polychip_sdk::{Error, Result};

use super::builder::Lowering;
use crate::part::Node;
use crate::work::Class;

/// Lowers a node of this sort.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Op::TreeEnsemble | Op::TreeEnsembleRegressor, Some(x), Some(y)) =
        (node.op, node.input(0), node.output(0))
    else {
        return Ok(false);
    };
    let plain = |t: usize| l.dtype(t) == DType::F32 && l.part.tensors[t].encoding.is_none();
    if !plain(x) || !plain(y) {
        return Ok(false);
    }
    // trees that are none are an error of the model, which the reference says when it meets them
    let Ok(forest) = polychip_reference::forest(node.op, &node.attributes) else {
        return Ok(false);
    };
    let Some(compiled) = CompiledForest::new(&forest) else {
        return Ok(false);
    };
    let (rows, features) = match *l.shape(x)? {
        [features] => (1, features),
        [rows, features] => (rows, features),
        _ => return Ok(false),
    };
    if features < compiled.features() {
        return Err(Error::bad_argument(format!(
            "trees ask for {} features, rows have {features}",
            compiled.features()
        )));
    }
    let steps = compiled.steps(rows);
    let input = l.read(x, Layout::RowMajor, Storage::Real)?;
    let output = l.write(y, Layout::RowMajor, Storage::Real)?;
    l.step(
        "trees",
        &[input],
        &[output],
        None,
        Box::new(move |o| {
            compiled.run(o.pool, o.read::<f32>(0), features, o.write::<f32>(0));
            Ok(())
        }),
    )
    .does(Class::Select, steps);
    Ok(true)
}
