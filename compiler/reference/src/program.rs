//! A whole graph, node after node: what the null plugin runs, and what control-flow bodies are.
//!
//! Invariants:
//! 1. A program owns all it needs but the constants, which live as long as the model.
//! 2. [`Program::new`] refuses what [`Program::run`] could not compute for its ops' or types' sake.
//! 3. A value is dropped after its last use.
//! 4. A tensor with an encoding is stored as codes; nodes read and write the real values, QuantizeLinear and
//!    DequantizeLinear the codes.
//!
//! Not here: parallelism, buffers.

use polychip_cpu_kernels::reference::quantise::{self, Quantisation};
use polychip_cpu_kernels::reference::{Element, Error, Tensor};
use polychip_ops::{Attr, Attributes, BlockLayout, DType, Op};
use polychip_sdk::{Constant, Encoding, EncodingKind, GraphView, NodeView, TensorView};

use crate::control::{Body, evaluate_control};
use crate::error::{EvaluateError, Reason};
use crate::literal::element;
use crate::{evaluate_packed, table};

type Result<T> = std::result::Result<T, EvaluateError>;

/// Whether a node can be computed, its bodies included; a node that cannot, but that was recomposed from
/// nodes that can, is.
///
/// # Errors
/// The reason why not.
pub fn node_supported(graph: &GraphView<'_>, node: &NodeView<'_>) -> std::result::Result<(), Reason> {
    let own = own_support(graph, node);
    match (own, node.decomposition()) {
        (Err(reason), Some(parts)) => parts
            .nodes()
            .try_for_each(|n| node_supported(&parts, &n))
            .map_err(|_| reason),
        (own, _) => own,
    }
}

fn own_support(graph: &GraphView<'_>, node: &NodeView<'_>) -> std::result::Result<(), Reason> {
    if node.bodies().len() > 0 {
        if !matches!(node.op(), Op::If | Op::Loop | Op::Scan | Op::SequenceMap) {
            return Err(Reason("its bodies have no known meaning".to_owned()));
        }
        return node.bodies().try_for_each(|body| {
            body.graph.nodes().try_for_each(|n| {
                node_supported(&body.graph, &n)
                    .map_err(|why| Reason(format!("{} in its body: {why}", n.op_name())))
            })
        });
    }
    let codes = sees_codes(node.op());
    let dtypes = node.inputs().map(|t| {
        let tensor = graph.tensor(t?);
        Some(if codes {
            tensor.dtype()
        } else {
            real_dtype(&tensor)
        })
    });
    match table::refusal(node.op(), &node.attributes(), dtypes) {
        Some(reason) => Err(reason),
        None => Ok(()),
    }
}

/// Whether a node reads and writes the codes of a tensor with an encoding: it makes or reads reals itself.
fn sees_codes(op: Op) -> bool {
    matches!(op, Op::QuantizeLinear | Op::DequantizeLinear)
}

/// The type that other nodes see.
fn real_dtype(tensor: &TensorView<'_>) -> DType {
    tensor.encoding().map_or(tensor.dtype(), |e| e.real_dtype())
}

/// One tensor of a program.
#[derive(Debug)]
struct Value {
    dtype: DType,
    /// Sizes, 0 where not known.
    dims: Option<Vec<usize>>,
    constant: Option<Constant>,
    encoding: Option<Encoding>,
    /// Whether it is a sequence or optional, packed into bytes.
    packed: bool,
    /// The last node that reads it, or none if it must outlive the run.
    last_use: Option<usize>,
}

/// What a node runs besides a kernel.
#[derive(Debug)]
enum Inner {
    Kernel,
    Bodies(Vec<(Attr, BodyProgram)>),
    Decomposition(Box<Program>),
}

#[derive(Debug)]
struct BodyProgram {
    program: Program,
    /// For each input of the body graph, the outer tensor it captures, or none if the op passes it.
    captured: Vec<Option<u32>>,
}

#[derive(Debug)]
struct Step {
    op: Op,
    attributes: Attributes,
    inputs: Vec<Option<u32>>,
    outputs: Vec<Option<u32>>,
    inner: Inner,
}

/// A graph ready to run.
#[derive(Debug)]
pub struct Program {
    values: Vec<Value>,
    steps: Vec<Step>,
    inputs: Vec<u32>,
    outputs: Vec<u32>,
}

