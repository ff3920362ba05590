//! KV cache memory: sequences lent to answers, and idle ones with texts that may be continued.
//!
//! Invariants:
//! 1. The memory that answers may need and that idle sequences hold stays within the budget, unless a single answer
//!    needs more. It is counted in pages, with the inputs of chunks.
//! 2. Idle sequences are evicted, least recently used first, before an answer is refused.
//! 3. A prompt's beginning in an idle sequence is not computed again: a chat continues in its own sequence, and
//!    another text's beginning is copied. `rounds` shares the contents of lent sequences.
//! 4. A prompt reuses only what requests of the same owner have read.

use std::collections::BTreeMap;

use polychip_llm::{LanguageModel, Sequence, TokenId};

use crate::job::Owner;

/// Fewer tokens than this are sooner read than copied.
pub(crate) const WORTH_A_COPY: usize = 16;

/// Sequences that are not lent, and what those that are may come to need.
#[derive(Debug)]
pub(crate) struct Pool {
    model: LanguageModel,
    /// Sizes of chunks that sequences are read in.
    chunks: &'static [usize],
    /// By when they were used, the oldest first.
    idle: BTreeMap<u64, Idle>,
    clock: u64,
    /// Bytes of all sequences.
    budget: u64,
    /// Most sequences.
    most: usize,
    /// Bytes of those that are lent.
    lent: u64,
    lent_sequences: usize,
}

#[derive(Debug)]
struct Idle {
    sequence: Sequence,
    owner: Owner,
    /// Most positions that it ever held: memory stays once it was touched.
    peak: usize,
}

/// What a lent sequence was promised.
#[derive(Debug)]
pub(crate) struct Lease {
    bytes: u64,
    /// Most positions that it held before.
    peak: usize,
}

/// Bytes that a sequence of so many positions needs which is read in chunks of these sizes.
pub(crate) fn need(model: &LanguageModel, chunks: &[usize], positions: usize) -> u64 {
    let inputs: u64 = chunks.iter().map(|&rows| model.input_bytes(rows)).sum();
    model.sequence_bytes(positions).saturating_add(inputs)
}

impl Pool {
    /// A pool over so many bytes for at most `active` answers.
    pub(crate) fn new(model: LanguageModel, chunks: &'static [usize], bytes: u64, active: usize) -> Pool {
        Pool {
            budget: bytes,
            // a text that may be gone on with for each answer
            most: active.saturating_mul(2),
            model,
            chunks,
            idle: BTreeMap::new(),
            clock: 0,
            lent: 0,
            lent_sequences: 0,
        }
    }

    /// Whether an answer that needs so many positions may begin.
    pub(crate) fn fits(&self, positions: usize) -> bool {
        self.lent_sequences == 0 || self.lent.saturating_add(self.need(positions)) <= self.budget
    }

    /// Bytes that are lent or held.
    pub(crate) fn bytes(&self) -> u64 {
        self.lent.saturating_add(self.held())
    }

    fn need(&self, positions: usize) -> u64 {
        need(&self.model, self.chunks, positions)
    }

    fn held(&self) -> u64 {
        let idle = self.idle.values();
        idle.map(|idle| self.need(idle.peak)).fold(0, u64::saturating_add)
    }

    /// Lends a sequence for a prompt: an idle one of this owner that the prompt continues, if there is one.
    pub(crate) fn lend(
        &mut self,
        owner: Owner,
        prompt: &[TokenId],
        positions: usize,
    ) -> Result<(Sequence, Lease), polychip_llm::Error> {
        // what was released when memory was short is of no use
        self.idle.retain(|_, idle| !idle.sequence.is_released());
        let own = self.gone_on_with(owner, prompt, positions);
        let (sequence, peak) = match own.and_then(|key| self.idle.remove(&key)) {
            Some(idle) => (idle.sequence, idle.peak),
            None => self.begun(owner, prompt, positions)?,
        };
        let lease = Lease {
            bytes: self.need(positions.max(peak)),
            peak,
        };
        self.lent = self.lent.saturating_add(lease.bytes);
        self.lent_sequences += 1;
        self.shrink();
        Ok((sequence, lease))
    }

    /// The idle sequence that this prompt continues: one that would keep at least half of its text.
    fn gone_on_with(&self, owner: Owner, prompt: &[TokenId], positions: usize) -> Option<u64> {
        let usable = self
            .idle
            .iter()
            .filter(|(_, idle)| idle.owner == owner && self.fits(positions.max(idle.peak)));
        let (kept, (key, idle)) = usable
            .map(|(key, idle)| (idle.sequence.shared(prompt), (key, idle)))
            .max_by_key(|(kept, _)| *kept)?;
        (kept > 0 && kept * 2 >= idle.sequence.len()).then_some(*key)
    }

    /// A sequence with the beginning of an idle one's text, and its peak.
    fn begun(
        &mut self,
        owner: Owner,
        prompt: &[TokenId],
        positions: usize,
    ) -> Result<(Sequence, usize), polychip_llm::Error> {
        let shared = self.idle.iter().filter(|(_, idle)| idle.owner == owner);
        let shared = shared.map(|(key, idle)| (idle.sequence.shared(prompt), *key));
        let source = shared.max().filter(|(shared, _)| *shared >= WORTH_A_COPY);
        let spare = self.spare(positions, source.map(|(_, key)| key));
        let (mut sequence, peak) = match spare.and_then(|key| self.idle.remove(&key)) {
            Some(mut idle) => {
                if idle.owner != owner {
                    // only its memory is of use: not even what both texts begin with
                    idle.sequence.truncate(0);
                }
                (idle.sequence, idle.peak)
            }
            None => (self.model.sequence()?, 0),
        };
        if let Some((shared, key)) = source
            && let Some(idle) = self.idle.get(&key)
        {
            sequence.copy(&idle.sequence, shared)?;
        }
        Ok((sequence, peak))
    }

    /// The idle sequence that is used longest ago, where one has to go for an answer of so many positions.
    fn spare(&self, positions: usize, copied: Option<u64>) -> Option<u64> {
        let is_tight = self.bytes().saturating_add(self.need(positions)) > self.budget
            || self.lent_sequences + self.idle.len() >= self.most;
        let usable =
            |(key, idle): &(&u64, &Idle)| Some(**key) != copied && self.fits(positions.max(idle.peak));
        let oldest = self.idle.iter().find(usable).map(|(key, _)| *key);
        oldest.filter(|_| is_tight)
    }

    /// Lets idle sequences go until the rest is within the budget.
    fn shrink(&mut self) {
        while self.bytes() > self.budget || self.lent_sequences + self.idle.len() > self.most {
            if self.idle.pop_first().is_none() {
                break;
            }
        }
    }

    /// Takes a sequence back; its owner's requests may continue from what it holds.
    pub(crate) fn give_back(&mut self, owner: Owner, mut sequence: Sequence, lease: &Lease) {
        self.end(lease);
        self.clock += 1;
        let peak = lease.peak.max(sequence.len());
        sequence.rest();
        let idle = Idle {
            sequence,
            owner,
            peak,
        };
        self.idle.insert(self.clock, idle);
        self.shrink();
    }

    /// A lent sequence is lost, or must not be kept.
    pub(crate) fn end(&mut self, lease: &Lease) {
        self.lent = self.lent.saturating_sub(lease.bytes);
        self.lent_sequences -= 1;
    }
}
