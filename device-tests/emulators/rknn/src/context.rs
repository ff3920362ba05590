//! A model in the runtime: the memory of its ports, and its runs.
//!
//! Invariant: a run holds no lock of the registry while it computes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polychip_emulator_chip::fault::Effect;
use polychip_emulator_chip::model::Model;
use polychip_emulator_chip::program::Spec;
use polychip_ops::DType;
use polychip_sys::rknn::bindings as rk;

use crate::board::{self, COUNTS};
use crate::memories;

/// The layout of a port's elements in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Form {
    pub(crate) dtype: DType,
    pub(crate) channels_last: bool,
}

impl Form {
    /// The form of a type and an order; `None` if it is not emulated. The chip's integers cross the
    /// interface as floats.
    pub(crate) fn of(dtype: i32, order: i32) -> Option<Form> {
        let dtype = match u32::try_from(dtype).ok()? {
            rk::RKNN_TYPE_F32 => DType::F32,
            rk::RKNN_TYPE_F16 => DType::F16,
            _ => return None,
        };
        let channels_last = match u32::try_from(order).ok()? {
            rk::RKNN_ORDER_NHWC => true,
            rk::RKNN_ORDER_NCHW | rk::RKNN_ORDER_UNDEFINED => false,
            _ => return None,
        };
        Some(Form { dtype, channels_last })
    }

    /// Bytes of a tensor of this spec in this form.
    pub(crate) fn bytes(self, spec: &Spec) -> usize {
        spec.elements() * self.dtype.byte_width().unwrap_or(0)
    }

    /// Converts bytes in this form to the chip's.
    pub(crate) fn taken(self, bytes: &[u8], spec: &Spec) -> Result<Vec<u8>, String> {
        let width = self.dtype.byte_width().unwrap_or(1);
        let rows = if self.channels_last {
            reordered(bytes, width, &spec.shape, false)
        } else {
            bytes.to_vec()
        };
        if self.dtype == spec.dtype {
            return Ok(rows);
        }
        spec.store(&Spec::plain(self.dtype, spec.shape.clone()).load(&rows)?)
    }

    /// Converts the chip's bytes to this form.
    pub(crate) fn given(self, bytes: &[u8], spec: &Spec) -> Result<Vec<u8>, String> {
        let width = self.dtype.byte_width().unwrap_or(1);
        let rows = if self.dtype == spec.dtype {
            bytes.to_vec()
        } else {
            Spec::plain(self.dtype, spec.shape.clone()).store(&spec.load(bytes)?)?
        };
        Ok(if self.channels_last {
            reordered(&rows, width, &spec.shape, true)
        } else {
            rows
        })
    }
}

/// `[n, c, …]` as `[n, …, c]`, or back.
fn reordered(bytes: &[u8], width: usize, shape: &[usize], to_last: bool) -> Vec<u8> {
    let (Some(&images), Some(&channels)) = (shape.first(), shape.get(1)) else {
        return bytes.to_vec();
    };
    let places: usize = shape[2..].iter().product();
    let mut made = vec![0; bytes.len()];
    for image in 0..images {
        for channel in 0..channels {
            for place in 0..places {
                let first = ((image * channels + channel) * places + place) * width;
                let last = ((image * places + place) * channels + channel) * width;
                let (from, to) = if to_last { (first, last) } else { (last, first) };
                made[to..to + width].copy_from_slice(&bytes[from..from + width]);
            }
        }
    }
    made
}

/// Memory that is bound to a port.
#[derive(Clone, Copy)]
struct Bound {
    memory: usize,
    form: Form,
}

#[derive(Default)]
struct State {
    bound: Vec<Option<Bound>>,
    /// Inputs that were copied in, as the chip has them.
    set: Vec<Option<Vec<u8>>>,
    /// Outputs of the last run, as the chip has them.
    made: Vec<Vec<u8>>,
    microseconds: i64,
    /// Report on the layers of the last run, valid until the next call.
    times: Vec<u8>,
}

/// A model in the runtime.
pub(crate) struct Context {
    pub(crate) model: Arc<Model>,
    flags: u32,
    state: Mutex<State>,
}

impl Context {
    pub(crate) fn new(model: Arc<Model>, flags: u32) -> Context {
        let (inputs, outputs) = (model.program.inputs().len(), model.program.outputs().len());
        Context {
            flags,
            state: Mutex::new(State {
                bound: vec![None; inputs + outputs],
                set: vec![None; inputs],
                ..State::default()
            }),
            model,
        }
    }

