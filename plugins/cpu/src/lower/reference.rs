//! Steps of the reference evaluator, on boxed tensors: any element type, any shape. Of nodes with dynamic shapes it computes
//! those for which lowering does not pay off (`dynamic_shapes`).

use std::borrow::Cow;

use polychip_sdk::{Error, ErrorKind, Result};

use super::boxed;
use super::builder::Lowering;
use super::by_rank::ByRank;
use super::dynamic_shapes::DynamicPart;
use crate::part::Node;
use crate::step::Context;
use crate::work::{Class, of_node};

/// Adds a step that evaluates a node.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<()> {
    let dtypes: Vec<_> = node.inputs.iter().map(|t| t.map(|t| l.part.real(t))).collect();
    let parts = match polychip_reference::supported(node.op, &node.attributes, &dtypes) {
        Ok(()) => None,
        Err(reason) => Some(
            l.programs
                .decomposition(node)
                .cloned()
                .ok_or_else(|| Error::unsupported(format!("{}: {reason}", node.op_name)))?,
        ),
    };
    let mut reads = Vec::new();
    let mut places = Vec::new();
    for input in &node.inputs {
        places.push(match *input {
            Some(t) => {
                reads.push(l.as_is(t)?);
                Some(reads.len() - 1)
            }
            None => None,
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
    let packed = l.containers(node);
    let dynamic = DynamicPart::of_node(l, node);
    let expected = dynamic.as_ref().and_then(|dynamic| dynamic.expected(l));
    let (op, attributes, outputs) = (node.op, node.attributes.clone(), node.outputs.len());
    let work = of_node(l.part, node);
    // where the result has an address, kernels for its size are no slower
    let is_boxed = node.output(0).is_some_and(|t| !l.is_known(t)) && results == [0];
    let result = node.output(0).map(|t| l.dtype(t));
    let by_rank = ByRank::of(l, node).filter(|_| !l.all_known(node));
    let copied = result.filter(|_| is_boxed && boxed::covers(l, node));
    let step = l.step(
        node.op.name(),
        &reads,
        &writes,
        None,
        Box::new(move |o| {
            if let Some(dtype) = copied
                && boxed::run(o, op, &attributes, dtype, &places)?
            {
                o.by_kernel = true;
                return Ok(());
            }
            if let Some(by_rank) = &by_rank
                && by_rank.run(o)?
            {
                return Ok(());
            }
            if let Some(dynamic) = &dynamic
                && dynamic.run(o, &Context::BODY)?
            {
                return Ok(());
            }
            let mut tensors = Vec::with_capacity(places.len());
            for place in &places {
                tensors.push(place.map(|i| o.taken(i)).transpose()?);
            }
            let wrong = super::body::failure;
            if let Some(parts) = &parts {
                // the parts take and give what is present, in order
                let computed = parts
                    .run_until(
                        tensors.into_iter().flatten().map(Cow::into_owned).collect(),
                        o.stop,
                    )
                    .map_err(wrong)?;
                for (write, tensor) in computed.into_iter().enumerate().take(results.len()) {
                    o.store(write, tensor)?;
                }
                return Ok(());
            }
            let inputs: Vec<_> = tensors.iter().map(Option::as_deref).collect();
            let computed = polychip_reference::evaluate_packed(op, &attributes, &inputs, &packed, outputs)
                .map_err(wrong)?;
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
    match expected {
        Some(within) => {
            step.does(Class::Copy, 0).within = within;
            step.work.bytes = 0;
        }
        None => step.work = work.over(step.work.bytes),
    }
    Ok(())
}
