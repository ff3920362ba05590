//! Body graphs: nodes evaluated one after the other on boxed tensors, and the three ops that hold them.
//!
//! Invariants:
//! 1. A body's inputs are those that the op passes, then its captures in the order of the body's inputs.
//! 2. What does not fit (a missing input, a wrong count) is an error, never a panic.
//!
//! Not here: speed; a body runs on the reference evaluator whatever it computes.

use std::sync::Arc;

use polychip_ops::{Attr, Attributes, DType, Op};
use polychip_reference::{Tensor, evaluate};
use polychip_sdk::{Error, ErrorKind, Result};

use crate::part::{Node, Part, TensorIndex};
use crate::step::tensor_from_bytes;

/// A graph ready to be evaluated.
#[derive(Debug)]
pub(crate) struct Interpreted {
    nodes: Vec<Instruction>,
    constants: Vec<(TensorIndex, Tensor)>,
    inputs: Vec<TensorIndex>,
    outputs: Vec<TensorIndex>,
    /// Types of the outputs, for scan outputs of no iteration.
    output_types: Vec<(DType, Option<Vec<usize>>)>,
    tensors: usize,
}

#[derive(Debug)]
struct Instruction {
    op: Op,
    op_name: String,
    attributes: Attributes,
    inputs: Vec<Option<TensorIndex>>,
    outputs: Vec<Option<TensorIndex>>,
    control: Option<(Control, Vec<(Attr, Vec<TensorIndex>)>)>,
}

/// A node with bodies.
#[derive(Debug)]
pub(crate) struct Control {
    /// If, Loop or Scan.
    pub(crate) op: Op,
    /// Attributes.
    pub(crate) attributes: Attributes,
    /// Bodies by the attribute that held them.
    pub(crate) bodies: Arc<Vec<(Attr, Interpreted)>>,
    /// Number of outputs.
    pub(crate) outputs: usize,
}

fn bad(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::bad_argument(message)
}

/// Why a graph cannot be interpreted: the first node that the evaluator refuses by its op alone.
pub(crate) fn refusal(part: &Part) -> Option<String> {
    part.nodes.iter().find_map(|node| {
        if node.bodies.is_empty() {
            let dtypes: Vec<_> = node
                .inputs
                .iter()
                .map(|t| t.map(|t| part.tensors[t].dtype))
                .collect();
            let reason = polychip_reference::supported(node.op, &node.attributes, &dtypes).err()?;
            return Some(format!("{}: {reason}", node.op_name));
        }
        if !matches!(node.op, Op::If | Op::Loop | Op::Scan) {
            return Some(format!("{} with body graphs is not computed", node.op_name));
        }
        node.bodies.iter().find_map(|body| refusal(&body.part))
    })
}

impl Interpreted {
    /// Reads the constants of a body once.
    pub(crate) fn new(part: &Part) -> Result<Self> {
        let mut constants = Vec::new();
        for (index, t) in part.tensors.iter().enumerate() {
            if t.encoding.is_some() {
                return Err(Error::unsupported("a quantised tensor inside a body graph"));
            }
            if let (Some(constant), Some(dims)) = (&t.constant, &t.dims) {
                constants.push((index, tensor_from_bytes(t.dtype, dims, constant.bytes())?));
            }
        }
        let nodes = part.nodes.iter().map(Instruction::new).collect::<Result<_>>()?;
        Ok(Self {
            nodes,
            constants,
            inputs: part.inputs.clone(),
            outputs: part.outputs.clone(),
            output_types: part
                .outputs
                .iter()
                .map(|&t| (part.tensors[t].dtype, part.tensors[t].dims.clone()))
                .collect(),
            tensors: part.tensors.len(),
        })
    }

    /// Evaluates the graph.
    pub(crate) fn run(&self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
        if inputs.len() != self.inputs.len() {
            return Err(bad(format!(
                "a body of {} inputs is given {}",
                self.inputs.len(),
                inputs.len()
            )));
        }
        let mut values: Vec<Option<Tensor>> = vec![None; self.tensors];
        for (index, tensor) in &self.constants {
            values[*index] = Some(tensor.clone());
        }
        for (&index, tensor) in self.inputs.iter().zip(inputs) {
            values[index] = Some(tensor);
        }
        for node in &self.nodes {
            let results = node.run(&values)?;
            for (output, tensor) in node.outputs.iter().zip(results) {
                if let Some(index) = *output {
                    values[index] = Some(tensor);
                }
            }
        }
        self.outputs
            .iter()
            .map(|&index| {
                values[index]
                    .clone()
                    .ok_or_else(|| bad("a body's output is never computed"))
            })
            .collect()
    }
}

