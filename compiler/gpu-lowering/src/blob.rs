//! Blobs: a lowered part with its packed constants and ports, guarded by our own hash and the driver's identity.
//!
//! Invariant: in a [`Lowered`] that was read, every number is in range and every value lies inside its memory,
//! for as many bytes as the kernels touch: what breaks this is a bad blob.

use polychip_ops::DType;
use polychip_sdk::{
    AlignedBytes, BlobReader, BlobWriter, Constant, Encoding, EncodingKind, Error, GraphView, Layout,
    LoadSource, LoadedFrom, MemoryKinds, Port, Result,
};
use serde::{Deserialize, Serialize};

use crate::constants::{Constants, LoadedConstants, Piece};
use crate::program::{ALIGN, Home, Program};

const PROGRAM: u32 = 1;
const CONSTANTS: u32 = 2;
const CONTENT: u32 = 3;
const IDENTITY: u32 = 4;
const PORTS: u32 = 5;
const COMPILED: u32 = 6;
const PIECES: u32 = 7;

/// A lowered part.
#[derive(Debug, Clone, PartialEq)]
pub struct Lowered {
    /// Kernels, values, launches.
    pub program: Program,
    /// Constants in the form that kernels read.
    pub constants: Constants,
    /// Ports of the contract: inputs, then outputs; [`Port::memory_kinds`] is filled in when it is loaded.
    pub ports: Vec<Port>,
}

/// A part made ready, with constants where they lie.
pub struct Loaded<'a> {
    /// Kernels, values, launches.
    pub program: Program,
    /// Packed constants, where they lie.
    pub constants: LoadedConstants<'a>,
    /// What the driver made of the kernels, as it was written; empty where a driver keeps that itself.
    pub compiled: &'a [u8],
    /// Ports of the contract: inputs, then outputs.
    pub ports: Vec<Port>,
}

#[derive(Serialize, Deserialize)]
struct StoredPort {
    output: bool,
    state_port: Option<u32>,
    dtype: u32,
    layout: u32,
    dims: Vec<u64>,
    strides: Vec<i64>,
    alignment: u32,
    bytes: u64,
    encoding: Option<StoredEncoding>,
}

#[derive(Serialize, Deserialize)]
struct StoredEncoding {
    /// Nothing; an axis; an axis and a block.
    along: Vec<u64>,
    scales: Vec<f32>,
    zero_points: Vec<i32>,
    real_dtype: u32,
}

impl StoredPort {
    fn of(port: &Port) -> StoredPort {
        StoredPort {
            output: port.output,
            state_port: port.state_port,
            dtype: port.dtype.code(),
            layout: port.layout as u32,
            dims: port.dims.iter().map(|&dim| dim as u64).collect(),
            strides: port.strides.clone(),
            alignment: port.alignment,
            bytes: port.bytes,
            encoding: port.encoding.as_ref().map(|encoding| StoredEncoding {
                along: match encoding.kind {
                    EncodingKind::PerTensor => vec![],
                    EncodingKind::PerAxis { axis } => vec![axis as u64],
                    EncodingKind::PerBlock { axis, block } => vec![axis as u64, block as u64],
                    // constants alone have such an encoding, and no port is a constant
                    EncodingKind::Blocks(_) => vec![],
                },
                scales: encoding.scales.clone(),
                zero_points: encoding.zero_points.clone(),
                real_dtype: encoding.real_dtype.code(),
            }),
        }
    }

    fn port(self, kinds: MemoryKinds) -> Result<Port> {
        let bad = || Error::bad_blob("a port of the blob makes no sense");
        let size = |value: u64| usize::try_from(value).map_err(|_| bad());
        let encoding = self.encoding.map(|stored| {
            Ok::<_, Error>(Encoding {
                kind: match stored.along[..] {
                    [] => EncodingKind::PerTensor,
                    [axis] => EncodingKind::PerAxis { axis: size(axis)? },
                    [axis, block] => EncodingKind::PerBlock {
                        axis: size(axis)?,
                        block: size(block)?,
                    },
                    _ => return Err(bad()),
                },
                scales: stored.scales,
                zero_points: stored.zero_points,
                real_dtype: DType::from_code(stored.real_dtype).ok_or_else(bad)?,
            })
        });
        Ok(Port {
            output: self.output,
            upper_bound: false,
            state_port: self.state_port,
            dtype: DType::from_code(self.dtype).ok_or_else(bad)?,
            layout: Layout::from_code(self.layout).ok_or_else(bad)?,
            dims: self.dims.into_iter().map(size).collect::<Result<_>>()?,
            strides: self.strides,
            alignment: self.alignment,
            memory_kinds: kinds,
            bytes: self.bytes,
            encoding: encoding.transpose()?,
        })
    }
}

