//! Tensors that an app reads and writes: device memory of a session's inputs and outputs.
//!
//! Invariants:
//! 1. An input is host memory that the reading devices use in place. Nothing is copied at submit unless a
//!    device cannot import that memory; a copy goes to memory that was allocated when the tensor was bound to
//!    the plan.
//! 2. A write to an input in flight is refused, not delayed. An input is in flight until its run has returned
//!    outputs or an error, so that the run can be retried with the same inputs.
//! 3. Memory shared by an output of one run and an input of another has one writer or any number of readers.
//! 4. A tensor with open sizes has no shape at first, and gets one before it is written.
//! 5. Buffers belong to one plan of the session. A new plan makes new buffers over the same memory before the
//!    tensor is used again; memory that a hung run still holds is left to that run.
//!
//! Not here: tensors as slices and arrays of Rust types (`values`, `array`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use polychip_host::{Access, AccessGuard, CallLimit, Memory};
use polychip_ops::{DType, PACKED_BYTES};

use crate::error::{Error, ErrorKind, Result, kind_of_host};
use crate::session::copy::Copied;
use bound::{Use, no_memory};
use hold_count::Holds;
use values::{Values, ValuesMut};

#[cfg(feature = "ndarray")]
mod array;
mod bound;
mod hold_count;
mod holds;
pub(crate) mod values;

pub(crate) use bound::{DeviceBuffer, PlanMemory};
pub(crate) use holds::Hold;
pub use values::Element;

/// Memory of one tensor, and the buffers of the devices that use it.
#[derive(Debug)]
pub(crate) struct TensorMemory {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    /// Upper bounds where the true sizes are known after the run.
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: u64,
    /// The elements are in host memory for any reader: it is an input, or one passed through.
    is_host: bool,
    /// The memory is the app's, or shared with another tensor: it may change without a word here, and stays this one.
    is_lent: AtomicBool,
    bound: Mutex<Arc<PlanMemory>>,
    holds: Arc<Holds>,
    /// How often the host opened it for writing.
    written: AtomicU64,
}

fn is_lost(error: &polychip_host::Error) -> bool {
    error.kind() == polychip_host::ErrorKind::DeviceLost
}

fn infos(devices: &[(usize, polychip_host::Device)]) -> impl Iterator<Item = &polychip_host::DeviceInfo> {
    devices.iter().map(|(_, device)| device.info())
}

impl TensorMemory {
    /// Memory for a tensor that these devices of a plan use.
    pub(crate) fn new(
        spec: &TensorSpec,
        is_host: bool,
        plan: u64,
        devices: &[(usize, polychip_host::Device)],
    ) -> Result<TensorMemory> {
        let memory =
            Memory::for_devices(spec.bytes, infos(devices)).map_err(|error| no_memory(&spec.name, error))?;
        Ok(TensorMemory {
            name: spec.name.clone(),
            dtype: spec.dtype,
            shape: spec.shape.clone(),
            bytes: spec.bytes,
            is_host,
            is_lent: AtomicBool::new(false),
            bound: Mutex::new(PlanMemory::new(
                (&spec.name, spec.dtype, spec.bytes),
                plan,
                memory,
                devices,
                Use::Made,
            )?),
            holds: Arc::default(),
            written: AtomicU64::new(0),
        })
    }

    /// Memory of the app for a tensor.
    pub(crate) fn of(spec: &TensorSpec, is_host: bool, memory: &Memory) -> Result<TensorMemory> {
        let memory = memory.resized(spec.bytes).ok_or_else(|| {
            let words = format!(
                "tensor {:?} needs {} bytes, the given memory has {}",
                spec.name,
                spec.bytes,
                memory.bytes()
            );
            Error::new(ErrorKind::BadInput, words)
        })?;
        Ok(TensorMemory {
            is_lent: AtomicBool::new(true),
            ..TensorMemory::over(spec, is_host, memory)?
        })
    }

    /// An input over the memory that this output is written to: `spec` is its own, and fits. What a device with memory of
    /// its own wrote so far is copied there; from now on its runs do that.
    pub(crate) fn share(&self, spec: &TensorSpec, copied: &Copied) -> Result<TensorMemory> {
        if !self.is_lent.swap(true, Ordering::AcqRel) {
            self.copy_to_app(copied)?;
        }
        let memory = self.bound().memory.clone();
        Ok(TensorMemory {
            holds: Arc::clone(&self.holds),
            ..TensorMemory::of(spec, true, &memory)?
        })
    }

