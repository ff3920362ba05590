//! Running a model once on given inputs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use polychip::{Model, Policy, Runtime, Session};
use polychip_ops::{Dim, Literal};

/// Longest a run of any test model may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs a model on inputs by name and gives the outputs by name, in the model's order. Open dimensions
/// take the sizes that the inputs have.
///
/// # Errors
/// Whatever goes wrong on the way; nothing is compared here.
pub fn run(
    runtime: &Runtime,
    policy: &Policy,
    path: &Path,
    inputs: &BTreeMap<String, Literal>,
) -> Result<Vec<(String, Literal)>> {
    let model = bound(runtime, path, inputs)?;
    run_session(&runtime.session(&model, policy.clone())?, inputs)
}

/// Runs a session on inputs by name and gives the outputs by name, in the model's order.
///
/// # Errors
/// An input is missing or of another type, or the run fails.
pub fn run_session(session: &Session, inputs: &BTreeMap<String, Literal>) -> Result<Vec<(String, Literal)>> {
    let mut tensors = Vec::new();
    for spec in session.inputs() {
        let given = inputs
            .get(&spec.name)
            .with_context(|| format!("no value for input {:?}", spec.name))?;
        if given.dtype != spec.dtype || given.shape != spec.shape {
            bail!(
                "input {:?} wants {:?} {:?}, the data have {:?} {:?}",
                spec.name,
                spec.dtype,
                spec.shape,
                given.dtype,
                given.shape
            );
        }
        let mut tensor = session.input(&spec.name)?;
        tensor.write_bytes(&given.bytes)?;
        tensors.push(tensor);
    }
    let references: Vec<_> = tensors.iter().collect();
    let outputs = session.submit(&references)?.wait(PATIENCE)?;
    (0..outputs.len())
        .map(|index| {
            let view = outputs.at(index)?;
            let literal = Literal::new(view.dtype(), view.shape().to_vec(), view.bytes().to_vec())
                .with_context(|| {
                    format!("output {:?} has a size that does not fit its shape", view.name())
                })?;
            Ok((view.name().to_owned(), literal))
        })
        .collect()
}

/// A model whose open dimensions take the sizes that the inputs have.
///
/// # Errors
/// The model cannot be read or does not take these sizes.
pub fn bound(runtime: &Runtime, path: &Path, inputs: &BTreeMap<String, Literal>) -> Result<Model> {
    let model = runtime.load(path)?;
    let graph = model.graph();
    let mut dims: BTreeMap<String, usize> = BTreeMap::new();
    for &id in &graph.inputs {
        let tensor = graph.tensor(id);
        let Some(given) = inputs.get(&tensor.name) else {
            continue;
        };
        for (dim, size) in tensor.ty.shape.iter().flatten().zip(&given.shape) {
            if let Dim::Symbol(name) = dim {
                dims.insert(name.to_string(), *size);
            }
        }
    }
    Ok(model.bind(dims)?)
}
