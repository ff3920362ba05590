//! Batched decoding: sequences take a step together, one token each, with one read of all weights.
//!
//! Invariants:
//! 1. A sequence's KV cache stays in place when other sequences join or leave: a step reads it there
//!    and appends one position.
//! 2. After an error each sequence holds what it held before the call.
//! 3. Sequences do not see each other. Sums of products may differ in their last bits from those of
//!    a single step.
//!
//! Not here: the choice of sequences for a step (the caller's), prompts (`sequence`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use polychip::{Input, Memory, Outputs, Session};

use crate::build::Logits;
use crate::chunk::{STEPS, SessionKey, together};
use crate::sequence::{BatchSlot, HALF, Sequence};
use crate::{Error, LanguageModel, Result, TokenId};

/// Longest time of one step; a device that is silent for longer counts as hung.
const LONGEST: Duration = Duration::from_secs(600);

/// Steps of several sequences at once.
///
/// ```
/// # use polychip_llm::testing::TinyModel;
/// # use polychip_llm::{Architecture, Gguf, LanguageModel, Options, gguf::TensorType};
/// # let model = TinyModel { architecture: Architecture::Llama, kind: TensorType::Q8_0, layers: 1, tied: true, seed: 0 };
/// # let model = LanguageModel::of("tiny", Gguf::read(model.writer().finish().into())?, Options::new().capacity(64))?;
/// use polychip_llm::Batch;
///
/// let (mut first, mut second) = (model.sequence()?, model.sequence()?);
/// first.append(&[40, 41])?;
/// second.append(&[50])?;
/// Batch::new(&model).step(&mut [(&mut first, 42), (&mut second, 51)])?;
/// assert_eq!((first.len(), second.len()), (3, 2));
/// assert_ne!(first.logits(), second.logits());
/// # Ok::<(), polychip_llm::Error>(())
/// ```
#[derive(Debug)]
pub struct Batch {
    model: LanguageModel,
    /// By the number of sequences in the step.
    steps: BTreeMap<usize, Step>,
    /// Inputs for places without a sequence: never written, and masked out.
    blank: Option<Memory>,
}

/// The inputs of a step of this many sequences, except their KV caches.
#[derive(Debug)]
struct Step {
    session: Arc<Session>,
    /// The session's inputs, in its order.
    order: Vec<Port>,
    embedded: Input,
    positions: Input,
    masks: Vec<Input>,
    /// Number of positions that each mask shows.
    shown: Vec<usize>,
    /// Inputs of places without a sequence, made when first needed.
    blank: BTreeMap<usize, Vec<Input>>,
    /// Indices of the outputs that are appended to each cache.
    added: Vec<usize>,
    logits: usize,
}

#[derive(Clone, Copy, Debug)]
enum Port {
    Embedded,
    Positions,
    /// Of a place.
    Mask(usize),
    /// Of a place, and the index among a sequence's caches.
    Past(usize, usize),
}

impl Batch {
    /// Creates batched steps for a model's sequences. Plans nothing yet.
    #[must_use]
    pub fn new(model: &LanguageModel) -> Batch {
        Batch {
            model: model.clone(),
            steps: BTreeMap::new(),
            blank: None,
        }
    }

    /// How many of the `waiting` sequences should take the next step together. Graphs exist for a
    /// few batch sizes only; this number leaves few rows of the graph unused. With prefill and
    /// decode placement it is 1, because each sequence then has its own answering device.
    #[must_use]
    pub fn size(&self, waiting: usize) -> usize {
        match self.model.phases() {
            Some(_) => waiting.min(1),
            None => together(waiting).min(waiting),
        }
    }

    /// Plans and compiles the steps for up to `sequences` sequences, so that no later call waits
    /// for it.
    ///
    /// # Errors
    /// A device refused a part, or no device runs some node.
    pub fn prepare(&mut self, sequences: usize) -> Result<()> {
        if self.model.phases().is_some() {
            return Ok(());
        }
        let mut sizes: Vec<usize> = (2..=sequences.min(STEPS[0])).map(together).collect();
        sizes.dedup();
        for rows in sizes.into_iter().filter(|rows| *rows > 1) {
            self.ready(rows)?;
        }
        Ok(())
    }

    /// Appends one token to each sequence; each then has the logits of its next token.
    ///
    /// # Errors
    /// A sequence is of another model or has no room, there are more than 16 sequences, a token is
    /// beyond the vocabulary, or a device failed.
    pub fn step(&mut self, tokens: &mut [(&mut Sequence, TokenId)]) -> Result<()> {
        if let [(sequence, token)] = tokens {
            return sequence.append(&[*token]).map(|_| ());
        }
        self.check(tokens)?;
        let Some(&rows) = STEPS.iter().rev().find(|rows| **rows >= tokens.len()) else {
            return Err(Error::config(format!(
                "{} sequences exceed the maximum batch size of {}",
                tokens.len(),
                STEPS[0]
            )));
        };
        if tokens.is_empty() {
            return Ok(());
        }
        self.ready(rows)?;
        for (sequence, _) in &mut *tokens {
            sequence.wake()?;
            sequence.charge(sequence.len() + 1)?;
        }
        let places = self.place(rows, tokens)?;
        let step = self
            .steps
            .get_mut(&rows)
            .expect("invariant: the step was just made ready");
        step.fill(&self.model, tokens, &places)?;
        let outputs = step.run(rows, tokens, &places)?;
        step.append(&self.model, &outputs, tokens, &places)
    }

