//! The program in the making: values, steps, packed weights, and where each tensor exists so far.
//!
//! Invariants:
//! 1. A value is made for known extents; what has none is boxed.
//! 2. A step reads and writes values only, by their indices.
//!
//! Not here: how a tensor's forms are made of each other (`materialize`), steps of certain kernels (`steps` and each op class).

use std::collections::BTreeMap;
use std::sync::Arc;

use polychip_cpu_kernels::gemm::Elements;
use polychip_cpu_kernels::{Isa, ThreadPool, subnormal};
use polychip_lowering::{Layout, Storage};
use polychip_ops::DType;
use polychip_sdk::{AlignedBytes, Error, ErrorKind, Result};

use super::encoding::is_half;
use super::in_place::{self, InPlaceConcat};
use super::precision::Precision;
use super::tensor_forms::TensorForms;
use crate::part::{BodyPart, Node, Part, Programs, Tensor, TensorIndex};
use crate::step::{Allocation, AllocationId, Home, Program, Run, Step, Value, ValueId, tensor_from_bytes};
use crate::tune::Choices;
use crate::weights::{self, Packer, Recipe, Section};
use crate::work::{Boxed, Class, Repeated, Work};

/// What lowering depends on beside the part.
pub(crate) struct Options<'a> {
    /// The graphs inside the part's nodes.
    pub(crate) programs: &'a Programs,
    /// Instruction set.
    pub(crate) isa: Isa,
    /// Threads that will run the program.
    pub(crate) pool: &'a ThreadPool,
    /// Granted layout of each port: `RowMajor` or `ChannelsLast`.
    pub(crate) layouts: &'a [polychip_sdk::Layout],
    /// Whether products may be of bf16, and what lies between them kept in it.
    pub(crate) reduced: bool,
    /// Who chooses the algorithms of convolutions.
    pub(crate) choices: Choices<'a>,
}

impl Options<'_> {
    /// Whether there is bf16 to reduce precision to.
    pub(super) fn is_reduced(&self) -> bool {
        self.reduced && self.isa.has_bf16()
    }
}

/// A body that was lowered.
pub(super) struct Lowered {
    /// The program; none where nothing will run.
    pub(super) program: Option<Program>,
    /// What its steps do.
    pub(super) work: Vec<Repeated>,
}

/// Lowers a body, for its steps alone where nothing will run; `None` where it cannot be lowered.
pub(super) type LowerBody = fn(&BodyPart, &Options<'_>, bool) -> Result<Option<Lowered>>;

/// A part being lowered.
pub(super) struct Lowering<'a> {
    pub(super) part: &'a Part,
    pub(super) programs: &'a Programs,
    pub(super) isa: Isa,
    pub(super) pool: &'a ThreadPool,
    pub(super) layouts: Vec<Layout>,
    pub(super) reduced: bool,
    /// Precision may be reduced, whether there is bf16 or not.
    pub(super) may_round: bool,
    pub(super) precision: Precision,
    /// What an attention reads in a tensor's stead: of which it is a transposed view, in `[batch, rows, heads, size]`, or a
    /// memory of f16 that it widens.
    pub(super) transposed: Vec<Option<TensorIndex>>,
    /// How many positions of the past a mask shows, as far as some attention asked.
    pub(super) shown: BTreeMap<TensorIndex, ValueId>,
    /// Masks of truth values, as what is added to scores.
    pub(super) added: BTreeMap<TensorIndex, ValueId>,
    pub(super) choices: Choices<'a>,
    /// Codes of the algorithms chosen so far, in the order of the convolutions.
    pub(super) algorithms: Vec<u8>,
    /// Output port in whose memory a tensor should be computed.
    pub(super) wishes: Vec<Option<usize>>,
    /// Concatenations into which a tensor is computed at its place.
    pub(super) in_place: Vec<Option<InPlaceConcat>>,
    pub(super) tensor_forms: Vec<TensorForms>,
    pub(super) values: Vec<Value>,
    pub(super) allocations: Vec<Allocation>,
    pub(super) steps: Vec<Step>,
    pub(super) sections: Vec<Section>,
    pub(super) packers: Vec<Packer>,
    pub(super) packed_len: usize,
    pub(super) copies: Vec<AlignedBytes>,
    pub(super) slots: usize,
    /// The node that steps are made for: of a chain, the first.
    pub(super) node: usize,
    /// The nodes that they compute.
    pub(super) members: Arc<[u32]>,
    /// Nothing will run, so no constant is copied.
    pub(super) dry: bool,
    /// How the bodies of nodes are lowered.
    pub(super) lower_body: LowerBody,
}

