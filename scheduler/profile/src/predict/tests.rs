//! Tests of regression models and compositions, on profiles whose times are sums that are known.

use polychip_graph::{Constant, Graph, Node, NodeId, Tensor};
use polychip_ops::{DType, Op, TensorType};

use super::fit::Known;
use super::segment::segments;
use super::*;
use crate::extract::run_graph;
use crate::record::{BatchRecord, ContentRecord, PartRecord};
use crate::work;
use crate::{Profile, hex};

/// A chain of products with activations behind some; `seed` chooses the widths, and the rows, so that multiply-adds are
/// no multiple of constants.
fn chain(length: usize, seed: usize) -> Graph {
    let mut graph = Graph::new("chain");
    let tensor = |graph: &mut Graph, name: &str, shape: &[usize]| {
        graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, shape)))
    };
    let rows = 8 << (seed % 4);
    let width = |at: usize| 16 + 8 * ((at * 7 + seed * 3) % 11);
    let mut x = tensor(&mut graph, "x", &[rows, width(0)]);
    graph.inputs = vec![x];
    for at in 0..length {
        let values = vec![0u8; 4 * width(at) * width(at + 1)];
        let ty = TensorType::known(DType::F32, &[width(at), width(at + 1)]);
        let weights = graph.add_tensor(Tensor::constant("w", ty, Constant::new(values)));
        let y = tensor(&mut graph, "y", &[rows, width(at + 1)]);
        graph.add_node(Node::new(Op::MatMul, vec![Some(x), Some(weights)], vec![Some(y)]));
        x = y;
        if at % 3 == seed % 3 {
            let z = tensor(&mut graph, "z", &[rows, width(at + 1)]);
            graph.add_node(Node::new(Op::Softmax, vec![Some(x)], vec![Some(z)]));
            x = z;
        }
    }
    graph.outputs = vec![x];
    graph
}

/// Nanoseconds of a byte that crosses the border of a part.
const BORDER: u64 = 3;

/// Nanoseconds of a part by a linear model: borders, and what its nodes do.
fn time(part: &Graph, border: u64) -> u64 {
    let nodes = part.nodes().map(|(_, node)| {
        let work = work::of_node(part, node);
        match node.op {
            Op::MatMul => 500 + work.macs / 10,
            _ => 300 + work.bytes / 4,
        }
    });
    border * work::border_of(part) + nodes.sum::<u64>()
}

fn record(file: &mut ProfileFile, part: &Graph, content: &Content, point: &str, ns: u64) {
    let structure = polychip_graph::fingerprint::structure(part);
    let fingerprint = hex(&structure);
    file.contents.push(ContentRecord {
        fingerprint: fingerprint.clone(),
        content: content.to_json(),
    });
    file.parts.push(PartRecord {
        device: "device".into(),
        fingerprint,
        operating_point: point.into(),
        emulated: true,
        batches: vec![BatchRecord {
            recorded_us: 1,
            build: "test".into(),
            conditions: String::new(),
            source: String::new(),
            digest: hex(blake3::hash(&ns.to_le_bytes()).as_bytes()),
            times_ns: vec![ns; 7],
            energies_uj: Vec::new(),
            sensor: String::new(),
            energy_interval_uj: None,
        }],
    });
}

/// A profile of some chains, of what they consist of and of how they run.
fn profile(seeds: std::ops::Range<usize>, border: u64) -> ProfileFile {
    let mut file = Profile::in_memory().export().unwrap();
    for seed in seeds {
        let graph = chain(14 + seed, seed);
        let content = Content::of_whole(&format!("chain {seed}"), &graph);
        record(&mut file, &graph, &content, "", time(&graph, border));
        record(
            &mut file,
            &graph,
            &content,
            &end_to_end(""),
            time(&graph, border) + 1_000,
        );
        for (nodes, shared) in segments(&graph) {
            for nodes in [Some(nodes), shared].into_iter().flatten() {
                let part = run_graph(&graph, &nodes);
                record(&mut file, &part, &Content::of(&part), "", time(&part, border));
            }
        }
    }
    file
}

#[test]
fn segments_cover_every_group() {
    let graph = chain(40, 1);
    let all = segments(&graph);
    assert!(all.len() > 2);
    let mut held: BTreeMap<u32, usize> = BTreeMap::new();
    for (at, (nodes, shared)) in all.iter().enumerate() {
        assert!(nodes.is_sorted());
        for node in nodes {
            *held.entry(*node).or_default() += 1;
        }
        assert_eq!(shared.is_some(), at + 1 < all.len());
        let is_product = |node: &u32| graph.node(NodeId::new(*node as usize)).op == Op::MatMul;
        let has_layout = |shared: &Vec<u32>| shared.len() > 1 && shared.iter().any(is_product);
        assert!(shared.as_ref().is_none_or(has_layout), "{shared:?}");
        for node in shared.iter().flatten() {
            assert!(nodes.contains(node) && all[at + 1].0.contains(node));
            *held.get_mut(node).unwrap() -= 1;
        }
    }
    // the shared ones are counted again by the segment behind
    assert_eq!(held.len(), graph.node_count());
    assert!(held.values().all(|count| *count == 1), "{held:?}");
}

#[test]
fn composition_includes_borders_and_launch() {
    for seed in 0..6 {
        let graph = chain(30, seed);
        let composition = Composition::of(&graph);
        assert_eq!(composition.border, 0, "of a chain, only what is shared crosses");
        let mut sum = 0i64;
        for (nodes, shared) in segments(&graph) {
            sum += time(&run_graph(&graph, &nodes), BORDER) as i64;
            sum -= shared.map_or(0, |nodes| time(&run_graph(&graph, &nodes), BORDER) as i64);
        }
        assert_eq!(sum as u64, time(&graph, BORDER));
    }
}