    /// Whether runs that are given the one and the other use the same memory.
    pub(crate) fn shares_with(&self, other: &TensorMemory) -> bool {
        Arc::ptr_eq(&self.holds, &other.holds)
    }

    fn is_lent(&self) -> bool {
        self.is_lent.load(Ordering::Acquire)
    }

    fn over(spec: &TensorSpec, is_host: bool, memory: Memory) -> Result<TensorMemory> {
        Ok(TensorMemory {
            name: spec.name.clone(),
            dtype: spec.dtype,
            shape: spec.shape.clone(),
            bytes: spec.bytes,
            is_host,
            is_lent: AtomicBool::new(false),
            // the first run binds it to the devices that use it then
            bound: Mutex::new(PlanMemory::new(
                (&spec.name, spec.dtype, spec.bytes),
                u64::MAX,
                memory,
                &[],
                Use::Made,
            )?),
            holds: Arc::default(),
            written: AtomicU64::new(0),
        })
    }

    /// The tensor with another shape: in the same memory where that has the room and no run uses it.
    pub(crate) fn with_shape(&self, shape: &[usize]) -> Result<TensorMemory> {
        let spec = TensorSpec {
            // whether it fits was seen before
            shape: shape.to_vec(),
            ..self.spec()
        };
        let spec = spec.with_shape(shape)?;
        let bound = self.bound();
        let same = bound.memory.resized(spec.bytes);
        let free = !self.is_held() && !bound.is_in_flight();
        if self.is_lent() {
            let words = format!(
                "tensor {:?} uses memory of the app or of another tensor, which fixes its shape",
                self.name
            );
            return Err(Error::new(ErrorKind::BadInput, words));
        }
        let memory = match same.filter(|_| free) {
            Some(memory) => memory,
            None => {
                // room for a larger shape too: untouched pages use no memory
                let room = spec.bytes.checked_next_power_of_two().unwrap_or(spec.bytes);
                let room = Memory::new(room).map_err(|error| no_memory(&self.name, error))?;
                room.resized(spec.bytes).unwrap_or(room)
            }
        };
        TensorMemory::over(&spec, self.is_host, memory)
    }