    /// Makes another context of the same model, without bound memory.
    pub(crate) fn another(&self) -> Context {
        Context::new(Arc::clone(&self.model), self.flags)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The spec of a port, inputs first.
    pub(crate) fn spec(&self, port: usize) -> Option<Spec> {
        let (inputs, outputs) = (self.model.program.inputs(), self.model.program.outputs());
        inputs.chain(outputs).nth(port).cloned()
    }

    fn inputs(&self) -> usize {
        self.model.program.inputs().len()
    }

    /// Binds memory to a port.
    pub(crate) fn bind(&self, port: usize, memory: usize, form: Form) {
        if let Some(bound) = self.state().bound.get_mut(port) {
            *bound = Some(Bound { memory, form });
        }
    }

    /// Removes the bindings of memory that is being freed.
    pub(crate) fn unbind(&self, memory: usize) {
        for bound in &mut self.state().bound {
            bound.take_if(|bound| bound.memory == memory);
        }
    }

    /// Takes a copied input.
    pub(crate) fn set(&self, index: usize, bytes: &[u8], form: Form) -> Result<(), i32> {
        let spec = self.spec(index).filter(|_| index < self.inputs());
        let spec = spec.ok_or(rk::RKNN_BAD_INPUT)?;
        let taken = form.taken(bytes, &spec).map_err(|_| rk::RKNN_BAD_INPUT)?;
        COUNTS
            .copied_bytes
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.state().set[index] = Some(taken);
        Ok(())
    }

    /// Returns an output of the last run, as f32 or in the chip's type.
    pub(crate) fn output(&self, index: usize, float: bool) -> Result<Vec<u8>, i32> {
        let spec = self.spec(self.inputs() + index).ok_or(rk::RKNN_BAD_OUTPUT)?;
        let state = self.state();
        let made = state.made.get(index).ok_or(rk::RKNN_BAD_OUTPUT)?;
        let form = Form {
            dtype: if float { DType::F32 } else { spec.dtype },
            channels_last: false,
        };
        let given = form.given(made, &spec).map_err(|_| rk::RKNN_BAD_OUTPUT)?;
        COUNTS
            .copied_bytes
            .fetch_add(given.len() as u64, Ordering::Relaxed);
        Ok(given)
    }

    /// Time of the last run, in microseconds.
    pub(crate) fn microseconds(&self) -> i64 {
        self.state().microseconds
    }

    /// Address and length of the report on the last run; `None` if it was not requested.
    pub(crate) fn times(&self) -> Option<(usize, usize)> {
        let state = self.state();
        let kept = self.flags & rk::RKNN_FLAG_COLLECT_TIMES != 0 && !state.times.is_empty();
        kept.then(|| (state.times.as_ptr().expose_provenance(), state.times.len()))
    }

    /// One run.
    pub(crate) fn run(&self, effect: Option<Effect>) -> Result<(), i32> {
        let inputs = self.inputs();
        let mut taken = Vec::with_capacity(inputs);
        for port in 0..inputs {
            let (bound, set) = {
                let state = self.state();
                (state.bound[port], state.set[port].clone())
            };
            let spec = self.spec(port).ok_or(rk::RKNN_BAD_INPUT)?;
            taken.push(match (bound, set) {
                (Some(bound), _) => {
                    let flush = self.flags & rk::RKNN_FLAG_NO_INPUT_FLUSH == 0;
                    let bytes = memories::read(bound.memory, flush).ok_or(rk::RKNN_BAD_INPUT)?;
                    let bytes = bytes.get(..bound.form.bytes(&spec)).ok_or(rk::RKNN_BAD_INPUT)?;
                    bound.form.taken(bytes, &spec).map_err(|_| rk::RKNN_BAD_INPUT)?
                }
                (None, Some(set)) => set,
                (None, None) => return Err(rk::RKNN_BAD_INPUT),
            });
        }
        let inputs_of_run: Vec<&[u8]> = taken.iter().map(Vec::as_slice).collect();
        let (mut made, work) = self
            .model
            .program
            .run(&inputs_of_run)
            .map_err(|_| rk::RKNN_FAIL)?;
        let spent = board::spend(work, self.model.integers);
        COUNTS.runs.fetch_add(1, Ordering::Relaxed);
        COUNTS.nanoseconds.fetch_add(spent.ns, Ordering::Relaxed);
        COUNTS.nanojoules.fetch_add(spent.nj as u64, Ordering::Relaxed);
        if effect == Some(Effect::Wrong) {
            for bytes in &mut made {
                let half = bytes.len() / 2;
                bytes[half..].fill(0);
            }
        }
        for (index, bytes) in made.iter().enumerate() {
            let bound = self.state().bound[inputs + index];
            let spec = self.spec(inputs + index).ok_or(rk::RKNN_BAD_OUTPUT)?;
            if let Some(bound) = bound {
                let given = bound.form.given(bytes, &spec).map_err(|_| rk::RKNN_BAD_OUTPUT)?;
                let invalidate = self.flags & rk::RKNN_FLAG_NO_OUTPUT_INVALIDATE == 0;
                if !memories::write(bound.memory, &given, invalidate) {
                    return Err(rk::RKNN_BAD_OUTPUT);
                }
            }
        }
        let mut state = self.state();
        state.made = made;
        state.microseconds = i64::try_from(spent.ns.div_ceil(1000)).unwrap_or(i64::MAX);
        state.times = format!("emulated: the whole model, {} us\0", state.microseconds).into_bytes();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_last_conversion_round_trips() {
        let shape = [1, 2, 1, 3];
        let first: Vec<u8> = (0..6).collect();
        let last = reordered(&first, 1, &shape, true);
        assert_eq!(last, [0, 3, 1, 4, 2, 5]);
        assert_eq!(reordered(&last, 1, &shape, false), first);
    }

    #[test]
    fn reals_are_rounded_on_the_way_in() {
        let spec = Spec::plain(DType::F16, [1, 2]);
        let form = Form::of(rk::RKNN_TYPE_F32 as i32, rk::RKNN_ORDER_UNDEFINED as i32).unwrap();
        let bytes: Vec<u8> = [1.0f32, 1.0001]
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let back = form.given(&form.taken(&bytes, &spec).unwrap(), &spec).unwrap();
        assert_eq!(back[..4], back[4..]);
        assert_eq!(Form::of(rk::RKNN_TYPE_I8 as i32, 0), None);
    }
}
