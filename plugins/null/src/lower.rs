//! Compiling and loading: a blob states its source and target; the model's memory holds the rest.
//!
//! Invariants:
//! 1. A blob loads only for the graph, the device and the build for which it was made.
//! 2. Ports are those of the graph, in its order; layouts are granted as far as the script allows.

use polychip_reference::Program;
use polychip_sdk::{
    AlignedBytes, BlobReader, BlobWriter, CompileOptions, Constant, Error, ErrorKind, GraphView, Layout,
    LoadSource, LoadedFrom, MemoryKinds, Port, Precision, Result, Support, TensorView,
};

use crate::caps;
use crate::script::DeviceScript;
use crate::work::Price;

/// Fingerprints, device name and granted layouts.
const IDENTITY: u32 = 1;
const DEVICE: u32 = 2;
const LAYOUTS: u32 = 3;
/// Whether outputs are rounded to 16-bit floats.
const HALF: u32 = 4;

/// A part ready to run.
pub(crate) struct Lowered {
    /// None where the script wants no answers.
    pub(crate) program: Option<Program>,
    pub(crate) ports: Vec<Port>,
    pub(crate) price: Price,
    pub(crate) constant_bytes: u64,
    pub(crate) arena_bytes: u64,
    /// Whether f32 outputs are rounded to 16-bit floats.
    pub(crate) is_half: bool,
}

/// Makes the blob of a part.
pub(crate) fn compile(
    script: &DeviceScript,
    build_id: &str,
    graph: &GraphView<'_>,
    options: &CompileOptions,
) -> Result<AlignedBytes> {
    for node in graph.nodes() {
        if let Support::No { reason, detail } = caps::support(script, graph, &node) {
            let what = format!("{} {}: {reason:?}: {detail}", node.op_name(), node.name());
            return Err(Error::unsupported(what).at_node(node.index()));
        }
    }
    if options
        .operating_point
        .is_some_and(|point| point as usize >= script.operating_point.len())
    {
        return Err(Error::bad_argument(format!(
            "operating point {:?} of {}",
            options.operating_point,
            script.operating_point.len()
        )));
    }
    let ports = graph.inputs().iter().chain(graph.outputs());
    let layouts: Vec<u8> = ports
        .enumerate()
        .map(|(port, &tensor)| {
            let wanted = options
                .ports
                .iter()
                .find(|request| request.port as usize == port)
                .map_or(Layout::RowMajor, |request| request.layout);
            granted(script, &graph.tensor(tensor), wanted) as u8
        })
        .collect();
    // checks sizes now, so that a part that cannot be loaded does not compile
    ports_of(script, graph, &layouts)?;
    let mut identity = [0; 64];
    identity[..32].copy_from_slice(&graph.structure_fingerprint());
    identity[32..].copy_from_slice(&graph.content_fingerprint());
    BlobWriter::new(build_id)
        .section(IDENTITY, &identity)
        .section(DEVICE, script.name.as_bytes())
        .section(LAYOUTS, &layouts)
        .section(
            HALF,
            &[u8::from(script.half && options.precision == Precision::Reduced)],
        )
        .finish()
}

fn granted(script: &DeviceScript, tensor: &TensorView<'_>, wanted: Layout) -> Layout {
    let rank = tensor.dims().map_or(0, <[i64]>::len);
    let whole_bytes = tensor.dtype().byte_width().is_some();
    match wanted {
        Layout::ChannelsLast if rank >= 3 && whole_bytes && script.grants(Layout::ChannelsLast) => {
            Layout::ChannelsLast
        }
        _ => Layout::RowMajor,
    }
}

/// Makes a part ready to run.
pub(crate) fn load(
    script: &DeviceScript,
    build_id: &str,
    source: LoadSource<'_, AlignedBytes>,
) -> Result<Lowered> {
    match source.from {
        LoadedFrom::Blob(blob) => lower(script, build_id, &blob, source.graph),
        LoadedFrom::Bytes(bytes) => lower(script, build_id, bytes.bytes(), source.graph),
    }
}

