//! Types of If, Loop, Scan and SequenceMap: bodies are inferred with what is known of captures and inputs.
//!
//! Invariants:
//! 1. A type of a loop-carried tensor holds for every turn: what differs from turn to turn is unknown.
//! 2. A size common to both branches of an If is known; one that differs is not. A branch that breaks
//!    a rule is one that can never run: it is an error only where no other branch is left.

use polychip_ops::operator::Scan;
use polychip_ops::{DType, Dim, Inferred, Op, TensorType, Value};

use super::values::{Values, assign, value_of};
use crate::{Container, Error, Graph, Node, NodeId, TensorId};

/// What is known of a tensor that enters or leaves a body.
#[derive(Clone, PartialEq, Debug)]
struct Known {
    ty: TensorType,
    typed: bool,
    container: Container,
    bound: bool,
}

impl Known {
    fn of(graph: &Graph, id: TensorId) -> Known {
        let tensor = graph.tensor(id);
        Known {
            ty: tensor.ty.clone(),
            typed: tensor.typed,
            container: tensor.container,
            bound: tensor.upper_bound,
        }
    }

    fn unknown() -> Known {
        Known {
            ty: TensorType::unranked(DType::F32),
            typed: false,
            container: Container::Tensor,
            bound: false,
        }
    }

    fn tensor(ty: TensorType) -> Known {
        Known {
            ty,
            typed: true,
            container: Container::Tensor,
            bound: false,
        }
    }

    /// What holds for both.
    fn join(&self, other: &Known) -> Known {
        if !self.typed || !other.typed || self.ty.dtype != other.ty.dtype || self.container != other.container
        {
            return Known::unknown();
        }
        let shape = match (&self.ty.shape, &other.ty.shape) {
            (Some(a), Some(b)) if a.len() == b.len() => Some(
                a.iter()
                    .zip(b)
                    .map(|(a, b)| if a.same(b) { a.clone() } else { Dim::Unknown })
                    .collect(),
            ),
            _ => None,
        };
        Known {
            ty: TensorType {
                dtype: self.ty.dtype,
                shape,
            },
            bound: self.bound || other.bound,
            ..self.clone()
        }
    }
}

/// Infers the outputs of a node with bodies; `infer_body` infers one, as the graph around it is.
pub(super) fn infer(
    graph: &mut Graph,
    id: NodeId,
    values: &mut Values,
    infer_body: fn(&mut Graph, &mut Values) -> Result<(), Error>,
) -> Result<(), Error> {
    // what they capture stays, so that edges do
    let mut bodies = std::mem::take(&mut graph.inner_mut(id).bodies);
    let node = graph.node(id).clone();
    let mut seeds = Vec::new();
    for body in &bodies {
        let known = |capture: &crate::Capture| {
            (
                capture.inner,
                Known::of(graph, capture.outer),
                value_of(graph, values, capture.outer),
            )
        };
        seeds.push(body.captures.iter().map(known).collect::<Vec<_>>());
    }
    let condition = node.input(0).and_then(|id| value_of(graph, values, id)?.scalar());
    let result = {
        let mut run = |index: usize, formals: &[Known]| -> Result<(Vec<Known>, Vec<Option<Value>>), Error> {
            let body: &mut crate::Body = &mut bodies[index];
            let mut inner = Values::default();
            for (tensor, known, value) in &seeds[index] {
                put(&mut body.graph, *tensor, known);
                inner.set(*tensor, value.clone());
            }
            for (tensor, known) in body.formals().to_vec().into_iter().zip(formals) {
                if known.typed {
                    put(&mut body.graph, tensor, known);
                }
            }
            forget_shapes(&mut body.graph);
            infer_body(&mut body.graph, &mut inner)?;
            let outputs = &body.graph.outputs;
            let found = outputs
                .iter()
                .map(|&output| Known::of(&body.graph, output))
                .collect();
            let known = outputs
                .iter()
                .map(|&output| value_of(&body.graph, &inner, output))
                .collect();
            Ok((found, known))
        };
        match node.op {
            Op::If => infer_if(seeds.len(), condition, &mut run),
            Op::Loop => infer_loop(graph, &node, values, &mut run),
            Op::SequenceMap => infer_map(graph, &node, &mut run),
            _ => infer_scan(graph, &node, &mut run),
        }
    };
    graph.inner_mut(id).bodies = bodies;
    for (output, known) in node.outputs.iter().zip(result?) {
        let Some(output) = *output else { continue };
        if !known.typed {
            continue;
        }
        if known.container == Container::Tensor {
            let inferred = Inferred {
                ty: known.ty,
                value: None,
                upper_bound: known.bound,
            };
            assign(graph, id, output, inferred, values)?;
        } else {
            // a sequence and an optional one are packed alike: the model may call a state of a loop either
            let declared = graph.tensor(output).container;
            let container = if declared.is_packed() {
                declared
            } else {
                known.container
            };
            put(graph, output, &Known { container, ..known });
        }
    }
    Ok(())
}