    fn spec(&self) -> TensorSpec {
        TensorSpec {
            name: self.name.clone(),
            dtype: self.dtype,
            shape: self.shape.clone(),
            open: Vec::new(),
            any_rank: false,
            upper_bound: false,
            packed: false,
            bytes: self.bytes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<PlanMemory>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memory as the devices see it now.
    pub(crate) fn bound(&self) -> Arc<PlanMemory> {
        Arc::clone(&self.lock())
    }

    /// Whether the buffers belong to this plan, and to no run in flight if that matters.
    pub(crate) fn is_bound_to(&self, plan: u64) -> bool {
        self.fits(&self.lock(), plan)
    }

    /// Makes the buffers anew for the devices of another plan. Memory that a run still holds, and may hold
    /// for ever, is left to it; an input keeps its elements.
    pub(crate) fn rebind(&self, plan: u64, devices: &[(usize, polychip_host::Device)]) -> Result<()> {
        self.rebind_locked(&mut self.lock(), plan, devices)
    }

    /// The memory as the devices of a plan see it, which are asked for where it is bound to another plan. It
    /// stays theirs, whichever plan another thread binds the tensor to next.
    pub(crate) fn bound_to(
        &self,
        plan: u64,
        devices: impl FnOnce() -> Vec<(usize, polychip_host::Device)>,
    ) -> Result<Arc<PlanMemory>> {
        let mut bound = self.lock();
        if !self.fits(&bound, plan) {
            self.rebind_locked(&mut bound, plan, &devices())?;
        }
        Ok(Arc::clone(&bound))
    }

    fn fits(&self, bound: &PlanMemory, plan: u64) -> bool {
        bound.plan == plan && (self.is_host || !bound.is_in_flight())
    }

    fn rebind_locked(
        &self,
        bound: &mut Arc<PlanMemory>,
        plan: u64,
        devices: &[(usize, polychip_host::Device)],
    ) -> Result<()> {
        let usage = match (self.is_lent(), self.is_host) {
            (false, _) => Use::Made,
            (true, true) => Use::LentInput,
            (true, false) => Use::LentOutput,
        };
        let memory = if usage != Use::Made || (!bound.is_in_flight() && bound.memory.suits(infos(devices))) {
            Ok(bound.memory.clone())
        } else if self.is_host {
            bound.memory.duplicate(infos(devices))
        } else {
            Memory::for_devices(self.bytes, infos(devices))
        };
        let memory = memory.map_err(|error| no_memory(&self.name, error))?;
        *bound = PlanMemory::new((&self.name, self.dtype, self.bytes), plan, memory, devices, usage)?;
        Ok(())
    }

    /// Copies an input to the devices that read it and do not import its memory, where they do not have it yet. The run
    /// that it is copied for holds it.
    pub(crate) fn copy_to_devices(
        &self,
        bound: &PlanMemory,
        reads: impl Fn(usize) -> bool,
        copied: &Copied,
    ) -> Result<()> {
        if !bound.buffers.iter().any(|bound| bound.is_copy) {
            return Ok(());
        }
        // changes of the app's memory are not reported, but it does not change while a run uses it
        let version = if self.is_lent() {
            self.holds.period()
        } else {
            self.written.load(Ordering::Acquire)
        };
        let _alone = bound.copying();
        let lacks = |target: &&DeviceBuffer| {
            // staging memory is that of several devices
            let is_read = target.is_staged || reads(target.device);
            target.is_copy && is_read && target.copied.load(Ordering::Acquire) != version
        };
        if !bound.buffers.iter().any(|target| lacks(&target)) {
            return Ok(());
        }
        let failed = |error: polychip_host::Error| {
            let words = format!("copying input {:?}", self.name);
            Error::caused(kind_of_host(error.kind()), words, error)
        };
        let source = bound.memory.read_beside_runs().map_err(failed)?;
        for target in bound.buffers.iter().filter(lacks) {
            let mut opened = target
                .buffer
                .access(Access::Write, 0, self.bytes)
                .map_err(failed)?;
            opened.copy_from_slice(&source);
            copied.add(self.bytes);
            target.copied.store(version, Ordering::Release);
        }
        Ok(())
    }

    /// Copies what a run has written into the app's memory, where none of its devices has that memory. The run has ended.
    pub(crate) fn copy_to_app(&self, copied: &Copied) -> Result<()> {
        if !self.is_lent() {
            return Ok(());
        }
        let bound = self.bound();
        let Some(first) = bound.buffers.first() else {
            return Ok(());
        };
        // a device that has it wrote it itself, or was given a copy for its own part
        if bound.buffers.iter().any(|bound| bound.is_import) {
            return Ok(());
        }
        let failed = |error: polychip_host::Error| {
            let words = format!("copying output {:?} into the given memory", self.name);
            Error::caused(kind_of_host(error.kind()), words, error)
        };
        let source = match first.buffer.access_shared(Access::Read, 0, self.bytes) {
            // the device is gone, the memory that it shared with the host is not
            Err(error) if is_lost(&error) && first.is_staged => bound.staging_access().unwrap_or(Err(error)),
            opened => opened,
        };
        let source = source.map_err(failed)?;
        let mut target = bound.memory.access(Access::Write).map_err(failed)?;
        target.copy_from_slice(&source);
        copied.add(self.bytes);
        Ok(())
    }

    /// The elements of an input, which runs may be reading too.
    pub(crate) fn read_input(&self) -> Result<AccessGuard<'static>> {
        let bound = self.bound();
        bound
            .memory
            .read_beside_runs()
            .map_err(|error| self.inaccessible(error))
    }

    /// Whether a run has it that has not given its outputs or an error yet.
    pub(crate) fn is_held(&self) -> bool {
        self.holds.is_any()
    }

    /// Whether a run uses the memory, as far as its end was not seen yet.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.is_held() || self.lock().is_in_flight()
    }