fn lower(
    script: &DeviceScript,
    build_id: &str,
    blob: &[u8],
    graph: Option<GraphView<'_>>,
) -> Result<Lowered> {
    let blob = BlobReader::open(blob, build_id)?;
    let graph =
        graph.ok_or_else(|| Error::bad_argument("a blob of this plugin loads with its graph only"))?;
    let identity = blob.section(IDENTITY)?;
    if identity != [graph.structure_fingerprint(), graph.content_fingerprint()].concat() {
        return Err(Error::bad_blob("the blob was made of another graph"));
    }
    let device = blob.section(DEVICE)?;
    if device != script.name.as_bytes() {
        return Err(Error::bad_blob(format!(
            "the blob was made for device {}, this is {}",
            String::from_utf8_lossy(device),
            script.name
        )));
    }
    let layouts = blob.section(LAYOUTS)?;
    if layouts.len() != graph.inputs().len() + graph.outputs().len() {
        return Err(Error::bad_blob("the blob was made of a graph with other ports"));
    }
    let made = script.answers.then(|| Program::new(&graph));
    let program = made
        .transpose()
        .map_err(|error| Error::unsupported(error.to_string()))?;
    let constants = graph.tensors().filter_map(|tensor| tensor.constant());
    let constant_bytes = constants
        .map(|constant: Constant| constant.bytes().len() as u64)
        .sum();
    let arena_bytes = graph
        .tensors()
        .filter(|tensor| !tensor.is_constant())
        .filter_map(|tensor| {
            let elements = tensor.ty().elements()?;
            Some(tensor.dtype().byte_len(elements)? as u64)
        })
        .sum();
    Ok(Lowered {
        is_half: blob.section(HALF)? == [1],
        program,
        ports: ports_of(script, &graph, layouts)?,
        price: Price::of(script, &graph, 0..graph.node_count()),
        constant_bytes,
        arena_bytes,
    })
}

fn ports_of(script: &DeviceScript, graph: &GraphView<'_>, layouts: &[u8]) -> Result<Vec<Port>> {
    let inputs = graph.inputs().len();
    let kinds = script.import_kinds().map_err(Error::bad_argument)?;
    let mut ports = Vec::with_capacity(layouts.len());
    for (number, &tensor) in graph.inputs().iter().chain(graph.outputs()).enumerate() {
        let view = graph.tensor(tensor);
        let output = number >= inputs;
        let Some(shape) = view.shape() else {
            let what = format!("the shape of port {number} ({}) is not known", view.name());
            return Err(Error::unsupported(what).at_tensor(tensor));
        };
        let mut port = Port::dense(output, view.dtype(), &shape)?;
        port.upper_bound = view.is_upper_bound();
        port.layout = Layout::from_code(u32::from(layouts[number]))
            .ok_or_else(|| Error::bad_blob("the blob names an unknown layout"))?;
        port.memory_kinds = MemoryKinds::of(&kinds);
        port.encoding = view.encoding().map(|encoding| encoding.to_owned());
        port.state_port = graph.states().find_map(|(input, state_output)| {
            let other = if output && state_output == tensor {
                graph.inputs().iter().position(|&port| port == input)
            } else if !output && input == tensor {
                let place = graph.outputs().iter().position(|&port| port == state_output);
                place.map(|place| inputs + place)
            } else {
                None
            };
            other.map(|other| other as u32)
        });
        ports.push(port);
    }
    Ok(ports)
}

/// An executable that reports a wrong size of its first output, for the fault `wrong_size`.
pub(crate) fn lie(ports: &mut [Port]) -> Result<()> {
    let port = ports
        .iter_mut()
        .find(|port| port.output)
        .ok_or_else(|| Error::new(ErrorKind::Persistent, "there is no output to lie about"))?;
    let mut dims = port.dims.clone();
    match dims.last_mut() {
        Some(last) => *last += 1,
        None => dims.push(2),
    }
    let upper_bound = port.upper_bound;
    *port = Port::dense(true, port.dtype, &dims)?;
    port.upper_bound = upper_bound;
    Ok(())
}
