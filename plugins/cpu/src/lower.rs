//! Lowering: a part becomes steps over values, with layouts, fusion, packing and memory decided once.
//!
//! Invariants:
//! 1. Same part, options, choices and instruction set: the same program, and the same packed weights, byte for byte.
//!    So a blob holds the packed weights and the choices only, and `load` lowers again.
//! 2. A tensor may exist row-major, channels last, or both; a step asks for the form it wants and the
//!    transposition is made once, where it is first asked for.
//! 3. A step is *fast* (a kernel of `cpu-kernels` on known shapes) or *reference* (the evaluator on boxed
//!    tensors); what a class's kernels do not cover falls to the reference, never to a wrong answer.
//!
//! Not here: running (`exec`), reading the flat graph (`part`), offsets (the SDK's `arena`).
//! Start reading at [`lower`].

mod attention;
mod body;
mod brief;
mod class;
mod codes;
mod concat;
mod conv;
mod convert;
mod draft;
mod elementwise;
mod finish;
mod fuse;
mod gather;
mod integers;
mod matmul;
mod movement;
mod nibbles;
mod normalise;
mod pool;
mod quantised;
mod reduce;
mod reference;
mod resize;
mod softmax;
mod within;

pub(crate) use convert::range;
pub(crate) use draft::{Draft, draft};
use within::Within;

use polychip_cpu_kernels::transpose::TransposePlan;
use polychip_cpu_kernels::{Isa, ThreadPool, Unary};
use polychip_ops::DType;
use polychip_sdk::{AlignedBytes, Error, ErrorKind, Layout, Result};

use crate::part::{Node, Part, Programs, Tensor, TensorIndex};
use crate::step::{Home, Program, Run, Section, Step, Storage, StorageId, Value, ValueId, tensor_from_bytes};
use crate::tune::Choices;
use crate::work::{Boxed, Class, Work};

/// What lowering depends on beside the part.
pub(crate) struct Options<'a> {
    /// The graphs inside the part's nodes.
    pub(crate) programs: &'a Programs,
    /// Instruction set.
    pub(crate) isa: Isa,
    /// Threads that will run the program.
    pub(crate) pool: &'a ThreadPool,
    /// Granted layout of each port: `RowMajor` or `ChannelsLast`.
    pub(crate) layouts: &'a [Layout],
    /// Whether products may be of bf16, and what lies between them kept in it.
    pub(crate) reduced: bool,
    /// Who chooses the algorithms of convolutions.
    pub(crate) choices: Choices<'a>,
}

/// In what order a tensor's elements lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// ONNX order.
    Rows,
    /// `[n, spatial..., c]`.
    Channels,
}

impl Form {
    /// The front end's word for it.
    fn layout(self) -> polychip_lowering::Layout {
        match self {
            Form::Rows => polychip_lowering::Layout::RowMajor,
            Form::Channels => polychip_lowering::Layout::ChannelsLast,
        }
    }
}

/// The forms in which a tensor exists so far.
#[derive(Debug, Clone, Default)]
struct Forms {
    /// Real values, row-major; for a tensor without known shape the boxed tensor.
    rows: Option<ValueId>,
    /// Real values, channels last.
    channels: Option<ValueId>,
    /// Stored integers of a quantised tensor, row-major.
    stored: Option<ValueId>,
    /// Real values rounded to bf16, row-major.
    brief_rows: Option<ValueId>,
    /// Real values rounded to bf16, channels last.
    brief_channels: Option<ValueId>,
    /// Its 8-bit codes, row-major and channels last.
    codes: [Option<ValueId>; 2],
    /// Real values, channels last, as a part of a wider image.
    within: Option<Within>,
}

impl Forms {
    /// Where the tensor is in a form and element type: f32 or whatever the tensor is of, or bf16 in its stead.
    fn at(&mut self, form: Form, brief: bool) -> &mut Option<ValueId> {
        match (form, brief) {
            (Form::Rows, false) => &mut self.rows,
            (Form::Channels, false) => &mut self.channels,
            (Form::Rows, true) => &mut self.brief_rows,
            (Form::Channels, true) => &mut self.brief_channels,
        }
    }
}