impl Program {
    /// Prepares a graph.
    ///
    /// # Errors
    /// If a node cannot be computed.
    pub fn new(graph: &GraphView<'_>) -> Result<Self> {
        let mut steps = Vec::with_capacity(graph.node_count());
        for node in graph.nodes() {
            node_supported(graph, &node).map_err(|why| EvaluateError::unsupported(node.op(), why))?;
            let inner = if own_support(graph, &node).is_err() {
                let parts = node
                    .decomposition()
                    .expect("invariant: supported only through its parts");
                Inner::Decomposition(Box::new(Self::new(&parts)?))
            } else if node.bodies().len() > 0 {
                let mut bodies = Vec::new();
                for body in node.bodies() {
                    let Some(attr) = body.attr else { continue };
                    let captures: Vec<(u32, u32)> = body.captures().collect();
                    let captured = body
                        .graph
                        .inputs()
                        .iter()
                        .map(|i| {
                            captures
                                .iter()
                                .find(|(_, inner)| inner == i)
                                .map(|(outer, _)| *outer)
                        })
                        .collect();
                    bodies.push((
                        attr,
                        BodyProgram {
                            program: Self::new(&body.graph)?,
                            captured,
                        },
                    ));
                }
                Inner::Bodies(bodies)
            } else {
                Inner::Kernel
            };
            steps.push(Step {
                op: node.op(),
                attributes: node.attributes(),
                inputs: node.inputs().collect(),
                outputs: node.outputs().collect(),
                inner,
            });
        }
        let mut values: Vec<Value> = graph
            .tensors()
            .map(|t| Value {
                dtype: t.dtype(),
                dims: t
                    .dims()
                    .map(|dims| dims.iter().map(|&d| usize::try_from(d).unwrap_or(0)).collect()),
                packed: t.is_container(),
                constant: t.constant(),
                encoding: t.encoding().map(|e| e.to_owned()),
                last_use: Some(0),
            })
            .collect();
        for (i, step) in steps.iter().enumerate() {
            let mut used = |t: u32| {
                if let Some(v) = values.get_mut(t as usize) {
                    v.last_use = Some(i);
                }
            };
            step.inputs.iter().flatten().copied().for_each(&mut used);
            if let Inner::Bodies(bodies) = &step.inner {
                bodies
                    .iter()
                    .flat_map(|b| &b.1.captured)
                    .flatten()
                    .copied()
                    .for_each(&mut used);
            }
        }
        for &t in graph.outputs() {
            values[t as usize].last_use = None;
        }
        Ok(Self {
            values,
            steps,
            inputs: graph.inputs().to_vec(),
            outputs: graph.outputs().to_vec(),
        })
    }

