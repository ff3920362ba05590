//! A sequence of tokens that a model has read: the KV cache of every position, and the logits of
//! the next token.
//!
//! Invariants:
//! 1. A position's cache is written once, by the run that appends it, and read in place by the
//!    sessions of all sizes.
//! 2. [`Sequence::truncate`] forgets positions by reducing the length.
//! 3. After an error the sequence holds what it held before the call; only [`Sequence::copy`] may
//!    leave fewer tokens.

mod placed;
mod placement_state;
mod resting;
mod saved;
mod trial;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use polychip::{Access, Input, Memory, Outputs, Session};

use crate::build::Logits;
use crate::chunk::{SessionKey, rung};
use crate::kv_cache::Cache;
use crate::model::LanguageModel;
use crate::prefill_decode::PhaseReport;
use crate::{Error, Result, TokenId};
use placement_state::PlacementState;

/// Longest time of one chunk; a device that is silent for longer counts as hung.
const LONGEST: Duration = Duration::from_secs(600);

/// Bytes of an element of the KV cache.
pub(crate) const HALF: usize = 2;

/// Bytes of a page; a KV cache occupies as many pages as were written.
const PAGE: u64 = 4096;

/// The tokens that a model has read so far, with their KV cache.
#[derive(Debug)]
pub struct Sequence {
    model: LanguageModel,
    /// Keys, then values, of layer 0, of layer 1 ..., `[kv_heads, capacity, head_size]`.
    pub(crate) memories: Vec<Memory>,
    /// A session's view of the cache.
    views: BTreeMap<SessionKey, View>,
    /// Its place in steps of this many sequences.
    pub(crate) places: BTreeMap<usize, BatchSlot>,
    /// The session that ran last.
    pub(crate) current: Option<SessionKey>,
    placed: PlacementState,
    tokens: Vec<TokenId>,
    logits: Vec<f32>,
    /// The draft model's sequence, with speculative decoding.
    companion: Option<Box<Sequence>>,
    /// The account's side of the KV cache, which holds it while the sequence rests.
    cache: Arc<Cache<Held>>,
    rests: bool,
    /// Bytes that are charged.
    charged: u64,
}

/// What a sequence keeps in memory.
#[derive(Debug, Default)]
struct Held {
    memories: Vec<Memory>,
    views: BTreeMap<SessionKey, View>,
    places: BTreeMap<usize, BatchSlot>,
    current: Option<SessionKey>,
}

/// A slot in batched steps of several sequences, with the inputs over its caches. The sequence owns
/// the inputs, so that they are freed with its memory.
#[derive(Debug)]
pub(crate) struct BatchSlot {
    pub(crate) index: usize,
    pub(crate) past: Vec<Input>,
}

/// The inputs of a session.
#[derive(Debug)]
struct View {
    session: Arc<Session>,
    /// In the session's order.
    inputs: Vec<Input>,
    embedded: usize,
    positions: usize,
    mask: usize,
    last: Option<usize>,
    /// Indices of the inputs over each cache.
    past: Vec<usize>,
    /// Indices of the outputs that are appended to each cache.
    added: Vec<usize>,
    logits: usize,
    /// Cache positions that the mask shows.
    shown: Option<(usize, usize)>,
}

impl Sequence {
    pub(crate) fn new(model: LanguageModel) -> Result<Sequence> {
        let cache = Cache::new(model.runtime(), &model.path().display().to_string());
        let known: Weak<Cache<Held>> = Arc::downgrade(&cache);
        model.add_cache(known);
        Ok(Sequence {
            memories: model.memories()?,
            cache,
            rests: false,
            charged: 0,
            model,
            views: BTreeMap::new(),
            places: BTreeMap::new(),
            current: None,
            placed: PlacementState::default(),
            tokens: Vec::new(),
            logits: Vec::new(),
            companion: None,
        })
    }