/// A part being lowered.
pub(crate) struct Lowering<'a> {
    part: &'a Part,
    programs: &'a Programs,
    isa: Isa,
    pool: &'a ThreadPool,
    layouts: &'a [Layout],
    reduced: bool,
    precision: brief::Precision,
    /// The tensor of which a transposition that nobody computes would make one, in `[batch, rows, heads, size]`.
    turned: Vec<Option<TensorIndex>>,
    choices: Choices<'a>,
    /// Codes of the algorithms chosen so far, in the order of the convolutions.
    algorithms: Vec<u8>,
    /// Output port in whose memory a tensor should be computed.
    wishes: Vec<Option<usize>>,
    /// Concatenations into which a tensor is computed at its place.
    joins: Vec<Option<concat::Join>>,
    forms: Vec<Forms>,
    values: Vec<Value>,
    storages: Vec<Storage>,
    steps: Vec<Step>,
    sections: Vec<Section>,
    packed_len: usize,
    copies: Vec<AlignedBytes>,
    slots: usize,
    /// The node that steps are made for: of a chain, the first.
    node: usize,
    /// Nothing will run, so no constant is copied.
    dry: bool,
}

/// Lowers a part.
pub(crate) fn lower(part: &Part, options: &Options<'_>) -> Result<Program> {
    let (mut lowering, groups) = Lowering::new(part, options);
    for port in 0..part.inputs.len() {
        lowering.feed(port)?;
    }
    for index in 0..part.nodes.len() {
        if let Some((anchor, tail)) = groups.at(index) {
            lowering.node = anchor;
            lowering.emit(&part.nodes[anchor], tail).map_err(|error| {
                if error.node().is_none() {
                    error.at_node(index as u32)
                } else {
                    error
                }
            })?;
        }
    }
    finish::finish(lowering)
}

impl<'a> Lowering<'a> {
    /// Nothing lowered yet, and the chains that will be.
    fn new(part: &'a Part, options: &Options<'a>) -> (Self, fuse::Groups) {
        let reduced = options.reduced && options.isa.has_bf16();
        let precision = brief::Precision::new(part, reduced);
        let groups = fuse::plan(part, &precision);
        let lowering = Lowering {
            part,
            programs: options.programs,
            isa: options.isa,
            pool: options.pool,
            layouts: options.layouts,
            reduced,
            precision,
            turned: groups.turned().to_vec(),
            choices: options.choices,
            algorithms: Vec::new(),
            wishes: finish::wishes(part),
            joins: concat::joins(part),
            forms: vec![Forms::default(); part.tensors.len()],
            values: Vec::new(),
            storages: Vec::new(),
            steps: Vec::new(),
            sections: Vec::new(),
            packed_len: 0,
            copies: Vec::new(),
            slots: 0,
            node: 0,
            dry: false,
        };
        (lowering, groups)
    }

    /// Emits one node with what is fused behind it.
    fn emit(&mut self, node: &'a Node, tail: &fuse::Tail) -> Result<()> {
        let filled = |t: &Option<TensorIndex>| t.is_some_and(|t| self.part.tensors[t].fill.is_some());
        if node.outputs.iter().all(filled) {
            // whoever reads it makes it, as a constant
            return Ok(());
        }
        let done =
            self.known(node) && (quantised::lower(self, node, tail)? || class::lower(self, node, tail)?);
        if !done {
            if node.bodies.is_empty() {
                reference::lower(self, node)?;
            } else {
                body::lower(self, node)?;
            }
        }
        let output = tail.output.map(Some);
        let outputs = output.as_slice();
        for &tensor in if outputs.is_empty() {
            &node.outputs
        } else {
            outputs
        } {
            if let Some(tensor) = tensor
                && !convert::is_rounded(self.part, node, tensor)
            {
                convert::round_to_encoding(self, tensor)?;
            }
        }
        Ok(())
    }

    /// Whether every shape that the node touches is known before the run.
    fn known(&self, node: &Node) -> bool {
        node.bodies.is_empty()
            && node
                .reads()
                .chain(node.outputs.iter().copied().flatten())
                .all(|t| self.is_known(t))
    }

    /// Which inputs of a node are sequences or optionals.
    fn containers(&self, node: &Node) -> Vec<bool> {
        let packed = |t: &Option<TensorIndex>| t.is_some_and(|t| self.part.tensors[t].packed);
        node.inputs.iter().map(packed).collect()
    }