type Run<'a> = dyn FnMut(usize, &[Known]) -> Result<(Vec<Known>, Vec<Option<Value>>), Error> + 'a;

fn infer_if(branches: usize, condition: Option<i64>, run: &mut Run<'_>) -> Result<Vec<Known>, Error> {
    let mut joined: Option<Vec<Known>> = None;
    let mut failed = None;
    for branch in 0..branches {
        let found = run(branch, &[]);
        // then stands before else
        let taken = condition.is_none_or(|condition| (condition != 0) == (branch == 0));
        match found {
            Ok((found, _)) if taken => {
                joined = Some(match joined {
                    None => found,
                    Some(before) => before.iter().zip(&found).map(|(a, b)| a.join(b)).collect(),
                });
            }
            Err(error) if taken => failed = Some(error),
            _ => {}
        }
    }
    match (joined, failed) {
        (None, Some(error)) => Err(error),
        (joined, _) => Ok(joined.unwrap_or_default()),
    }
}

fn infer_loop(graph: &Graph, node: &Node, values: &Values, run: &mut Run<'_>) -> Result<Vec<Known>, Error> {
    let states = node.inputs.len().saturating_sub(2);
    let mut formals = vec![
        Known::tensor(TensorType::known(DType::I64, &[])),
        Known::tensor(TensorType::known(DType::Bool, &[])),
    ];
    formals.extend(
        (2..node.inputs.len()).map(|i| node.input(i).map_or_else(Known::unknown, |t| Known::of(graph, t))),
    );
    let (found, known) = settle(&mut formals, 2, 1, states, run)?;
    let trips = node
        .input(0)
        .and_then(|t| value_of(graph, values, t))
        .and_then(|value| value.scalar());
    let trips = trips.map(|trips| Dim::Known(usize::try_from(trips).unwrap_or(0)));
    let constant = |value: Option<&Value>| value.and_then(Value::scalar);
    let start = node.input(1).map(|t| value_of(graph, values, t));
    let always = start.is_none_or(|value| constant(value.as_ref()) == Some(1))
        && constant(known.first().and_then(Option::as_ref)) == Some(1);
    let mut outputs: Vec<Known> = formals[2..].to_vec();
    for found in found.iter().skip(1 + states) {
        let mut scan = found.clone();
        if let Some(shape) = &mut scan.ty.shape {
            shape.insert(0, trips.clone().unwrap_or(Dim::Unknown));
        }
        scan.bound |= trips.is_some() && !always;
        outputs.push(scan);
    }
    Ok(outputs)
}

/// The body sees one element of each sequence, and the tensors as they are; its outputs are gathered.
fn infer_map(graph: &Graph, node: &Node, run: &mut Run<'_>) -> Result<Vec<Known>, Error> {
    let formals: Vec<Known> = node
        .inputs
        .iter()
        .map(|input| {
            let known = input.map_or_else(Known::unknown, |id| Known::of(graph, id));
            match known.container {
                Container::Sequence => Known {
                    container: Container::Tensor,
                    bound: false,
                    ..known
                },
                _ => known,
            }
        })
        .collect();
    let (found, _) = run(0, &formals)?;
    let gathered = found.into_iter().map(|known| Known {
        container: Container::Sequence,
        bound: false,
        ..known
    });
    Ok(gathered.collect())
}

