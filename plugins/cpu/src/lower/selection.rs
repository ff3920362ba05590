//! Ops that give elements of their first input in other places, which constants and shapes alone decide: Tile, Pad, Trilu,
//! ReverseSequence, CenterCropPad, Compress, GatherElements, nearest Resize.
//!
//! The reference evaluator finds once which element goes where: the op is given numbers in place of elements. Its
//! result is kept as runs of neighbours, or else element by element.
//!
//! Invariant: a result has the bits of the input's elements, or is the one value that the op fills with.
//!
//! Not here: such ops over strides, which need no list (`movement`), and those whose indices are computed (`gather`).

use polychip_ops::operator::{Coordinates, Interpolation};
use polychip_ops::{DType, Op, Operator};
use polychip_reference::{Tensor, element, evaluate};
use polychip_sdk::{Error, ErrorKind, Result};

use super::builder::Lowering;
use crate::part::{Node, Part, TensorIndex};
use crate::step::{Operands, Plain};
use crate::work::Class;

/// Results with more elements are left to the reference: finding the map would take longer than a few runs.
const MOST: usize = 1 << 22;
/// From this many elements a run on, copying runs is faster than copying elements.
const RUN: usize = 4;

/// Neighbours in the result that are neighbours in the input, or all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// The first element's number in the input, from 1; 0 is the value that fills.
    from: u32,
    len: u32,
    /// 1, -1 or 0 elements of the input to the next.
    step: i8,
}

/// The source of each element of the result.
enum ElementMap {
    Runs(Vec<Run>),
    Each(Vec<u32>),
}

/// The input whose one value fills, where the op has one.
fn filler(op: Op) -> Option<usize> {
    (op == Op::Pad).then_some(2)
}

/// Whether an op gives elements of its first input, or one value, and nothing computed.
fn selects(node: &Node) -> bool {
    match node.operator() {
        Ok(
            Operator::Tile
            | Operator::Pad(_)
            | Operator::Trilu(_)
            | Operator::ReverseSequence(_)
            | Operator::CenterCropPad(_)
            | Operator::Compress(_)
            | Operator::GatherElements(_),
        ) => true,
        Ok(Operator::Resize(resize)) => {
            resize.interpolation == Interpolation::Nearest
                && resize.coordinates != Coordinates::TfCropAndResize
        }
        Ok(Operator::Upsample(upsample)) => upsample.interpolation == Interpolation::Nearest,
        _ => false,
    }
}

fn covers(part: &Part, node: &Node) -> Option<(TensorIndex, TensorIndex)> {
    let (x, y) = (node.input(0)?, node.output(0)?);
    let plain = |t: TensorIndex| part.tensors[t].encoding.is_none();
    let known =
        |t: &Option<TensorIndex>| t.is_none_or(|t| part.is_constant(t) && plain(t) && part.dims(t).is_some());
    let sized = |t: TensorIndex| {
        let elements = part.tensors[t].elements();
        elements.is_some_and(|elements| (1..=MOST).contains(&elements))
    };
    let width = matches!(part.tensors[x].dtype.byte_width(), Some(1 | 2 | 4 | 8));
    let fits = selects(node)
        && node.outputs.len() == 1
        && plain(x)
        && plain(y)
        && part.tensors[x].dtype == part.tensors[y].dtype
        && width
        && sized(x)
        && sized(y)
        && !part.is_constant(x)
        && node.inputs[1..].iter().all(known);
    fits.then_some((x, y))
}

/// The element map of a node, by the reference evaluator.
fn element_map(part: &Part, node: &Node, x: TensorIndex, elements: usize) -> Result<ElementMap> {
    let failed = |message: String| Error::new(ErrorKind::BadArgument, message).at_node(node.index);
    let shape = part.dims(x).unwrap_or_default().to_vec();
    let count: usize = shape.iter().product();
    let numbers: Vec<i128> = (1..=count as i128).collect();
    let integers = element(DType::I64);
    let of = |shape: Vec<usize>, numbers: &[i128]| {
        Tensor::from_i128s(integers, shape, numbers).map_err(|error| failed(error.to_string()))
    };
    let mut inputs = vec![Some(of(shape, &numbers)?)];
    for (place, input) in node.inputs.iter().enumerate().skip(1) {
        inputs.push(match input {
            None => None,
            Some(_) if filler(node.op) == Some(place) => Some(of(Vec::new(), &[0])?),
            Some(tensor) => {
                let literal = part.tensors[*tensor].literal();
                let literal = literal.ok_or_else(|| failed(format!("input {place} is no constant")))?;
                let tensor = polychip_reference::tensor_from_literal(&literal);
                Some(tensor.map_err(|error| failed(error.to_string()))?)
            }
        });
    }
    let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Option::as_ref).collect();
    let results = evaluate(node.op, &node.attributes, &inputs, 1);
    let results = results.map_err(|error| failed(error.to_string()))?;
    let numbers = results.first().map(Tensor::to_i128s).transpose();
    let numbers = numbers.map_err(|error| failed(error.to_string()))?;
    let numbers: Vec<u32> = numbers.unwrap_or_default().iter().map(|&n| n as u32).collect();
    if numbers.len() != elements || numbers.iter().any(|&n| n as usize > count) {
        return Err(failed(format!(
            "{} gives {} elements of {elements}",
            node.op_name,
            numbers.len()
        )));
    }
    let runs = runs(&numbers);
    Ok(if runs.len() * RUN <= elements {
        ElementMap::Runs(runs)
    } else {
        ElementMap::Each(numbers)
    })
}