    /// As [`TensorMemory::access`], after reaping the session's abandoned runs that have ended and taking
    /// back the memory of an input from a plan that no longer exists.
    fn access_of(&self, owner: &Weak<dyn Owner>, access: Access) -> Result<AccessGuard<'static>> {
        let owner = owner.upgrade();
        let limit = owner.as_ref().and_then(|owner| owner.call_limit());
        let _limit = limit.map(CallLimit::new);
        if self.is_in_flight()
            && let Some(owner) = owner
        {
            owner.reap_ended();
            if self.is_host && !self.is_held() && self.is_in_flight() {
                owner.take_back(self)?;
            }
        }
        self.access(access)
    }

    pub(crate) fn access(&self, access: Access) -> Result<AccessGuard<'static>> {
        if self.is_held() {
            let words = format!("tensor {:?}: a run in flight uses the memory", self.name);
            return Err(Error::new(ErrorKind::InFlight, words));
        }
        self.open(access)
    }

    fn open(&self, access: Access) -> Result<AccessGuard<'static>> {
        if access == Access::Write {
            self.written.fetch_add(1, Ordering::AcqRel);
        }
        let bound = self.bound();
        // elements of an input are in host memory, and so are those of an output that the app lent the memory for
        let is_in_memory = self.is_host || self.is_lent();
        let first = bound
            .buffers
            .first()
            .filter(|first| first.is_import || !is_in_memory);
        let opened = match first {
            Some(first) => match first.buffer.access_shared(access, 0, self.bytes) {
                // the device is of no use any more, the memory is
                Err(error) if is_in_memory && error.kind() != polychip_host::ErrorKind::InUse => {
                    bound.memory.access(access)
                }
                // no run uses it, so what the last one wrote is there
                Err(error) if first.is_import && is_lost(&error) => bound.memory.access(access),
                opened => opened,
            },
            None => bound.memory.access(access),
        };
        opened.map_err(|error| self.inaccessible(error))
    }

    fn inaccessible(&self, error: polychip_host::Error) -> Error {
        let kind = kind_of_host(error.kind());
        Error::caused(kind, format!("tensor {:?}", self.name), error)
    }
}

/// Name, type and size of an input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name in the model.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Shape in ONNX order; upper bounds if `upper_bound`, 0 for an open size.
    pub shape: Vec<usize>,
    /// Axes with open sizes, and the names of these sizes. The inputs of each run set them.
    pub open: Vec<(usize, String)>,
    /// Whether the model leaves even the number of axes open: each run sets it. `shape` is then empty.
    pub any_rank: bool,
    /// Whether the true shape is known only after the run.
    pub upper_bound: bool,
    /// Whether the tensor holds a sequence, an optional or strings, packed into bytes
    /// ([`Packed`](crate::Packed)). `dtype` is then `u8`, and the shape is the maximum number of bytes. Open
    /// sizes of strings come from the packed value of each run.
    pub packed: bool,
    /// Bytes of its memory; 0 if a size is open.
    pub bytes: u64,
}

impl TensorSpec {
    /// What is packed into bytes ([`TensorSpec::packed`]).
    pub(crate) fn of_packed(name: &str) -> TensorSpec {
        TensorSpec {
            name: name.to_owned(),
            dtype: DType::U8,
            shape: vec![PACKED_BYTES],
            open: Vec::new(),
            any_rank: false,
            upper_bound: true,
            packed: true,
            bytes: PACKED_BYTES as u64,
        }
    }

    /// The given shape, or the declared one where one of them is that of a scalar and the other that of a list of one: the
    /// element is the same.
    pub(crate) fn as_declared<'a>(&'a self, shape: &'a [usize]) -> &'a [usize] {
        let is_one = |shape: &[usize]| matches!(shape, [] | [1]);
        let is_known = self.open.is_empty() && !self.any_rank && !self.packed;
        if is_known && is_one(&self.shape) && is_one(shape) {
            return &self.shape;
        }
        shape
    }

    /// The same with this shape, which must fit.
    pub(crate) fn with_shape(&self, shape: &[usize]) -> Result<TensorSpec> {
        let shape = self.as_declared(shape);
        self.check(shape)?;
        self.sized(shape)
    }

    /// The same with this shape, whatever its own is.
    pub(crate) fn sized(&self, shape: &[usize]) -> Result<TensorSpec> {
        let elements = polychip_ops::axis::product(shape);
        let bytes = elements.and_then(|elements| self.dtype.byte_len(elements));
        let bytes = bytes.ok_or_else(|| {
            let words = format!("tensor {:?} of shape {shape:?} is too large", self.name);
            Error::new(ErrorKind::BadInput, words)
        })?;
        Ok(TensorSpec {
            name: self.name.clone(),
            dtype: self.dtype,
            shape: shape.to_vec(),
            open: Vec::new(),
            any_rank: false,
            upper_bound: self.upper_bound,
            packed: self.packed,
            bytes: bytes as u64,
        })
    }

