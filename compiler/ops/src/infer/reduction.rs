//! Shapes of reductions, running totals, and selections along axes.
//!
//! Invariant: outputs whose size depends on data carry the largest size there can be.
//! Not here: pools (`pooling`).

use crate::infer::arithmetic;
use crate::infer::call::{Call, Out, Result, bad_input, bail, make_value, unknown};
use crate::{Attr, DType, Dim, Element, Op, Value};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    match call.op {
        Op::ArgMax | Op::ArgMin => arg(call),
        Op::CumSum | Op::CumProd => cumulative(call),
        Op::TopK => top_k(call),
        Op::Unique => unique(call),
        Op::NonZero => non_zero(call),
        _ => reduce(call),
    }
}

/// The shape after some axes become 1 or go.
fn reduced(dims: &[Dim], axes: &[usize], keep: bool) -> Vec<Dim> {
    let mut shape = Vec::with_capacity(dims.len());
    for (axis, dim) in dims.iter().enumerate() {
        match (axes.contains(&axis), keep) {
            (false, _) => shape.push(dim.clone()),
            (true, true) => shape.push(Dim::Known(1)),
            (true, false) => {}
        }
    }
    shape
}

fn reduce(call: &Call<'_>) -> Result<Vec<Out>> {
    let keep = call.flag(Attr::Keepdims);
    let noop = call.flag(Attr::NoopWithEmptyAxes);
    let axes = if call.has(1) {
        match (call.list_length(1)?, call.ints(1)) {
            (Some(0), _) => Some(Vec::new()),
            (_, Some(axes)) => Some(axes),
            (count, None) => {
                // The axes are known only at run time.
                let rank = call.dims(0).map(<[_]>::len);
                let shape = match (rank, count) {
                    (Some(rank), _) if keep => Some(unknown(rank)),
                    (Some(rank), Some(count)) => Some(unknown(rank.saturating_sub(count))),
                    _ => None,
                };
                return Ok(vec![Out::new(shape)]);
            }
        }
    } else {
        Some(Vec::new())
    };
    let axes = axes.unwrap_or_default();
    if axes.is_empty() && noop {
        let value = call.value(0).filter(|_| keeps_values(call.op)).cloned();
        return Ok(vec![Out::new(call.dims(0).map(<[_]>::to_vec)).valued(value)]);
    }
    let Some(dims) = call.dims(0) else {
        let scalar = axes.is_empty() && !keep;
        return Ok(vec![if scalar { Out::scalar() } else { Out::unranked() }]);
    };
    let axes = if axes.is_empty() {
        (0..dims.len()).collect()
    } else {
        call.axes(&axes, dims.len())?
    };
    let shape = reduced(dims, &axes, keep);
    let value = if axes.len() == dims.len() {
        total(call, shape.len())
    } else {
        None
    };
    Ok(vec![Out::dims(shape).valued(value)])
}

/// Whether a reduction over nothing gives its input.
fn keeps_values(op: Op) -> bool {
    matches!(
        op,
        Op::ReduceSum | Op::ReduceProd | Op::ReduceMax | Op::ReduceMin | Op::ReduceMean
    )
}

/// The value of a reduction of a whole small tensor.
fn total(call: &Call<'_>, rank: usize) -> Option<Value> {
    let dtype = call.dtype(0).filter(|dtype| dtype.is_int())?;
    let elements = call.elements(0)?;
    let (start, f): (_, fn(&Element, &Element) -> Element) = match call.op {
        Op::ReduceProd => (Element::Int(1), arithmetic::multiply),
        Op::ReduceSum => (Element::Int(0), arithmetic::add),
        Op::ReduceMax => (elements.first()?.clone(), |a, b| arithmetic::larger(a, b, true)),
        Op::ReduceMin => (elements.first()?.clone(), |a, b| arithmetic::larger(a, b, false)),
        _ => return None,
    };
    let value = elements.iter().fold(start, |a, b| f(&a, b));
    make_value(dtype, rank, vec![value])
}

fn arg(call: &Call<'_>) -> Result<Vec<Out>> {
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::unranked()]);
    };
    let axis = call.axis(call.int(Attr::Axis), dims.len())?;
    if dims[axis] == Dim::Known(0) {
        bad_input!(call, 0, "empty on axis {axis}, where an index is sought");
    }
    Ok(vec![Out::dims(reduced(dims, &[axis], call.flag(Attr::Keepdims)))])
}

fn cumulative(call: &Call<'_>) -> Result<Vec<Out>> {
    let axis = call.scalar(1)?;
    let dims = call.dims(0);
    if let (Some(axis), Some(dims)) = (axis, dims) {
        call.axis(axis, dims.len())?;
    }
    Ok(vec![Out::new(dims.map(<[_]>::to_vec))])
}

fn top_k(call: &Call<'_>) -> Result<Vec<Out>> {
    let k = call.scalar(1)?;
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::unranked(), Out::unranked()]);
    };
    let axis = call.axis(call.int(Attr::Axis), dims.len())?;
    let mut shape = dims.to_vec();
    shape[axis] = match k {
        None => match call.elements(1).as_deref() {
            Some([element]) => call.size(element, "K")?,
            _ => Dim::Unknown,
        },
        Some(k) => {
            let size = call.size(&Element::Int(k), "K")?;
            if let (Some(k), Some(have)) = (size.known(), dims[axis].known())
                && k > have
            {
                bail!(call, Value, "K is {k}, axis {axis} has only {have}");
            }
            size
        }
    };
    Ok(vec![
        Out::dims(shape.clone()),
        Out::dims(shape).typed(Some(DType::I64)),
    ])
}

fn unique(call: &Call<'_>) -> Result<Vec<Out>> {
    let axis = call.attributes.int(Attr::Axis);
    let Some(dims) = call.dims(0) else {
        let y = if axis.is_some() {
            Out::unranked()
        } else {
            Out::dims(unknown(1))
        };
        let vector = || Out::dims(unknown(1)).bounded();
        return Ok(vec![y.bounded(), vector(), Out::dims(unknown(1)), vector()]);
    };
    let (y, most) = match axis {
        None => {
            let most = call.product(dims)?;
            (vec![most.clone()], most)
        }
        Some(axis) => {
            let axis = call.axis(axis, dims.len())?;
            (dims.to_vec(), dims[axis].clone())
        }
    };
    let vector = || Out::dims(vec![most.clone()]);
    Ok(vec![
        Out::dims(y).bounded(),
        vector().bounded(),
        vector(),
        vector().bounded(),
    ])
}

fn non_zero(call: &Call<'_>) -> Result<Vec<Out>> {
    let shape = match call.dims(0) {
        None => unknown(2),
        Some(dims) => vec![Dim::Known(dims.len()), call.product(dims)?],
    };
    Ok(vec![Out::dims(shape).bounded()])
}