fn runs(numbers: &[u32]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for &number in numbers {
        if let Some(run) = runs.last_mut() {
            let ahead = |step: i8| {
                i64::from(run.from) + i64::from(step) * i64::from(run.len) == i64::from(number) && number != 0
            };
            if run.len == 1 && run.from != 0 {
                // what a run of one may become
                if let Some(step) = [1, 0, -1].into_iter().find(|&step| ahead(step)) {
                    (run.step, run.len) = (step, 2);
                    continue;
                }
            } else if (run.from == 0 && number == 0) || (run.from != 0 && ahead(run.step)) {
                run.len += 1;
                continue;
            }
        }
        runs.push(Run {
            from: number,
            len: 1,
            step: 0,
        });
    }
    runs
}

/// Lowers a node of this sort.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let Some((x, y)) = covers(l.part, node) else {
        return Ok(false);
    };
    let fill: [u8; 8] = match filler(node.op).and_then(|place| node.input(place)) {
        None => [0; 8],
        Some(tensor) => {
            let literal = l.part.tensors[tensor].literal();
            let Some(literal) = literal.filter(|literal| literal.dtype == l.dtype(x)) else {
                return Ok(false);
            };
            let mut bytes = [0; 8];
            let width = literal.bytes.len().min(8);
            bytes[..width].copy_from_slice(&literal.bytes[..width]);
            bytes
        }
    };
    let elements: usize = l.shape(y)?.iter().product();
    let map = if l.dry {
        ElementMap::Runs(Vec::new())
    } else {
        match element_map(l.part, node, x, elements) {
            Ok(map) => map,
            // an index that is out of range, say: the run tells
            Err(_) => return Ok(false),
        }
    };
    // before the map is known, the op alone decides whether the elements lie apart
    let scattered = matches!(map, ElementMap::Each(_)) || (l.dry && node.op == Op::GatherElements);
    let (from, to) = (l.as_is(x)?, l.write_as_is(y)?);
    let width = l.width(from);
    l.step(
        node.op.name(),
        &[from],
        &[to],
        None,
        Box::new(move |o| {
            match width {
                1 => copy::<u8>(o, &map, fill[0]),
                2 => copy::<u16>(o, &map, u16::from_le_bytes([fill[0], fill[1]])),
                4 => copy::<u32>(o, &map, u32::from_le_bytes([fill[0], fill[1], fill[2], fill[3]])),
                _ => copy::<u64>(o, &map, u64::from_le_bytes(fill)),
            }
            Ok(())
        }),
    )
    .does(if scattered { Class::Select } else { Class::Copy }, elements);
    Ok(true)
}

fn copy<T: Plain>(o: &mut Operands<'_>, map: &ElementMap, fill: T) {
    let (x, mut y) = (o.read::<T>(0), o.write::<T>(0));
    match map {
        ElementMap::Each(numbers) => {
            for (y, &number) in y.iter_mut().zip(numbers) {
                *y = if number == 0 { fill } else { x[number as usize - 1] };
            }
        }
        ElementMap::Runs(runs) => {
            for run in runs {
                let (now, rest) = y.split_at_mut(run.len as usize);
                let at = run.from as usize;
                match run.step {
                    _ if at == 0 => now.fill(fill),
                    1 => now.copy_from_slice(&x[at - 1..at - 1 + now.len()]),
                    -1 => {
                        let from = &x[at - now.len()..at];
                        for (y, &x) in now.iter_mut().zip(from.iter().rev()) {
                            *y = x;
                        }
                    }
                    _ => now.fill(x[at - 1]),
                }
                y = rest;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_runs_match_the_indices() {
        let numbers = [0, 0, 5, 6, 7, 3, 2, 1, 4, 4, 4, 0, 1, 3, 9, 8, 1];
        let runs = runs(&numbers);
        let mut back = Vec::new();
        for run in &runs {
            for at in 0..i64::from(run.len) {
                back.push((i64::from(run.from) + i64::from(run.step) * at) as u32);
            }
        }
        assert_eq!(back, numbers);
        assert_eq!(runs.len(), 9, "{runs:?}");
    }
}
