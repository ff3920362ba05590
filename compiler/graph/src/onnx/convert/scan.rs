//! Scan of opset 8, which ran over a batch: a Scan over the batch with today's Scan in its body.

use polychip_ops::{Attr, AttrKey, AttrValue, Attributes, Op};

use super::rewrite::Rewrite;
use crate::{Body, Capture, Error, Graph, Node, Tensor, TensorId};

/// Inputs were `[lengths?, states…, scans…]`, states `[batch, …]` and scans `[batch, time, …]`.
pub(super) fn batched(rewrite: &mut Rewrite<'_, '_>) -> Result<(), Error> {
    if rewrite.node.input(0).is_some() {
        return Err(rewrite.unsupported("Scan of opset 8 with lengths of sequences"));
    }
    if !rewrite.node.inputs.is_empty() {
        rewrite.node.inputs.remove(0);
    }
    let count = rewrite.node.inputs.len();
    let Some(scans) = rewrite.node.attributes.int(Attr::NumScanInputs) else {
        return Err(rewrite.malformed("num_scan_inputs is missing"));
    };
    let mut inner = Attributes::new().with_int(Attr::NumScanInputs, scans);
    if let Some(directions) = rewrite.node.attributes.remove(&AttrKey::from_name("directions")) {
        inner.set(Attr::ScanInputDirections, directions);
    }
    let Some(mut step) = rewrite.node.bodies.pop() else {
        return Err(rewrite.malformed("the body is missing"));
    };
    let mut sample = Graph::new(format!("{}.sample", step.graph.name));
    let add = |graph: &mut Graph, name: &str| -> TensorId { graph.add_tensor(Tensor::untyped(name)) };
    let formals: Vec<TensorId> = (0..count)
        .map(|index| add(&mut sample, &format!("sample.{index}")))
        .collect();
    let mut captures = Vec::new();
    for capture in &mut step.captures {
        let name = rewrite.target.graph.tensor(capture.outer).name.clone();
        let through = add(&mut sample, &name);
        captures.push(Capture {
            outer: capture.outer,
            inner: through,
        });
        capture.outer = through;
    }
    sample.inputs = formals
        .iter()
        .copied()
        .chain(captures.iter().map(|capture| capture.inner))
        .collect();
    let outputs: Vec<TensorId> = (0..rewrite.node.outputs.len())
        .map(|index| add(&mut sample, &format!("result.{index}")))
        .collect();
    let mut scan = Node::new(
        Op::Scan,
        formals.into_iter().map(Some).collect(),
        outputs.iter().copied().map(Some).collect(),
    );
    scan.attributes = inner;
    scan.bodies = vec![step];
    sample.add_node(scan);
    sample.outputs = outputs;
    let all = i64::try_from(count).expect("invariant: inputs fit memory");
    rewrite
        .node
        .attributes
        .set(Attr::NumScanInputs, AttrValue::Int(all));
    rewrite.node.bodies = vec![Body {
        attr: Attr::Body,
        graph: sample,
        captures,
    }];
    Ok(())
}
