//! Nodes with body graphs: If, Loop and Scan, evaluated on boxed tensors.
//!
//! Not here: fast kernels inside a body; whatever it computes runs on the reference evaluator.

use std::sync::Arc;

use polychip_ops::{DType, Op};
use polychip_reference::{Body as Callable, EvaluateError, Program, Tensor, evaluate_control};
use polychip_sdk::{Error, ErrorKind, Result};

use super::builder::Lowering;
use crate::part::Node;
use crate::step::Operands;
use crate::work::of_body;

/// A body with the places of what it captures among the step's operands.
struct Body {
    attr: polychip_ops::Attr,
    program: Arc<Program>,
    captured: Vec<Option<usize>>,
    outputs: Vec<Option<(DType, Vec<usize>)>>,
}

/// A body with the tensors of one run.
struct Call<'a> {
    body: &'a Body,
    captured: Vec<Option<Tensor>>,
    stop: &'a dyn Fn() -> bool,
}

impl Callable for Call<'_> {
    fn run(&self, inputs: Vec<Tensor>) -> std::result::Result<Vec<Tensor>, EvaluateError> {
        let mut passed = inputs.into_iter();
        let all = self
            .captured
            .iter()
            .filter_map(|captured| captured.clone().or_else(|| passed.next()));
        self.body.program.run_until(all.collect(), self.stop)
    }

    fn outputs(&self) -> usize {
        self.body.outputs.len()
    }

    fn output_type(&self, output: usize) -> Option<(polychip_cpu_kernels::reference::Element, Vec<usize>)> {
        let (dtype, sizes) = self.body.outputs.get(output)?.as_ref()?;
        Some((polychip_reference::element(*dtype), sizes.clone()))
    }
}

/// The plugin's error of a node that was not computed.
pub(super) fn failure(error: EvaluateError) -> Error {
    let kind = match error.kind() {
        polychip_reference::ErrorKind::Cancelled => ErrorKind::Cancelled,
        _ => ErrorKind::BadArgument,
    };
    Error::new(kind, error.to_string())
}

/// Adds a step that runs a node with bodies.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<()> {
    if !matches!(node.op, Op::If | Op::Loop | Op::Scan | Op::SequenceMap) {
        let message = format!("{} with body graphs is not computed", node.op_name);
        return Err(Error::unsupported(message));
    }
    let mut reads = Vec::new();
    let mut place = |l: &mut Lowering<'_>, t: usize| -> Result<usize> {
        reads.push(l.as_is(t)?);
        Ok(reads.len() - 1)
    };
    let mut places = Vec::new();
    for input in &node.inputs {
        places.push(input.map(|t| place(l, t)).transpose()?);
    }
    let packed = l.containers(node);
    let mut bodies = Vec::new();
    for (body, program) in node.bodies.iter().zip(l.programs.bodies(node)) {
        let program = program
            .clone()
            .map_err(|why| Error::unsupported(format!("in the body: {why}")))?;
        let captured = body.captured.iter().map(|t| t.map(|t| place(l, t)).transpose());
        let captured = captured.collect::<Result<_>>()?;
        bodies.push(Body {
            attr: body
                .attr
                .expect("invariant: bodies are read with their attributes"),
            program,
            captured,
            outputs: body.outputs.clone(),
        });
    }
    let mut writes = Vec::new();
    let mut results = Vec::new();
    for (i, output) in node.outputs.iter().enumerate() {
        if let Some(t) = *output {
            writes.push(l.write_as_is(t)?);
            results.push(i);
        }
    }
    let (op, attributes, outputs) = (node.op, node.attributes.clone(), node.outputs.len());
    let work = of_body(l.part, l.programs, node);
    let step = l.step(
        node.op.name(),
        &reads,
        &writes,
        None,
        Box::new(move |o| {
            let get = |o: &Operands<'_>, place: &Option<usize>| place.map(|i| o.tensor(i)).transpose();
            let inputs = places
                .iter()
                .map(|place| get(o, place))
                .collect::<Result<Vec<_>>>()?;
            let inputs: Vec<_> = inputs.iter().map(Option::as_ref).collect();
            let mut calls = Vec::with_capacity(bodies.len());
            for body in &bodies {
                let captured = body
                    .captured
                    .iter()
                    .map(|place| get(o, place))
                    .collect::<Result<_>>()?;
                calls.push(Call {
                    body,
                    captured,
                    stop: o.stop,
                });
            }
            let calls: Vec<_> = calls
                .iter()
                .map(|call| (call.body.attr, call as &dyn Callable))
                .collect();
            let computed =
                evaluate_control(op, &attributes, &inputs, &packed, outputs, &calls).map_err(failure)?;
            let mut computed: Vec<_> = computed.into_iter().map(Some).collect();
            for (write, &i) in results.iter().enumerate() {
                let tensor = computed.get_mut(i).and_then(Option::take).ok_or_else(|| {
                    Error::new(
                        ErrorKind::Persistent,
                        format!("{} gives no output {i}", op.name()),
                    )
                })?;
                o.store(write, tensor)?;
            }
            Ok(())
        }),
    );
    step.work = work.over(step.work.bytes);
    Ok(())
}
