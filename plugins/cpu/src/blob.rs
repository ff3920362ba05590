//! Compiled parts: the packed weights with what they were packed for, and bytes for a cache.
//!
//! Invariants:
//! 1. A blob just compiled hands its memory over to `load`; cached bytes are used where they lie, and hold all weights
//!    (unless lean), those too that other parts have.
//! 2. Bytes are refused unless build, instruction set, part and layouts are those of the load.
//! 3. A lean blob's bytes hold no weights: `load` packs them again from the part's constants.

use std::sync::{Arc, OnceLock};

use polychip_cpu_kernels::Isa;
use polychip_sdk::{
    AlignedBytes, Blob, BlobReader, BlobWriter, Constant, Error, GraphView, Layout, Port, Result,
};

use crate::step::Program;
use crate::weights::{Packed, Section};

/// Identifies what is in a blob.
pub(crate) const BUILD_ID: &str = polychip_sdk::build_id!("cpu");

const GUARD: u32 = 1;
const PACKED: u32 = 2;

/// What a blob was made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Guard {
    /// Code of the instruction set.
    pub(crate) isa: u32,
    /// Weights are packed as bf16 where that is faster.
    pub(crate) reduced: bool,
    /// Hash of the part with its constants.
    pub(crate) content: [u8; 32],
    /// Granted layouts of the ports.
    pub(crate) layouts: Vec<Layout>,
    /// Floats of packed weights.
    pub(crate) packed_len: usize,
    /// Codes of the convolutions' algorithms.
    pub(crate) algorithms: Vec<u8>,
}

impl Guard {
    /// The guard of a part.
    pub(crate) fn new(
        isa: Isa,
        reduced: bool,
        graph: &GraphView<'_>,
        layouts: &[Layout],
        program: &Program,
    ) -> Self {
        Self {
            isa: isa.code(),
            reduced,
            content: graph.content_fingerprint(),
            layouts: layouts.to_vec(),
            packed_len: program.packed_len,
            algorithms: program.algorithms.clone(),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.isa.to_le_bytes().to_vec();
        bytes.extend(self.content);
        bytes.extend((self.packed_len as u64).to_le_bytes());
        bytes.push(u8::from(self.reduced));
        bytes.extend(self.layouts.iter().map(|&layout| layout as u8));
        bytes.extend(&self.algorithms);
        bytes
    }
}

/// A compiled part.
pub struct CpuBlob {
    pub(crate) guard: Guard,
    pub(crate) program: Arc<Program>,
    pub(crate) packed: Arc<Packed>,
    /// Threads that the program was lowered for.
    pub(crate) threads: usize,
    /// What its ports want, inputs first.
    pub(crate) ports: Vec<Port>,
    /// How many of them are inputs.
    pub(crate) inputs: usize,
    /// Its bytes omit the weights.
    pub(crate) lean: bool,
    pub(crate) bytes: OnceLock<AlignedBytes>,
}

impl Blob for CpuBlob {
    fn bytes(&self) -> Result<&[u8]> {
        if let Some(bytes) = self.bytes.get() {
            return Ok(bytes);
        }
        let guard = self.guard.to_bytes();
        if self.lean {
            let bytes = BlobWriter::new(BUILD_ID).section(GUARD, &guard).finish()?;
            return Ok(self.bytes.get_or_init(|| bytes));
        }
        let (sections, len) = (&self.program.sections[..], self.guard.packed_len);
        let mut gathered = Vec::new();
        let packed = self.packed.whole(sections, len).unwrap_or_else(|| {
            gathered.resize(len, 0.0);
            for (index, section) in sections.iter().enumerate() {
                let floats = self.packed.section(sections, index);
                gathered[section.start..][..floats.len()].copy_from_slice(floats);
            }
            &gathered
        });
        let bytes = BlobWriter::new(BUILD_ID)
            .section(GUARD, &guard)
            .section(PACKED, floats_as_bytes(packed))
            .finish()?;
        Ok(self.bytes.get_or_init(|| bytes))
    }
}

/// Checks cached bytes: they are whole, and of this build.
pub(crate) fn checked(bytes: &Constant) -> Result<BlobReader<'_>> {
    BlobReader::open(bytes.bytes(), BUILD_ID)
}

/// Whether cached bytes were compiled for reduced precision, for which layouts of ports, and with which algorithms.
pub(crate) fn made_for(reader: &BlobReader<'_>, ports: usize) -> Result<(bool, Vec<Layout>, Vec<u8>)> {
    let guard = reader.section(GUARD)?;
    let reduced = guard.get(44) == Some(&1);
    let (layouts, algorithms) = guard
        .get(45..)
        .and_then(|rest| rest.split_at_checked(ports))
        .ok_or_else(|| Error::bad_blob("the blob was compiled for a part with other ports"))?;
    let layouts = layouts
        .iter()
        .map(|&code| Layout::from_code(u32::from(code)))
        .collect::<Option<_>>()
        .ok_or_else(|| Error::bad_blob("the blob was compiled for a part with other ports"))?;
    Ok((reduced, layouts, algorithms.to_vec()))
}

/// The packed weights in cached bytes; `None` if the bytes are lean.
pub(crate) fn open(
    bytes: Constant,
    reader: &BlobReader<'_>,
    guard: &Guard,
    sections: &[Section],
) -> Result<Option<Packed>> {
    let (offset, len) = {
        if reader.section(GUARD)? != guard.to_bytes() {
            return Err(Error::bad_blob(
                "the blob was compiled for another part, instruction set or layout of ports",
            ));
        }
        let Some((_, packed)) = reader.sections().find(|(kind, _)| *kind == PACKED) else {
            return Ok(None);
        };
        (
            packed.as_ptr() as usize - bytes.bytes().as_ptr() as usize,
            packed.len(),
        )
    };
    if len != 4 * guard.packed_len {
        return Err(Error::bad_blob(format!(
            "the blob holds {len} bytes of weights, not {}",
            4 * guard.packed_len
        )));
    }
    if (bytes.bytes()[offset..].as_ptr() as usize).is_multiple_of(crate::arena::ALIGN) || len == 0 {
        return Ok(Some(Packed::of_bytes(sections, bytes, offset)));
    }
    // memory that is not aligned would slow every run down: copied once
    let last = sections.last().map_or(0, |section| section.len);
    let floats = guard.packed_len.saturating_add(crate::weights::beyond(last));
    let mut memory = crate::arena::memory(floats, "packed weights")?;
    memory[guard.packed_len..].fill(0.0);
    for (target, &word) in memory
        .iter_mut()
        .zip(bytes.bytes()[offset..offset + len].as_chunks().0)
    {
        *target = f32::from_le_bytes(word);
    }
    Ok(Some(Packed::of_memory(sections, memory)))
}

#[allow(unsafe_code)]
fn floats_as_bytes(floats: &[f32]) -> &[u8] {
    // SAFETY: floats have no padding, and any byte is a u8.
    unsafe { std::slice::from_raw_parts(floats.as_ptr().cast(), size_of_val(floats)) }
}