impl<'a> Lowering<'a> {
    /// Nothing lowered yet.
    pub(super) fn new(
        part: &'a Part,
        options: &Options<'a>,
        precision: Precision,
        transposed: Vec<Option<TensorIndex>>,
    ) -> Self {
        let layout = |&granted: &polychip_sdk::Layout| match granted {
            polychip_sdk::Layout::ChannelsLast => Layout::ChannelsLast,
            _ => Layout::RowMajor,
        };
        let layouts: Vec<Layout> = options.layouts.iter().map(layout).collect();
        Lowering {
            part,
            programs: options.programs,
            isa: options.isa,
            pool: options.pool,
            reduced: options.is_reduced(),
            may_round: options.reduced,
            precision,
            transposed,
            shown: BTreeMap::new(),
            added: BTreeMap::new(),
            choices: options.choices,
            algorithms: Vec::new(),
            wishes: in_place::ports(part, &layouts),
            layouts,
            in_place: in_place::concats(part),
            tensor_forms: vec![TensorForms::default(); part.tensors.len()],
            values: Vec::new(),
            allocations: Vec::new(),
            steps: Vec::new(),
            sections: Vec::new(),
            packers: Vec::new(),
            packed_len: 0,
            copies: Vec::new(),
            slots: 0,
            node: 0,
            members: Arc::default(),
            dry: false,
            lower_body: |_, _, _| Ok(None),
        }
    }

    /// Makes the value of an input port.
    pub(super) fn feed(&mut self, port: usize) -> Result<()> {
        let tensor = self.part.inputs[port];
        let t = &self.part.tensors[tensor];
        if !self.is_known(tensor) {
            let value = self.boxed(t.dtype);
            self.tensor_forms[tensor] = TensorForms::at(value);
            return Ok(());
        }
        let layout = self.layouts[port];
        let shape = layout.dims(self.shape(tensor)?);
        let value = self.value(t.dtype, shape, Home::Port(port))?;
        match self.at_port(tensor) {
            Storage::Stored => self.tensor_forms[tensor].set(Layout::RowMajor, Storage::Stored, value),
            storage => self.tensor_forms[tensor].set(layout, storage, value),
        }
        Ok(())
    }

    /// Whether every shape that the node touches is known before the run.
    pub(super) fn all_known(&self, node: &Node) -> bool {
        node.bodies.is_empty()
            && node
                .reads()
                .chain(node.outputs.iter().copied().flatten())
                .all(|t| self.is_known(t))
    }

    /// Which inputs of a node are sequences or optionals.
    pub(super) fn containers(&self, node: &Node) -> Vec<bool> {
        let packed = |t: &Option<TensorIndex>| t.is_some_and(|t| self.part.tensors[t].packed);
        node.inputs.iter().map(packed).collect()
    }

    /// Whether a tensor has an address: known extents and elements of a fixed size.
    pub(super) fn is_known(&self, tensor: TensorIndex) -> bool {
        let t = &self.part.tensors[tensor];
        t.dims.is_some() && t.dtype != DType::String
    }

