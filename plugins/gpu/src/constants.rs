//! Constants of loaded parts: parts with the same bytes share one block of the GPU's memory, as the graphs of a language
//! model do that differ in the number of tokens only.
//!
//! Invariants:
//! 1. A block is written before it is shared, and never again.
//! 2. Constants of the same origin are found without reading them, other equal ones by the hash of their bytes.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use polychip_gpu_lowering::constants::{ConstantsOrigin, LoadedConstants};
use polychip_sdk::Result;

use crate::driver::gpu::Gpu;
use crate::driver::memory::MemoryBlock;

/// A block in use: the GPU that has it, by number, and what it holds.
struct Known {
    gpu: u64,
    /// The hash of the content, if bytes of the model are in it; else the origin names it.
    bytes: Option<blake3::Hash>,
    origin: ConstantsOrigin,
    block: Weak<MemoryBlock>,
}

/// The blocks in use.
#[derive(Default)]
pub(crate) struct Constants(Mutex<Vec<Known>>);

impl Constants {
    /// The block of a GPU that holds these bytes.
    ///
    /// # Errors
    /// `OutOfMemory`, with the size and the limit.
    pub(crate) fn get(&self, gpu: &Gpu, constants: &LoadedConstants<'_>) -> Result<Arc<MemoryBlock>> {
        let origin = constants.origin(|bytes| blake3::hash(bytes).into());
        // held while a block is written: who wants the same one waits for it
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.block.strong_count() > 0);
        let find = |is_same: &dyn Fn(&Known) -> bool| {
            let same = known
                .iter()
                .find(|known| known.gpu == gpu.number && is_same(known));
            same.and_then(|known| known.block.upgrade())
        };
        if let Some(block) = find(&|known| known.origin == origin) {
            return Ok(block);
        }
        let bytes = origin.is_of_model().then(|| hash(constants)).transpose()?;
        if let Some(block) = find(&|known| bytes.is_some() && known.bytes == bytes) {
            return Ok(block);
        }
        let block = MemoryBlock::local(gpu, constants.bytes())?;
        constants.blocks(|at, bytes| block.write(gpu, at, bytes))?;
        let block = Arc::new(block);
        known.push(Known {
            gpu: gpu.number,
            bytes,
            origin,
            block: Arc::downgrade(&block),
        });
        Ok(block)
    }
}

fn hash(constants: &LoadedConstants<'_>) -> Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&constants.bytes().to_le_bytes());
    constants.blocks(|at, bytes| {
        hasher
            .update(&at.to_le_bytes())
            .update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
        Ok(())
    })?;
    Ok(hasher.finalize())
}
