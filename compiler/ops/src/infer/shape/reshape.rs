//! The shape that a Reshape gives: copies for 0, one size worked out for -1.
//!
//! Invariants:
//! 1. The number of elements stays, as far as it is known.
//! 2. Symbols that stand on both sides cancel, so that `[n, 3, 4]` to `[n, -1]` gives 12.
//!
//! Not here: the other ops that move elements (`shape`).

use std::sync::Arc;

use crate::infer::call::{Call, Out, Result, bad_input, bail, show, unknown};
use crate::{Attr, Dim, Element, Value};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    let count = call.list_length(1)?;
    let Some(elements) = call.elements(1) else {
        return Ok(vec![Out::new(count.map(unknown))]);
    };
    let allow_zero = call.flag(Attr::Allowzero);
    let mut shape = Vec::with_capacity(elements.len());
    let mut open = None;
    for (axis, element) in elements.iter().enumerate() {
        shape.push(match element {
            Element::Int(-1) => {
                if let Some(first) = open {
                    bail!(call, Value, "shape holds -1 at {first} and at {axis}");
                }
                open = Some(axis);
                Dim::Unknown
            }
            Element::Int(0) if !allow_zero => match call.dims(0) {
                Some(dims) => match dims.get(axis) {
                    Some(dim) => dim.clone(),
                    None => bad_input!(call, 0, "it has no axis {axis} for shape to copy"),
                },
                None => Dim::Unknown,
            },
            element => call.size(element, "a size of shape")?,
        });
    }
    if allow_zero && open.is_some() && elements.contains(&Element::Int(0)) {
        bail!(call, Value, "shape holds both 0 and -1, with allowzero");
    }
    if let Some(dims) = call.dims(0) {
        settle(call, dims, &mut shape, open)?;
    }
    let value = same_values(call, &shape);
    Ok(vec![Out::dims(shape).valued(value)])
}

/// The known part of a number of elements, and its symbols; `None` with an unknown size.
fn factors(call: &Call<'_>, dims: &[Dim], skip: Option<usize>) -> Result<Option<Factors>> {
    let mut factors = Factors {
        known: 1,
        symbols: Vec::new(),
    };
    let mut whole = true;
    let mut zero = false;
    for (axis, dim) in dims.iter().enumerate() {
        match dim {
            _ if skip == Some(axis) => {}
            Dim::Known(0) => zero = true,
            Dim::Known(size) => {
                factors.known = factors.known.checked_mul(*size).ok_or_else(|| call.overflow())?;
            }
            Dim::Symbol(name) => factors.symbols.push(name.clone()),
            Dim::Unknown => whole = false,
        }
    }
    if zero {
        return Ok(Some(Factors {
            known: 0,
            symbols: Vec::new(),
        }));
    }
    Ok(whole.then_some(factors))
}

struct Factors {
    known: usize,
    symbols: Vec<Arc<str>>,
}

/// Works out the open size, and checks that the number of elements stays.
fn settle(call: &Call<'_>, from: &[Dim], to: &mut [Dim], open: Option<usize>) -> Result<()> {
    let (Some(mut have), Some(want)) = (factors(call, from, None)?, factors(call, to, open)?) else {
        return Ok(());
    };
    let mut left = Vec::new();
    for name in want.symbols {
        match have.symbols.iter().position(|other| *other == name) {
            Some(place) => drop(have.symbols.remove(place)),
            None => left.push(name),
        }
    }
    let numbers = have.symbols.is_empty() && left.is_empty();
    match open {
        None if numbers && have.known != want.known => {
            bad_input!(
                call,
                0,
                "of {} elements, not the {} of {}",
                have.known,
                want.known,
                show(to)
            )
        }
        None => {}
        Some(axis) if numbers => {
            to[axis] = match (have.known, want.known) {
                (0, 0) => Dim::Known(0),
                (have, want) if want != 0 && have % want == 0 => Dim::Known(have / want),
                (have, want) => bad_input!(
                    call,
                    0,
                    "of {have} elements, which {want} of the other sizes do not divide"
                ),
            };
        }
        Some(axis) if left.is_empty() && have.symbols.len() == 1 && have.known == want.known => {
            to[axis] = Dim::Symbol(have.symbols.remove(0));
        }
        Some(_) => {}
    }
    Ok(())
}

/// The values of the first input under a new shape of as many elements.
pub(super) fn same_values(call: &Call<'_>, shape: &[Dim]) -> Option<Value> {
    let sizes: Vec<usize> = shape.iter().map(Dim::known).collect::<Option<_>>()?;
    match call.value(0)? {
        Value::Literal(literal) => {
            let mut literal = literal.clone();
            literal.shape = sizes;
            (literal.elements() == call.dims(0).and_then(elements)).then_some(())?;
            Some(Value::Literal(literal))
        }
        Value::Dims(elements, dtype) if sizes.len() <= 1 => {
            (sizes.iter().product::<usize>() == elements.len()).then_some(())?;
            Some(Value::Dims(elements.clone(), *dtype))
        }
        Value::Dims(..) => None,
    }
}

fn elements(dims: &[Dim]) -> Option<usize> {
    dims.iter()
        .map(Dim::known)
        .try_fold(1usize, |product, size| product.checked_mul(size?))
}
