//! Lowering: a part becomes launches of kernels over values, with layouts, fusion, packing and memory decided once.
//!
//! Invariants:
//! 1. Same part, options and target, and same kept times where kernels are timed: the same program and constants,
//!    byte for byte.
//! 2. A tensor may exist in ONNX order, channels last, or both, as real values, as stored integers, or both;
//!    a step asks for the form it wants, and the conversion is made once, where it is first asked for.
//! 3. What is not lowered is refused with a reason: never approximated, never wrong. A node that lowers alone
//!    lowers within any part: a fused epilogue that fails is undone, and its nodes stand alone.
//! 4. A dry lowering makes the same steps and reads no constant but small ones.
//!
//! Not here: running (`exec`), offsets (the SDK's `arena`), which nodes stand behind which (`fuse`).
//! Start reading at [`lower`], then [`Lowering`].

mod arrange;
mod attention;
mod class;
mod columns;
mod conv;
mod elementwise;
mod emit;
mod epilogue;
mod finish;
mod forms;
mod fuse;
mod gather;
mod image;
mod map;
mod matmul;
mod movement;
mod norm;
mod pool;
mod quantise;
mod reduce;
mod resize;
mod share;

use std::collections::HashMap;

use polychip_gpu_kernels::{Access, Generate, Kernel, Scalar};
use polychip_lowering::{Extract, Layout, Outcome, Part, Refusal, TensorIndex};
use polychip_ops::DType;
use polychip_sdk::{CompileOptions, Error, GraphView, Precision, Reason, Result, Support};

use crate::blob::Lowered;
use crate::program::{ALIGN, Home, Step};
use crate::target::Target;
use crate::tune;
use forms::Places;

/// Lowers a part.
///
/// # Errors
/// Where a node is not lowered; it names the node and the reason.
pub fn lower(graph: &GraphView<'_>, options: &CompileOptions, target: &Target) -> Result<Lowered> {
    if let Some(point) = options.operating_point {
        return Err(Error::bad_argument(format!("operating point {point} of 0")));
    }
    let part = resolved(Part::of(graph, |_| true), options, target);
    Ok(run(&part, options, target, false)?)
}

/// Lowers a part without reading its weights: for estimates.
///
/// # Errors
/// As [`lower`].
pub(crate) fn lower_dry(part: Part, target: &Target) -> Result<Lowered> {
    let options = CompileOptions::default();
    let part = resolved(part, &options, target);
    Ok(run(&part, &options, target, true)?)
}

/// The part with each node that is not lowered, but that was recomposed from others, computed as those.
fn resolved(part: Part, options: &CompileOptions, target: &Target) -> Part {
    let options = CompileOptions {
        ports: Vec::new(),
        ..options.clone()
    };
    let mut extract = Extract::new(&part);
    let refused: Vec<bool> = (0..part.nodes.len())
        .map(|node| {
            part.nodes[node].decomposition.is_some()
                && run(&extract.node(node), &options, target, true).is_err()
        })
        .collect();
    part.decomposed(|node| refused[node])
}

/// Whether each node is lowered, or what it was recomposed from, and if not, why: each is lowered alone and dry.
pub fn supports(graph: &GraphView<'_>, target: &Target) -> Vec<Support> {
    let part = Part::of(graph, |_| true);
    let options = CompileOptions::default();
    let mut extract = Extract::new(&part);
    (0..part.nodes.len())
        .map(|node| {
            let alone = extract.node(node);
            let Err(refusal) = run(&alone, &options, target, true) else {
                return Support::Yes;
            };
            let recomposed = alone.nodes[0].decomposition.is_some();
            if recomposed && run(&alone.decomposed(|_| true), &options, target, true).is_ok() {
                return Support::Yes;
            }
            refusal.support()
        })
        .collect()
}

