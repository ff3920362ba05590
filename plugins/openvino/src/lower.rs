//! Compiling and loading: the part as an ONNX model that the library reads and compiles.
//!
//! A blob is the model without its large constants, which the host provides when it loads the blob.
//! The library's own exported format takes as long to import as a compilation, duplicates every
//! weight, and loses the precision and the thread count that it was compiled for
//! (docs/decisions/2026-11-20-openvino-blobs.md).
//!
//! Invariants:
//! 1. A compiled model has the graph's inputs and outputs, with its types and extents; anything
//!    else is refused.
//! 2. A blob just compiled is not compiled again when it is loaded for the same number of threads
//!    with the same constants, to which the compiled model points.

use std::sync::{Mutex, PoisonError};

use polychip_sdk::onnx::{self, Options, Weights};
use polychip_sdk::{
    AlignedBytes, Blob, BlobReader, BlobWriter, CompileOptions, Error, GraphView, LoadSource, LoadedFrom,
    Precision, Result,
};

use crate::api::CompiledModel;
use crate::caps;
use crate::model::{self, LARGE, agrees, properties, weights};
use crate::shared::Shared;

const MODEL: u32 = 1;
const OPTIONS: u32 = 2;
const CONTENT: u32 = 3;

/// A compiled part.
pub struct OpenvinoBlob {
    bytes: AlignedBytes,
    precision: Precision,
    threads: u32,
    /// Taken by the first load.
    compiled: Mutex<Option<CompiledModel>>,
    /// Where the constants lay that `compiled` may point to.
    places: Vec<usize>,
}

impl Blob for OpenvinoBlob {
    fn bytes(&self) -> Result<&[u8]> {
        Ok(&self.bytes)
    }
}

/// Contents of a loaded blob.
pub(crate) struct Part {
    pub(crate) compiled: CompiledModel,
}

/// The text of a part: equal parts have equal texts in every process.
fn text(graph: &GraphView<'_>) -> Result<Vec<u8>> {
    let options = Options {
        weights: Weights::Placeholder(LARGE),
        decompose: &model::decompose,
        ..Options::default()
    };
    onnx::write(graph, &options)
}

/// Where the large constants of a part lie.
fn places(graph: &GraphView<'_>) -> Vec<usize> {
    graph
        .tensors()
        .filter_map(|tensor| tensor.constant())
        .filter(|constant| constant.bytes().len() >= LARGE)
        .map(|constant| constant.bytes().as_ptr() as usize)
        .collect()
}

fn build(
    shared: &Shared,
    graph: &GraphView<'_>,
    precision: Precision,
    threads: u32,
) -> Result<CompiledModel> {
    let options = Options {
        weights: weights(&shared.vendor),
        decompose: &model::decompose,
        ..Options::default()
    };
    let bytes = onnx::write(graph, &options)?;
    let core = &shared.vendor.core;
    let model = core.read(&bytes)?;
    drop(bytes);
    let compiled = core.compile(&model, &shared.name, &properties(shared, precision, threads))?;
    drop(model);
    let computes_in = compiled.property("INFERENCE_PRECISION_HINT");
    if let (Precision::Exact, Some(dtype)) = (precision, &computes_in)
        && dtype != "f32"
    {
        return Err(Error::unsupported(format!(
            "{} computes f32 in {dtype}, which the session does not allow: ask for reduced precision",
            shared.name
        )));
    }
    for (tensors, ports, what) in [
        (graph.inputs(), compiled.inputs()?, "input"),
        (graph.outputs(), compiled.outputs()?, "output"),
    ] {
        if tensors.len() != ports.len() {
            return Err(Error::unsupported(format!(
                "OpenVINO makes a model of {} {what}s of a part of {}",
                ports.len(),
                tensors.len()
            )));
        }
        for (&tensor, port) in tensors.iter().zip(&ports) {
            agrees(graph, tensor, port)?;
        }
    }
    Ok(compiled)
}

fn threads(shared: &Shared, asked: u32) -> u32 {
    if asked == 0 { shared.threads } else { asked }
}

/// Makes the blob of a part.
pub(crate) fn compile(
    shared: &Shared,
    graph: &GraphView<'_>,
    options: &CompileOptions,
) -> Result<OpenvinoBlob> {
    if let Some(point) = options.operating_point {
        return Err(Error::bad_argument(format!("operating point {point} of 0")));
    }
    for node in graph.nodes() {
        caps::promised(graph, &node)?;
    }
    let threads = threads(shared, options.threads);
    let compiled = build(shared, graph, options.precision, threads)?;
    let precision = [options.precision as u8];
    let bytes = BlobWriter::new(&shared.made_by)
        .section(MODEL, &text(graph)?)
        .section(OPTIONS, &precision)
        .section(CONTENT, &graph.content_fingerprint())
        .finish()?;
    Ok(OpenvinoBlob {
        bytes,
        precision: options.precision,
        threads,
        compiled: Mutex::new(Some(compiled)),
        places: places(graph),
    })
}

/// Makes a part ready to run, and gives the graph that it was compiled from.
pub(crate) fn load<'a>(
    shared: &Shared,
    source: LoadSource<'a, OpenvinoBlob>,
) -> Result<(Part, GraphView<'a>)> {
    let graph = source.graph.ok_or_else(|| {
        Error::bad_argument("a blob of OpenVINO is loaded beside the part it was compiled from")
    })?;
    let threads = threads(shared, source.threads);
    let (precision, ready) = match source.from {
        LoadedFrom::Blob(blob) => {
            same_part(&BlobReader::open(&blob.bytes, &shared.made_by)?, &graph)?;
            let compiled = blob.compiled.into_inner().unwrap_or_else(PoisonError::into_inner);
            let same = blob.threads == threads && blob.places == places(&graph);
            (blob.precision, compiled.filter(|_| same))
        }
        LoadedFrom::Bytes(bytes) => {
            let blob = BlobReader::open(bytes.bytes(), &shared.made_by)?;
            same_part(&blob, &graph)?;
            let precision = match blob.section(OPTIONS)? {
                [code] if *code == Precision::Exact as u8 => Precision::Exact,
                [code] if *code == Precision::Reduced as u8 => Precision::Reduced,
                _ => return Err(Error::bad_blob("the blob's options are not understood")),
            };
            (precision, None)
        }
    };
    let compiled = match ready {
        Some(compiled) => compiled,
        None => build(shared, &graph, precision, threads)?,
    };
    Ok((Part { compiled }, graph))
}

/// Refuses a blob of another part: its text lacks the large constants, whose hash the host gives.
fn same_part(blob: &BlobReader<'_>, graph: &GraphView<'_>) -> Result<()> {
    if blob.section(CONTENT)? == graph.content_fingerprint() && blob.section(MODEL)? == text(graph)? {
        return Ok(());
    }
    Err(Error::bad_blob("the blob was compiled from another part"))
}
