//! Blobs: a part's ports and the library's context binary, guarded by our own hash.
//!
//! The build id of the container names our build, the library's build and interfaces, and the chip: a binary of
//! another one is refused before the library sees it. The library itself would load a binary with a flipped
//! byte, and in its x86 build one of another chip.
//!
//! Sections: the part's content fingerprint, ports as little-endian `u32` words, and the binary.
//!
//! Invariant: the ports of a blob that was read have known types and as many bytes as their extents say.

use polychip_ops::DType;
use polychip_sdk::{
    AlignedBytes, BlobReader, BlobWriter, Encoding, EncodingKind, Error, GraphView, Port, Result,
};

use crate::buffer;
use crate::program::{self, Program};
use crate::session::{Compiled, PortOf};

const PORTS: u32 = 1;
const BINARY: u32 = 2;
const CONTENT: u32 = 3;

/// A part as a blob describes it.
#[derive(Debug)]
pub(crate) struct Part {
    /// Ports of the contract: inputs, then outputs.
    pub(crate) ports: Vec<Port>,
    /// The same for the library.
    pub(crate) tensors: Vec<PortOf>,
    /// How many ports are inputs.
    pub(crate) inputs: usize,
    /// The library's binary.
    pub(crate) binary: Vec<u8>,
}

/// Makes the blob of a compiled part.
pub(crate) fn write(
    build_id: &str,
    graph: &GraphView<'_>,
    program: &Program,
    compiled: &Compiled,
) -> Result<AlignedBytes> {
    let inputs = graph.inputs().len();
    let mut words = vec![inputs as u32, graph.outputs().len() as u32];
    let place = |ports: &[u32], tensor| ports.iter().position(|&port| port == tensor).unwrap_or(0);
    let ids = program.inputs.iter().chain(&program.outputs);
    let tensors = graph.inputs().iter().chain(graph.outputs());
    for ((number, &id), &tensor) in ids.enumerate().zip(tensors) {
        let own = &program.tensors[id];
        let view = graph.tensor(tensor);
        let state = graph.states().find_map(|(input, output)| {
            if number < inputs && graph.inputs()[number] == input {
                Some(inputs + place(graph.outputs(), output))
            } else if number >= inputs && graph.outputs()[number - inputs] == output {
                Some(place(graph.inputs(), input))
            } else {
                None
            }
        });
        words.extend([
            view.dtype().code(),
            program::code(own.ty),
            state.map_or(u32::MAX, |state| state as u32),
        ]);
        let shape = view.shape().unwrap_or_default();
        words.push(shape.len() as u32);
        words.extend(shape.iter().map(|&dim| dim as u32));
        match own.quant.per_tensor() {
            // reported where the model itself says so
            Some((scale, zero)) if view.encoding().is_some() => {
                let real = view
                    .encoding()
                    .map_or(DType::F32, |encoding| encoding.real_dtype());
                words.extend([1, scale.to_bits(), zero.cast_unsigned(), real.code()]);
            }
            _ => words.push(0),
        }
        words.push(own.name.len() as u32);
        words.extend(own.name.bytes().map(u32::from));
    }
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    BlobWriter::new(build_id)
        .section(CONTENT, &graph.content_fingerprint())
        .section(PORTS, &words)
        .section(BINARY, &compiled.binary)
        .finish()
}

/// Reads a blob of this build.
///
/// # Errors
/// `BadBlob` if it is torn, corrupt, or of another build, library, chip or part.
pub(crate) fn read(build_id: &str, bytes: &[u8], graph: Option<&GraphView<'_>>) -> Result<Part> {
    let blob = BlobReader::open(bytes, build_id)?;
    let content = blob.section(CONTENT)?;
    if graph.is_some_and(|graph| graph.content_fingerprint() != content) {
        return Err(Error::bad_blob("the blob was made of another part"));
    }
    let mut words = Words(blob.section(PORTS)?);
    let (inputs, outputs) = (words.next()? as usize, words.next()? as usize);
    let mut part = Part {
        ports: Vec::new(),
        tensors: Vec::new(),
        inputs,
        binary: blob.section(BINARY)?.to_vec(),
    };
    let count = inputs.checked_add(outputs).ok_or_else(torn)?;
    for number in 0..count {
        let dtype = DType::from_code(words.next()?).ok_or_else(torn)?;
        let ty = program::from_code(words.next()?).ok_or_else(torn)?;
        let state = words.next()?;
        let rank = words.next()?;
        let dims: Vec<usize> = (0..rank)
            .map(|_| words.next().map(|dim| dim as usize))
            .collect::<Result<_>>()?;
        let mut port = Port::dense(number >= inputs, dtype, &dims)?;
        port.alignment = 1;
        port.memory_kinds = buffer::PORTS;
        port.state_port = (state != u32::MAX).then_some(state);
        if words.next()? == 1 {
            let scale = f32::from_bits(words.next()?);
            let zero = words.next()?.cast_signed();
            let real_dtype = DType::from_code(words.next()?).ok_or_else(torn)?;
            port.encoding = Some(Encoding {
                kind: EncodingKind::PerTensor,
                scales: vec![scale],
                zero_points: if zero == 0 { vec![] } else { vec![zero] },
                real_dtype,
            });
        }
        let name: Option<String> = (0..words.next()?)
            .map(|_| words.next().ok().and_then(char::from_u32))
            .collect();
        let elements: usize = dims.iter().product();
        let bytes = elements.checked_mul(ty.bytes()).ok_or_else(torn)?;
        if bytes as u64 != port.bytes {
            return Err(torn());
        }
        part.ports.push(port);
        part.tensors.push(PortOf {
            name: name.ok_or_else(torn)?,
            ty,
            bytes,
        });
    }
    Ok(part)
}

fn torn() -> Error {
    Error::bad_blob("the ports of the blob are torn")
}

/// The words of a section, each read with a check.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn next(&mut self) -> Result<u32> {
        let (word, rest) = self.0.split_first_chunk().ok_or_else(torn)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*word))
    }
}
