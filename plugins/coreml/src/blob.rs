//! Blobs: the package of a part and its ports, protected by our own hash.
//!
//! The result of Core ML's compilation belongs to one system and chip, and the system keeps it;
//! loading a blob compiles the package again.
//!
//! Invariant: the ports of a blob that was read have types that Core ML arrays can hold.

use polychip_ops::DType;
use polychip_sdk::{AlignedBytes, BlobReader, BlobWriter, Error, GraphView, Port, Result};

use crate::buffer;
use crate::package::Package;
use crate::program::Type;

const CONTENT: u32 = 1;
const PORTS: u32 = 2;
const MODEL: u32 = 3;
const WEIGHTS: u32 = 4;

/// No port is the other half of a state.
const NONE: u32 = u32::MAX;

/// A part as a blob describes it.
pub(crate) struct Stored {
    /// Inputs, then outputs.
    pub(crate) ports: Vec<Port>,
    /// How many are inputs.
    pub(crate) inputs: usize,
    pub(crate) package: Package,
}

/// Type of the array at a port.
pub(crate) fn array_type(dtype: DType) -> Option<Type> {
    match dtype {
        DType::F16 => Some(Type::F16),
        DType::F32 => Some(Type::F32),
        DType::I32 => Some(Type::I32),
        // the host widens them
        DType::I8 | DType::U8 => Some(Type::F16),
        _ => None,
    }
}

/// The other half of a state, as a number of a port.
fn state_of(graph: &GraphView<'_>, number: usize) -> Option<u32> {
    let (inputs, outputs) = (graph.inputs(), graph.outputs());
    let find = |ports: &[u32], tensor: u32| ports.iter().position(|&port| port == tensor);
    graph.states().find_map(|(read, written)| {
        let (read, written) = (find(inputs, read)?, inputs.len() + find(outputs, written)?);
        match number {
            number if number == read => Some(written as u32),
            number if number == written => Some(read as u32),
            _ => None,
        }
    })
}

/// Makes the blob of a part.
pub(crate) fn write(made_by: &str, graph: &GraphView<'_>, package: &Package) -> Result<AlignedBytes> {
    let mut words = vec![graph.inputs().len() as u32, graph.outputs().len() as u32];
    for (number, &tensor) in graph.inputs().iter().chain(graph.outputs()).enumerate() {
        let view = graph.tensor(tensor);
        let shape = view.shape().unwrap_or_default();
        words.push(view.dtype().code());
        words.push(state_of(graph, number).unwrap_or(NONE));
        words.push(shape.len() as u32);
        words.extend(shape.iter().map(|&dim| dim as u32));
    }
    let words: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    BlobWriter::new(made_by)
        .section(CONTENT, &graph.content_fingerprint())
        .section(PORTS, &words)
        .section(MODEL, &package.model)
        .section(WEIGHTS, &package.weights)
        .finish()
}

/// Reads a blob of this build and this part.
///
/// # Errors
/// `BadBlob` if it is torn, or of another build, chip or part.
pub(crate) fn read(made_by: &str, bytes: &[u8], graph: Option<&GraphView<'_>>) -> Result<Stored> {
    let torn = || Error::bad_blob("the ports of the blob are torn");
    let blob = BlobReader::open(bytes, made_by)?;
    let content = blob.section(CONTENT)?;
    if graph.is_some_and(|graph| graph.content_fingerprint() != content) {
        return Err(Error::bad_blob("the blob is of another part"));
    }
    let words = blob.section(PORTS)?;
    let mut words = words
        .as_chunks::<4>()
        .0
        .iter()
        .map(|&word| u32::from_le_bytes(word));
    let mut next = || words.next().ok_or_else(torn);
    let (inputs, outputs) = (next()? as usize, next()? as usize);
    let mut ports = Vec::new();
    for number in 0..inputs.checked_add(outputs).ok_or_else(torn)? {
        let dtype = DType::from_code(next()?).ok_or_else(torn)?;
        array_type(dtype).ok_or_else(torn)?;
        let state = next()?;
        let rank = next()?;
        let dims = (0..rank).map(|_| next().map(|dim| dim as usize));
        let dims: Vec<usize> = dims.collect::<Result<_>>()?;
        let mut port = Port::dense(number >= inputs, dtype, &dims)?;
        port.memory_kinds = buffer::KINDS;
        port.state_port = (state != NONE).then_some(state);
        ports.push(port);
    }
    Ok(Stored {
        ports,
        inputs,
        package: Package {
            model: blob.section(MODEL)?.to_vec(),
            weights: blob.section(WEIGHTS)?.to_vec(),
        },
    })
}
