//! Shadow runs: runs of a plan beside the app, on earlier inputs, whose outputs are compared and
//! dropped.
//!
//! Invariants:
//! 1. A shadow run has its own inputs, so that it puts no tensor of the app in flight.
//! 2. It ends within its time limit, or is cancelled.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use polychip_host::Access;
use polychip_ops::DType;

use crate::error::{Error, ErrorKind, Result};
use crate::run::outputs::Outputs;
use crate::session::deadline_miss::Outcome;
use crate::session::loaded::LoadedPlan;
use crate::session::overflow;
use crate::session::queue_grants::Terms;
use crate::session::run_state::{Progress, RunBindings, RunState};
use crate::tensor::{Hold, TensorMemory};

/// Relative error of two f32 outputs, as Euclidean norms, that counts as the same answer: devices sum in other orders. The
/// GPU's suites allow as much.
const EXACT: f64 = 2e-3;
/// The same where a device may compute in 16-bit floats.
const REDUCED: f64 = 3e-2;
/// Of integers, one in so many may differ: an extreme that two elements share, a value halfway between two steps.
const ONE_IN: usize = 500;

/// Copied inputs of one run of the app, and the incumbent's outputs.
#[derive(Debug)]
pub(crate) struct Sample {
    inputs: Vec<(usize, Arc<TensorMemory>)>,
    pub(super) reference: OnceLock<Vec<OutputSnapshot>>,
}

/// A copied output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OutputSnapshot {
    dtype: DType,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// A shadow run that ended in time.
#[derive(Debug)]
pub(crate) struct Shadowed {
    pub(super) ns: f64,
    pub(crate) answers: Vec<OutputSnapshot>,
}

impl Sample {
    /// The inputs of an ended run; `None` if it cannot run again because it read a state or strings.
    pub(crate) fn of(plan: &LoadedPlan, given: &RunBindings) -> Option<Sample> {
        Sample::copy(plan, &Sample::memories(plan, given)?)
    }

    /// The memory of these inputs, without a copy.
    pub(crate) fn memories(
        plan: &LoadedPlan,
        given: &RunBindings,
    ) -> Option<Vec<(usize, Arc<TensorMemory>)>> {
        let is_packed = |index: usize| plan.wiring.inputs[index].spec.packed;
        if given.states.is_some() || given.inputs.iter().any(|(index, _)| is_packed(*index)) {
            return None;
        }
        let inputs = given.inputs.iter();
        Some(inputs.map(|(index, hold)| (*index, hold.memory())).collect())
    }

    /// What is in this memory now; `None` if it cannot be read.
    pub(crate) fn copy(plan: &LoadedPlan, memories: &[(usize, Arc<TensorMemory>)]) -> Option<Sample> {
        let mut inputs = Vec::with_capacity(memories.len());
        for (index, memory) in memories {
            let spec = &plan.wiring.inputs[*index].spec;
            let copy = TensorMemory::new(spec, true, u64::MAX, &[]).ok()?;
            let elements = memory.read_input().ok()?;
            copy.access(Access::Write).ok()?.copy_from_slice(&elements);
            inputs.push((*index, Arc::new(copy)));
        }
        Some(Sample {
            inputs,
            reference: OnceLock::new(),
        })
    }

    /// The largest magnitude in any input ([`overflow::largest`]).
    pub(crate) fn largest_input(&self) -> f64 {
        self.inputs
            .iter()
            .map(|(_, memory)| largest(memory))
            .fold(0.0, f64::max)
    }

    /// The largest magnitude by input, of so many.
    pub(crate) fn largest_inputs(&self, count: usize) -> Vec<f64> {
        let mut all = vec![0.0; count];
        for (index, memory) in &self.inputs {
            if let Some(one) = all.get_mut(*index) {
                *one = largest(memory);
            }
        }
        all
    }
}

fn largest(memory: &TensorMemory) -> f64 {
    let bytes = memory.access(Access::Read);
    bytes.map_or(0.0, |bytes| overflow::largest(memory.dtype, &bytes))
}

