//! Execution by prefill and decode placement: size and device of the next chunk, its time, and the
//! comparison of devices with the reference.
//!
//! Invariants:
//! 1. A plan is kept until it is used up, or until the text or the devices' times differ from what
//!    it was made for.
//! 2. A chunk size that a device was not yet compared for also runs on the reference.
//!
//! Not here: plans (`crate::prefill_decode`), how a chunk is run (`super`).

use std::collections::VecDeque;
use std::sync::Arc;

use polychip::{Access, Session};

use super::Sequence;
use super::placement_state::PlacementState;
use crate::build::Logits;
use crate::chunk::{SessionKey, rung};
use crate::prefill_decode::{Chunk, Move, PhaseReport, PhaseShare, Phases, Ran, STAYS, Workload};
use crate::{Error, Result, TokenId};

/// Expected answer length in tokens if the caller gives none.
const USUAL_ANSWER: usize = 128;

/// A byte of a dummy KV cache: twice, it is a small 16-bit number.
const TOUCHED: u8 = 0x2e;

/// The size of a chunk, and the number of its device if that is planned.
#[derive(Clone, Debug)]
pub(super) struct Next {
    pub(super) rows: usize,
    device: Option<(Arc<Phases>, usize)>,
    /// Whether it is a token of an answer.
    is_answer: bool,
}

impl Sequence {
    /// The next chunk of a text of `left` tokens, of at most `most`.
    pub(super) fn next(&mut self, left: usize, most: usize) -> Result<Next> {
        let Some(phases) = self.model.phases() else {
            let rows = rung(left.min(most.max(1)));
            return Ok(Next {
                rows,
                device: None,
                is_answer: false,
            });
        };
        let known = self.placed.phases.as_ref();
        if !known.is_some_and(|known| Arc::ptr_eq(known, &phases)) {
            // numbers of devices are those of other costs
            self.placed = PlacementState {
                phases: Some(Arc::clone(&phases)),
                expected: self.placed.expected,
                report: std::mem::take(&mut self.placed.report),
                ..PlacementState::default()
            };
        }
        let (rows, device, is_answer) = match phases.fixed {
            Some(fixed) if left == 1 && !self.is_empty() => {
                self.placed.answering = Some(fixed.answer);
                (1, fixed.answer, true)
            }
            Some(fixed) => {
                self.placed.answering = None;
                (fixed.rows, fixed.prompt, false)
            }
            None => self.planned(&phases, left, most)?,
        };
        Ok(Next {
            rows,
            device: Some((phases, device)),
            is_answer,
        })
    }

    /// The plan's next chunk: its size and device, and whether it is a token of an answer.
    fn planned(&mut self, phases: &Phases, left: usize, most: usize) -> Result<(usize, usize, bool)> {
        let (now, past) = (self.now(), self.len());
        let fits = |ahead: &VecDeque<Chunk>| {
            let tokens: usize = ahead.iter().map(|chunk| chunk.tokens).sum();
            let first = ahead.front();
            tokens == left && first.is_some_and(|chunk| chunk.past == past && chunk.tokens <= most)
        };
        let is_answer = left == 1 && past > 0 && !fits(&self.placed.ahead);
        if is_answer && let Some(device) = self.answering(phases, past, now) {
            return Ok((1, device, true));
        }
        if !fits(&self.placed.ahead) {
            let room = self.model.capacity().saturating_sub(past + left);
            let workload = Workload {
                past,
                prompt: left,
                answer: self.placed.expected.unwrap_or(USUAL_ANSWER).min(room),
                last: self.placed.last,
            };
            let plan = phases.plan(workload, (most < left).then_some(most.max(1)), now)?;
            self.placed.allowed = plan.allowed;
            self.placed.answering = plan.answer.first().map(|run| run.device);
            self.placed.ahead = plan.prompt.into();
        }
        let chunk = self.placed.ahead.pop_front();
        let chunk = chunk.ok_or_else(|| Error::config("a plan of no chunks"))?;
        Ok((chunk.rows, chunk.device, false))
    }

    /// The device for the next token of an answer; `None` if all that is allowed must be planned
    /// again.
    fn answering(&mut self, phases: &Phases, past: usize, now: u64) -> Option<usize> {
        let last = self.placed.answering.filter(|&last| phases.answers(last));
        let moved = !self.placed.report.moves.is_empty();
        let stays = moved && (self.placed.since..self.placed.since + STAYS).contains(&past);
        let next = || phases.next(&self.placed.allowed, last, past, now);
        let device = last.filter(|_| stays).or_else(next)?;
        if last != Some(device) {
            self.placed.since = past;
            if let Some(last) = last {
                self.placed.report.moves.push(Move {
                    position: past,
                    from: phases.name(last).to_owned(),
                    to: phases.name(device).to_owned(),
                    slowdown: phases.slowdown(last, now),
                });
            }
        }
        self.placed.answering = Some(device);
        Some(device)
    }

    /// Time on the runtime's clock in nanoseconds.
    fn now(&self) -> u64 {
        let current = self.current.as_ref().and_then(|key| self.views.get(key));
        current.map_or_else(|| self.model.now_ns(), |view| view.session.now_ns())
    }

