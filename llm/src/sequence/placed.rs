//! Where a sequence's chunks go, where that is planned by phases: the next one's size and device, what it took, and whether a device
//! answers as the reference does.
//!
//! Invariants:
//! 1. A plan is kept until it is used up, or the text, or what devices take, is not what it was made for.
//! 2. A chunk that a device was not yet compared for is run by the reference, too.
//!
//! Not here: plans (`crate::phases`), how a chunk is run (`super`).

use std::collections::VecDeque;

use super::Sequence;
use crate::build::Logits;
use crate::model::{SessionKey, rung};
use crate::phases::{Chunk, Move, PhaseReport, PhaseShare, Phases, Ran, STAYS, Workload};
use crate::{Error, Result, TokenId};

/// Tokens of an answer that a plan by phases expects where nobody says.
const USUAL_ANSWER: usize = 128;

/// Where chunks go, where that is planned by phases.
#[derive(Debug, Default)]
pub(super) struct Placed {
    /// Chunks of the prompt that are still to be read.
    pub(super) ahead: VecDeque<Chunk>,
    /// Devices that may be used at once.
    pub(super) allowed: Vec<usize>,
    /// The device that gave the last token of an answer.
    pub(super) answering: Option<usize>,
    /// The position from which on it does.
    pub(super) since: usize,
    /// The device that ran last.
    pub(super) last: Option<usize>,
    /// Tokens of the answer that is expected.
    pub(super) expected: Option<usize>,
    pub(super) report: PhaseReport,
}

/// The size of a chunk, and the number of its device where that is planned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub(super) rows: usize,
    pub(super) device: Option<usize>,
}

impl Sequence {
    /// The next chunk of a text of `left` tokens, of at most `most`.
    pub(super) fn next(&mut self, left: usize, most: usize) -> Result<Next> {
        let Some(phases) = self.model.phases() else {
            let rows = rung(left.min(most.max(1)));
            return Ok(Next { rows, device: None });
        };
        let past = self.len();
        if let Some(fixed) = phases.fixed {
            let is_answer = left == 1 && past > 0;
            self.placed.answering = is_answer.then_some(fixed.answer);
            return Ok(match is_answer {
                true => Next {
                    rows: 1,
                    device: Some(fixed.answer),
                },
                false => Next {
                    rows: fixed.rows,
                    device: Some(fixed.prompt),
                },
            });
        }
        let now = self.model.now_ns();
        let workload = Workload {
            past,
            prompt: left,
            answer: self.placed.expected.unwrap_or(USUAL_ANSWER),
            last: self.placed.last,
        };
        let largest = (most < left).then_some(most.max(1));
        if left == 1 && past > 0 {
            if self.placed.allowed.is_empty() {
                self.placed.allowed = phases.plan(workload, largest, now)?.allowed;
            }
            let last = self.placed.answering;
            let moved = !self.placed.report.moves.is_empty();
            let stays = moved && (self.placed.since..self.placed.since + STAYS).contains(&past);
            let device = last
                .filter(|_| stays)
                .or_else(|| phases.next(&self.placed.allowed, last, past, now))
                .ok_or_else(|| Error::config("no device is left that answers"))?;
            if last != Some(device) {
                self.placed.since = past;
            }
            if let Some(last) = last.filter(|&last| last != device) {
                self.placed.report.moves.push(Move {
                    position: past,
                    from: phases.name(last).to_owned(),
                    to: phases.name(device).to_owned(),
                    slowdown: phases.slowdown(last, now),
                });
            }
            self.placed.answering = Some(device);
            return Ok(Next {
                rows: 1,
                device: Some(device),
            });
        }
        let fits = |ahead: &VecDeque<Chunk>| {
            let tokens: usize = ahead.iter().map(|chunk| chunk.tokens).sum();
            let first = ahead.front();
            tokens == left && first.is_some_and(|chunk| chunk.past == past && chunk.tokens <= most)
        };
        if !fits(&self.placed.ahead) {
            let plan = phases.plan(workload, largest, now)?;
            self.placed.allowed = plan.allowed;
            self.placed.ahead = plan.prompt.into();
            self.placed.answering = None;
        }
        let chunk = self
            .placed
            .ahead
            .pop_front()
            .ok_or_else(|| Error::config("a plan of no chunks"))?;
        Ok(Next {
            rows: chunk.rows,
            device: Some(chunk.device),
        })
    }