/// Runs a plan on a sample; none where it took longer than `most` and was cancelled.
pub(crate) fn run(plan: &Arc<LoadedPlan>, sample: &Sample, most: Duration) -> Result<Option<Shadowed>> {
    let (index, mut slot) = plan.take_slot()?;
    for (input, memory) in &sample.inputs {
        let Some(hold) = Hold::of_reader(memory) else {
            plan.put_back(index, slot);
            return Err(Error::new(
                ErrorKind::InFlight,
                "a shadow run writes its own input",
            ));
        };
        slot.given.inputs.push((*input, hold));
    }
    let clock = plan.clock();
    let (real, before_ns) = (Instant::now(), clock.now_ns());
    slot.grants.terms = Terms::in_background(before_ns);
    let slot = match plan.start(&mut slot) {
        Err(error) => {
            plan.give_up(index, slot);
            return Err(error);
        }
        Ok(Progress::Waiting) => driven(plan, index, slot, most)?,
        Ok(Progress::Done) => waited(plan, index, slot, most)?,
    };
    let Some(mut slot) = slot else {
        return Ok(None);
    };
    let ns = if clock.is_virtual() {
        clock.now_ns().saturating_sub(before_ns) as f64
    } else {
        real.elapsed().as_nanos() as f64
    };
    if let Err(error) = plan.complete(&mut slot) {
        plan.put_back(index, slot);
        return Err(error);
    }
    let outputs = Outputs::new(Arc::clone(plan), index, slot, Outcome::default(), 0);
    let answers = (0..outputs.len()).map(|output| {
        let view = outputs.at(output)?;
        Ok(OutputSnapshot {
            dtype: view.dtype(),
            shape: view.shape().to_vec(),
            bytes: view.bytes().to_vec(),
        })
    });
    let answers = answers.collect::<Result<_>>()?;
    Ok(Some(Shadowed { ns, answers }))
}

fn waited(
    plan: &Arc<LoadedPlan>,
    index: usize,
    mut slot: Box<RunState>,
    most: Duration,
) -> Result<Option<Box<RunState>>> {
    match plan.finish_within(&mut slot, most) {
        Ok(Progress::Done) => Ok(Some(slot)),
        Ok(Progress::Waiting) => {
            plan.give_up(index, slot);
            Ok(None)
        }
        Err(error) => {
            plan.give_up(index, slot);
            Err(error)
        }
    }
}

fn driven(
    plan: &Arc<LoadedPlan>,
    index: usize,
    slot: Box<RunState>,
    most: Duration,
) -> Result<Option<Box<RunState>>> {
    if let Err(error) = plan.make_run_driver(index) {
        plan.give_up(index, slot);
        return Err(error);
    }
    plan.drive(index, slot);
    match plan.wait_driven(index, most) {
        Some((slot, Ok(()))) => Ok(Some(slot)),
        Some((slot, Err(error))) => {
            plan.give_up(index, slot);
            Err(error)
        }
        None => {
            plan.cancel_driven(index);
            plan.abandon(index, None);
            Ok(None)
        }
    }
}

/// Whether two plans gave the same answers.
pub(super) fn agree(one: &[OutputSnapshot], other: &[OutputSnapshot], is_exact: bool) -> bool {
    let tolerance = if is_exact { EXACT } else { REDUCED };
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.agrees(b, tolerance))
}

impl OutputSnapshot {
    /// The largest magnitude ([`overflow::largest`]).
    pub(crate) fn largest(&self) -> f64 {
        overflow::largest(self.dtype, &self.bytes)
    }