impl Instruction {
    fn new(node: &Node) -> Result<Self> {
        let control = if node.bodies.is_empty() {
            None
        } else {
            let mut bodies = Vec::new();
            let mut captures = Vec::new();
            for body in &node.bodies {
                bodies.push((body.attr, Interpreted::new(&body.part)?));
                let mut own = body.captures.clone();
                own.sort_by_key(|&(_, inner)| body.part.inputs.iter().position(|&input| input == inner));
                captures.push((body.attr, own.iter().map(|&(outer, _)| outer).collect()));
            }
            let control = Control {
                op: node.op,
                attributes: node.attributes.clone(),
                bodies: Arc::new(bodies),
                outputs: node.outputs.len(),
            };
            Some((control, captures))
        };
        Ok(Self {
            op: node.op,
            op_name: node.op_name.clone(),
            attributes: node.attributes.clone(),
            inputs: node.inputs.clone(),
            outputs: node.outputs.clone(),
            control,
        })
    }

    fn run(&self, values: &[Option<Tensor>]) -> Result<Vec<Tensor>> {
        let get = |index: TensorIndex| {
            values[index]
                .as_ref()
                .ok_or_else(|| bad(format!("{}: an input is never computed", self.op_name)))
        };
        let inputs = self
            .inputs
            .iter()
            .map(|t| t.map(get).transpose())
            .collect::<Result<Vec<_>>>()?;
        let Some((control, captures)) = &self.control else {
            return node(self.op, &self.attributes, &inputs, self.outputs.len());
        };
        let inputs: Vec<_> = inputs.into_iter().map(Option::<&Tensor>::cloned).collect();
        let mut captured = Vec::new();
        for (attr, outer) in captures {
            let tensors = outer
                .iter()
                .map(|&t| get(t).cloned())
                .collect::<Result<Vec<_>>>()?;
            captured.push((*attr, tensors));
        }
        control.run(&inputs, &captured)
    }
}

fn node(op: Op, attributes: &Attributes, inputs: &[Option<&Tensor>], outputs: usize) -> Result<Vec<Tensor>> {
    evaluate(op, attributes, inputs, outputs)
        .map_err(|error| Error::new(ErrorKind::BadArgument, error.to_string()))
}

fn one(op: Op, attributes: &Attributes, inputs: &[Option<&Tensor>]) -> Result<Tensor> {
    node(op, attributes, inputs, 1)?
        .pop()
        .ok_or_else(|| bad(format!("{} gives nothing", op.name())))
}

fn integer(value: i64) -> Result<Tensor> {
    Tensor::from_i64s(vec![], vec![value]).map_err(|error| bad(error.to_string()))
}

fn truth(value: bool) -> Result<Tensor> {
    Tensor::from_bools(vec![], vec![value]).map_err(|error| bad(error.to_string()))
}

fn is_true(tensor: &Tensor) -> Result<bool> {
    let values = tensor.to_bools().map_err(|error| bad(error.to_string()))?;
    values.first().copied().ok_or_else(|| bad("an empty condition"))
}

/// Index `at` of an axis, the axis dropped.
fn pick(tensor: &Tensor, axis: i64, at: i64) -> Result<Tensor> {
    let attributes = Attributes::new().with_int(Attr::Axis, axis);
    one(Op::Gather, &attributes, &[Some(tensor), Some(&integer(at)?)])
}

/// Tensors side by side on a new axis; an empty stack has the type that the body states.
fn stack(tensors: &[Tensor], axis: i64, ty: &(DType, Option<Vec<usize>>)) -> Result<Tensor> {
    if tensors.is_empty() {
        let (dtype, dims) = ty;
        let mut shape = dims.clone().unwrap_or_default();
        let at = if axis < 0 {
            axis + shape.len() as i64 + 1
        } else {
            axis
        };
        let at = usize::try_from(at).unwrap_or(0).min(shape.len());
        shape.insert(at, 0);
        return tensor_from_bytes(*dtype, &shape, &[]);
    }
    let axes = Tensor::from_i64s(vec![1], vec![axis]).map_err(|error| bad(error.to_string()))?;
    let raised = tensors
        .iter()
        .map(|tensor| one(Op::Unsqueeze, &Attributes::new(), &[Some(tensor), Some(&axes)]))
        .collect::<Result<Vec<_>>>()?;
    let inputs: Vec<_> = raised.iter().map(Some).collect();
    one(Op::Concat, &Attributes::new().with_int(Attr::Axis, axis), &inputs)
}

impl Control {
    fn body(&self, attr: Attr) -> Result<&Interpreted> {
        self.bodies
            .iter()
            .find_map(|(own, body)| (*own == attr).then_some(body))
            .ok_or_else(|| bad(format!("{} has no {}", self.op.name(), attr.name())))
    }

    /// Runs the node: its inputs, and for each body what it captures.
    pub(crate) fn run(
        &self,
        inputs: &[Option<Tensor>],
        captured: &[(Attr, Vec<Tensor>)],
    ) -> Result<Vec<Tensor>> {
        let captures = |attr: Attr| -> &[Tensor] {
            captured
                .iter()
                .find_map(|(own, tensors)| (*own == attr).then_some(&tensors[..]))
                .unwrap_or(&[])
        };
        match self.op {
            Op::If => {
                let Some(Some(condition)) = inputs.first() else {
                    return Err(bad("If without a condition"));
                };
                let attr = if is_true(condition)? {
                    Attr::ThenBranch
                } else {
                    Attr::ElseBranch
                };
                self.body(attr)?.run(captures(attr).to_vec())
            }
            Op::Loop => self.repeat(inputs, captures(Attr::Body)),
            _ => self.scan(inputs, captures(Attr::Body)),
        }
    }