fn infer_scan(graph: &Graph, node: &Node, run: &mut Run<'_>) -> Result<Vec<Known>, Error> {
    let attributes: Scan = node
        .typed()
        .map_err(|why| Error::infer(graph.describe(node), why))?;
    let Some(states) = node.inputs.len().checked_sub(attributes.scan_inputs) else {
        return Err(Error::inference(format!(
            "node {}: num_scan_inputs is {}, more than the {} inputs",
            graph.describe(node),
            attributes.scan_inputs,
            node.inputs.len()
        )));
    };
    let axis_of = |axes: &[i64], index: usize, rank: usize| {
        let axis = axes.get(index).copied().unwrap_or(0);
        let axis = if axis < 0 {
            axis.checked_add(i64::try_from(rank).ok()?)?
        } else {
            axis
        };
        usize::try_from(axis).ok().filter(|&axis| axis < rank)
    };
    let mut length = Dim::Unknown;
    let mut bound = false;
    let mut formals = Vec::new();
    for index in 0..node.inputs.len() {
        let mut known = node
            .input(index)
            .map_or_else(Known::unknown, |t| Known::of(graph, t));
        if let (Some(scan), Some(shape)) = (index.checked_sub(states), &mut known.ty.shape) {
            let axis = axis_of(&attributes.input_axes, scan, shape.len()).ok_or_else(|| {
                Error::inference(format!(
                    "node {}: scan input {scan} of {} dimensions has no such axis to scan",
                    graph.describe(node),
                    shape.len()
                ))
            })?;
            let dim = shape.remove(axis);
            bound |= known.bound;
            length = length.or_known(&dim);
        }
        formals.push(known);
    }
    debug_assert_eq!(formals.len(), states + attributes.scan_inputs);
    let (found, _) = settle(&mut formals, 0, 0, states, run)?;
    let mut outputs: Vec<Known> = formals[..states].to_vec();
    for (index, found) in found.iter().skip(states).enumerate() {
        let mut scan = found.clone();
        if let Some(shape) = &mut scan.ty.shape
            && let Some(axis) = axis_of(&attributes.output_axes, index, shape.len() + 1)
        {
            shape.insert(axis, length.clone());
        } else {
            scan.ty.shape = None;
        }
        scan.bound |= bound;
        outputs.push(scan);
    }
    Ok(outputs)
}

/// Runs the body until the types of the states, which are formals from `first_in` and outputs from
/// `first_out`, hold for every turn.
fn settle(
    formals: &mut [Known],
    first_in: usize,
    first_out: usize,
    states: usize,
    run: &mut Run<'_>,
) -> Result<(Vec<Known>, Vec<Option<Value>>), Error> {
    // each turn makes at least one size unknown, else it is settled; after some turns, all of them
    for turn in 0.. {
        let (found, known) = run(0, formals)?;
        let mut settled = true;
        for state in 0..states {
            let Some(after) = found.get(first_out + state) else {
                continue;
            };
            let formal = &mut formals[first_in + state];
            if !after.typed || !formal.typed {
                continue;
            }
            let mut joined = formal.join(after);
            if joined.typed && joined != *formal {
                if turn > 4 {
                    joined.ty.shape = None;
                }
                settled = false;
                *formal = joined;
            }
        }
        if settled || turn > 8 {
            return Ok((found, known));
        }
    }
    unreachable!("invariant: the loop ends by its count")
}

fn put(graph: &mut Graph, id: TensorId, known: &Known) {
    let tensor = graph.tensor_mut(id);
    tensor.ty = known.ty.clone();
    tensor.typed = known.typed;
    tensor.container = known.container;
    tensor.upper_bound = known.bound;
}

/// Forgets shapes that inference will find again, so that those of an earlier turn do not stay.
fn forget_shapes(graph: &mut Graph) {
    for id in graph.node_ids() {
        let node = graph.node(id);
        if node.op == Op::Custom {
            continue;
        }
        for output in node.writes().collect::<Vec<_>>() {
            graph.tensor_mut(output).ty.shape = None;
        }
    }
}
