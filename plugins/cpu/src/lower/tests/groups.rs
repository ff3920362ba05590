//! What nodes of real models are fused with, against `groups.txt`: review its changes like code.
//!
//! `POLYCHIP_BLESS=1` writes the file anew, of the models that are on disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use polychip_graph::{Evaluate, onnx, passes};
use polychip_host::FlatGraph;
use polychip_ops::Literal;
use polychip_sdk::GraphView;
use polychip_test_requirements::{Need, absent};

use super::super::epilogue::{FusedEpilogue, IDENTITY};
use super::super::fuse;
use super::*;
use crate::part;

const GOLDEN: &str = "src/lower/tests/groups.txt";

/// Folds constants as a host's CPU does.
pub(super) struct Reference;

impl Evaluate for Reference {
    fn evaluate(&self, node: &polychip_graph::Node, inputs: &[Option<Literal>]) -> Option<Vec<Literal>> {
        let tensors = inputs.iter().map(|input| {
            input
                .as_ref()
                .map(polychip_reference::tensor_from_literal)
                .transpose()
        });
        let tensors: Vec<_> = tensors.collect::<Result<_, _>>().ok()?;
        let inputs: Vec<_> = tensors.iter().map(Option::as_ref).collect();
        let outputs = node.outputs.len();
        let outputs = polychip_reference::evaluate(node.op, &node.attributes, &inputs, outputs).ok()?;
        let literals = outputs.iter().map(polychip_reference::tensor_to_literal);
        literals.collect::<Result<_, _>>().ok()
    }
}

/// What is fused with a node, in words; nothing where it is alone.
fn told(node: &Node, fused: &FusedEpilogue, views: usize) -> Option<String> {
    let mut words = vec![node.op.name().to_owned()];
    let mut add = |is: bool, word: &str| words.extend(is.then(|| word.to_owned()));
    add(fused.sum.is_some(), "sum before");
    add(views > 0, &format!("{views} transposed operands"));
    add(
        node.op == Op::Attention && fused.output.is_some(),
        "transposed result",
    );
    add(fused.alpha != 1.0, "factor");
    add(fused.bias.is_some(), "bias");
    add(fused.residual.is_some() && !fused.after, "residual");
    if fused.activation != IDENTITY {
        let name = format!("{:?}", fused.activation);
        let end = name.find(|c: char| !c.is_alphanumeric()).unwrap_or(name.len());
        add(true, &name[..end]);
    }
    add(fused.residual.is_some() && fused.after, "residual behind");
    (words.len() > 1).then(|| words.join(" + "))
}

/// How many groups of each sort a model has, a line each.
fn groups(model: &Path) -> String {
    let bytes = std::fs::read(model).unwrap();
    let options = onnx::Options::default();
    let mut graph = onnx::import(bytes.into(), &onnx::NoExternalData, &options).unwrap();
    passes::canonicalise(&mut graph, &Reference, &passes::Options::default()).unwrap();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    // SAFETY: the flat graph lives during the call, and nobody writes to it.
    let view = unsafe { GraphView::new(flat.raw()) }.unwrap();
    let (part, programs) = part::read(&view).unwrap();
    let options = Options {
        programs: &programs,
        choices: crate::tune::Choices::Rule,
        isa: Isa::detect(),
        pool: &ThreadPool::new(1),
        layouts: &vec![Layout::RowMajor; part.inputs.len() + part.outputs.len()],
        reduced: false,
    };
    let (lowering, groups) = fuse::begin(&part, &options);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for index in 0..part.nodes.len() {
        let sort = match groups.at(index) {
            None => "fused with others".to_owned(),
            Some((anchor, fused)) => {
                let node = &part.nodes[anchor];
                let views = node.reads().filter(|&t| lowering.transposed[t].is_some());
                told(node, fused, views.count()).unwrap_or_else(|| "alone".to_owned())
            }
        };
        *counts.entry(sort).or_default() += 1;
    }
    counts
        .iter()
        .map(|(sort, count)| format!("{count:5} {sort}\n"))
        .collect()
}

/// Models larger than this only take longer.
const MOST_BYTES: u64 = 64 << 20;

/// The models that are on disk, by name.
fn models() -> BTreeMap<String, PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = [
        "examples/shapes",
        "device-tests/generated/models",
        "device-tests/generated/models/quantised",
    ];
    let files = folders
        .iter()
        .filter_map(|folder| std::fs::read_dir(root.join(folder)).ok());
    let paths = files.flatten().map(|file| file.unwrap().path());
    let is_model = |path: &PathBuf| {
        let small = path.metadata().is_ok_and(|file| file.len() < MOST_BYTES);
        small && path.extension().is_some_and(|end| end == "onnx")
    };
    let models = paths.filter(is_model);
    models
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), path))
        .collect()
}

#[test]
fn models_are_fused_as_before() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN);
    let text = std::fs::read_to_string(&golden).unwrap_or_default();
    let sections = text
        .split("# ")
        .skip(1)
        .filter_map(|section| section.split_once('\n'));
    let want: BTreeMap<&str, &str> = sections.map(|(name, lines)| (name, lines.trim_end())).collect();
    let models = models();
    let missing: Vec<&str> = want
        .keys()
        .copied()
        .filter(|name| !models.contains_key(*name))
        .collect();
    if !missing.is_empty() {
        absent(Need::Models, &format!("not on disk: {}", missing.join(", ")));
    }
    let have: BTreeMap<&str, String> = models
        .iter()
        .map(|(name, path)| (name.as_str(), groups(path)))
        .collect();
    if std::env::var_os("POLYCHIP_BLESS").is_some() {
        let sections = have.iter().map(|(name, lines)| format!("# {name}\n{lines}"));
        std::fs::write(&golden, sections.collect::<Vec<_>>().join("\n")).unwrap();
        return;
    }
    for (name, lines) in &have {
        let want = want.get(name).copied().unwrap_or_default();
        assert_eq!(
            lines.trim_end(),
            want,
            "{name}: POLYCHIP_BLESS=1 writes {GOLDEN} anew"
        );
    }
}