    fn repeat(&self, inputs: &[Option<Tensor>], captures: &[Tensor]) -> Result<Vec<Tensor>> {
        let body = self.body(Attr::Body)?;
        let limit = match inputs.first().and_then(Option::as_ref) {
            Some(trips) => {
                let trips = trips.to_i64s().map_err(|error| bad(error.to_string()))?;
                *trips
                    .first()
                    .ok_or_else(|| bad("Loop with an empty trip count"))?
            }
            None => i64::MAX,
        };
        let mut goes_on = inputs
            .get(1)
            .and_then(Option::as_ref)
            .map(is_true)
            .transpose()?
            .unwrap_or(true);
        let mut state = inputs
            .iter()
            .skip(2)
            .map(|input| {
                input
                    .clone()
                    .ok_or_else(|| bad("Loop with an initial value left out"))
            })
            .collect::<Result<Vec<_>>>()?;
        let carried = state.len();
        let scans = (body.outputs.len().checked_sub(1 + carried))
            .ok_or_else(|| bad("a Loop body with fewer outputs than carried values"))?;
        let mut scanned: Vec<Vec<Tensor>> = vec![Vec::new(); scans];
        let mut trip = 0;
        while trip < limit && goes_on {
            let mut arguments = vec![integer(trip)?, truth(goes_on)?];
            arguments.append(&mut state);
            arguments.extend_from_slice(captures);
            let mut results = body.run(arguments)?.into_iter();
            goes_on = is_true(
                &results
                    .next()
                    .ok_or_else(|| bad("a Loop body without a condition"))?,
            )?;
            state.extend(results.by_ref().take(carried));
            for (scanned, tensor) in scanned.iter_mut().zip(results) {
                scanned.push(tensor);
            }
            trip += 1;
        }
        for (tensors, ty) in scanned.iter().zip(&body.output_types[1 + carried..]) {
            state.push(stack(tensors, 0, ty)?);
        }
        Ok(state)
    }

    fn scan(&self, inputs: &[Option<Tensor>], captures: &[Tensor]) -> Result<Vec<Tensor>> {
        let body = self.body(Attr::Body)?;
        let wrong = || bad("Scan with inputs or attributes that do not fit its body");
        let count = self
            .attributes
            .int(Attr::NumScanInputs)
            .and_then(|count| usize::try_from(count).ok())
            .filter(|&count| count > 0 && count <= inputs.len())
            .ok_or_else(wrong)?;
        let all = inputs
            .iter()
            .map(|input| input.clone().ok_or_else(wrong))
            .collect::<Result<Vec<_>>>()?;
        let (initial, sequences) = all.split_at(all.len() - count);
        let mut state = initial.to_vec();
        let carried = state.len();
        let scans = body.outputs.len().checked_sub(carried).ok_or_else(wrong)?;
        let list = |attr: Attr, i: usize| -> i64 {
            self.attributes
                .ints(attr)
                .and_then(|list| list.get(i))
                .copied()
                .unwrap_or(0)
        };
        let length = |i: usize| -> Result<i64> {
            let shape = sequences[i].shape();
            let axis =
                polychip_ops::axis::normalise(list(Attr::ScanInputAxes, i), shape.len()).ok_or_else(wrong)?;
            Ok(shape[axis] as i64)
        };
        let steps = length(0)?;
        for i in 1..count {
            if length(i)? != steps {
                return Err(wrong());
            }
        }
        let mut scanned: Vec<Vec<Tensor>> = vec![Vec::new(); scans];
        for step in 0..steps {
            let mut arguments = std::mem::take(&mut state);
            for (i, sequence) in sequences.iter().enumerate() {
                let backwards = list(Attr::ScanInputDirections, i) == 1;
                let at = if backwards { steps - 1 - step } else { step };
                arguments.push(pick(sequence, list(Attr::ScanInputAxes, i), at)?);
            }
            arguments.extend_from_slice(captures);
            let mut results = body.run(arguments)?.into_iter();
            state.extend(results.by_ref().take(carried));
            for (scanned, tensor) in scanned.iter_mut().zip(results) {
                scanned.push(tensor);
            }
        }
        for (i, (mut tensors, ty)) in scanned.into_iter().zip(&body.output_types[carried..]).enumerate() {
            if list(Attr::ScanOutputDirections, i) == 1 {
                tensors.reverse();
            }
            state.push(stack(&tensors, list(Attr::ScanOutputAxes, i), ty)?);
        }
        debug_assert_eq!(state.len(), body.outputs.len());
        let _ = self.outputs;
        Ok(state)
    }
}
