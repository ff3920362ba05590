//! Constants of loaded parts: parts with the same bytes share one block of the GPU's memory, as the graphs of a language
//! model do that differ in the number of tokens only.
//!
//! Invariant: a block is written before it is shared, and never again.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use polychip_gpu_lowering::constants::LoadedConstants;
use polychip_sdk::Result;

use crate::driver::gpu::Gpu;
use crate::driver::memory::MemoryBlock;

/// A block in use: the GPU that has it, by number, and what it holds.
struct Known {
    gpu: u64,
    bytes: blake3::Hash,
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
        let mut hasher = blake3::Hasher::new();
        hasher.update(&constants.bytes().to_le_bytes());
        for (at, bytes) in constants.pieces() {
            hasher
                .update(&at.to_le_bytes())
                .update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        }
        let name = hasher.finalize();
        // held while a block is written: who wants the same one waits for it
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.block.strong_count() > 0);
        let found = known
            .iter()
            .find(|known| known.gpu == gpu.number && known.bytes == name);
        if let Some(block) = found.and_then(|known| known.block.upgrade()) {
            return Ok(block);
        }
        let block = MemoryBlock::local(gpu, constants.bytes())?;
        for (at, bytes) in constants.pieces() {
            block.write(gpu, at, bytes)?;
        }
        let block = Arc::new(block);
        known.push(Known {
            gpu: gpu.number,
            bytes: name,
            block: Arc::downgrade(&block),
        });
        Ok(block)
    }
}