    fn check(&self, tokens: &[(&mut Sequence, TokenId)]) -> Result<()> {
        for (sequence, token) in tokens {
            if !self.model.is(sequence.model()) {
                return Err(Error::config(format!(
                    "a step of {} cannot be of a sequence of {}",
                    self.model.path().display(),
                    sequence.model().path().display()
                )));
            }
            sequence.check(&[*token])?;
        }
        Ok(())
    }

    /// Plans a step of `rows` rows and makes its inputs, unless that was done.
    fn ready(&mut self, rows: usize) -> Result<()> {
        if let Entry::Vacant(vacant) = self.steps.entry(rows) {
            vacant.insert(Step::new(&self.model, rows)?);
        }
        Ok(())
    }

    /// Assigns each sequence a place: its place in the last step if free, since its inputs are
    /// there.
    fn place(&mut self, rows: usize, tokens: &mut [(&mut Sequence, TokenId)]) -> Result<Vec<usize>> {
        let mut taken = vec![false; rows];
        let mut places = vec![None; tokens.len()];
        for ((sequence, _), place) in tokens.iter().zip(&mut places) {
            if let Some(known) = sequence.places.get(&rows)
                && !std::mem::replace(&mut taken[known.index], true)
            {
                *place = Some(known.index);
            }
        }
        let mut free = (0..rows)
            .filter(|&index| !taken[index])
            .collect::<Vec<_>>()
            .into_iter();
        let key = key(rows);
        let step = self
            .steps
            .get_mut(&rows)
            .expect("invariant: the step was made ready");
        let mut found = Vec::with_capacity(tokens.len());
        for ((sequence, _), place) in tokens.iter_mut().zip(places) {
            let is_new = place.is_none();
            let index = match place.or_else(|| free.next()) {
                Some(index) => index,
                None => return Err(Error::config("a step of more sequences than rows")),
            };
            if is_new {
                let past = step.over(index, &sequence.memories)?;
                sequence.places.insert(rows, BatchSlot { index, past });
            }
            if is_new || sequence.current.as_ref() != Some(&key) {
                // others wrote the memory: a device that has copies of it makes them anew
                let place = sequence.places.get_mut(&rows);
                for input in place.into_iter().flat_map(|place| &mut place.past) {
                    input.bytes_mut().map_err(Error::run)?;
                }
                sequence.current = Some(key.clone());
            }
            found.push(index);
        }
        for index in free {
            if let Entry::Vacant(vacant) = step.blank.entry(index) {
                let blank = match &self.blank {
                    Some(blank) => blank.clone(),
                    None => Memory::sparse(self.model.memory_bytes()?).map_err(Error::memory)?,
                };
                let layers = 2 * self.model.sizes().layers as usize;
                let blanks = vec![blank.clone(); layers];
                self.blank = Some(blank);
                let past = over(&step.session, index, &blanks)?;
                vacant.insert(past);
            }
        }
        Ok(found)
    }
}

fn key(rows: usize) -> SessionKey {
    SessionKey {
        rows,
        logits: Logits::All,
        is_step: true,
        device: None,
    }
}

/// Port name of one of a place's caches.
fn past_name(memory: usize, place: usize) -> String {
    format!("past_{}.{}.{place}", ["key", "value"][memory % 2], memory / 2)
}

/// Inputs of a place over a sequence's caches.
fn over(session: &Session, place: usize, memories: &[Memory]) -> Result<Vec<Input>> {
    let shapes: BTreeMap<&str, &[usize]> = session
        .inputs()
        .map(|input| (&*input.name, &*input.shape))
        .collect();
    let mut inputs = Vec::with_capacity(memories.len());
    for (index, memory) in memories.iter().enumerate() {
        let name = past_name(index, place);
        let shape = *shapes.get(&*name).ok_or_else(|| no_port(&name))?;
        inputs.push(session.input_from(&name, shape, memory).map_err(Error::run)?);
    }
    Ok(inputs)
}

fn no_port(name: &str) -> Error {
    Error::config(format!("the session has no port {name:?}"))
}

