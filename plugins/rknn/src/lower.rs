//! Compiling and loading: the part as an ONNX model of opset 19, which the vendor's toolkit turns
//! into a `.rknn` file.
//!
//! A blob holds the `.rknn` file and the part's hash. The file also contains the hash
//! (`custom_string`), which the runtime returns, so that the file of another part is detected even
//! if the container was forged.
//!
//! Invariants:
//! 1. A loaded model has the graph's inputs and outputs, in number, extents and elements.
//! 2. Integers that the chip has at a port have the model's scale and zero point.
//! 3. A part is refused if the toolkit puts one of its layers on a CPU, and the layer is named: the
//!    host's own devices do that work, or report that they cannot.
//!
//! Not here: the compiler's process (`toolkit`), costs from its table (`telemetry`).

use polychip_lowering::vendor_compiler::{self, Hash};
use polychip_ops::Op;
use polychip_sdk::{
    AlignedBytes, BlobReader, BlobWriter, CompileOptions, Constant, Error, GraphView, LoadSource, LoadedFrom,
    LogLevel, MemoryKind, MemoryKinds, NodeView, Port, Result,
};
use polychip_sys::rknn::bindings as rk;

use crate::caps;
use crate::convert::Linear;
use crate::driver::{Context, Seen};
use crate::settings::Caches;
use crate::shared::Shared;
use crate::telemetry;
use crate::toolkit::{MAGIC, READ};

const MODEL: u32 = 1;
const HASH: u32 = 2;

/// Contents of a loaded blob.
pub(crate) struct Part {
    pub(crate) context: Context,
    pub(crate) inputs: Vec<Seen>,
    pub(crate) outputs: Vec<Seen>,
    pub(crate) ports: Vec<Port>,
    /// The encodings of ports that are converted.
    pub(crate) linears: Vec<Option<Linear>>,
}

/// The mark of a part in a `.rknn` file.
fn mark(hash: &Hash) -> String {
    format!("polychip {}", blake3::Hash::from_bytes(*hash).to_hex())
}

/// Makes the blob of a part.
pub(crate) fn compile(
    shared: &Shared,
    graph: &GraphView<'_>,
    options: &CompileOptions,
) -> Result<AlignedBytes> {
    caps::RULES.admit(graph, options, shared.settings.reduced)?;
    let toolkit = shared
        .toolkit
        .as_ref()
        .map_err(|why| Error::unsupported(why.clone()))?;
    let model = vendor_compiler::model(graph, READ)?;
    let hash = vendor_compiler::hash(graph, READ)?;
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
    let hash = vendor_compiler::hash(graph, READ)?;
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
    let mut ports = Port::of_graph(graph, crate::buffer::bindable(shared.driver))?;
    let tensors = graph.inputs().iter().chain(graph.outputs());
    let linears: Vec<Option<Linear>> = tensors
        .map(|&tensor| Linear::of_tensor(&graph.tensor(tensor)))
        .collect();
    for (port, _) in ports
        .iter_mut()
        .zip(&linears)
        .filter(|(_, linear)| linear.is_some())
    {
        // converted at each run
        port.memory_kinds = MemoryKinds::of(&[MemoryKind::Host]);
    }
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
    let (inputs, outputs) = (seen(false, inputs, of_inputs)?, seen(true, outputs, of_outputs)?);
    if shared.settings.quantise.is_none() {
        let tensors = graph.inputs().iter().chain(graph.outputs());
        for (seen, &tensor) in inputs.iter().chain(&outputs).zip(tensors) {
            keeps_scales(seen, graph, tensor)?;
        }
    }
    Ok(Part {
        inputs: inputs
            .iter()
            .zip(of_inputs)
            .map(|(seen, port)| seen.as_ours(&port.dims))
            .collect(),
        outputs: outputs
            .iter()
            .zip(of_outputs)
            .map(|(seen, port)| seen.as_ours(&port.dims))
            .collect(),
        context,
        ports,
        linears,
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
    Ok(*seen)
}

/// Whether the chip's integers at a port are those that the model has there, or, where the port is of reals, that the model
/// quantises it to or makes it of.
fn keeps_scales(seen: &Seen, graph: &GraphView<'_>, tensor: u32) -> Result<()> {
    let Some((scale, zero)) = seen.scale() else {
        // reals on the chip can hold the values that any integers encode
        return Ok(());
    };
    let borders = |node: &NodeView<'_>, op: Op| node.op() == op && graph.tensor(tensor).encoding().is_none();
    let behind = graph.nodes().filter_map(|node| {
        let (from, to) = (node.input(0), node.output(0));
        match () {
            () if borders(&node, Op::QuantizeLinear) && from == Some(tensor) => to,
            () if borders(&node, Op::DequantizeLinear) && to == Some(tensor) => from,
            () => None,
        }
    });
    let known = std::iter::once(tensor).chain(behind);
    let kept = known
        .filter_map(|tensor| Linear::of_tensor(&graph.tensor(tensor)))
        .any(|linear| linear.is(scale, zero));
    if kept {
        return Ok(());
    }
    let name = graph.tensor(tensor).name().to_owned();
    let what = format!(
        "the toolkit gave port {name} a scale of {scale} and a zero point of {zero} that the model does not have there"
    );
    Err(Error::unsupported(what).at_tensor(tensor))
}
