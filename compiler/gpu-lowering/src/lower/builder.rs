//! The builder of a program: values, constants, kernels and launches, as nodes ask for them.
//!
//! Invariants:
//! 1. A launch binds as many values as its kernel has bindings, none of them smaller than the kernel touches.
//! 2. A dry builder reads no constant but small ones.
//! 3. [`Lowering::back_to`] undoes all that was added behind a [`Mark`].
//!
//! Not here: conversions of tensors (`materialize`), what nodes become (a file per class), places in the arena (`finish`).

use std::collections::HashMap;

use polychip_gpu_kernels::{Access, Generate, Kernel, Scalar};
use polychip_lowering::{Layout, Outcome, Part, Refusal, TensorIndex};
use polychip_ops::DType;
use polychip_sdk::{CompileOptions, Precision, Reason};

use super::deferrals::Deferrals;
use super::tensor_forms::TensorForms;
use super::values::{Stored, ValueId, bytes_of, scalar_of};
use crate::constants::{Constants, ConstantsMark};
use crate::program::{ALIGN, Home, Step};
use crate::target::Target;
use crate::tune;

/// A part being lowered.
pub(super) struct Lowering<'a> {
    pub(super) part: &'a Part,
    pub(super) target: &'a Target,
    /// Whether f32 values between steps are kept as f16.
    pub(super) reduced: bool,
    /// Whether constants are left unread.
    pub(super) dry: bool,
    /// Granted layout of each port.
    pub(super) layouts: Vec<Layout>,
    /// Output port in whose memory a tensor should be computed.
    pub(super) wishes: Vec<Option<usize>>,
    pub(super) forms: Vec<TensorForms>,
    /// Value of each port, once there is one.
    pub(super) ports: Vec<Option<ValueId>>,
    pub(super) values: Vec<Stored>,
    pub(super) kernels: Vec<Kernel>,
    pub(super) known: HashMap<Kernel, u32>,
    pub(super) steps: Vec<Step>,
    pub(super) constants: Constants,
    /// Tensors that the graph of the call has, of those of the part.
    pub(super) graph_tensors: usize,
    /// How many positions of a past of this room a mask shows, where a step finds that.
    pub(super) visible: HashMap<(TensorIndex, u64), ValueId>,
    pub(super) node: u32,
    /// Nodes that are put off, which their readers' kernels may compute.
    pub(super) deferrals: Deferrals,
    /// The node of each tensor that was put off.
    pub(super) deferred: HashMap<TensorIndex, usize>,
}

/// Where a lowering stood, to go back to.
pub(super) struct Mark {
    forms: Vec<TensorForms>,
    ports: Vec<Option<ValueId>>,
    values: usize,
    kernels: usize,
    steps: usize,
    constants: ConstantsMark,
}

