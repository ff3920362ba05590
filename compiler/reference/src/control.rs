//! If, Loop, Scan and SequenceMap over bodies that the caller runs.
//!
//! Invariants:
//! 1. A body gets the inputs that the op passes; what it captures from outside is its own affair.
//! 2. Each round of a loop gives as many values as the first promised; a body that does not is an error.
//!
//! Not here: graphs ([`crate::Program`] makes bodies of them).

use std::sync::Arc;

use polychip_cpu_kernels::reference::{Element, Error, Result, Tensor, index, shape};
use polychip_ops::operator::Scan;
use polychip_ops::{Attr, Attributes, Op};

use crate::call::{Call, Outputs, bad};
use crate::error::{EvaluateError, Reason};
use crate::sequence;

/// A body graph that a control-flow node runs.
pub trait Body {
    /// Computes the outputs of the body from the inputs that the op passes.
    ///
    /// # Errors
    /// If a node of the body cannot be computed.
    fn run(&self, inputs: Vec<Tensor>) -> std::result::Result<Vec<Tensor>, EvaluateError>;

    /// How many outputs the body has.
    fn outputs(&self) -> usize;

    /// Element type and shape of an output as far as they are known (0 for an unknown dim): what a scan
    /// output of no round looks like.
    fn output_type(&self, output: usize) -> Option<(Element, Vec<usize>)>;
}

/// Computes an If, Loop, Scan or SequenceMap node with its bodies by the attributes that held them; `packed` marks
/// the inputs that are sequences or optionals; inputs beyond its end are not.
///
/// # Errors
/// If a body fails, is missing, or does not fit the op.
pub fn evaluate_control(
    op: Op,
    attributes: &Attributes,
    inputs: &[Option<&Tensor>],
    packed: &[bool],
    outputs: usize,
    bodies: &[(Attr, &dyn Body)],
) -> std::result::Result<Vec<Tensor>, EvaluateError> {
    let call = Call {
        op,
        attributes,
        inputs,
        packed,
        outputs,
    };
    let run = match op {
        Op::If => branch,
        Op::Loop => rounds,
        Op::Scan => scan,
        Op::SequenceMap => map,
        _ => {
            let why = Reason("its bodies have no known meaning".to_owned());
            return Err(EvaluateError::unsupported(op, why));
        }
    };
    let mut failed = None;
    let mut results = run(
        &call,
        &mut |attr, inputs| {
            let Some((_, body)) = bodies.iter().find(|b| b.0 == attr) else {
                return bad(format!("body {} is missing", attr.name()));
            };
            let outputs = body.run(inputs).map_err(|e| {
                let message = e.to_string();
                failed = Some(e);
                Error::new(message)
            })?;
            if outputs.len() != body.outputs() {
                return bad(format!("body {} gave {} outputs", attr.name(), outputs.len()));
            }
            Ok(outputs)
        },
        &|attr| bodies.iter().find(|b| b.0 == attr).map(|b| b.1),
    )
    // the error of a node inside says more than that its body failed
    .map_err(|why| failed.unwrap_or_else(|| EvaluateError::bad_input(op, why)))?;
    results.truncate(outputs.max(1));
    Ok(results)
}

type Run<'a> = dyn FnMut(Attr, Vec<Tensor>) -> Outputs + 'a;
type Find<'a, 'b> = dyn Fn(Attr) -> Option<&'b dyn Body> + 'a;

fn truth(t: &Tensor) -> Result<bool> {
    match t.to_bools()?.as_slice() {
        [b] => Ok(*b),
        other => bad(format!("a condition of {} elements", other.len())),
    }
}

fn branch(c: &Call<'_>, run: &mut Run<'_>, _: &Find<'_, '_>) -> Outputs {
    let attr = if truth(c.input(0)?)? {
        Attr::ThenBranch
    } else {
        Attr::ElseBranch
    };
    run(attr, Vec::new())
}

/// One value of each round, stacked along a new dim at `axis`.
fn stacked(values: &[Tensor], axis: i64, empty: Option<(Element, Vec<usize>)>) -> Result<Tensor> {
    let Some(first) = values.first() else {
        let Some((element, mut shape)) = empty else {
            return bad("a scan output of no round has no known type");
        };
        let at = index::axis(axis, shape.len() + 1)?;
        shape.insert(at, 0);
        return Tensor::zeros(element, shape);
    };
    let at = index::axis(axis, first.rank() + 1)?;
    let slices: Vec<Tensor> = values
        .iter()
        .map(|v| {
            let mut shape = v.shape().to_vec();
            shape.insert(at.min(shape.len()), 1);
            v.reshaped(shape)
        })
        .collect::<Result<_>>()?;
    shape::concat(&slices.iter().collect::<Vec<_>>(), at)
}