    /// Runs a chunk where it was planned to run; a device's first chunk of a size is compared with
    /// the reference's.
    pub(super) fn run_next(
        &mut self,
        tokens: &[TokenId],
        next: Next,
        take: &mut dyn FnMut(&[f32]) -> Option<Vec<f32>>,
    ) -> Result<()> {
        let Some((phases, device)) = next.device else {
            return self.chunk(tokens, self.key(next.rows, Logits::Last, None), take);
        };
        let key = self.key(next.rows, Logits::Last, Some(phases.name(device)));
        if let Some(reference) = phases.uncompared(device, next.rows) {
            return self.compared(tokens, (device, key), (reference, next.is_answer), &phases, take);
        }
        let ran = Ran {
            device,
            rows: next.rows,
            past: self.len(),
            entered: self.placed.last != Some(device),
        };
        self.ready(&key)?;
        let clock = self.clock(&key);
        let start = clock.now_ns();
        self.chunk(tokens, key, take)?;
        let now = clock.now_ns();
        let took = now.saturating_sub(start);
        let expected = phases.observe(ran, took, now);
        self.count(&phases, (ran, next.is_answer), tokens.len(), (took, expected));
        Ok(())
    }

    /// The ready session of a key.
    fn clock(&self, key: &SessionKey) -> Arc<Session> {
        Arc::clone(&self.views[key].session)
    }

    /// Counts what a device did.
    fn count(
        &mut self,
        phases: &Phases,
        (ran, is_answer): (Ran, bool),
        tokens: usize,
        (took, expected): (u64, f64),
    ) {
        self.placed.last = Some(ran.device);
        let share = PhaseShare {
            device: phases.name(ran.device).to_owned(),
            emulated: phases.costs.devices[ran.device].emulated,
            tokens,
            ns: took,
            predicted_ns: expected,
        };
        let report = &mut self.placed.report;
        let shares = if is_answer {
            &mut report.answer
        } else {
            &mut report.prompt
        };
        PhaseReport::add(shares, share);
    }

    /// Runs a chunk on a device and on the reference, whose answer is used where they differ.
    fn compared(
        &mut self,
        tokens: &[TokenId],
        (device, key): (usize, SessionKey),
        (reference, is_answer): (usize, bool),
        phases: &Phases,
        take: &mut dyn FnMut(&[f32]) -> Option<Vec<f32>>,
    ) -> Result<()> {
        let (past, rows) = (self.len(), key.rows);
        let other = self.key(rows, Logits::Last, Some(phases.name(reference)));
        let (mut right, mut own) = (Vec::new(), Vec::new());
        self.chunk(tokens, other.clone(), &mut |logits| {
            right = logits.to_vec();
            None
        })?;
        self.truncate(past);
        self.ready(&key)?;
        let clock = self.clock(&key);
        let start = clock.now_ns();
        self.chunk(tokens, key, &mut |logits| {
            own = logits.to_vec();
            None
        })?;
        // a first run says nothing of later ones: it is counted, and not held against the device
        let took = clock.now_ns().saturating_sub(start);
        let mut ran = Ran {
            device,
            rows,
            past,
            entered: true,
        };
        match phases.compare(self.model.policy(), (device, rows), &own, &right) {
            None => self.model.keep_right(phases.name(device), rows),
            Some(words) => {
                self.placed.report.quarantined.push(words);
                self.placed.ahead.clear();
                self.placed.answering = None;
                ran.device = reference;
                // its KV cache is as unreliable as its logits
                self.truncate(past);
                self.chunk(tokens, other, &mut |_| None)?;
            }
        }
        self.count(phases, (ran, is_answer), tokens.len(), (took, took as f64));
        if let Some(kept) = take(&right) {
            self.logits = kept;
        }
        Ok(())
    }

    /// The logits of a text on one device.
    pub(crate) fn logits_on(&mut self, device: &str, text: &[TokenId], rows: usize) -> Result<Vec<f32>> {
        self.wake_anew()?;
        self.truncate(0);
        let mut kept = Vec::new();
        let key = self.key(rows, Logits::Last, Some(device));
        let done = self.chunk(text, key, &mut |logits| {
            kept = logits.to_vec();
            None
        });
        self.truncate(0);
        done?;
        Ok(kept)
    }

    /// Nanoseconds of a chunk on one device after this many positions, whatever their content.
    pub(crate) fn time_on(
        &mut self,
        device: &str,
        text: &[TokenId],
        rows: usize,
        past: usize,
    ) -> Result<u64> {
        let key = self.key(rows, Logits::Last, Some(device));
        self.wake_anew()?;
        self.ready(&key)?;
        self.tokens.clear();
        self.tokens.resize(past, 0);
        let clock = self.clock(&key);
        let start = clock.now_ns();
        let done = self.chunk(&text[..rows], key, &mut |logits| Some(logits.to_vec()));
        let took = clock.now_ns().saturating_sub(start);
        self.truncate(0);
        done?;
        Ok(took)
    }

    /// Writes the KV cache of all positions.
    pub(crate) fn touch(&mut self) -> Result<()> {
        self.wake_anew()?;
        self.charge(self.model.capacity())?;
        for memory in &self.memories {
            memory.access(Access::Write).map_err(Error::memory)?.fill(TOUCHED);
        }
        Ok(())
    }

    /// Mean nanoseconds of an answer's token on one device after `past` positions, whatever their
    /// content, over this text, one token after another.
    pub(crate) fn time_answer_on(&mut self, device: &str, text: &[TokenId], past: usize) -> Result<u64> {
        let key = self.key(1, Logits::Last, Some(device));
        self.wake_anew()?;
        self.ready(&key)?;
        self.tokens.clear();
        self.tokens.resize(past, 0);
        let clock = self.clock(&key);
        let start = clock.now_ns();
        let mut done = Ok(());
        for token in text.chunks(1) {
            done = self.chunk(token, key.clone(), &mut |logits| Some(logits.to_vec()));
            if done.is_err() {
                break;
            }
        }
        let took = clock.now_ns().saturating_sub(start);
        self.truncate(0);
        done?;
        Ok(took / text.len().max(1) as u64)
    }
}
