//! Runs a model once on given inputs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use polychip::{Model, Policy, Runtime, Session};
use polychip_ops::{Dim, Literal, Packed};

/// Longest a run of any test model may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// What goes into a model or comes out: a tensor, or a sequence, optional or tensor of strings.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// A tensor of numbers.
    Tensor(Literal),
    /// What is packed into bytes.
    Packed(Packed),
}

/// Runs a model on inputs by name and gives the outputs by name, whatever they are. Open dimensions take the sizes that
/// the tensors among the inputs have.
///
/// # Errors
/// Whatever goes wrong on the way; nothing is compared here.
pub fn run_on(
    runtime: &Runtime,
    policy: &Policy,
    path: &Path,
    inputs: &BTreeMap<String, Data>,
) -> Result<Vec<(String, Data)>> {
    let tensors = inputs.iter().filter_map(|(name, data)| match data {
        Data::Tensor(literal) => Some((name.clone(), literal.clone())),
        Data::Packed(_) => None,
    });
    let model = bound(runtime, path, &tensors.collect())?;
    run_session_on(&runtime.session(&model, policy.clone())?, inputs)
}

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
    let inputs = inputs.iter();
    let inputs = inputs.map(|(name, literal)| (name.clone(), Data::Tensor(literal.clone())));
    let outputs = run_session_on(session, &inputs.collect())?;
    let tensor = |(name, data)| match data {
        Data::Tensor(literal) => Ok((name, literal)),
        Data::Packed(_) => bail!("output {name:?} is no tensor of numbers"),
    };
    outputs.into_iter().map(tensor).collect()
}

/// Runs a session on inputs by name and gives the outputs by name, whatever they are, in the model's order.
///
/// # Errors
/// An input is missing or of another type, or the run fails.
pub fn run_session_on(session: &Session, inputs: &BTreeMap<String, Data>) -> Result<Vec<(String, Data)>> {
    let mut tensors = Vec::new();
    for spec in session.inputs() {
        let given = inputs
            .get(&spec.name)
            .with_context(|| format!("no value for input {:?}", spec.name))?;
        let mut tensor = session.input(&spec.name)?;
        let given = match given {
            Data::Tensor(literal) => literal,
            Data::Packed(value) => {
                tensor.write_packed(value)?;
                tensors.push(tensor);
                continue;
            }
        };
        if spec.packed || given.dtype != spec.dtype || given.shape != spec.shape {
            bail!(
                "input {:?} wants {:?} {:?}, the data have {:?} {:?}",
                spec.name,
                spec.dtype,
                spec.shape,
                given.dtype,
                given.shape
            );
        }
        tensor.write_bytes(&given.bytes)?;
        tensors.push(tensor);
    }
    let references: Vec<_> = tensors.iter().collect();
    let outputs = session.submit(&references)?.wait(PATIENCE)?;
    let specs: Vec<_> = session.outputs().collect();
    (0..outputs.len())
        .map(|index| {
            let view = outputs.at(index)?;
            if specs[index].packed {
                let value = Packed::from_bytes(view.bytes())
                    .with_context(|| format!("output {:?} is not packed as it should be", view.name()))?;
                return Ok((view.name().to_owned(), Data::Packed(value)));
            }
            let literal = Literal::new(view.dtype(), view.shape().to_vec(), view.bytes().to_vec())
                .with_context(|| {
                    format!("output {:?} has a size that does not fit its shape", view.name())
                })?;
            Ok((view.name().to_owned(), Data::Tensor(literal)))
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
