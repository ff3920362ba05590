//! Context binaries that LiteRT's plugin wrote, run by our plugin.
//!
//! Our plugin loads blobs of its own, which hold a context binary, and what its ports are. Here a blob is made around
//! LiteRT's binary: from there on all is our plugin's way, from the hash over the System library's description to the run.
//!
//! Invariant: the ports are those that the binary lists for its graph; LiteRT gives and takes them in that order.

use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};
use polychip::{Device, Runtime};
use polychip_device_tests::compare::{Tolerance, compare, cosine};
use polychip_device_tests::{npy, part};
use polychip_emulator_qnn_format::{Binary, Graph as Described, Tensor as Port};
use polychip_graph::{Graph, Node, Tensor};
use polychip_host::{CompileOptions, FlatGraph};
use polychip_ops::{DType, Literal, Op, TensorType};
use polychip_sdk::BlobWriter;
use serde::Deserialize;

use polychip_litert_tests::client::Client;
use polychip_litert_tests::ours;

use crate::VENDOR;

/// Least cosine of an output of a trained model: its floats are computed in 16 bits. The farthest is a mask of
/// pose_landmark_full, at 0.9981.
const COSINE: f64 = 0.998;
/// Of an op's outputs of floats, relative to the largest: 16 bits have 11 of precision.
const TOLERANCE: f64 = 4e-3;
/// Of an op's outputs of eight bits: each library rounds once.
const STEPS: i64 = 1;
/// Where the length of a blob's build id stands, and the id.
const ID_BYTES: usize = 24;
const ID: usize = 64;

/// Models whose pieces are not run, by the end of their names, and why.
const LEFT_OUT: [(&str, &str); 6] = [
    (
        "nmp",
        "LiteRT puts its 23 pieces into one binary; our plugin loads binaries of one graph",
    ),
    (
        "face_detection_full_range_sparse",
        "LiteRT's kernels keep no values of sparse weights",
    ),
    (
        "pose_detection",
        "LiteRT's kernels keep no values of sparse weights",
    ),
    (
        "face_landmark_with_attention",
        "LiteRT's kernels lack MediaPipe's custom ops",
    ),
    (
        "selfie_segmentation",
        "LiteRT's kernels lack MediaPipe's custom ops",
    ),
    (
        "selfie_segmentation_landscape",
        "LiteRT's kernels lack MediaPipe's custom ops",
    ),
];

/// Why the pieces of a model are not run.
pub(crate) fn left_out(name: &str) -> Option<&'static str> {
    let stem = name.rsplit('/').next().unwrap_or(name);
    LEFT_OUT
        .iter()
        .find(|(model, _)| *model == stem)
        .map(|(_, why)| *why)
}

/// What `answers.py` writes.
#[derive(Deserialize)]
struct Index {
    ops: usize,
    left: usize,
    pieces: Vec<Piece>,
}

#[derive(Deserialize)]
struct Piece {
    name: String,
    inputs: Vec<Value>,
    outputs: Vec<Value>,
}

#[derive(Deserialize)]
struct Value {
    name: String,
    file: String,
}

/// A model of one op: all of it, within a step.
pub(crate) fn one_op(client: &Client, case: &str) -> Result<()> {
    let model = client.ops().join(format!("{case}.tflite"));
    let index = each(client, case, &model, |found, wanted| {
        if wanted.dtype.is_float() {
            return compare(found, wanted, Tolerance::OfLargest(TOLERANCE));
        }
        let steps = |value: &Literal| value.as_i64s().unwrap_or_default();
        let pairs = steps(found).into_iter().zip(steps(wanted));
        match pairs.map(|(found, wanted)| (found - wanted).abs()).max() {
            Some(0..=STEPS) if found.shape == wanted.shape => Ok(()),
            apart => Err(format!("{apart:?} steps apart")),
        }
    })?;
    ensure!(
        index.left == 0 && index.pieces.len() == 1,
        "{} of {} ops are left beside {} pieces",
        index.left,
        index.ops,
        index.pieces.len()
    );
    Ok(())
}

/// A trained model: each of its pieces, on the values that LiteRT has there.
pub(crate) fn trained(client: &Client, name: &str, model: &Path) -> Result<()> {
    each(client, name, model, |found, wanted| {
        let cosine = cosine(found, wanted);
        let zero = |value: &Literal| {
            value
                .as_f64s()
                .is_some_and(|all| all.iter().all(|&one| one == 0.0))
        };
        if cosine >= COSINE || (zero(found) && zero(wanted)) {
            Ok(())
        } else {
            Err(format!("a cosine of {cosine:.5}; at least {COSINE} is wanted"))
        }
    })
    .map(drop)
}

/// Runs each piece of a compiled model and holds its outputs against LiteRT's.
fn each(
    client: &Client,
    name: &str,
    model: &Path,
    judge: impl Fn(&Literal, &Literal) -> Result<(), String>,
) -> Result<Index> {
    let compiled = client.compile(name, model, VENDOR.soc)?;
    let folder = client.answers(name, model, &compiled)?;
    let index: Index = serde_json::from_slice(&std::fs::read(folder.join("index.json"))?)?;
    ensure!(!index.pieces.is_empty(), "LiteRT's plugin took nothing");
    let runtime = runtime(client)?;
    let npu = ours::device(&VENDOR, runtime)?;
    for (number, piece) in index.pieces.iter().enumerate() {
        let binary = std::fs::read(folder.join(format!("{number}.bin")))?;
        let read = |values: &[Value]| -> Result<Vec<Literal>> {
            values
                .iter()
                .map(|value| npy::read(&folder.join(&value.file)))
                .collect()
        };
        let (inputs, wanted) = (read(&piece.inputs)?, read(&piece.outputs)?);
        let found = run(npu, &binary, &inputs, &wanted).with_context(|| piece.name.clone())?;
        for ((value, found), wanted) in piece.outputs.iter().zip(&found).zip(&wanted) {
            judge(found, wanted)
                .map_err(|words| anyhow::anyhow!("{}, output {:?}: {words}", piece.name, value.name))?;
        }
    }
    Ok(index)
}

