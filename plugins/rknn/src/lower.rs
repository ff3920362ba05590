//! Compiling and loading: the part as an ONNX model of opset 19, made a `.rknn` file by the vendor's toolkit.
//!
//! A blob holds the `.rknn` file and the part's hash, which stands in the file too (`custom_string`): the runtime gives
//! it back, so that a file of another part is told apart even where the container was made up.
//!
//! Invariants:
//! 1. What is loaded has the inputs and outputs that the graph says, in number, extents and elements.
//! 2. A part of which the toolkit puts a layer on a processor is refused, and the layer named: the host's own devices do
//!    that work, or say so.
//!
//! Not here: the compiler's process (`toolkit`), costs that its table gives (`telemetry`).

use polychip_sdk::onnx::{self, Options, Release, Weights};
use polychip_sdk::{
    AlignedBytes, BlobReader, BlobWriter, CompileOptions, Constant, Error, GraphView, LoadSource, LoadedFrom,
    LogLevel, Port, Precision, Result,
};
use polychip_sys::rknn::bindings as rk;

use crate::caps;
use crate::driver::{Context, Seen};
use crate::settings::Caches;
use crate::shared::{Hash, Shared};
use crate::telemetry;
use crate::toolkit::MAGIC;

const MODEL: u32 = 1;
const HASH: u32 = 2;

/// What the toolkit reads at most.
const READ: Release = Release {
    opset: 19,
    ir_version: 9,
};

/// What an executable is made of.
pub(crate) struct Part {
    pub(crate) context: Context,
    pub(crate) inputs: Vec<Seen>,
    pub(crate) outputs: Vec<Seen>,
    pub(crate) ports: Vec<Port>,
}

/// What a part is: its model without large constants, and the hash of all that it is made of.
pub(crate) fn hash(graph: &GraphView<'_>) -> Result<Hash> {
    let options = Options {
        weights: Weights::Placeholder(1024),
        decompose: &caps::decompose,
    };
    let mut hasher = blake3::Hasher::new();
    hasher.update(&onnx::write_as(graph, &options, READ)?);
    hasher.update(&graph.content_fingerprint());
    Ok(*hasher.finalize().as_bytes())
}

/// What a `.rknn` file carries of a part.
fn mark(hash: &Hash) -> String {
    format!("polychip {}", blake3::Hash::from_bytes(*hash).to_hex())
}

/// Makes the blob of a part.
pub(crate) fn compile(
    shared: &Shared,
    graph: &GraphView<'_>,
    options: &CompileOptions,
) -> Result<AlignedBytes> {
    if let Some(point) = options.operating_point {
        return Err(Error::bad_argument(format!("operating point {point} of 0")));
    }
    for node in graph.nodes() {
        caps::promised(graph, &node)?;
    }
    if !shared.settings.reduced && options.precision == Precision::Exact {
        return Err(Error::unsupported(
            "the NPU computes f32 in 16 bits, which the session does not allow: ask for reduced precision",
        ));
    }
    let toolkit = shared
        .toolkit
        .as_ref()
        .map_err(|why| Error::unsupported(why.clone()))?;
    let written = Options {
        weights: Weights::Inline,
        decompose: &caps::decompose,
    };
    let model = onnx::write_as(graph, &written, READ)?;
    let hash = hash(graph)?;
    let compiled = toolkit.compile(&model, shared.chip.target, &mark(&hash))?;
    drop(model);
    if let Some(row) = compiled.rows.iter().find(|row| row.is_fallback()) {
        let what = format!(
            "the toolkit puts {} ({}) on the {:?}, not on the NPU",
            row.op, row.name, row.target
        );
        let error = Error::unsupported(what);
        let node = row.node().filter(|&node| (node as usize) < graph.node_count());
        return Err(match node {
            Some(node) => error.at_node(node),
            None => error,
        });
    }
    telemetry::keep(shared, graph, &hash, &compiled.rows);
    BlobWriter::new(&shared.made_by)
        .section(MODEL, &compiled.blob)
        .section(HASH, &hash)
        .finish()
}

