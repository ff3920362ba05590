//! A case as files: the ONNX model and each input's elements, for us and for a peer.
//!
//! Invariant: input `k` of the model is named `ik` and its elements are in `NAME.ik.bin`.
#![allow(unsafe_code)]

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use polychip_cpu::StepWork;
use polychip_graph::{Graph, infer, verify};
use polychip_host::FlatGraph;
use polychip_ops::Literal;
use polychip_sdk::{GraphView, onnx};
use serde::Serialize;

/// What a peer needs to know of an input.
#[derive(Serialize)]
struct InputFile {
    name: String,
    dtype: &'static str,
    shape: Vec<usize>,
    file: String,
}

/// A model on disk.
pub(crate) struct Files {
    pub(crate) model: PathBuf,
    /// What the CPU computes it with.
    pub(crate) steps: Vec<StepWork>,
}

/// What the CPU computes a graph with, and its ONNX model.
fn read(graph: &Graph) -> Result<(Vec<StepWork>, Vec<u8>)> {
    let mut graph = graph.clone();
    infer(&mut graph)?;
    verify(&graph)?;
    let flat = FlatGraph::new(&graph, &[])?;
    // SAFETY: the flat graph outlives the view, and nobody writes to it.
    let view = unsafe { GraphView::new(flat.raw()) }.map_err(|error| anyhow!("{error}"))?;
    let bytes = onnx::write(&view, &onnx::Options::default()).map_err(|error| anyhow!("{error}"))?;
    let steps = polychip_cpu::work(&view).map_err(|error| anyhow!("{error}"))?;
    Ok((steps, bytes))
}

/// Writes a case.
///
/// # Errors
/// The graph is not one, or cannot be said in ONNX, or the folder cannot be written.
pub(crate) fn write(folder: &Path, name: &str, graph: &Graph, inputs: &[Literal]) -> Result<Files> {
    let (steps, bytes) = read(graph)?;
    let stem = name.replace(['/', ' '], "_");
    let model = folder.join(format!("{stem}.onnx"));
    std::fs::write(&model, bytes).with_context(|| model.display().to_string())?;
    let mut files = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        let file = format!("{stem}.i{index}.bin");
        std::fs::write(folder.join(&file), &input.bytes)?;
        files.push(InputFile {
            name: format!("i{index}"),
            dtype: input.dtype.name(),
            shape: input.shape.clone(),
            file,
        });
    }
    std::fs::write(
        folder.join(format!("{stem}.json")),
        serde_json::to_vec_pretty(&files)?,
    )?;
    Ok(Files { model, steps })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::cases::{self, Size};

    fn price(graph: &Graph) -> u64 {
        let (steps, _) = read(graph).unwrap();
        steps.iter().map(|step| step.reference_ns).sum()
    }

    #[test]
    fn larger_models_are_expected_to_take_longer() {
        let cases = cases::all(&[Size::Small, Size::Usual, Size::Large], &[]).unwrap();
        let mut prices: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for case in &cases {
            let name = case.name.trim_end_matches(" small").trim_end_matches(" large");
            let (graph, _) = case.made.as_ref().unwrap();
            prices.entry(name.to_owned()).or_default().push(price(graph));
        }
        for (name, prices) in prices {
            // some are folded at load: nothing is left to be priced
            let folded = prices.iter().all(|&price| price == 0);
            assert!(
                prices.is_sorted() && (prices[0] > 0) != folded,
                "{name}: {prices:?} ns"
            );
        }
    }

    #[test]
    fn every_case_of_the_conformance_suite_has_a_price() {
        for spec in polychip_conformance::ops::specs() {
            let (graph, _) = spec.graph().unwrap();
            // shapes that no buffer could be bound with, such as of what a node counts, are no model of one op
            let Ok((steps, _)) = read(&graph) else { continue };
            for step in &steps {
                assert!(step.reference_ns > 0, "{}: {step:?}", spec.name);
            }
        }
    }
}
