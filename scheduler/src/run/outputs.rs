//! The outputs of a run, in place.
//!
//! Invariant: outputs hold their slot: its memory is not reused before they are dropped.

use std::sync::Arc;
use std::time::Duration;

use polychip_host::{Access, AccessGuard, MAX_RANK};
use polychip_ops::DType;

use crate::error::{Error, ErrorKind, Result};
use crate::session::deadline_miss::Outcome;
use crate::session::loaded::LoadedPlan;
use crate::session::run_state::RunState;
use crate::session::wiring::OutputSource;
use crate::tensor::Element;
use crate::tensor::values::check_dtype;

/// The outputs of a run, in the model's order.
pub struct Outputs {
    plan: Arc<LoadedPlan>,
    index: usize,
    slot: Option<Box<RunState>>,
    outcome: Outcome,
    run: u64,
}

impl Outputs {
    /// Of a run of this number, whose slot they hold.
    pub(crate) fn new(
        plan: Arc<LoadedPlan>,
        index: usize,
        slot: Box<RunState>,
        outcome: Outcome,
        run: u64,
    ) -> Outputs {
        Outputs {
            plan,
            index,
            slot: Some(slot),
            outcome,
            run,
        }
    }

    /// The output of this name.
    ///
    /// # Errors
    /// The model has no such output, or it is bound to the app's memory.
    pub fn get(&self, name: &str) -> Result<OutputView<'_>> {
        let outputs = &self.plan.wiring.outputs;
        let index = outputs
            .iter()
            .position(|output| output.spec.name == name)
            .ok_or_else(|| Error::new(ErrorKind::BadInput, format!("the model has no output {name:?}")))?;
        self.at(index)
    }

    /// The run's latency: from the submitting call to the end of its last part. The devices report
    /// this end; for a device that reports no times, it is the time at which the host noticed it.
    #[must_use]
    pub fn latency(&self) -> Duration {
        Duration::from_nanos(self.outcome.latency_ns)
    }

    /// The number of the run ([`Run::number`]).
    #[must_use]
    pub fn run(&self) -> u64 {
        self.run
    }

    /// By how much the run was late; `None` if it was in time or had no deadline.
    #[must_use]
    pub fn late_by(&self) -> Option<Duration> {
        self.outcome.late_ns.map(Duration::from_nanos)
    }

    /// Number of outputs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.plan.wiring.outputs.len()
    }

    /// Whether the model has no outputs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The output at this index.
    ///
    /// # Errors
    /// The index is out of range, or the output is bound to the app's memory.
    pub fn at(&self, index: usize) -> Result<OutputView<'_>> {
        let _limit = self.plan.limit_calls();
        let outputs = &self.plan.wiring.outputs;
        let Some(output) = outputs.get(index) else {
            let words = format!("no output {index}; the model has {} outputs", outputs.len());
            return Err(Error::new(ErrorKind::BadInput, words));
        };
        let slot = self
            .slot
            .as_ref()
            .expect("invariant: outputs hold their slot until they are dropped");
        let spec = &output.spec;
        let mut view = OutputView {
            name: &spec.name,
            dtype: spec.dtype,
            dims: [0; MAX_RANK],
            rank: 0,
            content: Content::Constant(&[]),
        };
        view.set_dims(spec.shape.iter().copied())?;
        if slot.cut_by_app[index] {
            return Err(bound_by_app(&spec.name));
        }
        let padding = slot.was_padded.as_ref();
        if let Some(shape) = padding.and_then(|padding| padding.shapes.outputs[index].as_ref()) {
            // where nothing was copied, the elements come first in the run's memory
            view.set_dims(shape.iter().copied())?;
            if !slot.cut[index].is_empty() {
                view.content = Content::Constant(&slot.cut[index]);
                return Ok(view);
            }
        }
        match &output.source {
            OutputSource::Same(first) => {
                let mut same = self.at(*first)?;
                same.name = &spec.name;
                return Ok(same);
            }
            OutputSource::Constant(bytes) => view.content = Content::Constant(bytes),
            OutputSource::Input(_) => {
                let memory = slot.outputs[index]
                    .as_ref()
                    .expect("invariant: an input handed through has memory");
                view.content = Content::Computed(memory.access(Access::Read)?);
            }
            OutputSource::Part(part, port) => {
                let memory = slot.outputs[index]
                    .as_ref()
                    .filter(|_| !slot.app_bound[index])
                    .ok_or_else(|| bound_by_app(&spec.name))?;
                let guard = memory.access(Access::Read)?;
                if spec.upper_bound {
                    let extents = slot.extents(*part, *port);
                    let dims = &extents.dims[..extents.rank];
                    check_stated(&spec.name, spec.dtype, dims, guard.len())?;
                    view.set_dims(dims.iter().map(|dim| usize::try_from(*dim).unwrap_or(0)))?;
                }
                view.content = Content::Computed(guard);
            }
        }
        Ok(view)
    }
}