    /// How many inputs the graph has.
    #[must_use]
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// How many nodes the graph has.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.steps.len()
    }

    /// Computes the outputs from the inputs, both in port order and as stored (codes where a port has an
    /// encoding).
    ///
    /// # Errors
    /// If an input has another element type than its port, or a node's inputs do not fit its op.
    pub fn run(&self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
        self.run_until(inputs, &|| false)
    }

    /// As [`Program::run`], and given up where `stop` says so: it is asked ahead of each node, those of
    /// bodies in every round as well.
    ///
    /// # Errors
    /// As [`Program::run`], or [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    pub fn run_until(&self, inputs: Vec<Tensor>, stop: &dyn Fn() -> bool) -> Result<Vec<Tensor>> {
        self.go(inputs, stop, |_| Ok(()))
    }

    /// As [`Program::run`], asking `before` ahead of each node (by its index) whether to go on.
    ///
    /// # Errors
    /// As [`Program::run`], or what `before` says.
    pub fn run_watched<E: From<EvaluateError>>(
        &self,
        inputs: Vec<Tensor>,
        before: impl FnMut(usize) -> std::result::Result<(), E>,
    ) -> std::result::Result<Vec<Tensor>, E> {
        self.go(inputs, &|| false, before)
    }

    fn go<E: From<EvaluateError>>(
        &self,
        inputs: Vec<Tensor>,
        stop: &dyn Fn() -> bool,
        mut before: impl FnMut(usize) -> std::result::Result<(), E>,
    ) -> std::result::Result<Vec<Tensor>, E> {
        // a body of no nodes may be run very often too
        if stop() {
            return Err(
                EvaluateError::cancelled(self.steps.first().map_or(Op::Identity, |step| step.op)).into(),
            );
        }
        let mut live: Vec<Option<Tensor>> = vec![None; self.values.len()];
        let wrong = |why: String| EvaluateError::bad_input(Op::Identity, Error::new(why));
        if inputs.len() != self.inputs.len() {
            let why = format!(
                "a graph of {} inputs is given {}",
                self.inputs.len(),
                inputs.len()
            );
            return Err(wrong(why).into());
        }
        for (place, (&t, tensor)) in self.inputs.iter().zip(inputs).enumerate() {
            let wanted = element(self.values[t as usize].dtype);
            if tensor.element() != wanted {
                let why = format!("input {place} is {:?}, {wanted:?} wanted", tensor.element());
                return Err(wrong(why).into());
            }
            live[t as usize] = Some(tensor);
        }
        for (i, step) in self.steps.iter().enumerate() {
            before(i)?;
            if i > 0 && stop() {
                return Err(EvaluateError::cancelled(step.op).into());
            }
            let results = self.step(step, &live, stop)?;
            for (t, result) in step.outputs.iter().zip(results) {
                if let Some(t) = *t {
                    live[t as usize] = Some(self.stored(step.op, t, result)?);
                }
            }
            let bodies: &[_] = if let Inner::Bodies(bodies) = &step.inner {
                bodies
            } else {
                &[]
            };
            let captured = bodies.iter().flat_map(|b| &b.1.captured);
            for t in step.inputs.iter().chain(captured).flatten() {
                if self.values[*t as usize].last_use == Some(i) {
                    live[*t as usize] = None;
                }
            }
        }
        self.outputs
            .iter()
            .map(|&t| Ok(self.held(Op::Identity, t, &live)?.into_owned()))
            .collect()
    }

    /// The stored tensor `t`.
    fn held<'a>(&self, op: Op, t: u32, live: &'a [Option<Tensor>]) -> Result<std::borrow::Cow<'a, Tensor>> {
        let value = &self.values[t as usize];
        if let Some(tensor) = &live[t as usize] {
            return Ok(std::borrow::Cow::Borrowed(tensor));
        }
        let (Some(constant), Some(dims)) = (&value.constant, &value.dims) else {
            let why = Error::new(format!("tensor {t} was not computed"));
            return Err(EvaluateError::bad_input(op, why));
        };
        Tensor::from_bytes(element(value.dtype), dims.clone(), constant.bytes())
            .map(std::borrow::Cow::Owned)
            .map_err(|why| EvaluateError::bad_input(op, why))
    }

    /// The tensor `t` as a node sees it.
    fn seen<'a>(&self, op: Op, t: u32, live: &'a [Option<Tensor>]) -> Result<std::borrow::Cow<'a, Tensor>> {
        let value = &self.values[t as usize];
        let blocks = value.encoding.as_ref().and_then(Encoding::block_layout);
        if let (Some(layout), Some(constant), Some(dims)) = (blocks, &value.constant, &value.dims) {
            return unblocked(layout, constant.bytes(), dims)
                .map(std::borrow::Cow::Owned)
                .map_err(|why| EvaluateError::bad_input(op, why));
        }
        let stored = self.held(op, t, live)?;
        let encoding = self.values[t as usize].encoding.as_ref();
        let Some(e) = encoding.filter(|_| !sees_codes(op)) else {
            return Ok(stored);
        };
        let (scale, zero, axis, block) = scales(e, stored.shape())?;
        quantise::dequantise(&stored, &scale, zero.as_ref(), element(e.real_dtype), axis, block)
            .map(std::borrow::Cow::Owned)
            .map_err(|why| EvaluateError::bad_input(op, why))
    }

    /// What a node wrote, as tensor `t` stores it.
    fn stored(&self, op: Op, t: u32, written: Tensor) -> Result<Tensor> {
        let value = &self.values[t as usize];
        let Some(e) = value.encoding.as_ref().filter(|_| !sees_codes(op)) else {
            return Ok(written);
        };
        let (scale, zero, axis, block) = scales(e, written.shape())?;
        let q = Quantisation {
            axis,
            block,
            saturate: true,
            precision: Element::F32,
        };
        quantise::quantise(&written, &scale, zero.as_ref(), element(value.dtype), q)
            .map_err(|why| EvaluateError::bad_input(op, why))
    }

    fn step(&self, step: &Step, live: &[Option<Tensor>], stop: &dyn Fn() -> bool) -> Result<Vec<Tensor>> {
        let held = step
            .inputs
            .iter()
            .map(|t| t.map(|t| self.seen(step.op, t, live)).transpose())
            .collect::<Result<Vec<_>>>()?;
        let inputs: Vec<Option<&Tensor>> = held.iter().map(Option::as_deref).collect();
        let packed: Vec<bool> = step
            .inputs
            .iter()
            .map(|t| t.is_some_and(|t| self.values[t as usize].packed))
            .collect();
        match &step.inner {
            Inner::Kernel => evaluate_packed(step.op, &step.attributes, &inputs, &packed, step.outputs.len()),
            Inner::Decomposition(parts) => {
                let given = inputs.into_iter().flatten().cloned().collect();
                let mut results = parts.run_until(given, stop)?.into_iter();
                // the parts give the outputs that are present, in order
                let missing =
                    || EvaluateError::bad_input(step.op, Error::new("a part gives too few outputs"));
                let place = Tensor::from_i64s(vec![0], Vec::new()).map_err(|_| missing())?;
                step.outputs
                    .iter()
                    .map(|t| match t {
                        Some(_) => results.next().ok_or_else(missing),
                        None => Ok(place.clone()),
                    })
                    .collect()
            }
            Inner::Bodies(bodies) => {
                let bound: Vec<(Attr, Bound<'_>)> = bodies
                    .iter()
                    .map(|(attr, body)| {
                        let captured = body
                            .captured
                            .iter()
                            .map(|t| {
                                t.map(|t| Ok(self.seen(step.op, t, live)?.into_owned()))
                                    .transpose()
                            })
                            .collect::<Result<_>>()?;
                        Ok((
                            *attr,
                            Bound {
                                program: &body.program,
                                captured,
                                stop,
                            },
                        ))
                    })
                    .collect::<Result<_>>()?;
                let bodies: Vec<(Attr, &dyn Body)> = bound
                    .iter()
                    .map(|(attr, body)| (*attr, body as &dyn Body))
                    .collect();
                evaluate_control(
                    step.op,
                    &step.attributes,
                    &inputs,
                    &packed,
                    step.outputs.len(),
                    &bodies,
                )
            }
        }
    }
}