/// One runtime for all: the library answers for one chip per process.
fn runtime(client: &Client) -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    RUNTIME
        .get_or_init(|| crate::runtime(client.libraries()).map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|words| anyhow::anyhow!(words.clone()))
}

/// Loads a binary through our plugin and runs it once.
fn run(npu: &Device, binary: &[u8], inputs: &[Literal], outputs: &[Literal]) -> Result<Vec<Literal>> {
    let described = Binary::read(binary).map_err(|error| anyhow::anyhow!("the context binary: {error:?}"))?;
    let [graph] = &described.graphs[..] else {
        bail!("the binary has {} graphs", described.graphs.len());
    };
    let stand_in = stand_in(inputs, outputs);
    let flat = FlatGraph::new(&stand_in, &[])?;
    let blob = BlobWriter::new(build_id(npu)?)
        .section(3, &[0; 32])
        .section(1, &ports(graph, inputs, outputs)?)
        .section(2, binary)
        .finish()
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    let executable = npu.load_bytes(blob.to_vec().into(), &flat, 1)?;
    part::run_loaded(npu, &executable, inputs)
}

/// A graph with these ports: the host holds a loaded part's against its graph's. Nothing compiles it.
fn stand_in(inputs: &[Literal], outputs: &[Literal]) -> Graph {
    let mut graph = Graph::new("a piece");
    let mut add = |name: String, literal: &Literal| {
        graph.add_tensor(Tensor::new(
            name,
            TensorType::known(literal.dtype, &literal.shape),
        ))
    };
    let ins: Vec<_> = inputs
        .iter()
        .enumerate()
        .map(|(at, value)| add(format!("in{at}"), value))
        .collect();
    let outs: Vec<_> = outputs
        .iter()
        .enumerate()
        .map(|(at, value)| add(format!("out{at}"), value))
        .collect();
    graph.inputs.clone_from(&ins);
    graph.outputs.clone_from(&outs);
    let some = |ids: Vec<_>| ids.into_iter().map(Some).collect();
    graph.add_node(Node::new(Op::Concat, some(ins), some(outs)));
    graph
}

/// The ports of a graph in the words of our blobs (`plugins/qnn/src/blob.rs`).
fn ports(graph: &Described, inputs: &[Literal], outputs: &[Literal]) -> Result<Vec<u8>> {
    let mut words = vec![inputs.len() as u32, outputs.len() as u32];
    let theirs: Vec<&Port> = graph.inputs().chain(graph.outputs()).collect();
    let ours: Vec<&Literal> = inputs.iter().chain(outputs).collect();
    ensure!(
        theirs.len() == ours.len() && graph.inputs().count() == inputs.len(),
        "the graph has {} ports, the piece {}",
        theirs.len(),
        ours.len()
    );
    for (port, value) in theirs.into_iter().zip(ours) {
        let bytes = port.byte_len().context("a port of unknown size")?;
        ensure!(
            bytes == value.bytes.len(),
            "port {:?} has {bytes} bytes, LiteRT's value {} {:?}",
            port.name,
            value.dtype.name(),
            value.shape
        );
        // no state behind the type, no encoding behind the shape
        words.extend([value.dtype.code(), port.dtype, u32::MAX, value.shape.len() as u32]);
        words.extend(value.shape.iter().map(|&size| size as u32));
        words.extend([0, port.name.len() as u32]);
        words.extend(port.name.bytes().map(u32::from));
    }
    Ok(words.iter().flat_map(|word| word.to_le_bytes()).collect())
}

/// The build id of our plugin's blobs for a device, read from one.
fn build_id(npu: &Device) -> Result<&'static str> {
    static BUILD: OnceLock<Result<String, String>> = OnceLock::new();
    let read = || -> Result<String> {
        let mut graph = Graph::new("relu");
        let ty = || TensorType::known(DType::F32, &[4]);
        let (x, y) = (
            graph.add_tensor(Tensor::new("x", ty())),
            graph.add_tensor(Tensor::new("y", ty())),
        );
        graph.inputs.push(x);
        graph.outputs.push(y);
        graph.add_node(Node::new(Op::Relu, vec![Some(x)], vec![Some(y)]));
        let options = CompileOptions {
            reduced_precision: true,
            ..CompileOptions::default()
        };
        let mut blob = npu.compile(&FlatGraph::new(&graph, &[])?, &options)?;
        let bytes = blob.bytes()?;
        let length = bytes[ID_BYTES..]
            .first_chunk()
            .context("a blob without a header")?;
        let length = usize::try_from(u64::from_le_bytes(*length))?;
        let id = bytes.get(ID..ID + length).context("a blob without a build id")?;
        Ok(std::str::from_utf8(id)?.to_owned())
    };
    BUILD
        .get_or_init(|| read().map_err(|error| format!("{error:#}")))
        .as_deref()
        .map_err(|words| anyhow::anyhow!(words.clone()))
}
