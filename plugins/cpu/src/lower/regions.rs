//! Which consecutive nodes on tensors of unknown size form a region: once a run tells the sizes, they are lowered together,
//! with fusion, layouts and memory as a static part has them. What a voice computes behind its durations is such a region.
//!
//! Invariants:
//! 1. A region is a range of steps, and holds all steps of its nodes. These stay in the program.
//! 2. All that a later step or a port reads of these steps is a result of the region; all that they read of earlier ones
//!    is an operand.
//! 3. The sizes inside follow from the shapes of the operands and from the values of those that determine shapes.
//!
//! Not here: lowering for the sizes of a run (`dynamic_shapes`), running (`step::running`).

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use polychip_lowering::Layout;
use polychip_ops::{Op, OpClass, axis};

use super::builder::Lowering;
use super::dynamic_shapes::{DynamicPart, is_plain};
use crate::part::{Node, Part, TensorIndex};
use crate::step::{Region, ValueId};

/// Most elements of a tensor that may determine shapes.
const FEW: usize = 16;

/// The steps of a node that no other node shares.
pub(super) struct Span {
    pub(super) node: usize,
    pub(super) steps: Range<usize>,
}

/// What a tensor made inside a region may determine.
#[derive(Clone, Copy, PartialEq)]
enum Origin {
    /// It follows from shapes and from operands that determine shapes.
    Shapes,
    Data,
}

/// Finds the regions of a part whose nodes were lowered; `spans` are in the order of the nodes.
pub(super) fn find(l: &Lowering<'_>, spans: &[Span]) -> Vec<Region> {
    if l.dry || !l.part.states.is_empty() {
        return Vec::new();
    }
    let readers = l.part.readers();
    let mut written: HashMap<ValueId, usize> = HashMap::new();
    for (index, step) in l.steps.iter().enumerate() {
        for &value in &step.writes {
            written.entry(value).or_insert(index);
        }
    }
    let mut regions = Vec::new();
    let mut first = 0;
    while first < spans.len() {
        let (end, by_values) = longest(l, &spans[first..]);
        if end == 0 {
            first += 1;
            continue;
        }
        let range = &spans[first..first + end];
        match region(l, range, &by_values, &readers, &written) {
            Ok(region) => {
                regions.extend(region);
                first += end;
            }
            // an operand is converted inside: what is before that node may be a region, and what is behind it
            Err(node) => {
                let before = &range[..node];
                let (end, by_values) = longest(l, before);
                if end == node
                    && let Ok(region) = region(l, before, &by_values, &readers, &written)
                {
                    regions.extend(region);
                }
                first += node + 1;
            }
        }
    }
    regions
}

/// How many of the spans, from the first on, a region may have, and the operands whose values determine its shapes.
fn longest(l: &Lowering<'_>, spans: &[Span]) -> (usize, HashSet<TensorIndex>) {
    let part = l.part;
    let mut made: HashMap<TensorIndex, Origin> = HashMap::new();
    let mut by_values = HashSet::new();
    // what the tensors that follow from shapes were made of
    let mut sources: HashMap<TensorIndex, Vec<TensorIndex>> = HashMap::new();
    for (count, span) in spans.iter().enumerate() {
        let node = &part.nodes[span.node];
        let follows_on = count == 0
            || (spans[count - 1].node + 1 == span.node && spans[count - 1].steps.end == span.steps.start);
        if !follows_on || !may_be_inside(l, node) {
            return (count, by_values);
        }
        let mut wanted: Vec<TensorIndex> = determine(node).filter_map(|input| node.input(input)).collect();
        if wanted.iter().any(|t| made.get(t) == Some(&Origin::Data)) {
            // what sizes follow from is computed here: it can be an operand of the next region
            return (count, by_values);
        }
        let mut seen = HashSet::new();
        while let Some(tensor) = wanted.pop() {
            if !seen.insert(tensor) || part.is_constant(tensor) {
                continue;
            }
            match sources.get(&tensor) {
                Some(of) => wanted.extend(of),
                None => {
                    by_values.insert(tensor);
                }
            }
        }
        let inputs = node.inputs.iter().copied().flatten();
        let origin = match node.op {
            Op::Shape | Op::Size => Origin::Shapes,
            _ if !is_small(part, node) || inputs.clone().any(|t| made.get(&t) == Some(&Origin::Data)) => {
                Origin::Data
            }
            _ => Origin::Shapes,
        };
        for output in node.outputs.iter().copied().flatten() {
            made.insert(output, origin);
            if origin == Origin::Shapes {
                let of = match node.op {
                    Op::Shape | Op::Size => Vec::new(),
                    _ => inputs.clone().collect(),
                };
                sources.insert(output, of);
            }
        }
    }
    (spans.len(), by_values)
}

/// Whether a node may be computed inside a region.
fn may_be_inside(l: &Lowering<'_>, node: &Node) -> bool {
    let from_data = matches!(
        node.op,
        Op::NonZero | Op::Compress | Op::Unique | Op::NonMaxSuppression
    );
    is_plain(l.part, node) && !from_data && (!l.all_known(node) || is_small(l.part, node))
}