    /// The draft model's sequence; what it has read stays from answer to answer.
    pub(crate) fn companion(&mut self, model: &LanguageModel) -> Result<&mut Sequence> {
        let companion = match self.companion.take() {
            Some(companion) if companion.model.is(model) => companion,
            _ => Box::new(model.sequence()?),
        };
        Ok(self.companion.insert(companion))
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &LanguageModel {
        &self.model
    }

    /// The tokens read so far.
    #[must_use]
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Number of tokens read.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether no token has been read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Number of free positions.
    #[must_use]
    pub fn room(&self) -> usize {
        self.model.capacity() - self.len()
    }

    /// Forgets all tokens from position `len` on; does nothing if there are fewer.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.tokens.truncate(len);
            self.logits.clear();
        }
    }

    /// Logits of the token after the last one, as [`Sequence::append`] returned them. Empty before
    /// the first append, and after the text was changed in another way.
    #[must_use]
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// Bytes of the KV cache of the tokens read so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.len() as u64 * self.model.position_bytes()
    }

    /// Number of leading tokens that `text` and the sequence have in common; 0 if its KV cache was released.
    #[must_use]
    pub fn shared(&self, text: &[TokenId]) -> usize {
        if self.is_released() {
            return 0;
        }
        self.tokens().iter().zip(text).take_while(|(a, b)| a == b).count()
    }

    /// Replaces the content with the first `len` tokens of another sequence, or all of them if it
    /// has fewer. Copies the part of the KV cache that differs. This is much faster than reading
    /// the tokens.
    ///
    /// # Errors
    /// The sequences are of different models, or a run uses their memory.
    pub fn copy(&mut self, other: &Sequence, len: usize) -> Result<()> {
        if !self.model.is(&other.model) {
            return Err(Error::config(format!(
                "a sequence of {} cannot take over a sequence of {}",
                self.model.path().display(),
                other.model.path().display()
            )));
        }
        self.wake_anew()?;
        let text = &other.tokens[..len.min(other.len())];
        let same = self.shared(text);
        self.truncate(same);
        self.charge(text.len())?;
        let copied = other.with_memories(|from| self.copy_rows(from, same..text.len()));
        let Some(copied) = copied else {
            // it was released meanwhile: there is nothing to copy
            return Ok(());
        };
        copied?;
        self.tokens.extend_from_slice(&text[same..]);
        self.logits.clear();
        // the next session to run did not write these positions
        self.current = None;
        Ok(())
    }

    /// Copies these positions of another sequence's KV cache.
    fn copy_rows(&self, from: &[Memory], positions: std::ops::Range<usize>) -> Result<()> {
        let sizes = self.model.sizes();
        let (heads, row) = (sizes.kv_heads as usize, sizes.head_size as usize * HALF);
        for (from, to) in from.iter().zip(&self.memories) {
            let from = from.access(Access::Read).map_err(Error::memory)?;
            let mut to = to.access(Access::Write).map_err(Error::memory)?;
            for head in 0..heads {
                let start = head * self.model.capacity();
                let rows = (start + positions.start) * row..(start + positions.end) * row;
                to[rows.clone()].copy_from_slice(&from[rows]);
            }
        }
        Ok(())
    }

    /// Reads tokens and returns the logits after the last one, one per token of the vocabulary.
    ///
    /// # Errors
    /// There are no tokens or no room for them, a token is beyond the vocabulary, or a device
    /// failed.
    pub fn append(&mut self, tokens: &[TokenId]) -> Result<&[f32]> {
        self.append_while(tokens, &mut || true)
    }

    /// Reads tokens like [`Sequence::append`]; calls `go_on` before each chunk and stops if it
    /// returns false.
    ///
    /// # Errors
    /// As [`Sequence::append`], or `go_on` returned false.
    pub fn append_while(&mut self, tokens: &[TokenId], go_on: &mut dyn FnMut() -> bool) -> Result<&[f32]> {
        self.check(tokens)?;
        self.wake()?;
        let before = self.len();
        let done = self.chunks(tokens, go_on);
        if done.is_err() {
            self.truncate(before);
        }
        done?;
        Ok(&self.logits)
    }

    fn chunks(&mut self, tokens: &[TokenId], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let mut rest = tokens;
        while !rest.is_empty() {
            if !go_on() {
                return Err(Error::cancelled());
            }
            let next = self.next(rest.len(), usize::MAX)?;
            let (chunk, behind) = rest.split_at(next.rows.min(rest.len()));
            self.run_next(chunk, next, &mut |logits| {
                // only the last chunk's logits are needed
                behind.is_empty().then(|| logits.to_vec())
            })?;
            rest = behind;
        }
        Ok(())
    }

    /// Reads one chunk of the tokens in `left`, of at most `most`, and returns how many it read.
    /// After the last of them the sequence has logits.
    pub(crate) fn append_next(&mut self, left: &[TokenId], most: usize) -> Result<usize> {
        let next = self.next(left.len(), most)?;
        let count = next.rows.min(left.len()).min(most.max(1));
        let (chunk, behind) = left.split_at(count);
        self.check(chunk)?;
        self.wake()?;
        let before = self.len();
        let done = self.run_next(chunk, next, &mut |logits| {
            behind.is_empty().then(|| logits.to_vec())
        });
        if done.is_err() {
            self.truncate(before);
        }
        done?;
        Ok(count)
    }

    /// Sets the expected answer length of the next prompt, by which prefill and decode are weighed.
    pub(crate) fn expect(&mut self, answer: usize) {
        self.placed.expected = Some(answer);
        self.placed.ahead.clear();
    }

    /// The devices that prefilled and decoded, since the sequence began or since
    /// [`Sequence::reset_phases`]; empty without prefill and decode placement.
    #[must_use]
    pub fn phases(&self) -> &PhaseReport {
        &self.placed.report
    }

    /// Restarts the counts of [`Sequence::phases`].
    pub fn reset_phases(&mut self) {
        let quarantined = std::mem::take(&mut self.placed.report.quarantined);
        self.placed.report = PhaseReport {
            quarantined,
            ..PhaseReport::default()
        };
    }

    fn key(&self, rows: usize, logits: Logits, device: Option<&str>) -> SessionKey {
        SessionKey {
            rows,
            logits,
            is_step: false,
            device: device.map(str::to_owned),
        }
    }

    /// Reads tokens and calls `each` with the logits after each of them.
    ///
    /// # Errors
    /// As [`Sequence::append`].
    pub fn append_all(&mut self, tokens: &[TokenId], mut each: impl FnMut(&[f32])) -> Result<()> {
        self.check(tokens)?;
        self.wake()?;
        let before = self.len();
        let vocabulary = self.model.sizes().vocabulary as usize;
        self.logits.clear();
        let mut rest = tokens;
        while !rest.is_empty() {
            let rows = rung(rest.len()).min(128);
            let (chunk, behind) = rest.split_at(rows.min(rest.len()));
            let done = self.append_rows(chunk, rows, &mut |logits| {
                logits.chunks_exact(vocabulary).for_each(&mut each);
            });
            if done.is_err() {
                self.truncate(before);
            }
            done?;
            rest = behind;
        }
        Ok(())
    }

    /// Reads tokens in one chunk of this many rows and returns the logits after each.
    pub(crate) fn append_rows(
        &mut self,
        tokens: &[TokenId],
        rows: usize,
        take: &mut dyn FnMut(&[f32]),
    ) -> Result<()> {
        self.check(tokens)?;
        self.wake()?;
        let key = self.key(rows, Logits::All, None);
        let given = tokens.len() * self.model.sizes().vocabulary as usize;
        self.chunk(tokens, key, &mut |logits| {
            take(&logits[..given]);
            None
        })
    }

    /// Reads tokens in one chunk of this many rows and returns the hidden state after each.
    pub(crate) fn append_hidden(
        &mut self,
        tokens: &[TokenId],
        rows: usize,
        take: &mut dyn FnMut(&[f32]),
    ) -> Result<()> {
        self.check(tokens)?;
        self.wake()?;
        self.logits.clear();
        let key = self.key(rows, Logits::Hidden, None);
        let given = tokens.len() * self.model.sizes().embedding as usize;
        self.chunk(tokens, key, &mut |hidden| {
            take(&hidden[..given]);
            None
        })
    }

    /// Takes the logits after the last token; `keep_logits` returns them.
    pub(crate) fn lend_logits(&mut self) -> Vec<f32> {
        std::mem::take(&mut self.logits)
    }

    pub(crate) fn keep_logits(&mut self, logits: Vec<f32>) {
        self.logits = logits;
    }

    /// Rewinds to `len` tokens, after which these are the logits.
    pub(crate) fn go_back(&mut self, len: usize, logits: &[f32]) {
        self.truncate(len);
        self.logits.clear();
        self.logits.extend_from_slice(logits);
    }

    pub(crate) fn check(&self, tokens: &[TokenId]) -> Result<()> {
        if tokens.is_empty() {
            return Err(Error::tokenizer("there are no tokens to read"));
        }
        if tokens.len() > self.room() {
            let words = format!("{} tokens behind {} do", tokens.len(), self.len());
            return Err(Error::room(words, self.model.capacity()));
        }
        Ok(())
    }

    /// Records a token that a batched step read and appended to the KV cache.
    pub(crate) fn take(&mut self, token: TokenId, logits: &[f32]) {
        self.logits.clear();
        self.logits.extend_from_slice(logits);
        self.tokens.push(token);
    }

    /// Plans the session of a key and makes its inputs, unless that was done.
    fn ready(&mut self, key: &SessionKey) -> Result<()> {
        if self.views.contains_key(key) {
            return Ok(());
        }
        let session = self.model.session(key)?;
        let view = View::new(session, &self.memories)?;
        self.views.insert(key.clone(), view);
        Ok(())
    }

    /// Runs one chunk of at most as many tokens as its session has rows; `take` gets the logits and
    /// may keep them.
    fn chunk(
        &mut self,
        tokens: &[TokenId],
        key: SessionKey,
        take: &mut dyn FnMut(&[f32]) -> Option<Vec<f32>>,
    ) -> Result<()> {
        self.ready(&key)?;
        let rows = key.rows;
        let past = self.len();
        self.charge(past + tokens.len())?;
        let view = self
            .views
            .get_mut(&key)
            .expect("invariant: the view was just made");
        if self.current.as_ref() != Some(&key) {
            // others wrote the memory: a device that has copies of it makes them anew
            view.touch()?;
            self.current = Some(key);
        }
        view.fill(&self.model, tokens, rows, past)?;
        let outputs = view.run()?;
        if let Some(kept) = take(
            &outputs
                .at(view.logits)
                .map_err(Error::run)?
                .values::<f32>()
                .map_err(Error::run)?,
        ) {
            self.logits = kept;
        }
        view.append(&self.model, &outputs, tokens.len(), past)?;
        self.tokens.extend_from_slice(tokens);
        Ok(())
    }
}