impl<'a> Lowering<'a> {
    pub(super) fn new(
        part: &'a Part,
        options: &CompileOptions,
        target: &'a Target,
        dry: bool,
    ) -> Lowering<'a> {
        let ports = part.inputs.len() + part.outputs.len();
        Lowering {
            part,
            target,
            reduced: options.precision == Precision::Reduced && target.limits.features.f16,
            dry,
            layouts: granted(part, options),
            wishes: vec![None; part.tensors.len()],
            forms: vec![TensorForms::default(); part.tensors.len()],
            ports: vec![None; ports],
            values: Vec::new(),
            kernels: Vec::new(),
            known: HashMap::new(),
            steps: Vec::new(),
            constants: Constants::default(),
            graph_tensors: 0,
            visible: HashMap::new(),
            node: 0,
            deferrals: Deferrals::of(part),
            deferred: HashMap::new(),
        }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            forms: self.forms.clone(),
            ports: self.ports.clone(),
            values: self.values.len(),
            kernels: self.kernels.len(),
            steps: self.steps.len(),
            constants: self.constants.mark(),
        }
    }

    pub(super) fn back_to(&mut self, mark: Mark) {
        self.forms = mark.forms;
        self.ports = mark.ports;
        self.values.truncate(mark.values);
        self.visible.retain(|_, value| (value.0 as usize) < mark.values);
        self.kernels.truncate(mark.kernels);
        self.known.retain(|_, index| (*index as usize) < mark.kernels);
        self.steps.truncate(mark.steps);
        self.constants.back_to(mark.constants);
    }

    /// Extents of a tensor, in ONNX order.
    pub(super) fn dims(&self, tensor: TensorIndex) -> Outcome<&'a [usize]> {
        self.part.dims(tensor).ok_or_else(|| {
            let name = &self.part.tensors[tensor].name;
            Refusal::new(
                Reason::DynamicShape,
                format!("the shape of tensor '{name}' is not known before the run"),
            )
        })
    }

    /// Type in memory of the real values of a tensor.
    pub(super) fn scalar(&self, tensor: TensorIndex) -> Outcome<Scalar> {
        let dtype = self.part.real(tensor);
        if dtype == DType::F32 && self.reduced {
            return Ok(Scalar::F16);
        }
        self.of_dtype(dtype)
    }

    /// Type in memory of the elements of a tensor as they pass a port.
    pub(super) fn stored_scalar(&self, tensor: TensorIndex) -> Outcome<Scalar> {
        self.of_dtype(self.part.tensors[tensor].dtype)
    }

    fn of_dtype(&self, dtype: DType) -> Outcome<Scalar> {
        let scalar = scalar_of(dtype)
            .ok_or_else(|| Refusal::dtype(format!("tensors of {} are not offered", dtype.name())))?;
        let features = &self.target.limits.features;
        if scalar == Scalar::F16 && !features.f16 || scalar == Scalar::I64 && !features.int64 {
            return Err(Refusal::dtype(format!(
                "the device has no {} in its instructions",
                dtype.name()
            )));
        }
        Ok(scalar)
    }

    /// How a value that is only read is bound.
    pub(super) fn access(&self, value: ValueId) -> Access {
        match self.stored(value).home {
            Home::Constants(_) => Access::Constant,
            Home::Arena(_) | Home::Port(..) => Access::Read,
        }
    }

    /// A new section of packed constants, of this many bytes.
    pub(super) fn packed(&mut self, bytes: u64, fill: impl FnOnce() -> Outcome<Vec<u8>>) -> Outcome<ValueId> {
        let bytes = usize::try_from(bytes).map_err(|_| Refusal::shape("weights beyond the address space"))?;
        self.constant(Scalar::U8, &[bytes], fill)
    }

    pub(super) fn stored(&self, value: ValueId) -> &Stored {
        &self.values[value.0 as usize]
    }

    pub(super) fn value(&mut self, home: Home, scalar: Scalar, dims: &[usize]) -> Outcome<ValueId> {
        let bytes = bytes_of(scalar, dims)?;
        self.values.push(Stored {
            home,
            bytes,
            scalar,
            root: None,
        });
        Ok(ValueId(self.values.len() as u32 - 1))
    }

    /// A new value in the arena.
    pub(super) fn fresh(&mut self, scalar: Scalar, dims: &[usize]) -> Outcome<ValueId> {
        self.value(Home::Arena(0), scalar, dims)
    }

    /// A new value in the constants. `fill` gives its bytes and is not called by a dry lowering.
    pub(super) fn constant(
        &mut self,
        scalar: Scalar,
        dims: &[usize],
        fill: impl FnOnce() -> Outcome<Vec<u8>>,
    ) -> Outcome<ValueId> {
        let bytes = bytes_of(scalar, dims)?;
        let at = self.constants.reserve(bytes).ok_or_else(beyond)?;
        if !self.dry {
            let data = fill()?;
            if data.len() as u64 > bytes.next_multiple_of(4) {
                return Err(Refusal::shape(format!(
                    "{} bytes of a packed constant where {bytes} were planned",
                    data.len()
                )));
            }
            self.constants.fill(at, &data);
        }
        self.value(Home::Constants(at), scalar, dims)
    }

    /// Some bytes of a constant tensor, as the host has them, as a section of constants of `room` bytes. They are
    /// copied only if the tensor is not the graph's.
    pub(super) fn stored_constant(
        &mut self,
        room: u64,
        tensor: TensorIndex,
        range: std::ops::Range<usize>,
    ) -> Outcome<ValueId> {
        let room = usize::try_from(room).map_err(|_| beyond())?;
        if tensor >= self.graph_tensors || self.part.tensors[tensor].constant.is_none() {
            let part = self.part;
            return self.constant(Scalar::U8, &[room], || {
                let bytes = part.tensors[tensor].bytes().unwrap_or_default();
                let bytes = bytes
                    .get(range)
                    .ok_or_else(|| Refusal::constant("weights of another size"))?;
                Ok(bytes.to_vec())
            });
        }
        let at = self.constants.reserve(room as u64).ok_or_else(beyond)?;
        if !self.dry {
            self.constants
                .fill_from(at, range.len() as u64, tensor, range.start as u64);
        }
        self.value(Home::Constants(at), Scalar::U8, &[room])
    }

    /// Adds a launch of what a generator makes over these values.
    pub(super) fn launch(&mut self, generator: &dyn Generate, operands: &[ValueId]) -> Outcome<()> {
        let kernel = self.kernel(generator)?;
        self.launch_kernel(kernel, operands)
    }

    /// What a generator makes for the target; refused where its variant is quarantined there.
    pub(super) fn kernel(&self, generator: &dyn Generate) -> Outcome<Kernel> {
        let kernel = generator.kernel(&self.target.limits).map_err(of_kernel)?;
        match self.target.permit(generator, &kernel) {
            Ok(()) => Ok(kernel),
            Err(message) => Err(Refusal::new(Reason::Quarantined, message)),
        }
    }

    /// The first of several ways to compute the same that the device can run and that is not quarantined there; the
    /// fastest of the first ones where kernels are timed. `plain` is the least demanding: if no way works, its
    /// refusal is the reason.
    pub(super) fn first<G: Generate>(&self, plain: G, ways: impl Iterator<Item = G>) -> Outcome<(G, Kernel)> {
        let mut refused = None;
        let tuner = self.target.tuner.as_ref().filter(|_| !self.dry);
        let wanted = if tuner.is_some() { tune::MOST } else { 1 };
        let (mut known, mut kernels) = (Vec::new(), Vec::new());
        for way in ways {
            match self.kernel(&way) {
                Ok(kernel) => {
                    known.push(way);
                    kernels.push(kernel);
                }
                Err(refusal) => refused = Some(refusal),
            }
            if known.len() == wanted {
                break;
            }
        }
        let best = tuner.map_or(0, |tuner| tuner.fastest(&kernels));
        if best < known.len() {
            return Ok((known.swap_remove(best), kernels.swap_remove(best)));
        }
        match refused {
            Some(refused) => Err(refused),
            None => self.kernel(&plain).map(|kernel| (plain, kernel)),
        }
    }

    pub(super) fn launch_kernel(&mut self, kernel: Kernel, operands: &[ValueId]) -> Outcome<()> {
        if kernel.bindings.len() != operands.len() {
            return Err(Refusal::op(format!(
                "{} has {} bindings for {} values",
                kernel.variant,
                kernel.bindings.len(),
                operands.len()
            )));
        }
        let (mut constants, mut shared) = (false, false);
        for (binding, &operand) in kernel.bindings.iter().zip(operands) {
            let stored = self.stored(operand);
            // a value of the arena or the constants is followed by what fills up its last word of 256 bytes
            let room = match stored.home {
                Home::Port(..) => stored.bytes.next_multiple_of(16),
                Home::Arena(_) | Home::Constants(_) => stored.bytes.next_multiple_of(ALIGN),
            };
            if (binding.access == Access::Constant) != (self.access(operand) == Access::Constant)
                && binding.access == Access::Constant
            {
                return Err(Refusal::constant(format!("{} wants a constant", kernel.variant)));
            }
            constants |= binding.access == Access::Constant;
            shared |= binding.access != Access::Constant && matches!(stored.home, Home::Constants(_));
            if binding.bytes > room.max(4) {
                return Err(Refusal::shape(format!(
                    "{} touches {} bytes of a value of {room}",
                    kernel.variant, binding.bytes
                )));
            }
        }
        if constants && shared {
            // one buffer cannot be bound both ways
            return Err(Refusal::constant(format!("{} of constants only", kernel.variant)));
        }
        let next = self.kernels.len() as u32;
        let index = match self.known.get(&kernel) {
            Some(&index) => index,
            None => {
                self.known.insert(kernel.clone(), next);
                self.kernels.push(kernel);
                next
            }
        };
        self.steps.push(Step {
            node: self.node,
            kernel: index,
            operands: operands.iter().map(|value| value.0).collect(),
        });
        Ok(())
    }

    pub(super) fn not_computed(&self, tensor: TensorIndex) -> Refusal {
        let name = &self.part.tensors[tensor].name;
        Refusal::op(format!("tensor '{name}' is read before it is computed"))
    }
}

fn beyond() -> Refusal {
    Refusal::shape("the constants do not fit the address space")
}

/// Layout of each port: channels last where it was asked for and the tensor has channels.
fn granted(part: &Part, options: &CompileOptions) -> Vec<Layout> {
    let mut layouts = vec![Layout::RowMajor; part.inputs.len() + part.outputs.len()];
    for request in &options.ports {
        if let Some(layout) = layouts.get_mut(request.port as usize)
            && request.layout == polychip_sdk::Layout::ChannelsLast
        {
            *layout = Layout::ChannelsLast;
        }
    }
    let ports = part.inputs.iter().chain(&part.outputs);
    for (layout, &tensor) in layouts.iter_mut().zip(ports) {
        if !part
            .dims(tensor)
            .is_some_and(|dims| (3..=5).contains(&dims.len()))
        {
            *layout = Layout::RowMajor;
        }
    }
    layouts
}

/// A kernel that is not made for this shape or device.
pub(super) fn of_kernel(error: polychip_gpu_kernels::Error) -> Refusal {
    Refusal::shape(error.to_string())
}