    /// Extents of a tensor, in ONNX order.
    pub(super) fn shape(&self, tensor: TensorIndex) -> Result<&'a [usize]> {
        self.part.dims(tensor).ok_or_else(|| {
            let name = &self.part.tensors[tensor].name;
            Error::unsupported(format!("the shape of tensor '{name}' is not known")).at_tensor(tensor as u32)
        })
    }

    pub(super) fn dtype(&self, tensor: TensorIndex) -> DType {
        self.part.tensors[tensor].dtype
    }

    /// Whether the ops see f32 values: f32 itself, or a quantised tensor that encodes f32.
    pub(super) fn is_f32(&self, tensor: TensorIndex) -> bool {
        let t = &self.part.tensors[tensor];
        match &t.encoding {
            Some(encoding) => encoding.real_dtype == DType::F32,
            None => t.dtype == DType::F32 || is_half(self.part, tensor),
        }
    }

    /// The storage in which a tensor passes a port.
    pub(super) fn at_port(&self, tensor: TensorIndex) -> Storage {
        if self.part.tensors[tensor].encoding.is_some() || is_half(self.part, tensor) {
            Storage::Stored
        } else {
            Storage::Real
        }
    }

    /// The storage in which a tensor has the type that ops see and the model states.
    pub(super) fn stated(&self, tensor: TensorIndex) -> Storage {
        if is_half(self.part, tensor) {
            Storage::Stored
        } else {
            Storage::Real
        }
    }

    /// Type of the values that an op sees.
    pub(super) fn real_dtype(&self, tensor: TensorIndex) -> DType {
        if is_half(self.part, tensor) {
            DType::F32
        } else {
            self.part.real(tensor)
        }
    }

    /// Whether every given input and output is f32 to the op.
    pub(super) fn all_f32(&self, node: &Node) -> bool {
        node.inputs
            .iter()
            .chain(&node.outputs)
            .copied()
            .flatten()
            .all(|t| self.is_f32(t))
    }

    /// Whether a tensor exists channels last.
    pub(super) fn has_channels(&self, tensor: TensorIndex) -> bool {
        self.tensor_forms[tensor].has_channels()
    }

    /// Whether a tensor exists channels last but not row-major.
    pub(super) fn is_channels_only(&self, tensor: TensorIndex) -> bool {
        self.tensor_forms[tensor].is_channels_only()
    }

    /// The layout in which a tensor exists, row-major where it exists in both.
    pub(super) fn layout(&self, tensor: TensorIndex) -> Layout {
        if self.is_channels_only(tensor) {
            Layout::ChannelsLast
        } else {
            Layout::RowMajor
        }
    }

    /// The layout for a node that works along axes of a tensor in the layout it exists in, and the extents in that.
    pub(super) fn keep(&self, tensor: TensorIndex) -> Result<(Layout, Vec<usize>)> {
        let dims = self.shape(tensor)?;
        let layout = if Layout::is_same(dims) {
            Layout::RowMajor
        } else {
            self.layout(tensor)
        };
        Ok((layout, layout.dims(dims)))
    }

    /// Whether a tensor exists as bf16.
    pub(super) fn is_bf16(&self, tensor: TensorIndex) -> bool {
        self.tensor_forms[tensor].has_bf16()
    }

    /// Whether a tensor may be kept as bf16.
    pub(super) fn may_be_bf16(&self, tensor: TensorIndex) -> bool {
        self.reduced && self.part.plain_f32(tensor) && !self.precision.is_wide(tensor)
    }

    /// The elements of a product that reads and writes these tensors.
    pub(super) fn elements(&self, tensors: &[TensorIndex]) -> Elements {
        if self.reduced && tensors.iter().all(|&t| self.part.plain_f32(t)) {
            Elements::Bf16
        } else {
            Elements::F32
        }
    }

    /// In what a node computes that only moves `x`, or computes on it value by value: bf16 where `x` exists so.
    pub(super) fn kept(&self, x: TensorIndex, outputs: &[Option<TensorIndex>]) -> Storage {
        if self.is_bf16(x) && outputs.iter().flatten().all(|&y| self.may_be_bf16(y)) {
            Storage::Bf16
        } else {
            Storage::Real
        }
    }

    /// In what a node moves elements of `x`: as [`kept`](Self::kept), but 16-bit floats as they are stored, where they are
    /// not f32 already.
    pub(super) fn moved_as(&self, x: TensorIndex, outputs: &[Option<TensorIndex>]) -> Storage {
        let alike = |&y: &TensorIndex| is_half(self.part, y) && self.dtype(y) == self.dtype(x);
        let exists = self.has_channels(x)
            || self.tensor_forms[x]
                .get(Layout::RowMajor, Storage::Real)
                .is_some();
        if is_half(self.part, x) && !exists && outputs.iter().flatten().all(alike) {
            Storage::Stored
        } else {
            self.kept(x, outputs)
        }
    }

    /// A new value of known extents, in the order of memory.
    pub(super) fn value(&mut self, dtype: DType, shape: Vec<usize>, home: Home) -> Result<ValueId> {
        let bytes = bytes_of(dtype, &shape)?;
        let allocation = self.allocation(bytes, home);
        Ok(self.add(Value {
            dtype,
            shape: Some(shape),
            offset: 0,
            bytes,
            allocation,
        }))
    }

    /// A new boxed tensor.
    pub(super) fn boxed(&mut self, dtype: DType) -> ValueId {
        let allocation = self.allocation(0, Home::Slot(self.slots));
        self.slots += 1;
        self.add(Value {
            dtype,
            shape: None,
            offset: 0,
            bytes: 0,
            allocation,
        })
    }

    /// A new value in the arena.
    pub(super) fn fresh(&mut self, dtype: DType, shape: Vec<usize>) -> Result<ValueId> {
        self.value(dtype, shape, Home::Arena(0))
    }

    /// The same memory seen with another shape of as many elements.
    pub(super) fn view(&mut self, value: ValueId, shape: Vec<usize>) -> ValueId {
        let shape = Some(shape);
        self.add(Value {
            shape,
            ..self.values[value.0 as usize]
        })
    }

    /// A contiguous view of part of a value, from element `start`.
    pub(super) fn subview(&mut self, value: ValueId, start: usize, shape: Vec<usize>) -> Result<ValueId> {
        let Value {
            dtype,
            offset,
            bytes: whole,
            allocation,
            ..
        } = self.values[value.0 as usize];
        let (first, bytes) = (bytes_of(dtype, &[start])?, bytes_of(dtype, &shape)?);
        if first + bytes > whole {
            return Err(Error::bad_argument(format!(
                "a view of {bytes} bytes at {first} leaves {whole}"
            )));
        }
        Ok(self.add(Value {
            dtype,
            shape: Some(shape),
            offset: offset + first,
            bytes,
            allocation,
        }))
    }

    /// Scratch of this many floats, none where it is 0.
    pub(super) fn scratch(&mut self, floats: usize) -> Result<Option<ValueId>> {
        if floats == 0 {
            Ok(None)
        } else {
            self.fresh(DType::F32, vec![floats]).map(Some)
        }
    }

    /// A piece of the packed weights, `pack`ed at compile time where no part of the device has one of this recipe, which
    /// names all that its bytes depend on.
    pub(super) fn packed(
        &mut self,
        shape: Vec<usize>,
        recipe: Recipe,
        pack: impl Fn(&mut [f32]) -> Result<()> + Send + Sync + 'static,
    ) -> Result<ValueId> {
        let len = bytes_of(DType::F32, &shape)? / 4;
        let start = self.room(len)?;
        self.sections.push(Section { start, len });
        self.packers.push(Packer {
            len,
            recipe,
            pack: Box::new(pack),
        });
        self.value(DType::F32, shape, Home::Packed(self.sections.len() - 1))
    }

    /// As [`packed`](Self::packed), of `f32` weights: subnormal ones, which a processor multiplies a hundred times as slowly,
    /// are zeros where they cannot be seen.
    pub(super) fn packed_floats(
        &mut self,
        shape: Vec<usize>,
        recipe: Recipe,
        pack: impl Fn(&mut [f32]) -> Result<()> + Send + Sync + 'static,
    ) -> Result<ValueId> {
        self.packed(shape, recipe, move |target| {
            pack(target)?;
            subnormal::flush(target);
            Ok(())
        })
    }

    /// Takes over the sections of a program inside this one; returns which is the first of them.
    pub(super) fn adopt(&mut self, program: &mut Program) -> Result<usize> {
        let (first, start) = (self.sections.len(), self.room(program.packed_len)?);
        self.sections
            .extend(program.sections.drain(..).map(|section| Section {
                start: start + section.start,
                ..section
            }));
        self.packers.append(&mut program.packers);
        Ok(first)
    }

    /// Room for so many more floats of packed weights in a blob; where it starts.
    fn room(&mut self, len: usize) -> Result<usize> {
        let start = self.packed_len;
        self.packed_len = start
            .checked_add(len)
            .and_then(|end| end.checked_next_multiple_of(weights::ALIGN))
            .ok_or_else(|| Error::unsupported("the packed weights do not fit the address space"))?;
        Ok(start)
    }

    /// Shape of a value, in the order of memory.
    pub(super) fn value_shape(&self, value: ValueId) -> &[usize] {
        self.values[value.0 as usize].shape.as_deref().unwrap_or(&[])
    }

    /// Bytes of an element of a value.
    pub(super) fn width(&self, value: ValueId) -> usize {
        self.values[value.0 as usize].dtype.byte_width().unwrap_or(1)
    }

    /// Whether two values lie in the same memory.
    pub(super) fn are_together(&self, a: ValueId, b: ValueId) -> bool {
        self.values[a.0 as usize].allocation == self.values[b.0 as usize].allocation
    }

    /// Where the memory of a value is.
    pub(super) fn home(&self, value: ValueId) -> &Home {
        let allocation = self.values[value.0 as usize].allocation;
        &self.allocations[allocation.0 as usize].home
    }

    /// A constant whose values are read when weights are packed, and not before.
    pub(super) fn source(&self, tensor: TensorIndex) -> Result<Tensor> {
        let t = &self.part.tensors[tensor];
        if !t.is_constant() || t.dims.is_none() {
            let message = format!("tensor '{}' would have to be a constant", t.name);
            return Err(Error::unsupported(message).at_tensor(tensor as u32));
        }
        Ok(t.clone())
    }

    /// The stored elements of a constant, in the model's memory where that is aligned.
    pub(super) fn constant(&mut self, tensor: TensorIndex) -> Result<ValueId> {
        let t = &self.part.tensors[tensor];
        let constant = t.constant.as_ref().expect("invariant: asked of constants only");
        let dims = self.shape(tensor)?.to_vec();
        if t.dtype == DType::String {
            if self.dry {
                return Ok(self.boxed(t.dtype));
            }
            let texts = tensor_from_bytes(t.dtype, &dims, constant.bytes())?;
            let value = self.boxed(t.dtype);
            self.step(
                "texts",
                &[],
                &[value],
                None,
                Box::new(move |o| o.store(0, texts.clone())),
            );
            return Ok(value);
        }
        let bytes = bytes_of(t.dtype, &dims)?;
        if constant.bytes().len() < bytes {
            return Err(Error::bad_argument(format!(
                "constant '{}' has {} bytes, its shape needs {bytes}",
                t.name,
                constant.bytes().len()
            ))
            .at_tensor(tensor as u32));
        }
        // an empty one too: a slice of no elements also has an aligned address
        let home = if self.dry || (constant.bytes().as_ptr() as usize).is_multiple_of(8) {
            Home::Constant(*constant)
        } else {
            let mut copy = AlignedBytes::zeroed(bytes, crate::arena::ALIGN)?;
            copy[..bytes].copy_from_slice(&constant.bytes()[..bytes]);
            self.copies.push(copy);
            Home::Copy(self.copies.len() - 1)
        };
        self.value(t.dtype, dims, home)
    }

    /// The f32 values of a constant, in packed memory.
    pub(super) fn decoded_constant(&mut self, tensor: TensorIndex, layout: Layout) -> Result<ValueId> {
        let dims = self.shape(tensor)?;
        let source = self.source(tensor)?;
        let recipe = Recipe::new("reals").by(layout).of(&source);
        match layout {
            Layout::RowMajor => self.packed(dims.to_vec(), recipe, move |target| {
                target.copy_from_slice(&source.reals()?);
                Ok(())
            }),
            Layout::ChannelsLast => {
                let [n, c, spatial] = image(dims)?;
                self.packed(layout.dims(dims), recipe, move |target| {
                    let values = source.reals()?;
                    for image in 0..n {
                        for channel in 0..c {
                            for pixel in 0..spatial {
                                target[(image * spatial + pixel) * c + channel] =
                                    values[(image * c + channel) * spatial + pixel];
                            }
                        }
                    }
                    Ok(())
                })
            }
        }
    }

    /// The value in which a node computes a tensor; boxed where the shape is not known.
    ///
    /// Real values lie in the memory of the tensor's output port where that fits, else in the arena.
    pub(super) fn write(&mut self, tensor: TensorIndex, layout: Layout, storage: Storage) -> Result<ValueId> {
        let t = &self.part.tensors[tensor];
        if !self.is_known(tensor) {
            let value = self.boxed(t.dtype);
            self.tensor_forms[tensor].set(Layout::RowMajor, Storage::Real, value);
            return Ok(value);
        }
        let dims = self.shape(tensor)?;
        let fits = |&port: &usize| {
            storage == self.at_port(tensor)
                && t.encoding.is_none()
                && (Layout::is_same(dims) || self.layouts[port] == layout)
        };
        let home = match storage {
            Storage::Codes => self.code_home(tensor, layout),
            _ => self.wishes[tensor]
                .filter(fits)
                .map_or(Home::Arena(0), Home::Port),
        };
        let value = self.value(self.stored_as(tensor, storage), layout.dims(dims), home)?;
        self.tensor_forms[tensor].set(layout, storage, value);
        Ok(value)
    }

    /// The value in which a node computes a tensor's real values, row-major.
    pub(super) fn write_rows(&mut self, tensor: TensorIndex) -> Result<ValueId> {
        self.write(tensor, Layout::RowMajor, Storage::Real)
    }

    /// The value in which a node computes a tensor in the type that the model states, row-major.
    pub(super) fn write_as_is(&mut self, tensor: TensorIndex) -> Result<ValueId> {
        self.write(tensor, Layout::RowMajor, self.stated(tensor))
    }

    /// The value in which a node computes a tensor's real values, channels last.
    pub(super) fn write_channels(&mut self, tensor: TensorIndex) -> Result<ValueId> {
        self.write(tensor, Layout::ChannelsLast, Storage::Real)
    }

    /// As [`write`](Self::write) for a kernel that may write f32 of bf16: it does at a port, and what is to stay f32.
    pub(super) fn write_f32_or(
        &mut self,
        storage: Storage,
        tensor: TensorIndex,
        layout: Layout,
    ) -> Result<ValueId> {
        let at_port = self.wishes[tensor].is_some_and(|port| self.layouts[port] == layout);
        let storage = if at_port || !self.may_be_bf16(tensor) {
            Storage::Real
        } else {
            storage
        };
        self.write(tensor, layout, storage)
    }

    /// A new value for another form of a computed tensor: in its output port's memory where that wants this form.
    pub(super) fn target(&mut self, tensor: TensorIndex, layout: Layout) -> Result<ValueId> {
        let home = match self.wishes[tensor] {
            Some(port) if self.layouts[port] == layout && self.at_port(tensor) == Storage::Real => {
                Home::Port(port)
            }
            _ => Home::Arena(0),
        };
        let shape = layout.dims(self.shape(tensor)?);
        self.value(self.real_dtype(tensor), shape, home)
    }

    /// Type of a tensor's elements in a storage.
    pub(super) fn stored_as(&self, tensor: TensorIndex, storage: Storage) -> DType {
        match storage {
            Storage::Real => self.real_dtype(tensor),
            Storage::Bf16 => DType::BF16,
            Storage::Codes => DType::U8,
            Storage::Stored => self.dtype(tensor),
        }
    }

    /// Adds a step; its results are `writes`, then scratch.
    pub(super) fn step(
        &mut self,
        name: &'static str,
        reads: &[ValueId],
        writes: &[ValueId],
        scratch: Option<ValueId>,
        run: Run,
    ) -> &mut Step {
        let bytes = |values: &[ValueId]| -> u64 {
            let all = values
                .iter()
                .map(|value| self.values[value.0 as usize].bytes as u64);
            all.sum()
        };
        let elements = writes.first().map_or(0, |&value| {
            polychip_ops::axis::product(self.value_shape(value)).map_or(u64::MAX, |elements| elements as u64)
        });
        let work = Work {
            class: Class::Copy,
            units: elements,
            bytes: bytes(reads) + bytes(writes),
            boxed: Boxed::default(),
        };
        self.steps.push(Step {
            node: self.node as u32,
            nodes: Arc::clone(&self.members),
            name,
            reads: reads.to_vec(),
            writes: writes.iter().copied().chain(scratch).collect(),
            may_share: Vec::new(),
            shared: None,
            last_reads: 0,
            work,
            within: Vec::new(),
            run,
        });
        self.steps.last_mut().expect("invariant: a step was just added")
    }

    pub(super) fn not_computed(&self, tensor: TensorIndex) -> Error {
        let name = &self.part.tensors[tensor].name;
        Error::bad_argument(format!("tensor '{name}' is read but nothing computes it"))
            .at_tensor(tensor as u32)
    }

    fn allocation(&mut self, bytes: usize, home: Home) -> AllocationId {
        self.allocations.push(Allocation { bytes, home });
        AllocationId(self.allocations.len() as u32 - 1)
    }

    fn add(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId(self.values.len() as u32 - 1)
    }
}