impl LanguageModel {
    /// Creates an empty sequence with its own KV cache.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn sequence(&self) -> Result<Sequence> {
        Sequence::new(self.clone())
    }

    /// Memory of a KV cache, of which a sequence seldom touches all pages.
    fn memories(&self) -> Result<Vec<Memory>> {
        let bytes = self.memory_bytes()?;
        let memories: std::result::Result<Vec<Memory>, _> = (0..2 * self.sizes().layers)
            .map(|_| Memory::sparse(bytes))
            .collect();
        memories.map_err(Error::memory)
    }

    /// Bytes of one layer's keys, or of its values, at full capacity.
    pub(crate) fn memory_bytes(&self) -> Result<u64> {
        let sizes = self.sizes();
        let row = u64::from(sizes.kv_heads) * u64::from(sizes.head_size);
        let bytes = row
            .checked_mul(HALF as u64)
            .and_then(|row| row.checked_mul(self.capacity() as u64));
        bytes.ok_or_else(|| {
            Error::unsupported(format!(
                "memory for {} positions of {row} values exceeds 64 bits",
                self.capacity()
            ))
        })
    }

    /// Bytes of the KV cache of a sequence of `positions` positions. Each head is stored
    /// separately, and its first position takes a whole page.
    #[must_use]
    pub fn sequence_bytes(&self, positions: usize) -> u64 {
        let sizes = self.sizes();
        let row = u64::from(sizes.head_size) * HALF as u64;
        let of = |positions: usize| row.saturating_mul(positions as u64);
        let heads = u64::from(sizes.kv_heads);
        let whole = heads.saturating_mul(of(self.capacity())).next_multiple_of(PAGE);
        let touched = heads.saturating_mul(of(positions.min(self.capacity())).next_multiple_of(PAGE));
        // heads may begin within a page of another one's
        touched.min(whole).saturating_mul(2 * u64::from(sizes.layers))
    }

    /// Bytes of the inputs of a chunk of `rows` tokens without the KV cache; each sequence has its
    /// own.
    #[must_use]
    pub fn input_bytes(&self, rows: usize) -> u64 {
        let width = self.sizes().embedding as usize * size_of::<f32>();
        let row = (self.capacity() + rows + width + size_of::<i64>()) as u64;
        row.saturating_mul(rows as u64)
    }

    /// Bytes of the KV cache per position.
    #[must_use]
    pub fn position_bytes(&self) -> u64 {
        let sizes = self.sizes();
        let row = u64::from(sizes.kv_heads) * u64::from(sizes.head_size);
        row.saturating_mul(2 * u64::from(sizes.layers) * HALF as u64)
    }
}

