//! Parking a language model: its loaded graphs are freed, with the KV caches of sequences that rest.
//!
//! Invariant: the weights stay mapped from the file, so that the next token loads the graphs again.
//!
//! Not here: what is parked when memory is short (the account of `polychip`), resting (`sequence/resting`).

use crate::{Error, LanguageModel, Result};

impl LanguageModel {
    /// Frees the loaded graphs of all chunk sizes, and the KV caches of sequences that rest
    /// ([`Sequence::rest`](crate::Sequence::rest)). Returns the number of bytes. The next token, or
    /// [`LanguageModel::resume`], loads the graphs again. When memory is short, the runtime does the same by itself.
    ///
    /// # Errors
    /// A graph is in use.
    pub fn park(&self) -> Result<u64> {
        let before = self.resident_bytes();
        for (_, session) in self.sessions() {
            session.park().map_err(Error::run)?;
        }
        for cache in self.caches() {
            // one in use stays
            cache.release("requested by the app");
        }
        Ok(before.saturating_sub(self.resident_bytes()))
    }

    /// Loads the graphs of all chunk sizes that ran so far again, so that the next token does not wait for that.
    ///
    /// # Errors
    /// The graphs do not fit the memory limit, or a device refused a part.
    pub fn resume(&self) -> Result<()> {
        let sessions = self.sessions();
        let mut sessions = sessions.iter();
        sessions.try_for_each(|(_, session)| session.resume().map_err(Error::run))
    }

    /// Whether no graph is loaded: all are parked, or none ran so far.
    #[must_use]
    pub fn is_parked(&self) -> bool {
        self.sessions().iter().all(|(_, session)| session.is_parked())
    }

    /// The memory of loaded graphs and KV caches, in bytes, as the runtime accounts for it
    /// ([`Runtime::memory`](polychip::Runtime::memory)).
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        let graphs = self.sessions();
        let graphs = graphs.iter().map(|(_, session)| session.resident_bytes());
        let caches = self.caches();
        let caches = caches.iter().map(|cache| cache.bytes());
        graphs.chain(caches).fold(0, u64::saturating_add)
    }
}