fn run(part: &Part, options: &CompileOptions, target: &Target, dry: bool) -> Outcome<Lowered> {
    if let Some(node) = part.nodes.iter().find(|node| !node.bodies.is_empty()) {
        let words = format!("{} has a body graph", node.op_name);
        return Err(Refusal::new(Reason::Body, words).at(node.index));
    }
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
    let mut lowering = Lowering {
        part,
        target,
        reduced: options.precision == Precision::Reduced && target.limits.features.f16,
        dry,
        layouts,
        wishes: finish::wishes(part, target),
        forms: vec![Places::default(); part.tensors.len()],
        ports: vec![None; part.inputs.len() + part.outputs.len()],
        values: Vec::new(),
        kernels: Vec::new(),
        known: HashMap::new(),
        steps: Vec::new(),
        constants: Vec::new(),
        constant_bytes: 0,
        node: 0,
    };
    lowering.feed()?;
    for (index, group) in fuse::plan(&lowering).into_iter().enumerate() {
        let node = part.nodes[index].index;
        lowering.node = node;
        if let Some(group) = group {
            lowering.group(&group).map_err(|refusal| refusal.at(node))?;
        }
    }
    finish::finish(lowering)
}

/// Index of a value of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ValueId(u32);

/// A value, and how its elements are to be read.
#[derive(Debug, Clone)]
struct Stored {
    home: Home,
    bytes: u64,
    scalar: Scalar,
    /// The value that it is a piece of, and from which byte.
    root: Option<(ValueId, u64)>,
}

/// A part being lowered.
pub(crate) struct Lowering<'a> {
    part: &'a Part,
    target: &'a Target,
    /// Whether f32 values between steps are kept as f16.
    reduced: bool,
    /// Whether constants are left unread.
    dry: bool,
    /// Granted layout of each port.
    layouts: Vec<Layout>,
    /// Output port in whose memory a tensor should be computed.
    wishes: Vec<Option<usize>>,
    forms: Vec<Places>,
    /// Value of each port, once there is one.
    ports: Vec<Option<ValueId>>,
    values: Vec<Stored>,
    kernels: Vec<Kernel>,
    known: HashMap<Kernel, u32>,
    steps: Vec<Step>,
    constants: Vec<u8>,
    constant_bytes: u64,
    node: u32,
}

/// Where a lowering stood, to go back to.
struct Mark {
    forms: Vec<Places>,
    ports: Vec<Option<ValueId>>,
    values: usize,
    kernels: usize,
    steps: usize,
    constants: usize,
    constant_bytes: u64,
}

impl<'a> Lowering<'a> {
    fn mark(&self) -> Mark {
        Mark {
            forms: self.forms.clone(),
            ports: self.ports.clone(),
            values: self.values.len(),
            kernels: self.kernels.len(),
            steps: self.steps.len(),
            constants: self.constants.len(),
            constant_bytes: self.constant_bytes,
        }
    }

    fn back_to(&mut self, mark: Mark) {
        self.forms = mark.forms;
        self.ports = mark.ports;
        self.values.truncate(mark.values);
        self.kernels.truncate(mark.kernels);
        self.known.retain(|_, index| (*index as usize) < mark.kernels);
        self.steps.truncate(mark.steps);
        self.constants.truncate(mark.constants);
        self.constant_bytes = mark.constant_bytes;
    }

