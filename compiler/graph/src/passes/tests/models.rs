//! Whole models, before and after all passes.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use polychip_ops::Op;
use polychip_reference::{Tensor, tensor_from_literal};
use polychip_test_requirements::{Need, absent};

use super::{Options, canonical, execute};
use crate::{Graph, onnx};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn model(name: &str) -> Graph {
    let bytes = Bytes::from(std::fs::read(root().join("examples/shapes").join(name)).unwrap());
    onnx::import(bytes, &onnx::NoExternalData, &onnx::Options::default()).unwrap()
}

fn count(graph: &Graph, op: Op) -> usize {
    graph.nodes().filter(|(_, node)| node.op == op).count()
}

#[test]
fn the_shapes_model_computes_the_same() {
    let graph = model("shapes.onnx");
    let (after, _) = canonical(&graph, &Options::default());
    let inputs = execute::inputs(&graph, 1);
    let expected = execute::run(&graph, &inputs, false);
    execute::assert_near(&execute::run(&after, &inputs, true), &expected, 1e-5);
    assert_eq!(count(&after, Op::BatchNormalization), 0);
    // what is left alone is squeezing, scaling and the classifier
    let grouped: usize = after.groups.iter().map(|group| group.nodes.len()).sum();
    assert!(
        grouped + 12 > after.node_count(),
        "{} of {}",
        grouped,
        after.node_count()
    );
}

#[test]
fn the_integer_shapes_model_computes_the_same_bits() {
    let graph = model("shapes-int8.onnx");
    let (after, _) = canonical(&graph, &Options::default());
    let inputs = execute::inputs(&graph, 1);
    let expected = execute::run(&graph, &inputs, false);
    execute::assert_near(&execute::run(&after, &inputs, true), &expected, 0.0);
    let left = count(&after, Op::QuantizeLinear) + count(&after, Op::DequantizeLinear);
    assert!(left <= 4, "{left} quantise and dequantise nodes are left");
}

/// Paths below a folder that `cargo xtask models` makes, sorted; none where it was not run.
fn generated(folder: &str, keep: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| keep(path))
        .collect();
    paths.sort();
    if paths.is_empty() {
        absent(
            Need::Models,
            &format!("{folder} is not there (`cargo xtask models` makes it)"),
        );
    }
    paths
}

#[test]
fn generated_models_compute_the_same() {
    // the reference computes these in seconds
    let quick = |path: &Path| {
        let names = ["kws_dscnn.onnx", "light_squeezenet.onnx", "minilm_l6.onnx"];
        names.iter().any(|name| path.ends_with(name))
    };
    for path in generated("device-tests/generated/models", quick) {
        let bytes = Bytes::from(std::fs::read(&path).unwrap());
        let graph = onnx::import(bytes, &onnx::NoExternalData, &onnx::Options::default()).unwrap();
        let (after, _) = canonical(&graph, &Options::default());
        let inputs = execute::inputs(&graph, 1);
        let expected = execute::run(&graph, &inputs, false);
        execute::assert_near(&execute::run(&after, &inputs, true), &expected, 1e-5);
    }
}

#[test]
fn cases_of_the_onnx_suite_compute_the_same() {
    let (mut all, mut same) = (0, 0);
    for kind in ["node", "simple", "pytorch-converted", "pytorch-operator"] {
        for case in generated(&format!("device-tests/generated/onnx/{kind}"), Path::is_dir) {
            all += 1;
            same += usize::from(case_computes_the_same(&case).is_some());
        }
    }
    eprintln!("{same} of {all} cases compared");
    assert!(
        all == 0 || same * 2 > all,
        "only {same} of {all} cases could be compared"
    );
}

/// `None` where the case cannot be imported or computed even before the passes.
fn case_computes_the_same(case: &Path) -> Option<()> {
    let bytes = Bytes::from(std::fs::read(case.join("model.onnx")).ok()?);
    let graph = onnx::import(bytes, &onnx::NoExternalData, &onnx::Options::default()).ok()?;
    let (after, _) = canonical(&graph, &Options::default());
    let input = |index: usize| -> Option<Tensor> {
        let path = case.join(format!("test_data_set_0/input_{index}.pb"));
        let (_, literal) = onnx::read_tensor(&std::fs::read(path).ok()?).ok()?;
        tensor_from_literal(&literal).ok()
    };
    let inputs: Option<Vec<Tensor>> = (0..graph.inputs.len()).map(input).collect();
    let expected = execute::try_run(&graph, inputs.as_ref()?, false).ok()?;
    let random = |node: &crate::Node| !super::super::pattern::is_pure(node);
    if graph
        .nodes()
        .any(|(_, node)| random(node) && node.op != Op::Dropout)
    {
        return None;
    }
    for apart in [false, true] {
        let have = execute::try_run(&after, inputs.as_ref()?, apart).unwrap();
        let check = std::panic::AssertUnwindSafe(|| execute::assert_near(&have, &expected, 1e-5));
        std::panic::catch_unwind(check).unwrap_or_else(|_| panic!("{}", case.display()));
    }
    Some(())
}

proptest::proptest! {
    #[test]
    fn random_graphs_compute_the_same(graph in crate::arbitrary::plain_graphs(20)) {
        let (after, _) = canonical(&graph, &Options::default());
        let inputs = execute::inputs(&graph, 3);
        if let Ok(expected) = execute::try_run(&graph, &inputs, false) {
            for apart in [false, true] {
                execute::assert_near(&execute::run(&after, &inputs, apart), &expected, 1e-4);
            }
        }
    }
    #[test]
    fn random_graphs_with_bodies_and_encodings_stay_well_formed(graph in crate::arbitrary::graphs(20)) {
        canonical(&graph, &Options::default());
    }
}