impl Step {
    fn new(model: &LanguageModel, rows: usize) -> Result<Step> {
        let session = model.session(&key(rows))?;
        let memories = 2 * model.sizes().layers as usize;
        let mut ports = BTreeMap::from([
            ("embedded".to_owned(), Port::Embedded),
            ("positions".to_owned(), Port::Positions),
        ]);
        for place in 0..rows {
            ports.insert(format!("mask.{place}"), Port::Mask(place));
            ports.extend((0..memories).map(|index| (past_name(index, place), Port::Past(place, index))));
        }
        let order: Result<Vec<Port>> = session
            .inputs()
            .map(|input| {
                ports
                    .get(&input.name)
                    .copied()
                    .ok_or_else(|| no_port(&input.name))
            })
            .collect();
        let gives: Vec<String> = session.outputs().map(|output| output.name.clone()).collect();
        let place = |name: &str| {
            let found = gives.iter().position(|known| known == name);
            found.ok_or_else(|| no_port(name))
        };
        let added: Result<Vec<usize>> = (0..memories)
            .map(|index| place(&format!("{}.{}", ["key", "value"][index % 2], index / 2)))
            .collect();
        let input = |name: &str| session.input(name).map_err(Error::run);
        let masks: Result<Vec<Input>> = (0..rows).map(|row| input(&format!("mask.{row}"))).collect();
        let mut masks = masks?;
        for mask in &mut masks {
            let mut mask = mask.bytes_mut().map_err(Error::run)?;
            mask.fill(0);
            // each sees itself, so that no row is without a key
            mask[model.capacity()] = 1;
        }
        Ok(Step {
            order: order?,
            embedded: input("embedded")?,
            positions: input("positions")?,
            masks,
            shown: vec![0; rows],
            blank: BTreeMap::new(),
            added: added?,
            logits: place("logits")?,
            session,
        })
    }

    fn over(&self, place: usize, memories: &[Memory]) -> Result<Vec<Input>> {
        over(&self.session, place, memories)
    }

    /// Writes the run's inputs.
    fn fill(
        &mut self,
        model: &LanguageModel,
        tokens: &[(&mut Sequence, TokenId)],
        places: &[usize],
    ) -> Result<()> {
        let width = model.sizes().embedding as usize;
        let mut past = vec![0; self.masks.len()];
        {
            let mut bytes = self.embedded.bytes_mut().map_err(Error::run)?;
            let floats: &mut [f32] = bytemuck::cast_slice_mut(&mut bytes);
            // rows of no sequence are zeros, whatever was there
            floats.fill(0.0);
            for ((sequence, token), &place) in tokens.iter().zip(places) {
                model.embed(*token, &mut floats[place * width..][..width])?;
                past[place] = sequence.len();
            }
        }
        {
            let mut bytes = self.positions.bytes_mut().map_err(Error::run)?;
            let positions: &mut [i64] = bytemuck::cast_slice_mut(&mut bytes);
            for (position, past) in positions.iter_mut().zip(&past) {
                *position = *past as i64;
            }
        }
        for ((mask, shown), past) in self.masks.iter_mut().zip(&mut self.shown).zip(past) {
            if *shown == past {
                continue;
            }
            let mut mask = mask.bytes_mut().map_err(Error::run)?;
            if *shown < past {
                mask[*shown..past].fill(1)
            } else {
                mask[past..*shown].fill(0)
            }
            *shown = past;
        }
        Ok(())
    }

    fn run(&self, rows: usize, tokens: &[(&mut Sequence, TokenId)], places: &[usize]) -> Result<Outputs> {
        let mut pasts: Vec<&[Input]> = vec![&[]; rows];
        for (&place, inputs) in &self.blank {
            pasts[place] = inputs;
        }
        for ((sequence, _), &place) in tokens.iter().zip(places) {
            if let Some(known) = sequence.places.get(&rows) {
                pasts[place] = &known.past;
            }
        }
        let inputs: Vec<&Input> = self
            .order
            .iter()
            .map(|port| match *port {
                Port::Embedded => &self.embedded,
                Port::Positions => &self.positions,
                Port::Mask(place) => &self.masks[place],
                Port::Past(place, index) => &pasts[place][index],
            })
            .collect();
        let run = self.session.submit(&inputs).map_err(Error::run)?;
        run.wait(LONGEST).map_err(Error::run)
    }

    /// Appends each row to its sequence's KV cache, and stores its logits.
    fn append(
        &self,
        model: &LanguageModel,
        outputs: &Outputs,
        tokens: &mut [(&mut Sequence, TokenId)],
        places: &[usize],
    ) -> Result<()> {
        let sizes = model.sizes();
        let (heads, size) = (sizes.kv_heads as usize, sizes.head_size as usize * HALF);
        let rows = self.masks.len();
        for (index, &from) in self.added.iter().enumerate() {
            let view = outputs.at(from).map_err(Error::run)?;
            let bytes = view.bytes();
            for ((sequence, _), &place) in tokens.iter_mut().zip(places) {
                let past = sequence.len();
                let Some(known) = sequence.places.get_mut(&rows) else {
                    continue;
                };
                let mut memory = known.past[index].bytes_mut().map_err(Error::run)?;
                let row = &bytes[place * heads * size..][..heads * size];
                for (head, values) in row.chunks_exact(size).enumerate() {
                    let at = (head * model.capacity() + past) * size;
                    memory[at..at + size].copy_from_slice(values);
                }
            }
        }
        let view = outputs.at(self.logits).map_err(Error::run)?;
        let logits = view.values::<f32>().map_err(Error::run)?;
        let vocabulary = sizes.vocabulary as usize;
        for ((sequence, token), &place) in tokens.iter_mut().zip(places) {
            sequence.take(*token, &logits[place * vocabulary..][..vocabulary]);
        }
        Ok(())
    }
}