#[test]
fn fitted_models_predict_left_out_rows() {
    let profile_of = profile(0..8, 0);
    let regression = Regression::new(&profile_of);
    let fit = &regression.fits[&("device".to_owned(), String::new())];
    let [group, mac, byte, constant] = fit.classes["MatMul"];
    assert!(
        (group - 500.0).abs() < 5.0 && (mac - 0.1).abs() < 0.001,
        "{group} {mac} {byte} {constant}"
    );
    assert!((fit.run(5e4, 1) - 51_000.0).abs() < 1.0, "{}", fit.run(5e4, 1));
    let profile = Profile::in_memory();
    profile.import(&profile_of, "test").unwrap();
    let predictions = profile.predictions().unwrap();
    let [device] = &predictions[..] else {
        panic!("{predictions:?}")
    };
    assert!(device.emulated);
    assert_eq!(device.models.len(), 8);
    assert!(device.composed.p95_ppm <= 1_000, "{:?}", device.composed);
    assert!(device.fitted.p95_ppm <= 10_000, "{:?}", device.fitted);
    // the same profile, the same figures
    assert_eq!(profile.predictions().unwrap(), predictions);
}

#[test]
fn compositions_subtract_borders() {
    let profile_of = profile(0..8, BORDER);
    let profile = Profile::in_memory();
    profile.import(&profile_of, "test").unwrap();
    let device = profile.predictions().unwrap().remove(0);
    // regression models know nothing of borders, of which segments and models have different shares
    assert!(device.composed.p95_ppm <= 1_000, "{:?}", device.composed);
    assert!(device.fitted.p95_ppm > device.composed.p95_ppm);
}

#[test]
fn left_out_rows_are_not_used() {
    let mut file = profile(0..8, BORDER);
    let before = predictions(&file);
    // the whole of one model takes a hundred times as long: what is predicted of it stays
    let graph = chain(14 + 3, 3);
    let name = hex(&polychip_graph::fingerprint::structure(&graph));
    for part in file.parts.iter_mut().filter(|part| part.fingerprint == name) {
        for time in part.batches.iter_mut().flat_map(|batch| &mut batch.times_ns) {
            *time *= 100;
        }
    }
    let after = predictions(&file);
    let of = |all: &[ModelPrediction]| {
        let one = all.iter().find(|model| model.model == "chain 3").unwrap();
        (one.composed_ns, one.fitted_ns)
    };
    assert_eq!(of(&before), of(&after));
}

fn predictions(file: &ProfileFile) -> Vec<ModelPrediction> {
    let profile = Profile::in_memory();
    profile.import(file, "test").unwrap();
    profile.predictions().unwrap().remove(0).models
}

#[test]
fn too_few_rows_fit_no_model() {
    assert!(Regression::new(&profile(0..0, 0)).fits.is_empty());
    let table = Table::new(&profile(0..1, 0));
    let known: &Known = table.devices.values().next().unwrap();
    let without = Without {
        wholes: known.runs.keys().map(String::as_str).collect(),
        ..Without::default()
    };
    assert_eq!(Fit::new(&table, known, &without), None);
}

#[test]
fn constant_operand_belongs_to_its_reader() {
    let mut graph = chain(4, 0);
    let ty = TensorType::known(DType::I64, &[2]);
    let sizes = graph.add_tensor(Tensor::constant("sizes", ty, Constant::new(vec![0u8; 16])));
    let weights = TensorType::known(DType::F32, &[16, 16]);
    let weights = graph.add_tensor(Tensor::new("filled", weights));
    let x = graph.inputs[0];
    let y = graph.add_tensor(Tensor::new("y", TensorType::known(DType::F32, &[8, 16])));
    let filled = Node::new(Op::ConstantOfShape, vec![Some(sizes)], vec![Some(weights)]);
    let filled = graph.add_node(filled).index() as u32;
    let product = Node::new(Op::MatMul, vec![Some(x), Some(weights)], vec![Some(y)]);
    let product = graph.add_node(product).index() as u32;
    graph.outputs.push(y);
    let groups = fusion_groups(&graph);
    assert!(groups.contains(&vec![filled, product]), "{groups:?}");
    let group = FusionGroup::of(&graph, &[filled, product]);
    assert_eq!(group.op_class, "MatMul of two variables");
    assert_eq!(
        group.macs,
        8 * 16 * 16 + 16 * 16,
        "products, and elements that are filled"
    );
    // a constant with two readers joins neither group
    let z = graph.add_tensor(Tensor::new("z", TensorType::known(DType::F32, &[16, 16])));
    graph.add_node(Node::new(Op::Relu, vec![Some(weights)], vec![Some(z)]));
    graph.outputs.push(z);
    assert!(fusion_groups(&graph).contains(&vec![filled]));
}

#[test]
fn groups_partition_nodes_with_op_class() {
    let graph = chain(9, 2);
    let mut nodes: Vec<u32> = fusion_groups(&graph).concat();
    nodes.sort_unstable();
    assert_eq!(nodes, (0..graph.node_count() as u32).collect::<Vec<_>>());
    let content = Content::of(&graph);
    assert_eq!(content.count(), graph.node_count() as u64);
    let product = content
        .groups
        .iter()
        .find(|group| group.op_class == "MatMul")
        .unwrap();
    assert!(product.words.starts_with("MatMul f32 32x"), "{}", product.words);
    let whole: Content = serde_json::from_str(&content.to_json()).unwrap();
    assert_eq!(whole, content);
}
