//! The KV cache of a sequence in the account of the runtime's memory, and sequences that rest.
//!
//! Invariants:
//! 1. Only the KV cache of a resting sequence is released. A sequence in use keeps its own.
//! 2. After a release, the sequence's next use reads its tokens again, or none if its text is replaced anyway.
//!
//! Not here: the account (`polychip::AppMemory`), which caches a server lets rest.

use polychip::Memory;

use super::{Held, Sequence};
use crate::{Error, Result};

/// Positions that are charged at once.
const POSITIONS: usize = 64;
impl Sequence {
    /// Lets the sequence rest, for example while a user types: its KV cache may be released when memory is short
    /// ([`Runtime::memory`](polychip::Runtime::memory)). The next use of the sequence takes the cache back, or reads the
    /// tokens again if it was released, whose logits may then differ in their last bits. Does nothing if it rests.
    pub fn rest(&mut self) {
        if self.rests {
            return;
        }
        self.rests = true;
        let held = Held {
            memories: std::mem::take(&mut self.memories),
            views: std::mem::take(&mut self.views),
            places: std::mem::take(&mut self.places),
            current: self.current.take(),
        };
        self.cache.put(held);
        if let Some(companion) = &mut self.companion {
            companion.rest();
        }
    }

    /// Whether the sequence rests and its KV cache was released.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.rests && !self.cache.is_held()
    }

    /// Ends the rest. Reads the tokens again if the KV cache was released; any use does this by itself.
    ///
    /// # Errors
    /// As [`Sequence::append`]; then the sequence is empty.
    pub fn wake(&mut self) -> Result<()> {
        if !self.take_back()? {
            let tokens = std::mem::take(&mut self.tokens);
            let logits = std::mem::take(&mut self.logits);
            if let Err(error) = self.chunks(&tokens, &mut || true) {
                self.truncate(0);
                return Err(error);
            }
            if logits.is_empty() {
                // as before: they were forgotten with the text behind them
                self.logits.clear();
            }
        }
        Ok(())
    }

    /// Ends the rest; whether the sequence still has its KV cache.
    fn take_back(&mut self) -> Result<bool> {
        if !std::mem::take(&mut self.rests) {
            return Ok(true);
        }
        let held = self.cache.take();
        let is_whole = held.is_some();
        let held = match held {
            Some(held) => held,
            None => {
                self.charged = 0;
                Held {
                    memories: self.model.memories()?,
                    ..Held::default()
                }
            }
        };
        self.memories = held.memories;
        self.views = held.views;
        self.places = held.places;
        self.current = held.current;
        Ok(is_whole)
    }

    /// Ends the rest for a text that takes the place of the sequence's: of a released cache nothing is read again.
    pub(crate) fn wake_anew(&mut self) -> Result<()> {
        if !self.take_back()? {
            self.tokens.clear();
            self.logits.clear();
        }
        Ok(())
    }

    /// Calls `take` with the memories, also of a resting sequence; none if they were released.
    pub(super) fn with_memories<T>(&self, take: impl FnOnce(&[Memory]) -> T) -> Option<T> {
        if !self.rests {
            return Some(take(&self.memories));
        }
        self.cache.with(|held| take(&held.memories))
    }

    /// Charges the KV cache of so many positions, with the inputs of all chunk sizes in use.
    pub(crate) fn charge(&mut self, positions: usize) -> Result<()> {
        let positions = positions.next_multiple_of(POSITIONS);
        let inputs = self.views.keys().map(|key| self.model.input_bytes(key.rows));
        let bytes = inputs.fold(self.model.sequence_bytes(positions), u64::saturating_add);
        if bytes > self.charged {
            self.cache.resize(bytes).map_err(Error::run)?;
            self.charged = bytes;
        }
        Ok(())
    }
}