impl View {
    fn new(session: Arc<Session>, memories: &[Memory]) -> Result<View> {
        let names: Vec<String> = session.inputs().map(|input| input.name.clone()).collect();
        let gives: Vec<String> = session.outputs().map(|output| output.name.clone()).collect();
        let place = |names: &[String], name: &str| {
            let found = names.iter().position(|known| known == name);
            found.ok_or_else(|| Error::config(format!("the session has no port {name:?}")))
        };
        let port =
            |prefix: &str, index: usize| format!("{prefix}{}.{}", ["key", "value"][index % 2], index / 2);
        let past: Result<Vec<usize>> = (0..memories.len())
            .map(|i| place(&names, &port("past_", i)))
            .collect();
        let added: Result<Vec<usize>> = (0..memories.len()).map(|i| place(&gives, &port("", i))).collect();
        let (past, added) = (past?, added?);
        let mut inputs = Vec::with_capacity(names.len());
        for (index, spec) in session.inputs().enumerate() {
            let input = match past.iter().position(|&at| at == index) {
                Some(memory) => session.input_from(&spec.name, &spec.shape, &memories[memory]),
                None => session.input(&spec.name),
            };
            inputs.push(input.map_err(Error::run)?);
        }
        Ok(View {
            inputs,
            embedded: place(&names, "embedded")?,
            positions: place(&names, "positions")?,
            mask: place(&names, "mask")?,
            last: place(&names, "last").ok(),
            past,
            added,
            logits: place(&gives, "logits").or_else(|_| place(&gives, "hidden"))?,
            shown: None,
            session,
        })
    }