/// Makes a part ready to run.
pub(crate) fn load(shared: &Shared, source: LoadSource<'_, AlignedBytes>) -> Result<Part> {
    let graph = source.graph.ok_or_else(|| {
        Error::bad_argument("a blob of the NPU is loaded beside the part it was compiled from")
    })?;
    match source.from {
        LoadedFrom::Blob(bytes) => open(shared, &bytes, &graph),
        LoadedFrom::Bytes(bytes) => open(shared, Constant::bytes(&bytes), &graph),
    }
}

fn open(shared: &Shared, bytes: &[u8], graph: &GraphView<'_>) -> Result<Part> {
    let blob = BlobReader::open(bytes, &shared.made_by)?;
    let hash = hash(graph)?;
    if blob.section(HASH)? != hash {
        return Err(Error::bad_blob("the blob was compiled from another part"));
    }
    let model = blob.section(MODEL)?;
    if !model.starts_with(MAGIC) {
        return Err(Error::bad_blob("the blob holds no .rknn file"));
    }
    let library = shared.driver.library();
    let mut flags = 0;
    if shared.settings.caches == Caches::Access && library.syncs() {
        flags |= rk::RKNN_FLAG_NO_INPUT_FLUSH | rk::RKNN_FLAG_NO_OUTPUT_INVALIDATE;
    }
    if shared.settings.times {
        flags |= rk::RKNN_FLAG_COLLECT_TIMES;
    }
    let context = Context::open(shared.driver, model, flags)?;
    if context.mark().is_some_and(|found| found != mark(&hash)) {
        return Err(Error::bad_blob("the .rknn file was made of another part"));
    }
    if let Some((api, driver)) = context.versions() {
        let words = format!("a part runs on runtime {api}, driver {driver}");
        shared.host.log(LogLevel::Debug, &words);
    }
    let ports = ports(shared, graph)?;
    let (inputs, outputs) = (graph.inputs().len(), graph.outputs().len());
    let found = context.counts()?;
    if found != (inputs, outputs) {
        return Err(Error::unsupported(format!(
            "the toolkit made {} inputs and {} outputs of {inputs} and {outputs}",
            found.0, found.1
        )));
    }
    let seen = |output: bool, count: usize, ports: &[Port]| -> Result<Vec<Seen>> {
        (0..count)
            .zip(ports)
            .map(|(index, port)| agrees(&context.port(output, index)?, &port.dims))
            .collect()
    };
    let (of_inputs, of_outputs) = ports.split_at(inputs);
    Ok(Part {
        inputs: seen(false, inputs, of_inputs)?,
        outputs: seen(true, outputs, of_outputs)?,
        context,
        ports,
    })
}

/// The runtime's view of a port as ours, where it is the same tensor.
fn agrees(seen: &Seen, dims: &[usize]) -> Result<Seen> {
    let mut wanted: Vec<usize> = dims.to_vec();
    if seen.is_channels_last() && wanted.len() == 4 {
        wanted[1..].rotate_left(1);
    }
    let found: Vec<usize> = seen.dims().iter().map(|&extent| extent as usize).collect();
    if found != wanted || seen.elements() != dims.iter().product::<usize>() {
        return Err(Error::unsupported(format!(
            "the toolkit made a port of {found:?} of one of {dims:?}"
        )));
    }
    Ok(seen.as_ours(dims))
}

/// The ports of a part: f32, dense, row-major, in the graph's order.
fn ports(shared: &Shared, graph: &GraphView<'_>) -> Result<Vec<Port>> {
    let inputs = graph.inputs().len();
    let place = |ports: &[u32], tensor: u32| ports.iter().position(|&port| port == tensor);
    let all = graph.inputs().iter().chain(graph.outputs()).enumerate();
    all.map(|(number, &tensor)| {
        let view = graph.tensor(tensor);
        let shape = view
            .shape()
            .ok_or_else(|| Error::unsupported("a port of unknown shape").at_tensor(tensor))?;
        let output = number >= inputs;
        let mut port = Port::dense(output, view.dtype(), &shape).map_err(|error| error.at_tensor(tensor))?;
        port.memory_kinds = crate::buffer::bindable(shared.driver);
        port.state_port = graph.states().find_map(|(from, to)| match output {
            true if to == tensor => place(graph.inputs(), from).map(|at| at as u32),
            false if from == tensor => place(graph.outputs(), to).map(|at| (inputs + at) as u32),
            _ => None,
        });
        Ok(port)
    })
    .collect()
}