    /// Whether a tensor has an address: known extents and elements of a fixed size.
    fn is_known(&self, tensor: TensorIndex) -> bool {
        let t = &self.part.tensors[tensor];
        t.dims.is_some() && t.dtype != DType::String
    }

    /// Makes the value of an input port.
    fn feed(&mut self, port: usize) -> Result<()> {
        let tensor = self.part.inputs[port];
        let t = &self.part.tensors[tensor];
        if !self.is_known(tensor) {
            let value = self.boxed(t.dtype);
            self.forms[tensor].rows = Some(value);
            return Ok(());
        }
        let dims = self.shape(tensor)?.to_vec();
        let channels = self.layouts[port] == Layout::ChannelsLast;
        let shape = if channels { channels_last(&dims) } else { dims };
        let bytes = bytes_of(t.dtype, &shape)?;
        let storage = self.storage(bytes, Home::Port(port));
        let value = self.value(t.dtype, shape, bytes, storage);
        let forms = &mut self.forms[tensor];
        match (&t.encoding, channels) {
            (Some(_), _) => forms.stored = Some(value),
            (None, true) => forms.channels = Some(value),
            (None, false) => forms.rows = Some(value),
        }
        Ok(())
    }

    fn storage(&mut self, bytes: usize, home: Home) -> StorageId {
        self.storages.push(Storage { bytes, home });
        StorageId(self.storages.len() as u32 - 1)
    }

    fn value(&mut self, dtype: DType, shape: Vec<usize>, bytes: usize, storage: StorageId) -> ValueId {
        self.values.push(Value {
            dtype,
            shape: Some(shape),
            offset: 0,
            bytes,
            storage,
        });
        ValueId(self.values.len() as u32 - 1)
    }

    /// A new boxed tensor.
    fn boxed(&mut self, dtype: DType) -> ValueId {
        let storage = self.storage(0, Home::Slot(self.slots));
        self.slots += 1;
        self.values.push(Value {
            dtype,
            shape: None,
            offset: 0,
            bytes: 0,
            storage,
        });
        ValueId(self.values.len() as u32 - 1)
    }

    /// A new value in the arena.
    fn fresh(&mut self, dtype: DType, shape: Vec<usize>) -> Result<ValueId> {
        let bytes = bytes_of(dtype, &shape)?;
        let storage = self.storage(bytes, Home::Arena(0));
        Ok(self.value(dtype, shape, bytes, storage))
    }

    /// The same memory seen with another shape of as many elements.
    fn view(&mut self, value: ValueId, shape: Vec<usize>) -> ValueId {
        let Value {
            dtype,
            offset,
            bytes,
            storage,
            ..
        } = self.values[value.0 as usize];
        self.values.push(Value {
            dtype,
            shape: Some(shape),
            offset,
            bytes,
            storage,
        });
        ValueId(self.values.len() as u32 - 1)
    }

    /// A contiguous piece of a value, from element `start`.
    fn piece(&mut self, value: ValueId, start: usize, shape: Vec<usize>) -> Result<ValueId> {
        let Value {
            dtype,
            offset,
            bytes: whole,
            storage,
            ..
        } = self.values[value.0 as usize];
        let (first, bytes) = (bytes_of(dtype, &[start])?, bytes_of(dtype, &shape)?);
        if first + bytes > whole {
            return Err(Error::bad_argument(format!(
                "a piece of {bytes} bytes at {first} leaves {whole}"
            )));
        }
        self.values.push(Value {
            dtype,
            shape: Some(shape),
            offset: offset + first,
            bytes,
            storage,
        });
        Ok(ValueId(self.values.len() as u32 - 1))
    }

    /// Scratch of this many floats, none where it is 0.
    fn scratch(&mut self, floats: usize) -> Result<Option<ValueId>> {
        if floats == 0 {
            Ok(None)
        } else {
            self.fresh(DType::F32, vec![floats]).map(Some)
        }
    }

    /// A piece of the packed weights, `pack`ed at compile time.
    fn packed(
        &mut self,
        shape: Vec<usize>,
        pack: impl Fn(&mut [f32]) -> Result<()> + Send + Sync + 'static,
    ) -> Result<ValueId> {
        let bytes = bytes_of(DType::F32, &shape)?;
        let len = bytes / 4;
        let start = self.packed_len;
        self.packed_len = start
            .checked_add(len)
            .and_then(|end| end.checked_next_multiple_of(16))
            .ok_or_else(|| Error::unsupported("the packed weights do not fit the address space"))?;
        self.sections.push(Section {
            start,
            len,
            pack: Box::new(pack),
        });
        let storage = self.storage(bytes, Home::Packed(start));
        Ok(self.value(DType::F32, shape, bytes, storage))
    }