    /// Whether a shape fits: the same number of axes, and of those that are not open the same sizes.
    pub(crate) fn check(&self, shape: &[usize]) -> Result<()> {
        let is_open = |axis: usize| self.open.iter().any(|(open, _)| *open == axis);
        let axes = self.shape.iter().zip(shape).enumerate();
        let fits = self.any_rank
            || self.shape.len() == shape.len()
                && axes
                    .clone()
                    .all(|(axis, (own, given))| own == given || is_open(axis));
        if fits {
            return Ok(());
        }
        let axis = |axis: usize, size: &usize| match self.open.iter().find(|(open, _)| *open == axis) {
            Some((_, name)) => name.clone(),
            None => size.to_string(),
        };
        let own: Vec<String> = self
            .shape
            .iter()
            .enumerate()
            .map(|(at, size)| axis(at, size))
            .collect();
        let words = format!(
            "tensor {:?} is [{}]; shape {shape:?} does not fit",
            self.name,
            own.join(", ")
        );
        Err(Error::new(ErrorKind::BadInput, words))
    }
}

/// Whom memory belongs to: a session, which knows the runs that use it.
pub(crate) trait Owner: Send + Sync {
    /// Completes abandoned runs that have ended.
    fn reap_ended(&self);
    /// How long calls to plugins in processes of their own may take, where the app says.
    fn call_limit(&self) -> Option<Duration>;
    /// Gives an input whose memory a run of a failed plan holds memory of its own.
    ///
    /// # Errors
    /// No plan could be made.
    fn take_back(&self, memory: &TensorMemory) -> Result<()>;
}

/// An input of a session: memory that the app writes and the first devices read in place. For a device that
/// cannot import the memory, a run copies changed content, and the report counts the copies. Writes fail
/// while a run in flight uses the input.
///
/// If the model has open sizes, [`Input::resize`] sets them. The first run with new sizes plans and compiles
/// before it starts ([`Session::submit`](crate::Session::submit)).
#[derive(Debug)]
pub struct Input {
    pub(crate) index: usize,
    pub(crate) session: usize,
    pub(crate) owner: Weak<dyn Owner>,
    pub(crate) memory: Arc<TensorMemory>,
    /// The model's specification.
    pub(crate) spec: TensorSpec,
    /// It has a shape: sizes that the model leaves open were given.
    pub(crate) sized: bool,
}