    /// Extents of a tensor, in ONNX order.
    fn dims(&self, tensor: TensorIndex) -> Outcome<&'a [usize]> {
        self.part.dims(tensor).ok_or_else(|| {
            let name = &self.part.tensors[tensor].name;
            Refusal::new(
                Reason::DynamicShape,
                format!("the shape of tensor '{name}' is not known before the run"),
            )
        })
    }

    /// Type in memory of the real values of a tensor.
    fn scalar(&self, tensor: TensorIndex) -> Outcome<Scalar> {
        let dtype = self.part.real(tensor);
        if dtype == DType::F32 && self.reduced {
            return Ok(Scalar::F16);
        }
        self.of_dtype(dtype)
    }

    /// Type in memory of the elements of a tensor as they pass a port.
    fn stored_scalar(&self, tensor: TensorIndex) -> Outcome<Scalar> {
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
    fn access(&self, value: ValueId) -> Access {
        match self.stored(value).home {
            Home::Constants(_) => Access::Constant,
            Home::Arena(_) | Home::Port(..) => Access::Read,
        }
    }

    /// A new piece of packed constants, of this many bytes.
    fn packed(&mut self, bytes: u64, fill: impl FnOnce() -> Outcome<Vec<u8>>) -> Outcome<ValueId> {
        let bytes = usize::try_from(bytes).map_err(|_| Refusal::shape("weights beyond the address space"))?;
        self.constant(Scalar::U8, &[bytes], fill)
    }

    fn stored(&self, value: ValueId) -> &Stored {
        &self.values[value.0 as usize]
    }

    fn value(&mut self, home: Home, scalar: Scalar, dims: &[usize]) -> Outcome<ValueId> {
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
    fn fresh(&mut self, scalar: Scalar, dims: &[usize]) -> Outcome<ValueId> {
        self.value(Home::Arena(0), scalar, dims)
    }

    /// A new value in the constants. `fill` gives its bytes and is not called by a dry lowering.
    fn constant(
        &mut self,
        scalar: Scalar,
        dims: &[usize],
        fill: impl FnOnce() -> Outcome<Vec<u8>>,
    ) -> Outcome<ValueId> {
        let at = self.constant_bytes;
        let bytes = bytes_of(scalar, dims)?;
        let end = bytes
            .checked_next_multiple_of(ALIGN)
            .and_then(|bytes| at.checked_add(bytes))
            .filter(|&end| usize::try_from(end).is_ok())
            .ok_or_else(|| Refusal::shape("the constants do not fit the address space"))?;
        self.constant_bytes = end;
        if !self.dry {
            let data = fill()?;
            if data.len() as u64 > bytes.next_multiple_of(4) {
                return Err(Refusal::shape(format!(
                    "{} bytes of a packed constant where {bytes} were planned",
                    data.len()
                )));
            }
            self.constants.extend_from_slice(&data);
            self.constants.resize(end as usize, 0);
        }
        self.value(Home::Constants(at), scalar, dims)
    }

    /// Adds a launch of what a generator makes over these values.
    fn launch(&mut self, generator: &dyn Generate, operands: &[ValueId]) -> Outcome<()> {
        let kernel = self.kernel(generator)?;
        self.launch_kernel(kernel, operands)
    }

    /// What a generator makes for the target; refused where its variant is quarantined there.
    fn kernel(&self, generator: &dyn Generate) -> Outcome<Kernel> {
        let kernel = generator.kernel(&self.target.limits).map_err(of_kernel)?;
        match self.target.permit(generator, &kernel) {
            Ok(()) => Ok(kernel),
            Err(words) => Err(Refusal::new(Reason::Quarantined, words)),
        }
    }

    /// The first of several ways to compute the same that the device holds and that is not quarantined there; the
    /// fastest of the first ones where kernels are timed. `plain` is the least of them, which says why where there
    /// is none.
    fn first<G: Generate>(&self, plain: G, ways: impl Iterator<Item = G>) -> Outcome<(G, Kernel)> {
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

    fn launch_kernel(&mut self, kernel: Kernel, operands: &[ValueId]) -> Outcome<()> {
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

    fn not_computed(&self, tensor: TensorIndex) -> Refusal {
        let name = &self.part.tensors[tensor].name;
        Refusal::op(format!("tensor '{name}' is read before it is computed"))
    }
}

/// A kernel that is not made for this shape or device.
fn of_kernel(error: polychip_gpu_kernels::Error) -> Refusal {
    Refusal::shape(error.to_string())
}

/// Type in memory of a data type, where there is one.
fn scalar_of(dtype: DType) -> Option<Scalar> {
    Some(match dtype {
        DType::F32 => Scalar::F32,
        DType::F16 => Scalar::F16,
        DType::I32 => Scalar::I32,
        DType::U32 => Scalar::U32,
        DType::I16 => Scalar::I16,
        DType::U16 => Scalar::U16,
        DType::I64 => Scalar::I64,
        DType::I8 => Scalar::I8,
        DType::U8 => Scalar::U8,
        DType::Bool => Scalar::Bool,
        _ => return None,
    })
}

/// Number of elements of a shape.
fn count(dims: &[usize]) -> Outcome<u64> {
    dims.iter()
        .try_fold(1u64, |product, &dim| product.checked_mul(dim as u64))
        .filter(|&count| count <= u64::from(u32::MAX))
        .ok_or_else(|| Refusal::shape(format!("a tensor of shape {dims:?} has more than 2^32 elements")))
}

/// Size of a tensor in memory.
fn bytes_of(scalar: Scalar, dims: &[usize]) -> Outcome<u64> {
    Ok(count(dims)? * scalar.bytes())
}
