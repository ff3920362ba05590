//! How exactly a model's answers are determined: the least cosine that answers may have with those of the CPU alone.
//!
//! A model in floats: [`FLOATS`]. One whose input is quantised gives other answers at once where a rounding falls to
//! the other side, and chips may round otherwise in each of its layers. How far that moves the answers is measured on
//! the CPU alone: its inputs are moved by up to half a step, as a rounding moves them. A plan may move the answers no
//! further than that.

use anyhow::{Context, Result, ensure};
use polychip::{Model, Session};
use polychip_device_tests::compare::cosine;
use polychip_device_tests::model;
use polychip_graph::Graph;
use polychip_ops::{Literal, Op};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Values;

/// Least cosine of a model's output in floats.
pub(crate) const FLOATS: f64 = 0.999;
/// Moves of the inputs, of which the one that moves answers most counts.
const MOVES: u64 = 4;
/// Whatever moves it: answers that are further off are others.
const LEAST: f64 = 0.998;

/// The least cosine that this model's answers may have with `wanted`, which this session gives for `inputs`.
pub(crate) fn least_cosine(
    model: &Model,
    session: &Session,
    inputs: &Values,
    wanted: &[(String, Literal)],
) -> Result<f64> {
    let steps = steps(model.graph(), inputs)?;
    if steps.iter().all(Option::is_none) {
        return Ok(FLOATS);
    }
    let mut lacks: f64 = 0.0;
    for seed in 0..MOVES {
        let mut noise = ChaCha8Rng::seed_from_u64(seed);
        let moved = inputs.iter().zip(&steps).map(|((name, values), step)| {
            let half = step.unwrap_or_default() / 2.0;
            let elements = values
                .as_f64s()
                .with_context(|| format!("input {name:?} is no f32"))?;
            let moved = elements
                .iter()
                .map(|value| (value + half * noise.random_range(-1.0..1.0)) as f32);
            let moved = Literal::f32s(&moved.collect::<Vec<f32>>());
            let shape = values.shape.clone();
            Ok((name.clone(), Literal { shape, ..moved }))
        });
        let found = model::run_session(session, &moved.collect::<Result<Values>>()?)?;
        for ((_, wanted), (_, found)) in wanted.iter().zip(&found) {
            lacks = lacks.max(1.0 - cosine(found, wanted));
        }
    }
    let least = 1.0 - lacks;
    ensure!(
        least >= LEAST,
        "half a step of the input moves an answer to a cosine of {least}: no test of this model says anything"
    );
    Ok(least)
}

/// The step of each input that is quantised at once.
fn steps(graph: &Graph, inputs: &Values) -> Result<Vec<Option<f64>>> {
    let step = |name: &String| {
        let input = graph
            .input_named(name)
            .with_context(|| format!("no input {name:?}"))?;
        let mut consumers = graph.consumers(input).iter().map(|&id| graph.node(id));
        let Some(quantised) = consumers.find(|node| node.op == Op::QuantizeLinear) else {
            return Ok(None);
        };
        let scale = quantised.inputs.get(1).copied().flatten().context("no scale")?;
        let scale = graph.tensor(scale);
        let data = scale
            .data
            .as_ref()
            .with_context(|| format!("the scale of {name:?} is computed"))?;
        let scales = data.to_literal(&scale.ty).and_then(|scale| scale.as_f64s());
        let scales = scales.with_context(|| format!("the scale of {name:?} is no f32"))?;
        Ok(scales.iter().copied().reduce(f64::max))
    };
    inputs.keys().map(step).collect()
}