impl Input {
    /// Name in the model.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.memory.name
    }

    /// Element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.memory.dtype
    }

    /// Shape in ONNX order; 0 for a size that is still open.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.memory.shape
    }

    /// Sets the open sizes for later runs; this plans nothing. Earlier content is lost unless the shape stays
    /// the same.
    ///
    /// # Errors
    /// The shape does not fit the model's, or memory is exhausted.
    pub fn resize(&mut self, shape: &[usize]) -> Result<()> {
        let shape = self.spec.as_declared(shape);
        if self.sized && *shape == *self.memory.shape {
            return Ok(());
        }
        self.spec.check(shape)?;
        self.memory = Arc::new(self.memory.with_shape(shape)?);
        self.sized = true;
        Ok(())
    }

    /// Checks that the input has a shape; the error explains how to set one.
    pub(crate) fn check_sized(&self) -> Result<()> {
        if self.sized {
            return Ok(());
        }
        let mut names: Vec<&str> = self.spec.open.iter().map(|(_, name)| name.as_str()).collect();
        if self.spec.any_rank {
            names.push("its rank");
        }
        let words = format!(
            "input {:?} has no shape yet: the model leaves {} open; set it (Input::resize)",
            self.name(),
            names.join(", ")
        );
        Err(Error::new(ErrorKind::BadInput, words))
    }

    /// Writes all elements, in row-major order.
    ///
    /// # Errors
    /// The type or number of elements differs, a size is still open ([`Input::resize`]), or a run that reads
    /// the input is in flight.
    pub fn write<T: Element>(&mut self, values: &[T]) -> Result<()> {
        self.check_sized()?;
        let wanted: usize = self.memory.shape.iter().product();
        if T::DTYPE != self.memory.dtype || values.len() != wanted {
            let words = format!(
                "input {:?} holds {wanted} elements of {} (shape {:?}), not {} of {}",
                self.memory.name,
                self.memory.dtype.name(),
                self.memory.shape,
                values.len(),
                T::DTYPE.name()
            );
            return Err(Error::new(ErrorKind::BadInput, words));
        }
        self.write_bytes(bytemuck::cast_slice(values))
    }

    /// Writes all bytes: elements little-endian in row-major order, types of less than a byte packed.
    ///
    /// # Errors
    /// The number of bytes differs, or a run that reads the input is in flight.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.check_sized()?;
        if bytes.len() as u64 != self.memory.bytes {
            let words = format!(
                "input {:?} holds {} bytes, not {}",
                self.memory.name,
                self.memory.bytes,
                bytes.len()
            );
            return Err(Error::new(ErrorKind::BadInput, words));
        }
        self.bytes_mut()?.copy_from_slice(bytes);
        Ok(())
    }

    /// Writes a sequence, an optional or strings, if the model has one here ([`TensorSpec::packed`]).
    ///
    /// # Errors
    /// The value has more bytes than the input holds, or a run that reads the input is in flight.
    pub fn write_packed(&mut self, value: &polychip_ops::Packed) -> Result<()> {
        let bytes = value.to_bytes();
        let (name, room) = (self.memory.name.clone(), self.memory.bytes);
        let mut memory = self.bytes_mut()?;
        let Some(place) = memory.get_mut(..bytes.len()) else {
            let words = format!(
                "input {name:?} holds {room} bytes, the packed value has {}",
                bytes.len()
            );
            return Err(Error::new(ErrorKind::BadInput, words));
        };
        place.copy_from_slice(&bytes);
        Ok(())
    }

    /// The memory itself, to be filled in place.
    ///
    /// # Errors
    /// A run that reads the input is in flight.
    pub fn bytes_mut(&mut self) -> Result<AccessGuard<'_>> {
        self.open()
    }

    /// The elements, to be filled in place, without the copy of [`Input::write`].
    ///
    /// # Errors
    /// The input holds another type, a size is still open, or a run that reads the input is in flight.
    pub fn values_mut<T: Element>(&mut self) -> Result<ValuesMut<'_, T>> {
        self.check_sized()?;
        let name = format!("input {:?}", self.name());
        let (dtype, shape) = (self.memory.dtype, self.memory.shape.clone());
        ValuesMut::new(name, dtype, &shape, self.open()?)
    }

    /// Like [`Input::bytes_mut`], with a guard that owns the memory, for language bindings that keep it open
    /// while the other language uses it. While the guard exists, runs on the input are refused.
    ///
    /// # Errors
    /// As for [`Input::bytes_mut`].
    pub fn open(&mut self) -> Result<AccessGuard<'static>> {
        self.check_sized()?;
        self.memory.access_of(&self.owner, Access::Write)
    }
}

/// An output that the app binds: runs write into its memory.
#[derive(Debug)]
pub struct Output {
    pub(crate) index: usize,
    pub(crate) session: usize,
    pub(crate) owner: Weak<dyn Owner>,
    pub(crate) memory: Arc<TensorMemory>,
    /// The model's specification.
    pub(crate) spec: TensorSpec,
}

impl Output {
    /// Name in the model.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.memory.name
    }

    /// Shape in ONNX order; upper bounds if the true sizes are known only after the run, 0 for a size that is
    /// still open.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.memory.shape
    }

    /// Sets the open sizes. They must equal the sizes that the next run computes
    /// ([`Session::outputs_for`](crate::Session::outputs_for)), or the run is refused. Earlier content is
    /// lost unless the shape stays the same.
    ///
    /// # Errors
    /// The shape does not fit the model's, or memory is exhausted.
    pub fn resize(&mut self, shape: &[usize]) -> Result<()> {
        if *shape == *self.memory.shape {
            return Ok(());
        }
        self.spec.check(shape)?;
        self.memory = Arc::new(self.memory.with_shape(shape)?);
        Ok(())
    }

    /// Element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.memory.dtype
    }

    /// The elements, read in place.
    ///
    /// # Errors
    /// The output holds another type, or a run that writes it is in flight.
    pub fn values<T: Element>(&self) -> Result<Values<'_, T>> {
        let name = format!("output {:?}", self.name());
        Values::new(name, self.memory.dtype, &self.memory.shape, self.bytes()?)
    }

    /// The memory, read in place.
    ///
    /// # Errors
    /// A run that writes the output is in flight.
    pub fn bytes(&self) -> Result<AccessGuard<'_>> {
        self.memory.access_of(&self.owner, Access::Read)
    }
}
