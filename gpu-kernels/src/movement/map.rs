//! Kernels in which every unit of the output is copied from one position of an input, or is a fill
//! value.
//!
//! Invariant: a unit is moved as bits; of units below 4 bytes a thread makes a whole word.

use crate::{Access, Kernel, Limits, Number, Result, Scalar, Values, WgslBuilder, element};

/// Bytes moved at once: the largest of 16, 8, 4, 2 and 1 that divides every run, and is no less than an element.
pub(super) fn unit(scalar: Scalar, runs: &[u64]) -> u64 {
    let mut unit = 16;
    while unit > scalar.bytes()
        && runs
            .iter()
            .any(|run| !(run * scalar.bytes()).is_multiple_of(unit))
    {
        unit /= 2;
    }
    unit
}

/// Type in WGSL of a unit in a register.
pub(super) fn register(unit: u64) -> &'static str {
    match unit {
        16 => "vec4<u32>",
        8 => "vec2<u32>",
        _ => "u32",
    }
}

/// Declares a binding of `count` units.
pub(super) fn bind(text: &mut WgslBuilder, name: &str, access: Access, unit: u64, count: u64) {
    let width = match unit {
        16 => 4,
        8 => 2,
        _ => 1,
    };
    text.binding(name, access, Scalar::U32, width, (count * unit).div_ceil(4));
}

/// Declares `in{number}`, and `take{number}(unit)` that reads it.
pub(super) fn source(text: &mut WgslBuilder, number: usize, unit: u64, count: u64) {
    let name = format!("in{number}");
    bind(text, &name, Access::Read, unit, count);
    let value = match unit {
        1 => element::load(&name, Scalar::U8, "i"),
        2 => element::load(&name, Scalar::U16, "i"),
        _ => format!("{name}[i]"),
    };
    text.declare(&format!(
        "fn take{number}(i: u32) -> {} {{ return {value}; }}",
        register(unit)
    ));
}

/// Declares `indices`, and `index(i)`: index `i`, counted from the start and clamped to `0..dim` (which is not
/// 0); with `raw` neither.
pub(super) fn indices(text: &mut WgslBuilder, index: Scalar, count: u64, dim: Option<u64>) {
    let value = if index == Scalar::I64 {
        // the low word: an index of an axis fits it
        text.binding("indices", Access::Read, Scalar::U32, 2, count * 2);
        "bitcast<i32>(indices[i].x)"
    } else {
        text.binding("indices", Access::Read, Scalar::I32, 1, count);
        "indices[i]"
    };
    text.declare(&format!("fn signed_index(i: u32) -> i32 {{ return {value}; }}"));
    if let Some(dim) = dim {
        text.declare(&format!(
            "fn index(i: u32) -> u32 {{
    let at = signed_index(i);
    return u32(clamp(select(at, at + {dim}, at < 0), 0, {}));
}}",
            dim - 1
        ));
    }
}

/// Puts together a kernel whose output has this shape in units. `fetch` returns a unit; it sees the places `c0`,
/// `c1`, … along the axes and the flat index `i`.
pub(super) fn kernel(
    mut text: WgslBuilder,
    variant: String,
    unit: u64,
    shape: &[u64],
    fetch: &str,
    limits: &Limits,
) -> Result<Kernel> {
    let total = element::count(&variant, shape)?;
    bind(&mut text, "out", Access::Write, unit, total);
    text.declare(&format!(
        "fn fetch(i: u32) -> {} {{\n{}{fetch}\n}}",
        register(unit),
        element::places("i", shape, "c"),
    ));
    let (threads, value) = match unit {
        1 | 2 => {
            let each = 4 / unit;
            let last = total.saturating_sub(1);
            let parts: Vec<String> = (0..each)
                .map(|k| {
                    format!(
                        "((fetch(min(at * {each}u + {k}u, {last}u)) & {}u) << {}u)",
                        (1u64 << (8 * unit)) - 1,
                        8 * unit * k
                    )
                })
                .collect();
            (total.div_ceil(each), parts.join(" | "))
        }
        _ => (total, "fetch(at)".to_owned()),
    };
    let (size, groups, index) = element::flat(threads, limits);
    let body = format!("    let at = {index};\n    if at < {threads}u {{ out[at] = {value}; }}");
    let variant = format!("{variant}-b{unit}");
    text.kernel(variant, [size, 1, 1], groups, total, &body, limits)
}

/// The elements of `values` at these places; `fill` for a missing place.
pub(super) fn pick(scalar: Scalar, values: &Values, places: &[Option<usize>], fill: Number) -> Values {
    let numbers: Vec<Number> = places
        .iter()
        .map(|place| place.map_or(fill, |place| values.number(scalar, place)))
        .collect();
    Values::of_numbers(scalar, &numbers)
}

/// Indices of a sample: from the start and from the end, all inside `0..dim`.
pub(super) fn some_indices(index: Scalar, seed: u32, count: usize, dim: u64) -> Values {
    let dim = dim as i64;
    let numbers: Vec<Number> = Values::floats(seed, count)
        .into_iter()
        .map(|x| Number::I64(((f64::from(x) * dim as f64).floor() as i64).clamp(-dim, dim - 1)))
        .collect();
    Values::of_numbers(index, &numbers)
}

/// Index `i` as ONNX counts it.
pub(super) fn place(values: &Values, index: Scalar, i: usize, dim: u64) -> usize {
    let at = values.number(index, i).to_f64() as i64;
    (if at < 0 { at + dim as i64 } else { at }) as usize
}
