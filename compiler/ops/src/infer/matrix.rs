//! Shapes of products and other ops on matrices.
//!
//! Invariant: the sizes that are summed over are equal, or not both known.
//! Not here: attention (`attention`), quantised products with scales (`quantise`).

use crate::infer::call::{Call, Out, Result, bad_input, bail, show};
use crate::{Attr, Dim, Op};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    match call.op {
        Op::Gemm => gemm(call),
        Op::Einsum => einsum(call),
        Op::Det => det(call),
        Op::Trilu => {
            call.rank_at_least(0, 2)?;
            call.check_scalar(1)?;
            Ok(vec![Out::new(call.dims(0).map(<[_]>::to_vec))])
        }
        _ => Ok(vec![Out::new(product(call, 0, 1)?)]),
    }
}

/// The shape of a matrix product with broadcast batches, as numpy has it.
pub(super) fn product(call: &Call<'_>, a: usize, b: usize) -> Result<Option<Vec<Dim>>> {
    call.rank_at_least(a, 1)?;
    call.rank_at_least(b, 1)?;
    let (Some(left), Some(right)) = (call.dims(a), call.dims(b)) else {
        return Ok(None);
    };
    let (batch_left, rows, inner_left) = match left {
        [inner] => (&[][..], None, inner),
        [batch @ .., rows, inner] => (batch, Some(rows), inner),
        [] => return Ok(None),
    };
    let (batch_right, inner_right, columns) = match right {
        [inner] => (&[][..], inner, None),
        [batch @ .., inner, columns] => (batch, inner, Some(columns)),
        [] => return Ok(None),
    };
    if inner_left.differs(inner_right) {
        bail!(
            call,
            Shape,
            "inner sizes differ: {inner_left} of {} and {inner_right} of {}",
            show(left),
            show(right)
        );
    }
    let mut shape = match call.broadcast(&[Some(batch_left), Some(batch_right)])? {
        Some(batch) => batch,
        None => return Ok(None),
    };
    shape.extend(rows.cloned());
    shape.extend(columns.cloned());
    Ok(Some(shape))
}

fn gemm(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_is(0, 2)?;
    call.rank_is(1, 2)?;
    let sides = |index, transposed: bool| match call.dims(index) {
        Some([a, b]) if transposed => (b.clone(), a.clone()),
        Some([a, b]) => (a.clone(), b.clone()),
        _ => (Dim::Unknown, Dim::Unknown),
    };
    let (rows, inner_left) = sides(0, call.flag(Attr::TransA));
    let (inner_right, columns) = sides(1, call.flag(Attr::TransB));
    if inner_left.differs(&inner_right) {
        bad_input!(
            call,
            1,
            "its inner size is {inner_right}, that of A is {inner_left}"
        );
    }
    let shape = vec![rows, columns];
    call.broadcasts_into(2, &shape)?;
    Ok(vec![Out::dims(shape)])
}

fn det(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_at_least(0, 2)?;
    let Some([batch @ .., rows, columns]) = call.dims(0) else {
        return Ok(vec![Out::unranked()]);
    };
    if rows.differs(columns) {
        bad_input!(call, 0, "not square");
    }
    Ok(vec![Out::dims(batch.to_vec())])
}

/// One subscript of an einsum equation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Subscript {
    Label(char),
    Ellipsis,
}

fn subscripts(call: &Call<'_>, term: &str) -> Result<Vec<Subscript>> {
    let mut found = Vec::new();
    let mut rest = term;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("...") {
            if found.contains(&Subscript::Ellipsis) {
                bail!(call, Attribute, "term '{term}' has two ellipses");
            }
            found.push(Subscript::Ellipsis);
            rest = after;
        } else if first.is_ascii_alphabetic() {
            found.push(Subscript::Label(first));
            rest = &rest[1..];
        } else {
            bail!(
                call,
                Attribute,
                "term '{term}' holds '{first}', which is no label"
            );
        }
    }
    Ok(found)
}

fn einsum(call: &Call<'_>) -> Result<Vec<Out>> {
    let equation: String = call
        .str(Attr::Equation)
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect();
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (&equation[..], None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != call.inputs.len() {
        let (terms, inputs) = (terms.len(), call.inputs.len());
        bail!(
            call,
            Attribute,
            "equation '{equation}' has {terms} terms for {inputs} inputs"
        );
    }
    let mut sizes: Vec<(char, Dim, usize)> = Vec::new();
    let mut ellipsis: Option<Vec<Dim>> = Some(Vec::new());
    let mut any_ellipsis = false;
    for (index, term) in terms.iter().enumerate() {
        let term = subscripts(call, term)?;
        let has_ellipsis = term.contains(&Subscript::Ellipsis);
        any_ellipsis |= has_ellipsis;
        let labels = term.len() - usize::from(has_ellipsis);
        let dims = call.dims(index);
        if let Some(dims) = dims {
            let fits = if has_ellipsis {
                dims.len() >= labels
            } else {
                dims.len() == labels
            };
            if !fits {
                bad_input!(call, index, "its term '{}' has {labels} labels", terms[index]);
            }
        }
        let mut axis = 0;
        for subscript in term {
            match subscript {
                Subscript::Ellipsis => {
                    let count = dims.map_or(0, |dims| dims.len() - labels);
                    let here = dims.map(|dims| &dims[axis..axis + count]);
                    ellipsis = call.broadcast(&[ellipsis.as_deref(), here])?;
                    axis += count;
                }
                Subscript::Label(label) => {
                    let dim = dims.map_or(Dim::Unknown, |dims| dims[axis].clone());
                    axis += 1;
                    match sizes.iter_mut().find(|(have, ..)| *have == label) {
                        None => sizes.push((label, dim, 1)),
                        Some((_, have, count)) => {
                            *count += 1;
                            // A size of 1 stretches, as in the other broadcasting ops.
                            *have = match (&*have, &dim) {
                                (Dim::Known(1), _) => dim,
                                (_, Dim::Known(1)) => have.clone(),
                                (a, b) if a.differs(b) => {
                                    bad_input!(call, index, "label '{label}' is {b} here and {a} before")
                                }
                                (a, b) => a.or_known(b),
                            };
                        }
                    }
                }
            }
        }
    }
    let output = match right {
        Some(right) => subscripts(call, right)?,
        None => {
            let mut once: Vec<_> = sizes
                .iter()
                .filter(|(_, _, count)| *count == 1)
                .map(|(label, ..)| Subscript::Label(*label))
                .collect();
            once.sort_unstable();
            if any_ellipsis {
                once.insert(0, Subscript::Ellipsis);
            }
            once
        }
    };
    let mut shape = Vec::new();
    for subscript in output {
        match subscript {
            Subscript::Ellipsis => match &ellipsis {
                Some(dims) => shape.extend(dims.iter().cloned()),
                None => return Ok(vec![Out::unranked()]),
            },
            Subscript::Label(label) => match sizes.iter().find(|(have, ..)| *have == label) {
                Some((_, dim, _)) => shape.push(dim.clone()),
                None => {
                    bail!(call, Attribute, "label '{label}' of the output has no input")
                }
            },
        }
    }
    Ok(vec![Out::dims(shape)])
}