    /// Extents of a tensor, in ONNX order.
    fn shape(&self, tensor: TensorIndex) -> Result<&'a [usize]> {
        self.part.dims(tensor).ok_or_else(|| {
            let name = &self.part.tensors[tensor].name;
            Error::unsupported(format!("the shape of tensor '{name}' is not known")).at_tensor(tensor as u32)
        })
    }

    /// Shape of a value, in the order of memory.
    fn value_shape(&self, value: ValueId) -> &[usize] {
        self.values[value.0 as usize].shape.as_deref().unwrap_or(&[])
    }

    fn dtype(&self, tensor: TensorIndex) -> DType {
        self.part.tensors[tensor].dtype
    }

    /// Whether the ops see f32 values: f32 itself, or a quantised tensor that stands for f32.
    fn is_f32(&self, tensor: TensorIndex) -> bool {
        let t = &self.part.tensors[tensor];
        match &t.encoding {
            Some(encoding) => encoding.real_dtype == DType::F32,
            None => t.dtype == DType::F32,
        }
    }

    /// Type of the values that an op sees.
    fn real_dtype(&self, tensor: TensorIndex) -> DType {
        self.part.real(tensor)
    }

    /// Whether every given input and output is f32 to the op.
    fn all_f32(&self, node: &Node) -> bool {
        node.inputs
            .iter()
            .chain(&node.outputs)
            .copied()
            .flatten()
            .all(|t| self.is_f32(t))
    }

    /// The real values of a tensor, row-major; the boxed tensor where its shape is not known.
    fn rows(&mut self, tensor: TensorIndex) -> Result<ValueId> {
        if let Some(value) = self.forms[tensor].rows {
            return Ok(value);
        }
        self.settle(tensor)?;
        let part = self.part;
        let t = &part.tensors[tensor];
        let value = if self.is_brief(tensor) {
            brief::widen(self, tensor, Form::Rows)?
        } else if let Some(value) = self.forms[tensor].channels {
            let dims = self.shape(tensor)?;
            if is_trivial(dims) {
                self.view(value, dims.to_vec())
            } else {
                let [n, c, spatial] = image(dims)?;
                let plan = TransposePlan::channels_first(n, c, spatial).map_err(kernel_error)?;
                let result = self.target(tensor, dims.to_vec(), Layout::RowMajor)?;
                self.transpose("to row-major", plan, value, result);
                result
            }
        } else if t.constant.is_some() {
            match &t.encoding {
                Some(_) => self.decoded_constant(tensor, Form::Rows)?,
                None => self.constant(tensor)?,
            }
        } else if t.fill.is_some() {
            self.decoded_constant(tensor, Form::Rows)?
        } else if let Some(value) = self.decoded_codes(tensor, Form::Rows)? {
            value
        } else if self.forms[tensor].stored.is_some() {
            convert::decode(self, tensor)?
        } else {
            return Err(self.not_computed(tensor));
        };
        self.forms[tensor].rows = Some(value);
        Ok(value)
    }

    /// The real values of a tensor of rank 3 or more, channels last.
    fn channels(&mut self, tensor: TensorIndex) -> Result<ValueId> {
        if let Some(value) = self.forms[tensor].channels {
            return Ok(value);
        }
        self.settle(tensor)?;
        if let Some(value) = self.forms[tensor].channels {
            return Ok(value);
        }
        let dims = self.shape(tensor)?;
        let target = channels_last(dims);
        let value = if self.is_brief(tensor) {
            brief::widen(self, tensor, Form::Channels)?
        } else if is_trivial(dims) {
            let rows = self.rows(tensor)?;
            self.view(rows, target)
        } else if self.part.tensors[tensor].is_constant() && self.is_f32(tensor) {
            self.decoded_constant(tensor, Form::Channels)?
        } else if self.forms[tensor].rows.is_none()
            && let Some(value) = self.decoded_codes(tensor, Form::Channels)?
        {
            value
        } else {
            let rows = self.rows(tensor)?;
            let [n, c, spatial] = image(dims)?;
            let plan = TransposePlan::channels_last(n, c, spatial).map_err(kernel_error)?;
            let result = self.target(tensor, target, Layout::ChannelsLast)?;
            self.transpose("to channels last", plan, rows, result);
            result
        };
        self.forms[tensor].channels = Some(value);
        Ok(value)
    }

    /// The tensor in this form.
    fn form(&mut self, tensor: TensorIndex, form: Form) -> Result<ValueId> {
        match form {
            Form::Rows => self.rows(tensor),
            Form::Channels => self.channels(tensor),
        }
    }

    /// The stored elements, row-major: integers of a quantised tensor, else the values themselves.
    fn stored(&mut self, tensor: TensorIndex) -> Result<ValueId> {
        if self.part.tensors[tensor].encoding.is_none() {
            return self.rows(tensor);
        }
        if let Some(value) = self.forms[tensor].stored {
            return Ok(value);
        }
        let value = if self.part.tensors[tensor].constant.is_some() {
            self.constant(tensor)?
        } else if codes::grid(self.part, tensor).is_some() {
            let rows = self.codes(tensor, Form::Rows)?;
            if self.dtype(tensor) == DType::U8 {
                rows
            } else {
                let shape = self.shape(tensor)?.to_vec();
                let bytes = self.fresh(DType::I8, shape)?;
                self.flip(rows, bytes);
                bytes
            }
        } else {
            convert::encode(self, tensor)?
        };
        self.forms[tensor].stored = Some(value);
        Ok(value)
    }

    fn not_computed(&self, tensor: TensorIndex) -> Error {
        let name = &self.part.tensors[tensor].name;
        Error::bad_argument(format!("tensor '{name}' is read but nothing computes it"))
            .at_tensor(tensor as u32)
    }

    /// The stored elements of a constant, in the model's memory where that is aligned.
    fn constant(&mut self, tensor: TensorIndex) -> Result<ValueId> {
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
        let storage = self.storage(bytes, home);
        Ok(self.value(t.dtype, dims, bytes, storage))
    }

    /// The f32 values of a constant, in packed memory.
    fn decoded_constant(&mut self, tensor: TensorIndex, form: Form) -> Result<ValueId> {
        let dims = self.shape(tensor)?.to_vec();
        let source = self.source(tensor)?;
        match form {
            Form::Rows => self.packed(dims, move |target| {
                target.copy_from_slice(&source.reals()?);
                Ok(())
            }),
            Form::Channels => {
                let [n, c, spatial] = image(&dims)?;
                self.packed(channels_last(&dims), move |target| {
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

    /// A constant whose values are read when weights are packed, and not before.
    fn source(&self, tensor: TensorIndex) -> Result<Tensor> {
        let t = &self.part.tensors[tensor];
        if !t.is_constant() || t.dims.is_none() {
            let words = format!("tensor '{}' would have to be a constant", t.name);
            return Err(Error::unsupported(words).at_tensor(tensor as u32));
        }
        Ok(t.clone())
    }

    /// The value in which a node computes a tensor: in the memory of its output port where that fits, else in
    /// the arena; boxed where the shape is not known.
    fn result(&mut self, tensor: TensorIndex, form: Form) -> Result<ValueId> {
        let t = &self.part.tensors[tensor];
        if !self.is_known(tensor) {
            let value = self.boxed(t.dtype);
            self.forms[tensor].rows = Some(value);
            return Ok(value);
        }
        let dims = self.shape(tensor)?;
        let shape = if form == Form::Channels {
            channels_last(dims)
        } else {
            dims.to_vec()
        };
        let dtype = self.real_dtype(tensor);
        let bytes = bytes_of(dtype, &shape)?;
        let home = match self.wishes[tensor] {
            Some(port) if t.encoding.is_none() => {
                let last = self.layouts[port] == Layout::ChannelsLast;
                let same = is_trivial(dims) || last == (form == Form::Channels);
                if same { Home::Port(port) } else { Home::Arena(0) }
            }
            _ => Home::Arena(0),
        };
        let storage = self.storage(bytes, home);
        let value = self.value(dtype, shape, bytes, storage);
        match form {
            Form::Rows => self.forms[tensor].rows = Some(value),
            Form::Channels => self.forms[tensor].channels = Some(value),
        }
        Ok(value)
    }

    /// A new value for another form of a computed tensor: in its output port's memory where that wants this form.
    fn target(&mut self, tensor: TensorIndex, shape: Vec<usize>, layout: Layout) -> Result<ValueId> {
        let dtype = self.real_dtype(tensor);
        match self.wishes[tensor] {
            Some(port) if self.layouts[port] == layout && self.part.tensors[tensor].encoding.is_none() => {
                let bytes = bytes_of(dtype, &shape)?;
                let storage = self.storage(bytes, Home::Port(port));
                Ok(self.value(dtype, shape, bytes, storage))
            }
            _ => self.fresh(dtype, shape),
        }
    }

    /// Adds a step; its results are `writes`, then scratch.
    fn step(
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
        let elements = writes.first().map_or(0, |value| {
            let shape = self.values[value.0 as usize].shape.as_deref().unwrap_or(&[]);
            polychip_ops::axis::product(shape).map_or(u64::MAX, |elements| elements as u64)
        });
        let work = Work {
            class: Class::Copy,
            units: elements,
            bytes: bytes(reads) + bytes(writes),
            boxed: Boxed::default(),
        };
        self.steps.push(Step {
            node: self.node as u32,
            name,
            reads: reads.to_vec(),
            writes: writes.iter().copied().chain(scratch).collect(),
            may_share: Vec::new(),
            shared: None,
            work,
            run,
        });
        self.steps.last_mut().expect("invariant: a step was just added")
    }

    /// A permutation of elements of any fixed size.
    fn transpose(&mut self, name: &'static str, plan: TransposePlan, from: ValueId, to: ValueId) {
        let width = self.values[from.0 as usize].dtype.byte_width().unwrap_or(1);
        let class = if plan.moves_rows() {
            Class::Copy
        } else {
            Class::Permute
        };
        self.step(
            name,
            &[from],
            &[to],
            None,
            Box::new(move |o| {
                match width {
                    1 => plan.run(o.pool, o.read::<u8>(0), o.write::<u8>(0)),
                    2 => plan.run(o.pool, o.read::<u16>(0), o.write::<u16>(0)),
                    4 => plan.run(o.pool, o.read::<u32>(0), o.write::<u32>(0)),
                    _ => plan.run(o.pool, o.read::<u64>(0), o.write::<u64>(0)),
                }
                Ok(())
            }),
        )
        .is(class);
    }
}

/// An error of a kernel's plan.
fn kernel_error(error: polychip_cpu_kernels::Error) -> Error {
    Error::unsupported(error.to_string())
}

/// An error of inference or geometry.
fn shape_error(error: polychip_ops::InferError) -> Error {
    Error::unsupported(error.to_string())
}

/// Bytes of a dense tensor.
fn bytes_of(dtype: DType, shape: &[usize]) -> Result<usize> {
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

/// `[n, c, spatial...]` as `[n, spatial..., c]`.
fn channels_last(dims: &[usize]) -> Vec<usize> {
    if dims.len() < 3 {
        return dims.to_vec();
    }
    let mut shape = vec![dims[0]];
    shape.extend(&dims[2..]);
    shape.push(dims[1]);
    shape
}

/// Where an axis of ONNX order stands channels last.
fn channels_axis(axis: usize, rank: usize) -> usize {
    match axis {
        0 => 0,
        1 => rank - 1,
        _ => axis - 1,
    }
}

/// `[n, c, spatial]` of an image's shape.
fn image(dims: &[usize]) -> Result<[usize; 3]> {
    match dims {
        [n, c, spatial @ ..] if !spatial.is_empty() => {
            let spatial = polychip_ops::axis::product(spatial)
                .ok_or_else(|| Error::unsupported(format!("a tensor of shape {dims:?} is too large")))?;
            Ok([*n, *c, spatial])
        }
        _ => Err(Error::unsupported(format!("shape {dims:?} is not an image's"))),
    }
}

/// Whether both forms are the same bytes.
fn is_trivial(dims: &[usize]) -> bool {
    dims.len() < 3 || dims[1] == 1 || dims[2..].iter().all(|&size| size == 1)
}

/// The activation that changes nothing.
const IDENTITY: Unary = Unary::Identity;

#[cfg(test)]
mod tests;