/// The values of blocks that hold their own scales.
fn unblocked(layout: BlockLayout, blocks: &[u8], dims: &[usize]) -> std::result::Result<Tensor, Error> {
    if layout.byte_len(dims) != Some(blocks.len()) {
        let words = format!(
            "{} bytes are no blocks of {layout} of shape {dims:?}",
            blocks.len()
        );
        return Err(Error::new(words));
    }
    let mut values = vec![0.0f32; blocks.len() / layout.bytes() * layout.elements()];
    layout.dequantize(blocks, &mut values);
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::from_bytes(Element::F32, dims.to_vec(), &bytes)
}

/// Scale, zero point, axis and block size of an encoding for a tensor of `shape`.
fn scales(e: &Encoding, shape: &[usize]) -> Result<(Tensor, Option<Tensor>, i64, usize)> {
    let (dims, axis, block) = match e.kind {
        EncodingKind::PerTensor => (Vec::new(), 0, 0),
        EncodingKind::PerAxis { axis } => (vec![e.scales.len()], axis, 0),
        EncodingKind::PerBlock { axis, block } => {
            let mut dims = shape.to_vec();
            if let Some(d) = dims.get_mut(axis) {
                *d = d.div_ceil(block.max(1));
            }
            (dims, axis, block)
        }
        EncodingKind::Blocks(layout) => {
            return Err(EvaluateError::bad_input(
                Op::DequantizeLinear,
                Error::new(format!("blocks of {layout} are read as reals of constants alone")),
            ));
        }
    };
    let wrong = |why| EvaluateError::bad_input(Op::DequantizeLinear, why);
    let floats: Vec<f64> = e.scales.iter().copied().map(f64::from).collect();
    let scale = Tensor::from_f64s(Element::F32, dims.clone(), &floats).map_err(wrong)?;
    let zero = if e.zero_points.is_empty() {
        None
    } else {
        let ints: Vec<i128> = e.zero_points.iter().copied().map(i128::from).collect();
        Some(Tensor::from_i128s(Element::I32, dims, &ints).map_err(wrong)?)
    };
    Ok((scale, zero, axis as i64, block))
}

/// A body with the outer tensors that it captures.
struct Bound<'a> {
    program: &'a Program,
    captured: Vec<Option<Tensor>>,
    stop: &'a dyn Fn() -> bool,
}

impl Body for Bound<'_> {
    fn run(&self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let mut passed = inputs.into_iter();
        let all = self
            .captured
            .iter()
            .map(|captured| captured.clone().or_else(|| passed.next()))
            .collect::<Option<Vec<Tensor>>>()
            .ok_or_else(|| {
                EvaluateError::bad_input(Op::Identity, Error::new("a body is given too few inputs"))
            })?;
        self.program.run_until(all, self.stop)
    }

    fn outputs(&self) -> usize {
        self.program.outputs.len()
    }

    fn output_type(&self, output: usize) -> Option<(Element, Vec<usize>)> {
        let value = &self.program.values[*self.program.outputs.get(output)? as usize];
        Some((element(value.dtype), value.dims.clone().unwrap_or_default()))
    }
}