/// Makes the blob of a part for the device of this identity; `compiled` is what its driver made of the kernels.
pub fn write(
    build_id: &str,
    identity: &str,
    graph: &GraphView<'_>,
    lowered: &Lowered,
    compiled: &[u8],
) -> Result<AlignedBytes> {
    let full = |_| Error::new(polychip_sdk::ErrorKind::OutOfMemory, "no memory for the blob");
    let program = postcard::to_stdvec(&lowered.program).map_err(full)?;
    let ports: Vec<StoredPort> = lowered.ports.iter().map(StoredPort::of).collect();
    let ports = postcard::to_stdvec(&ports).map_err(full)?;
    let pieces = postcard::to_stdvec(&lowered.constants.layout()).map_err(full)?;
    let content = graph.content_fingerprint();
    BlobWriter::new(build_id)
        .section(CONTENT, &content)
        .section(IDENTITY, identity.as_bytes())
        .section(PROGRAM, &program)
        .section(PORTS, &ports)
        .section(CONSTANTS, lowered.constants.own())
        .section(PIECES, &pieces)
        .section(COMPILED, compiled)
        .finish()
}

/// Reads a blob and hands the part over.
pub fn read<T>(
    build_id: &str,
    identity: &str,
    kinds: MemoryKinds,
    source: LoadSource<'_, AlignedBytes>,
    ready: impl FnOnce(Loaded<'_>) -> Result<T>,
) -> Result<T> {
    let content = source.graph.map(|graph| graph.content_fingerprint());
    let bytes: &[u8] = match &source.from {
        LoadedFrom::Blob(blob) => blob,
        LoadedFrom::Bytes(bytes) => Constant::bytes(bytes),
    };
    let blob = BlobReader::open(bytes, build_id)?;
    if content.is_some_and(|content| blob.section(CONTENT) != Ok(&content[..])) {
        return Err(Error::bad_blob("the blob was made of another part"));
    }
    let made_for = String::from_utf8_lossy(blob.section(IDENTITY)?);
    if made_for != identity {
        return Err(Error::bad_blob(format!(
            "the blob was made for {made_for}; this is {identity}"
        )));
    }
    let torn = |error| Error::bad_blob(format!("the blob's program is torn: {error}"));
    let program: Program = postcard::from_bytes(blob.section(PROGRAM)?).map_err(torn)?;
    let ports: Vec<StoredPort> = postcard::from_bytes(blob.section(PORTS)?).map_err(torn)?;
    let ports = ports
        .into_iter()
        .map(|port| port.port(kinds))
        .collect::<Result<Vec<Port>>>()?;
    let pieces: (u64, Vec<Piece>) = postcard::from_bytes(blob.section(PIECES)?).map_err(torn)?;
    let constants = LoadedConstants::find(pieces, blob.section(CONSTANTS)?, source.graph.as_ref())?;
    check(&program, constants.bytes(), &ports)?;
    ready(Loaded {
        program,
        constants,
        compiled: blob.section(COMPILED)?,
        ports,
    })
}

/// Refuses a program whose numbers or values leave their bounds.
fn check(program: &Program, constant_bytes: u64, ports: &[Port]) -> Result<()> {
    let bad = |what: String| Err(Error::bad_blob(what));
    let rounded = |bytes: u64| bytes.checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX);
    let inside = |home: Home, bytes: u64| match home {
        Home::Arena(at) => fits(at, bytes, rounded(program.arena_bytes)),
        Home::Constants(at) => fits(at, bytes, rounded(constant_bytes)),
        Home::Port(port, at) => ports
            .get(port as usize)
            .is_some_and(|port| fits(at, bytes, rounded(port.bytes.max(1)))),
    };
    for (index, value) in program.values.iter().enumerate() {
        if !inside(value.home, value.bytes) {
            return bad(format!("value {index} of the blob leaves its memory"));
        }
    }
    if program.ports.len() != ports.len() {
        return bad(format!(
            "the blob has values for {} ports of {}",
            program.ports.len(),
            ports.len()
        ));
    }
    let values = program.values.len();
    if program.ports.iter().any(|&value| value as usize >= values) {
        return bad("a port of the blob is no value".to_owned());
    }
    for (index, step) in program.steps.iter().enumerate() {
        let Some(kernel) = program.kernels.get(step.kernel as usize) else {
            return bad(format!("step {index} of the blob has no kernel"));
        };
        if kernel.bindings.len() != step.operands.len() {
            return bad(format!("step {index} of the blob binds too much or too little"));
        }
        for (binding, &operand) in kernel.bindings.iter().zip(&step.operands) {
            let fits = program
                .values
                .get(operand as usize)
                .is_some_and(|value| inside(value.home, binding.bytes));
            if !fits || binding.bytes % 4 != 0 || binding.bytes == 0 {
                return bad(format!(
                    "step {index} of the blob ({}) leaves the memory of value {operand}",
                    kernel.variant
                ));
            }
        }
    }
    Ok(())
}

fn fits(at: u64, bytes: u64, size: u64) -> bool {
    at.is_multiple_of(ALIGN) && at.checked_add(bytes).is_some_and(|end| end <= size)
}