    /// Runs a chunk where it was planned to run; a device's first one of a size is compared with the reference's.
    pub(super) fn run_next(
        &mut self,
        tokens: &[TokenId],
        next: Next,
        take: &mut dyn FnMut(&[f32]) -> Option<Vec<f32>>,
    ) -> Result<()> {
        let (Some(device), Some(phases)) = (next.device, self.model.phases()) else {
            return self.chunk(tokens, self.key(next.rows, Logits::Last, None), take);
        };
        let key = self.key(next.rows, Logits::Last, Some(phases.name(device)));
        if let Some(reference) = phases.uncompared(device, next.rows) {
            let reference = self.key(next.rows, Logits::Last, Some(reference));
            return self.compared(tokens, (device, key), reference, &phases, take);
        }
        let past = self.len();
        self.ready(&key)?;
        let start = self.model.now_ns();
        self.chunk(tokens, key, take)?;
        let now = self.model.now_ns();
        let ran = Ran {
            device,
            rows: next.rows,
            past,
            entered: self.placed.last != Some(device),
        };
        let took = now.saturating_sub(start);
        let expected = phases.observe(ran, took, now);
        self.count(&phases, ran, tokens.len(), (took, expected));
        Ok(())
    }

    /// Counts what a device did.
    fn count(&mut self, phases: &Phases, ran: Ran, tokens: usize, (took, expected): (u64, f64)) {
        self.placed.last = Some(ran.device);
        let share = PhaseShare {
            device: phases.name(ran.device).to_owned(),
            emulated: phases.costs.devices[ran.device].emulated,
            tokens,
            ns: took,
            predicted_ns: expected,
        };
        let report = &mut self.placed.report;
        let is_answer = ran.rows == 1 && self.placed.answering == Some(ran.device);
        let shares = if is_answer {
            &mut report.answer
        } else {
            &mut report.prompt
        };
        PhaseReport::add(shares, share);
    }

    /// Runs a chunk on a device and on the reference, whose answer stands where they differ.
    fn compared(
        &mut self,
        tokens: &[TokenId],
        (device, key): (usize, SessionKey),
        reference: SessionKey,
        phases: &Phases,
        take: &mut dyn FnMut(&[f32]) -> Option<Vec<f32>>,
    ) -> Result<()> {
        let past = self.len();
        let rows = key.rows;
        let mut right = Vec::new();
        self.chunk(tokens, reference.clone(), &mut |logits| {
            right = logits.to_vec();
            take(logits)
        })?;
        self.truncate(past);
        let mut own = Vec::new();
        self.ready(&key)?;
        let start = self.model.now_ns();
        self.chunk(tokens, key, &mut |logits| {
            own = logits.to_vec();
            None
        })?;
        let ran = Ran {
            device,
            rows,
            past,
            entered: true,
        };
        // a first run says nothing of later ones: it is counted, and not held against the device
        let took = self.model.now_ns().saturating_sub(start);
        self.count(phases, ran, tokens.len(), (took, took as f64));
        if let Some(words) = phases.compare(self.model.policy(), (device, rows), &own, &right) {
            self.placed.report.quarantined.push(words);
            self.placed.ahead.clear();
            // its keys and values are as doubtful as its logits
            self.truncate(past);
            self.chunk(tokens, reference, &mut |_| None)?;
        }
        Ok(())
    }

    /// The logits of a text on one device.
    pub(crate) fn logits_on(&mut self, device: &str, text: &[TokenId], rows: usize) -> Result<Vec<f32>> {
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

    /// Nanoseconds of a chunk on one device behind so many positions, whatever these hold.
    pub(crate) fn time_on(
        &mut self,
        device: &str,
        text: &[TokenId],
        rows: usize,
        past: usize,
    ) -> Result<u64> {
        let key = self.key(rows, Logits::Last, Some(device));
        self.ready(&key)?;
        self.tokens.clear();
        self.tokens.resize(past, 0);
        let start = self.model.now_ns();
        let done = self.chunk(&text[..rows], key, &mut |logits| Some(logits.to_vec()));
        let took = self.model.now_ns().saturating_sub(start);
        self.truncate(0);
        done?;
        Ok(took)
    }
}