    /// Marks the memory as written by other means than these inputs.
    fn touch(&mut self) -> Result<()> {
        for &at in &self.past {
            self.inputs[at].bytes_mut().map_err(Error::run)?;
        }
        Ok(())
    }

    /// Writes the inputs of a chunk's run.
    fn fill(&mut self, model: &LanguageModel, tokens: &[TokenId], rows: usize, past: usize) -> Result<()> {
        let width = model.sizes().embedding as usize;
        {
            let mut bytes = self.inputs[self.embedded].bytes_mut().map_err(Error::run)?;
            let floats: &mut [f32] = bytemuck::cast_slice_mut(&mut bytes);
            let (given, unused) = floats.split_at_mut(tokens.len() * width);
            for (token, row) in tokens.iter().zip(given.chunks_exact_mut(width)) {
                model.embed(*token, row)?;
            }
            unused.fill(0.0);
        }
        {
            let mut bytes = self.inputs[self.positions].bytes_mut().map_err(Error::run)?;
            let positions: &mut [i64] = bytemuck::cast_slice_mut(&mut bytes);
            for (row, position) in positions.iter_mut().enumerate() {
                // what is unused has some position that there are angles for
                *position = (past + row).min(model.capacity() - 1) as i64;
            }
        }
        if let Some(last) = self.last {
            let row = tokens.len() as i64 - 1;
            self.inputs[last].write(&[row]).map_err(Error::run)?;
        }
        self.show(model.capacity(), rows, past)
    }

    /// Writes the mask: a token sees all of the past, itself and earlier tokens of its chunk.
    /// Unused rows see the same, so that no row is without a key.
    fn show(&mut self, capacity: usize, rows: usize, past: usize) -> Result<()> {
        let mut mask = self.inputs[self.mask].bytes_mut().map_err(Error::run)?;
        let width = capacity + rows;
        match self.shown {
            // a step further: one more position of the past
            Some((shown, of)) if of == rows && shown <= past => {
                for row in mask.chunks_exact_mut(width) {
                    row[shown..past].fill(1);
                }
            }
            _ => {
                for (index, row) in mask.chunks_exact_mut(width).enumerate() {
                    row.fill(0);
                    row[..past].fill(1);
                    row[capacity..=capacity + index].fill(1);
                }
            }
        }
        self.shown = Some((past, rows));
        Ok(())
    }

    fn run(&self) -> Result<Outputs> {
        let inputs: Vec<&Input> = self.inputs.iter().collect();
        let run = self.session.submit(&inputs).map_err(Error::run)?;
        run.wait(LONGEST).map_err(Error::run)
    }

    /// Appends the first `count` rows to each KV cache, after its `past` positions.
    fn append(&mut self, model: &LanguageModel, outputs: &Outputs, count: usize, past: usize) -> Result<()> {
        let sizes = model.sizes();
        let (heads, size) = (sizes.kv_heads as usize, sizes.head_size as usize * HALF);
        for (&from, &to) in self.added.iter().zip(&self.past) {
            let view = outputs.at(from).map_err(Error::run)?;
            let rows = view.bytes();
            let mut memory = self.inputs[to].bytes_mut().map_err(Error::run)?;
            // head by head, so that writes are in order
            for head in 0..heads {
                let first = (head * model.capacity() + past) * size;
                let rows = rows.chunks_exact(heads * size).take(count);
                let places = memory[first..first + count * size].chunks_exact_mut(size);
                for (place, row) in places.zip(rows) {
                    place.copy_from_slice(&row[head * size..(head + 1) * size]);
                }
            }
        }
        Ok(())
    }
}