fn rounds(c: &Call<'_>, run: &mut Run<'_>, find: &Find<'_, '_>) -> Outputs {
    let most = match c.optional(0) {
        Some(_) => Some(c.scalar(0)?),
        None => None,
    };
    let mut going = match c.optional(1) {
        Some(t) => truth(t)?,
        None => true,
    };
    let mut carried: Vec<Tensor> = c.list(2.min(c.inputs.len()))?.into_iter().cloned().collect();
    let Some(body) = find(Attr::Body) else {
        return bad("the body is missing");
    };
    let Some(scans) = body.outputs().checked_sub(1 + carried.len()) else {
        return bad(format!(
            "a body of {} outputs carries {} values",
            body.outputs(),
            carried.len()
        ));
    };
    let mut scanned: Vec<Vec<Tensor>> = vec![Vec::new(); scans];
    let mut round = 0i64;
    while going && most.is_none_or(|m| round < m) {
        let mut inputs = vec![
            Tensor::from_i64s(vec![], vec![round])?,
            Tensor::from_bools(vec![], vec![going])?,
        ];
        inputs.append(&mut carried);
        let mut outputs = run(Attr::Body, inputs)?.into_iter();
        going = match outputs.next() {
            Some(t) => truth(&t)?,
            None => return bad("the body gives no condition"),
        };
        carried = outputs.by_ref().take(body.outputs() - 1 - scans).collect();
        for (list, value) in scanned.iter_mut().zip(outputs) {
            list.push(value);
        }
        round += 1;
    }
    for (i, list) in scanned.iter().enumerate() {
        let empty = body.output_type(1 + body.outputs() - 1 - scans + i);
        carried.push(stacked(list, 0, empty)?);
    }
    Ok(carried)
}

fn map(c: &Call<'_>, run: &mut Run<'_>, find: &Find<'_, '_>) -> Outputs {
    let Some(body) = find(Attr::Body) else {
        return bad("the body is missing");
    };
    let inputs = c.list(0)?;
    let lists = (0..inputs.len())
        .map(|i| c.is_packed(i).then(|| sequence::sequence(inputs[i])).transpose())
        .collect::<Result<Vec<_>>>()?;
    let Some(Some(first)) = lists.first() else {
        return bad("the first input is no sequence");
    };
    let rounds = first.tensors.len();
    if let Some(other) = lists.iter().flatten().find(|list| list.tensors.len() != rounds) {
        return bad(format!("sequences of {rounds} and {}", other.tensors.len()));
    }
    let mut gathered = vec![Vec::new(); body.outputs()];
    for round in 0..rounds {
        let passed = inputs.iter().zip(&lists).map(|(&input, list)| match list {
            Some(list) => Tensor::clone(&list.tensors[round]),
            None => input.clone(),
        });
        let outputs = run(Attr::Body, passed.collect())?;
        for (list, output) in gathered.iter_mut().zip(outputs) {
            list.push(Arc::new(output));
        }
    }
    gathered.into_iter().map(sequence::gathered).collect()
}

fn scan(c: &Call<'_>, run: &mut Run<'_>, find: &Find<'_, '_>) -> Outputs {
    let inputs = c.list(0)?;
    let node: Scan = c.typed()?;
    let scan_inputs = node.scan_inputs;
    let Some(states) = inputs.len().checked_sub(scan_inputs) else {
        return bad(format!("{scan_inputs} scan inputs of {}", inputs.len()));
    };
    let Some(body) = find(Attr::Body) else {
        return bad("the body is missing");
    };
    let Some(scan_outputs) = body.outputs().checked_sub(states) else {
        return bad(format!(
            "a body of {} outputs carries {states} values",
            body.outputs()
        ));
    };
    let list = |list: Vec<i64>, attr: Attr, n: usize| match list.len() {
        0 => Ok(vec![0; n]),
        count if count == n => Ok(list),
        count => bad(format!("attribute {attr} has {count} entries, {n} wanted")),
    };
    let in_axes = list(node.input_axes, Attr::ScanInputAxes, scan_inputs)?;
    let in_back = list(node.input_directions, Attr::ScanInputDirections, scan_inputs)?;
    let out_axes = list(node.output_axes, Attr::ScanOutputAxes, scan_outputs)?;
    let out_back = list(node.output_directions, Attr::ScanOutputDirections, scan_outputs)?;
    let (state, scanned) = inputs.split_at(states);
    let mut axes = Vec::new();
    for (t, &a) in scanned.iter().zip(&in_axes) {
        axes.push(index::axis(a, t.rank())?);
    }
    let lengths: Vec<usize> = scanned.iter().zip(&axes).map(|(t, &a)| t.shape()[a]).collect();
    let steps = lengths.first().copied().unwrap_or(0);
    if lengths.iter().any(|&l| l != steps) {
        return bad(format!("scan inputs of lengths {lengths:?}"));
    }
    let mut carried: Vec<Tensor> = state.iter().map(|&t| t.clone()).collect();
    let mut gathered: Vec<Vec<Tensor>> = vec![Vec::new(); scan_outputs];
    for step in 0..steps {
        let mut passed = std::mem::take(&mut carried);
        for (i, t) in scanned.iter().enumerate() {
            let at = if in_back[i] != 0 { steps - 1 - step } else { step };
            let part = shape::part(t, axes[i], at, 1)?;
            let mut dims = t.shape().to_vec();
            dims.remove(axes[i]);
            passed.push(part.reshaped(dims)?);
        }
        let mut outputs = run(Attr::Body, passed)?.into_iter();
        carried = outputs.by_ref().take(states).collect();
        for (list, value) in gathered.iter_mut().zip(outputs) {
            list.push(value);
        }
    }
    for (i, list) in gathered.iter_mut().enumerate() {
        if out_back[i] != 0 {
            list.reverse();
        }
        carried.push(stacked(list, out_axes[i], body.output_type(states + i))?);
    }
    Ok(carried)
}

#[cfg(test)]
mod tests;
