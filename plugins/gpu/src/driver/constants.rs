//! Constants of loaded parts: parts with the same bytes share one piece of the GPU's memory, as the graphs of a language
//! model do that differ in the number of tokens only.
//!
//! Invariant: a piece is written before it is handed out, and never again.

use std::sync::{Arc, Mutex, Weak};

use polychip_sdk::Result;

use super::gpu::Gpu;
use super::memory::Piece;
use crate::shared::lock;

/// The pieces in use, by what they hold.
#[derive(Default)]
pub(crate) struct Constants(Mutex<Vec<(blake3::Hash, Weak<Piece>)>>);

impl Constants {
    /// The piece that holds these bytes.
    ///
    /// # Errors
    /// `OutOfMemory`, with the size and the limit.
    pub(crate) fn get(&self, gpu: &Gpu, bytes: &[u8]) -> Result<Arc<Piece>> {
        let name = blake3::hash(bytes);
        // held while a piece is written: who wants the same one waits for it
        let mut known = lock(&self.0);
        known.retain(|(_, piece)| piece.strong_count() > 0);
        let found = known.iter().find(|(other, _)| *other == name);
        if let Some(piece) = found.and_then(|(_, piece)| piece.upgrade()) {
            return Ok(piece);
        }
        let piece = Piece::local(gpu, bytes.len() as u64)?;
        piece.write(gpu, 0, bytes)?;
        let piece = Arc::new(piece);
        known.push((name, Arc::downgrade(&piece)));
        Ok(piece)
    }
}