/// Holds the shape that a device states after a run against the memory of the output, of `room` bytes: users of
/// the view read as many elements as its shape has.
///
/// # Errors
/// An extent is negative, or the elements do not fit.
fn check_stated(name: &str, dtype: DType, dims: &[i64], room: usize) -> Result<()> {
    let sizes = || dims.iter().map(|dim| usize::try_from(*dim).ok());
    let elements = sizes().try_fold(1usize, |elements, size| elements.checked_mul(size?));
    let wrong = match elements.and_then(|elements| dtype.byte_len(elements)) {
        Some(bytes) if bytes <= room => return Ok(()),
        Some(bytes) => format!("{bytes} bytes"),
        None => "more bytes than can be counted, or a negative extent".to_owned(),
    };
    let words = format!(
        "the device states shape {dims:?} of {dtype} for output {name:?}: {wrong}; its memory has {room} bytes"
    );
    Err(Error::new(ErrorKind::DeviceFailed, words))
}

fn bound_by_app(name: &str) -> Error {
    let words = format!(
        "output {name:?} is bound by the app or is a state; read it there (Output::bytes, Session::state)"
    );
    Error::new(ErrorKind::BadInput, words)
}

impl Drop for Outputs {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.plan.put_back(self.index, slot);
        }
    }
}

impl std::fmt::Debug for Outputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.plan.wiring.outputs.iter().map(|output| &output.spec))
            .finish()
    }
}

/// One output, in place.
pub struct OutputView<'a> {
    name: &'a str,
    dtype: DType,
    dims: [usize; MAX_RANK],
    rank: usize,
    content: Content<'a>,
}

enum Content<'a> {
    Computed(AccessGuard<'a>),
    Constant(&'a [u8]),
}

impl OutputView<'_> {
    fn set_dims(&mut self, dims: impl ExactSizeIterator<Item = usize>) -> Result<()> {
        if dims.len() > MAX_RANK {
            let words = format!("output {:?} has rank {}, above {MAX_RANK}", self.name, dims.len());
            return Err(Error::new(ErrorKind::BadInput, words));
        }
        self.rank = dims.len();
        self.dims.iter_mut().zip(dims).for_each(|(slot, dim)| *slot = dim);
        Ok(())
    }

    /// Name in the model.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name
    }

    /// Element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// True shape in ONNX order.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.dims[..self.rank]
    }

    /// The elements as bytes: little-endian in row-major order, types of less than a byte packed.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let all: &[u8] = match &self.content {
            Content::Computed(guard) => guard,
            Content::Constant(bytes) => bytes,
        };
        let wanted = polychip_ops::axis::product(self.shape()).and_then(|count| self.dtype.byte_len(count));
        &all[..wanted.unwrap_or(all.len()).min(all.len())]
    }

    /// The elements.
    ///
    /// # Errors
    /// The output holds another type.
    pub fn values<T: Element>(&self) -> Result<std::borrow::Cow<'_, [T]>> {
        if T::DTYPE != self.dtype {
            check_dtype::<T>(&format!("output {:?}", self.name), self.dtype)?;
        }
        // memory of a run is aligned; a constant in a model file need not be
        Ok(match bytemuck::try_cast_slice(self.bytes()) {
            Ok(values) => std::borrow::Cow::Borrowed(values),
            Err(_) => std::borrow::Cow::Owned(bytemuck::allocation::pod_collect_to_vec(self.bytes())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stated_shape_that_exceeds_its_memory_is_refused() {
        let right: [(&[i64], usize); 5] = [
            (&[], 4),
            (&[2, 3], 24),
            (&[2, 2], 24),
            (&[0, 7], 0),
            (&[0, i64::MAX], 0),
        ];
        for (dims, room) in right {
            check_stated("y", DType::F32, dims, room).unwrap();
        }
        check_stated("y", DType::I4, &[3], 2).unwrap();
        let wrong: [(&[i64], usize, &str); 5] = [
            (&[], 3, "4 bytes"),
            (&[2, 4], 24, "32 bytes; its memory has 24 bytes"),
            (&[i64::MAX, 3], 24, "more bytes than can be counted"),
            (&[1 << 62, 1], 24, "more bytes than can be counted"),
            (&[-1, 2], 24, "a negative extent"),
        ];
        for (dims, room, words) in wrong {
            let error = check_stated("y", DType::F32, dims, room).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DeviceFailed);
            assert!(error.to_string().contains(words), "{dims:?}: {error}");
        }
        assert!(check_stated("y", DType::I4, &[5], 2).is_err());
    }
}