/// What holds the operands of a product of these elements.
pub(super) fn storage_of(elements: Elements) -> Storage {
    match elements {
        Elements::Bf16 => Storage::Bf16,
        Elements::F32 => Storage::Real,
    }
}

/// An error of a kernel's plan.
pub(super) fn kernel_error(error: polychip_cpu_kernels::Error) -> Error {
    Error::unsupported(error.to_string())
}

/// An error of inference or geometry.
pub(super) fn shape_error(error: polychip_ops::InferError) -> Error {
    Error::unsupported(error.to_string())
}

/// Bytes of a dense tensor.
pub(super) fn bytes_of(dtype: DType, shape: &[usize]) -> Result<usize> {
    polychip_ops::axis::product(shape)
        .and_then(|elements| dtype.byte_len(elements))
        .filter(|&bytes| bytes <= isize::MAX as usize)
        .ok_or_else(|| {
            Error::new(
                ErrorKind::OutOfMemory,
                format!("a tensor of shape {shape:?} is too large"),
            )
        })
}

/// `[n, c, spatial]` of an image's shape.
pub(super) fn image(dims: &[usize]) -> Result<[usize; 3]> {
    match dims {
        [n, c, spatial @ ..] if !spatial.is_empty() => {
            let spatial = polychip_ops::axis::product(spatial)
                .ok_or_else(|| Error::unsupported(format!("a tensor of shape {dims:?} is too large")))?;
            Ok([*n, *c, spatial])
        }
        _ => Err(Error::unsupported(format!("shape {dims:?} is not an image's"))),
    }
}