    fn agrees(&self, other: &OutputSnapshot, tolerance: f64) -> bool {
        if self.dtype != other.dtype || self.shape != other.shape || self.bytes.len() != other.bytes.len() {
            return false;
        }
        if self.bytes == other.bytes {
            return true;
        }
        match self.dtype {
            DType::F32 => floats(
                self.words::<4>().map(|word| f64::from(f32::from_le_bytes(word))),
                other.words::<4>().map(|word| f64::from(f32::from_le_bytes(word))),
                tolerance,
            ),
            DType::F64 => floats(
                self.words::<8>().map(f64::from_le_bytes),
                other.words::<8>().map(f64::from_le_bytes),
                tolerance,
            ),
            // half a step of the type is more than devices differ by
            DType::F16 => halves(self, other, |bits| f64::from(half::f16::from_bits(bits))),
            DType::BF16 => halves(self, other, |bits| f64::from(half::bf16::from_bits(bits))),
            // the app's own quantised values: a step more or less is rounding
            DType::U8 | DType::I8 => {
                let bytes = self.bytes.iter().zip(&other.bytes);
                few(
                    bytes
                        .filter(|(a, b)| a.wrapping_sub(**b).wrapping_add(1) > 2)
                        .count(),
                    self.bytes.len(),
                )
            }
            _ => {
                let size = self.dtype.byte_len(1).unwrap_or(1).max(1);
                let elements = self.bytes.chunks(size).zip(other.bytes.chunks(size));
                few(elements.filter(|(a, b)| a != b).count(), self.bytes.len() / size)
            }
        }
    }

    fn words<const N: usize>(&self) -> impl Iterator<Item = [u8; N]> {
        self.bytes.as_chunks::<N>().0.iter().copied()
    }
}

fn few(different: usize, all: usize) -> bool {
    different <= all / ONE_IN
}

fn halves(one: &OutputSnapshot, other: &OutputSnapshot, value: impl Fn(u16) -> f64) -> bool {
    let values = |answer: &OutputSnapshot| -> Vec<f64> {
        answer
            .words::<2>()
            .map(|word| value(u16::from_le_bytes(word)))
            .collect()
    };
    floats(values(one).into_iter(), values(other).into_iter(), REDUCED)
}

/// Whether the difference of two vectors is small beside the first; infinite and undefined elements must be alike.
fn floats(one: impl Iterator<Item = f64>, other: impl Iterator<Item = f64>, tolerance: f64) -> bool {
    let (mut difference, mut size) = (0.0, 0.0);
    for (a, b) in one.zip(other) {
        if a.is_finite() && b.is_finite() {
            difference += (a - b) * (a - b);
            size += a * a;
        } else if a.is_nan() != b.is_nan() || (!a.is_nan() && a != b) {
            return false;
        }
    }
    difference <= tolerance * tolerance * size.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(values: &[f32]) -> Vec<OutputSnapshot> {
        vec![OutputSnapshot {
            dtype: DType::F32,
            shape: vec![values.len()],
            bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }]
    }

    #[test]
    fn outputs_equal_up_to_rounding_match() {
        let one = answer(&[1.0, -2.0, 3.0]);
        assert!(agree(&one, &answer(&[1.0001, -2.0, 3.0]), true));
        assert!(!agree(&one, &answer(&[1.1, -2.0, 3.0]), true));
        assert!(agree(&one, &answer(&[1.01, -2.0, 3.0]), false), "16-bit floats");
        assert!(!agree(&one, &answer(&[1.0, -2.0]), true));
        assert!(!agree(&one, &answer(&[f32::NAN, -2.0, 3.0]), true));
        let nan = answer(&[f32::NAN, f32::INFINITY, 3.0]);
        assert!(agree(&nan, &answer(&[f32::NAN, f32::INFINITY, 3.0001]), true));
        assert!(!agree(&nan, &answer(&[f32::NAN, f32::NEG_INFINITY, 3.0]), true));
        assert!(!agree(&answer(&[0.0, 0.0]), &answer(&[0.0, 1.0]), true));
    }

    #[test]
    fn integer_outputs_match_except_a_few() {
        let labels = |differ: usize| {
            let values = (0..1_000).map(|index| i64::from(index < differ));
            vec![OutputSnapshot {
                dtype: DType::I64,
                shape: vec![1_000],
                bytes: values.flat_map(i64::to_le_bytes).collect(),
            }]
        };
        assert!(agree(&labels(0), &labels(2), true));
        assert!(!agree(&labels(0), &labels(3), true));
        let codes = |step: u8| {
            vec![OutputSnapshot {
                dtype: DType::U8,
                shape: vec![4],
                bytes: vec![10 + step, 0, 255, 7],
            }]
        };
        assert!(agree(&codes(0), &codes(1), true));
        assert!(!agree(&codes(0), &codes(2), true));
    }
}
