//! Scan of opset 8, which ran over a batch: a Scan over the batch with today's Scan in its body.

use polychip_ops::{Attr, AttrKey, AttrValue, Attributes, DType, Op, TensorType};

use super::rewrite::Rewrite;
use crate::{Body, Capture, Constant, Error, Graph, Node, Tensor, TensorId};

/// Inputs were `[lengths?, states…, scans…]`, states `[batch, …]` and scans `[batch, time, …]`.
pub(super) fn batched(rewrite: &mut Rewrite<'_, '_>) -> Result<(), Error> {
    let has_lengths = rewrite.node.input(0).is_some();
    if !has_lengths && !rewrite.node.inputs.is_empty() {
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
    let scanned = usize::try_from(scans).ok().filter(|&scans| scans > 0);
    let first_scan = scanned.and_then(|scans| count.checked_sub(scans));
    let Some(first_scan) = first_scan.filter(|&first| first >= usize::from(has_lengths)) else {
        let most = count - usize::from(has_lengths).min(count);
        let words = format!("num_scan_inputs is {scans}; the node can scan 1 to {most} inputs");
        return Err(rewrite.malformed(&words));
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
    let mut steps = Steps(&mut sample);
    let reads = if has_lengths {
        steps.cut(&formals, first_scan)
    } else {
        formals.clone()
    };
    let mut scan = Node::new(
        Op::Scan,
        reads.into_iter().map(Some).collect(),
        outputs.iter().copied().map(Some).collect(),
    );
    scan.attributes = inner;
    scan.bodies = vec![step];
    steps.0.add_node(scan);
    let results = if has_lengths {
        steps.filled(&formals, first_scan, &outputs)
    } else {
        outputs
    };
    sample.outputs = results;
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

/// Nodes around the Scan of one sample whose first formal is its length.
struct Steps<'g>(&'g mut Graph);

impl Steps<'_> {
    /// What the Scan reads: states, and scans without what is behind the sample's length.
    fn cut(&mut self, formals: &[TensorId], first_scan: usize) -> Vec<TensorId> {
        let (zero, one) = (self.integer("sample.zero", 0), self.integer("sample.one", 1));
        let length = self.node(
            Op::Reshape,
            &[formals[0], one],
            "sample.length",
            Attributes::new(),
        );
        let cut = |steps: &mut Self, (index, &scan): (usize, &TensorId)| {
            let reads = [scan, zero, length, zero];
            steps.node(
                Op::Slice,
                &reads,
                &format!("sample.{index}.cut"),
                Attributes::new(),
            )
        };
        let scans: Vec<TensorId> = formals
            .iter()
            .enumerate()
            .skip(first_scan)
            .map(|scan| cut(self, scan))
            .collect();
        [&formals[1..first_scan], &scans].concat()
    }

    /// The results: scan outputs are as long as the longest sample, with zeros behind this one's length.
    fn filled(&mut self, formals: &[TensorId], first_scan: usize, outputs: &[TensorId]) -> Vec<TensorId> {
        let states = first_scan - 1;
        let whole = Attributes::new().with_int(Attr::Start, 0).with_int(Attr::End, 1);
        let whole = self.node(Op::Shape, &[formals[first_scan]], "sample.whole", whole);
        let mut results = outputs[..states.min(outputs.len())].to_vec();
        for (index, &output) in outputs.iter().enumerate().skip(states) {
            let name = |role: &str| format!("result.{index}.{role}");
            let first = Attributes::new().with_int(Attr::Start, 0).with_int(Attr::End, 1);
            let has = self.node(Op::Shape, &[output], &name("length"), first);
            let lacks = self.node(Op::Sub, &[whole, has], &name("lacks"), Attributes::new());
            let rest = Attributes::new().with_int(Attr::Start, 1);
            let rest = self.node(Op::Shape, &[output], &name("rest"), rest);
            let along = Attributes::new().with_int(Attr::Axis, 0);
            let shape = self.node(Op::Concat, &[lacks, rest], &name("shape"), along.clone());
            let zeros = self.node(Op::ConstantOfShape, &[shape], &name("zeros"), Attributes::new());
            let zeros = self.node(Op::CastLike, &[zeros, output], &name("behind"), Attributes::new());
            results.push(self.node(Op::Concat, &[output, zeros], &name("filled"), along));
        }
        results
    }

    fn integer(&mut self, name: &str, value: i64) -> TensorId {
        let ty = TensorType::known(DType::I64, &[1]);
        let data = Constant::new(value.to_le_bytes().to_vec());
        self.0.add_tensor(Tensor::constant(name, ty, data))
    }

    fn node(&mut self, op: Op, reads: &[TensorId], name: &str, attributes: Attributes) -> TensorId {
        let made = self.0.add_tensor(Tensor::untyped(name));
        let mut node = Node::new(op, reads.iter().copied().map(Some).collect(), vec![Some(made)]);
        node.attributes = attributes;
        self.0.add_node(node);
        made
    }
}
