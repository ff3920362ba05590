//! Nodes with body graphs: If, Loop and Scan, interpreted on boxed tensors.

use std::sync::Arc;

use polychip_ops::{Attr, Op};
use polychip_sdk::{Error, Result};

use super::{Form, Lowering};
use crate::interpret::{self, Interpreted};
use crate::part::Node;

/// Adds a step that runs a node with bodies.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<()> {
    if !matches!(node.op, Op::If | Op::Loop | Op::Scan) {
        return Err(Error::unsupported(format!(
            "{} with body graphs is not computed",
            node.op_name
        )));
    }
    let mut reads = Vec::new();
    let mut place = |l: &mut Lowering<'_>, t: usize| -> Result<usize> {
        reads.push(l.rows(t)?);
        Ok(reads.len() - 1)
    };
    let mut places = Vec::new();
    for input in &node.inputs {
        places.push(input.map(|t| place(l, t)).transpose()?);
    }
    let mut bodies = Vec::new();
    let mut captures: Vec<(Attr, Vec<usize>)> = Vec::new();
    for body in &node.bodies {
        bodies.push((body.attr, Interpreted::new(&body.part)?));
        // captures follow the op's own inputs, in the order of the body's inputs
        let mut own: Vec<_> = body.captures.clone();
        own.sort_by_key(|&(_, inner)| body.part.inputs.iter().position(|&input| input == inner));
        let own = own
            .iter()
            .map(|&(outer, _)| place(l, outer))
            .collect::<Result<_>>()?;
        captures.push((body.attr, own));
    }
    let mut writes = Vec::new();
    let mut results = Vec::new();
    for (i, output) in node.outputs.iter().enumerate() {
        if let Some(t) = *output {
            writes.push(l.result(t, Form::Rows)?);
            results.push(i);
        }
    }
    let call = interpret::Control {
        op: node.op,
        attributes: node.attributes.clone(),
        bodies: Arc::new(bodies),
        outputs: node.outputs.len(),
    };
    l.step(
        node.op.name(),
        &reads,
        &writes,
        None,
        Box::new(move |o| {
            let mut inputs = Vec::with_capacity(places.len());
            for place in &places {
                inputs.push(place.map(|i| o.tensor(i)).transpose()?);
            }
            let mut captured = Vec::new();
            for (attr, places) in &captures {
                let tensors = places.iter().map(|&i| o.tensor(i)).collect::<Result<Vec<_>>>()?;
                captured.push((*attr, tensors));
            }
            let mut computed: Vec<_> = call.run(&inputs, &captured)?.into_iter().map(Some).collect();
            for (write, &i) in results.iter().enumerate() {
                let tensor = computed
                    .get_mut(i)
                    .and_then(Option::take)
                    .ok_or_else(|| Error::bad_argument(format!("{} gives no output {i}", call.op.name())))?;
                o.store(write, tensor)?;
            }
            Ok(())
        }),
    );
    Ok(())
}