/// Whether a node computes a few numbers of a few others.
fn is_small(part: &Part, node: &Node) -> bool {
    let mut tensors = node.inputs.iter().chain(&node.outputs).flatten();
    tensors.all(|&t| {
        let elements = part.dims(t).and_then(axis::product);
        elements.is_some_and(|elements| elements <= FEW)
    })
}

/// The inputs of a node whose values determine the shapes of its results.
fn determine(node: &Node) -> Range<usize> {
    match node.op {
        Op::ConstantOfShape => 0..1,
        Op::Range => 0..3,
        Op::Slice | Op::Pad | Op::Resize | Op::Upsample => 1..5,
        Op::Reshape
        | Op::Expand
        | Op::Tile
        | Op::Split
        | Op::Squeeze
        | Op::Unsqueeze
        | Op::OneHot
        | Op::TopK
        | Op::CenterCropPad
        | Op::CumSum => 1..2,
        _ if node.op.class() == OpClass::Reduction => 1..2,
        // of any other op, an input that is not known to be data may be one
        _ if is_usual(node.op) => 0..0,
        _ => 0..node.inputs.len(),
    }
}

/// Whether the values of no input determine a shape.
fn is_usual(op: Op) -> bool {
    matches!(
        op.class(),
        OpClass::Convolution
            | OpClass::Product
            | OpClass::Attention
            | OpClass::ElementWise
            | OpClass::Gather
            | OpClass::Normalisation
            | OpClass::Pooling
            | OpClass::Recurrent
            | OpClass::Quantise
    ) || matches!(
        op,
        Op::Transpose
            | Op::Concat
            | Op::Flatten
            | Op::Identity
            | Op::Shape
            | Op::Size
            | Op::DepthToSpace
            | Op::SpaceToDepth
            | Op::RandomNormalLike
            | Op::RandomUniformLike
    )
}

/// Whether lowering a node for its sizes matters.
fn is_heavy(node: &Node) -> bool {
    matches!(
        node.op.class(),
        OpClass::Convolution
            | OpClass::Product
            | OpClass::Attention
            | OpClass::Normalisation
            | OpClass::Pooling
            | OpClass::Recurrent
            | OpClass::Resize
    )
}

/// The region of these nodes, if it is worth one; an error tells which of them reads an operand that its own steps convert.
fn region(
    l: &Lowering<'_>,
    spans: &[Span],
    by_values: &HashSet<TensorIndex>,
    readers: &[Vec<usize>],
    written: &HashMap<ValueId, usize>,
) -> Result<Option<Region>, usize> {
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
        return Ok(None);
    };
    let nodes = first.node..last.node + 1;
    let steps = first.steps.start..last.steps.end;
    let members = &l.part.nodes[nodes.clone()];
    let open = members.iter().filter(|node| !l.all_known(node));
    if open.count() < 2 || !members.iter().any(is_heavy) {
        return Ok(None);
    }
    let value = |tensor: TensorIndex| l.tensor_forms[tensor].get(Layout::RowMajor, l.stated(tensor));
    let made: HashSet<TensorIndex> = members
        .iter()
        .flat_map(|node| node.outputs.iter().copied().flatten())
        .collect();
    for (place, node) in members.iter().enumerate() {
        for tensor in node.inputs.iter().copied().flatten() {
            let is_operand = !l.part.is_constant(tensor) && !made.contains(&tensor);
            let before = |value: ValueId| written.get(&value).is_none_or(|&step| step < steps.start);
            if is_operand && !value(tensor).is_some_and(before) {
                return Err(place);
            }
        }
    }
    let is_read = |&tensor: &TensorIndex| {
        l.part.outputs.contains(&tensor) || readers[tensor].iter().any(|reader| !nodes.contains(reader))
    };
    let mut results: Vec<TensorIndex> = made.iter().copied().filter(is_read).collect();
    results.sort_unstable();
    let writes: Option<Vec<ValueId>> = results.iter().map(|&tensor| value(tensor)).collect();
    let Some(writes) = writes else {
        return Ok(None);
    };
    // views of a result lie where it lies
    let of = |value: ValueId| l.values[value.0 as usize].allocation;
    let kept: HashSet<_> = writes.iter().map(|&value| of(value)).collect();
    let inside = &l.steps[steps.clone()];
    let inner: HashSet<_> = inside
        .iter()
        .flat_map(|step| &step.writes)
        .map(|&value| of(value))
        .collect();
    let mut outer = l.steps[steps.end..].iter().flat_map(|step| &step.reads);
    if outer.any(|&value| inner.contains(&of(value)) && !kept.contains(&of(value))) {
        return Ok(None);
    }
    let (dynamic, inputs) = DynamicPart::of_region(l, nodes, &results, |tensor| by_values.contains(&tensor));
    let reads: Option<Vec<ValueId>> = inputs.into_iter().map(value).collect();
    Ok(reads.map(|reads| Region {
        steps,
        reads,
        writes,
        run: Box::new(move |o, context| dynamic.run(o, context)),
    }))
}
