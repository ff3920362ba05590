//! Tensor elements in shader text and in samples: how each type is read, combined into words and
//! written, and how a flat index becomes coordinates.
//!
//! Invariants:
//! 1. Bytes and 16-bit integers are written as whole words, each by one thread.
//! 2. A flat index fits 31 bits: larger tensors are refused.

use half::f16;

use crate::{Access, Error, Limits, Number, Result, Scalar, Type, Values, WgslBuilder};

/// Number of elements of a shape.
///
/// # Errors
/// Where indices would not fit 31 bits.
pub(crate) fn count(what: &str, shape: &[u64]) -> Result<u64> {
    let count = shape.iter().try_fold(1u64, |n, &dim| n.checked_mul(dim));
    match count {
        Some(count) if count < 1 << 31 => Ok(count),
        _ => Err(Error::new(format!(
            "{what}: shape {shape:?} has more than 2147483647 elements"
        ))),
    }
}

/// Number of elements, for samples of generators whose kernel was made.
pub(crate) fn size(shape: &[u64]) -> usize {
    shape.iter().product::<u64>() as usize
}

/// Row-major strides.
pub(crate) fn strides(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// Places along axes of a flat index.
pub(crate) fn unravel(mut flat: usize, shape: &[u64]) -> Vec<usize> {
    let mut places = vec![0; shape.len()];
    for (place, &dim) in places.iter_mut().zip(shape).rev() {
        *place = flat % dim as usize;
        flat /= dim as usize;
    }
    places
}

/// Flat index of places along axes.
pub(crate) fn ravel(places: &[usize], shape: &[u64]) -> usize {
    places
        .iter()
        .zip(shape)
        .fold(0, |flat, (place, &dim)| flat * dim as usize + place)
}

/// `let {prefix}0 = …;` for each axis: the places of the flat index that `flat` names.
pub(crate) fn places(flat: &str, shape: &[u64], prefix: &str) -> String {
    let mut text = String::new();
    let strides = strides(shape);
    for (axis, (&dim, &stride)) in shape.iter().zip(&strides).enumerate() {
        let mut place = match stride {
            1 => flat.to_owned(),
            stride => format!("{flat} / {stride}u"),
        };
        if dim == 1 {
            place = "0u".to_owned();
        } else if axis > 0 {
            place = format!("({place}) % {dim}u");
        }
        text.push_str(&format!("    let {prefix}{axis} = {place};\n"));
    }
    text
}

/// Text that reads element `index` of a binding of width 1, in the type of computation.
pub(crate) fn load(name: &str, scalar: Scalar, index: &str) -> String {
    let word = |bits: u32| {
        let (shift, mask) = if bits == 8 { (2, 3) } else { (1, 1) };
        (
            format!("{name}[({index}) >> {shift}u]"),
            format!("((({index}) & {mask}u) * {bits}u)"),
        )
    };
    let unsigned = |bits: u32| {
        let (word, shift) = word(bits);
        format!("extractBits({word}, {shift}, {bits}u)")
    };
    match scalar {
        Scalar::F32 | Scalar::I32 | Scalar::U32 | Scalar::I64 => format!("{name}[{index}]"),
        Scalar::F16 => format!("f32({name}[{index}])"),
        Scalar::U8 => unsigned(8),
        Scalar::U16 => unsigned(16),
        Scalar::Bool => format!("({} != 0u)", unsigned(8)),
        Scalar::I8 | Scalar::I16 => {
            let bits = if scalar == Scalar::I8 { 8 } else { 16 };
            let (word, shift) = word(bits);
            format!("extractBits(bitcast<i32>({word}), {shift}, {bits}u)")
        }
    }
}

/// Width of a binding that four elements at once are read from or written to, and how many there are of the
/// binding's elements: bytes are a word, 16-bit integers two.
pub(crate) fn four(scalar: Scalar, count: u64) -> (u32, u64) {
    match scalar.bytes() {
        1 => (1, count),
        2 if scalar != Scalar::F16 => (2, count),
        _ => (4, count),
    }
}

/// Text that reads the four elements from `4 * index` of a binding made by [`four`].
pub(crate) fn load_four(name: &str, scalar: Scalar, index: &str) -> String {
    let value = format!("{name}[{index}]");
    match scalar {
        Scalar::F32 | Scalar::I32 | Scalar::U32 | Scalar::I64 => value,
        Scalar::F16 => format!("vec4<f32>({value})"),
        Scalar::U8 => format!("((vec4<u32>({value}) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u))"),
        Scalar::Bool => {
            format!(
                "(((vec4<u32>({value}) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u)) != vec4<u32>(0u))"
            )
        }
        Scalar::I8 => {
            format!(
                "(bitcast<vec4<i32>>(vec4<u32>({value}) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u))"
            )
        }
        Scalar::U16 => {
            format!("((({value}).xxyy >> vec4<u32>(0u, 16u, 0u, 16u)) & vec4<u32>(65535u))")
        }
        Scalar::I16 => {
            format!("(bitcast<vec4<i32>>(({value}).xxyy << vec4<u32>(16u, 0u, 16u, 0u)) >> vec4<u32>(16u))")
        }
    }
}

/// Text of four computed values, named by `value`, as they lie in memory: a vector, or words.
pub(crate) fn pack_four(scalar: Scalar, value: &str) -> String {
    let bytes = |value: String| {
        format!(
            "(({value}.x & 255u) | (({value}.y & 255u) << 8u) | (({value}.z & 255u) << 16u) | ({value}.w << 24u))"
        )
    };
    let halves = |value: String| {
        format!(
            "vec2<u32>(({value}.x & 65535u) | ({value}.y << 16u), ({value}.z & 65535u) | ({value}.w << 16u))"
        )
    };
    match scalar {
        Scalar::F32 | Scalar::I32 | Scalar::U32 | Scalar::I64 => value.to_owned(),
        Scalar::F16 => format!("vec4<f16>({value})"),
        Scalar::U8 => bytes(value.to_owned()),
        Scalar::I8 => bytes(format!("bitcast<vec4<u32>>({value})")),
        Scalar::Bool => bytes(format!("select(vec4<u32>(0u), vec4<u32>(1u), {value})")),
        Scalar::U16 => halves(value.to_owned()),
        Scalar::I16 => halves(format!("bitcast<vec4<u32>>({value})")),
    }
}

/// Text of one computed value as an element of 4 bytes or more, or of `f16`, lies in memory.
pub(crate) fn pack(scalar: Scalar, value: &str) -> String {
    match scalar {
        Scalar::F16 => format!("f16({value})"),
        _ => value.to_owned(),
    }
}

/// Declares a binding that is read element by element.
pub(crate) fn declare(text: &mut WgslBuilder, name: &str, access: Access, scalar: Scalar, count: u64) {
    text.binding(name, access, scalar, 1, count);
}

/// A launch of `threads` in all over a flat index: threads of a workgroup, workgroups, and text of the index.
pub(crate) fn flat(threads: u64, limits: &Limits) -> (u32, [u32; 3], String) {
    // few threads: small workgroups, so that all of a device gets some
    let size = if threads < 1 << 18 { 64 } else { 256 };
    let (groups, index) = spread(threads.div_ceil(size), limits);
    (size as u32, groups, format!("{index} * {size}u + thread"))
}

/// Workgroups along two axes where one axis does not hold them, and text of a workgroup's number.
pub(crate) fn spread(groups: u64, limits: &Limits) -> ([u32; 3], String) {
    // rows of equal length, so that few workgroups have no work
    let y = groups.div_ceil(u64::from(limits.groups.max(1))).max(1);
    let x = groups.div_ceil(y).max(1);
    let index = if y == 1 {
        "group.x".to_owned()
    } else {
        format!("(group.y * {x}u + group.x)")
    };
    ([x as u32, u32::try_from(y).unwrap_or(u32::MAX), 1], index)
}

impl Values {
    /// Element `index` as a number of the type of computation.
    pub(crate) fn number(&self, scalar: Scalar, index: usize) -> Number {
        match (self, scalar) {
            (Values::F32(v), _) => Number::F32(v[index]),
            (Values::F16(v), _) => Number::F32(v[index].to_f32()),
            (Values::I32(v), Scalar::U32) => Number::U32(v[index] as u32),
            (Values::I32(v), _) => Number::I32(v[index]),
            (Values::I64(v), _) => Number::I64(v[index]),
            (Values::I16(v), _) => Number::I32(v[index].into()),
            (Values::U16(v), _) => Number::U32(v[index].into()),
            (Values::I8(v), _) => Number::I32(v[index].into()),
            (Values::U8(v), Scalar::Bool) => Number::Bool(v[index] != 0),
            (Values::U8(v), _) => Number::U32(v[index].into()),
        }
    }

    /// Numbers as a tensor of this type.
    pub(crate) fn of_numbers(scalar: Scalar, numbers: &[Number]) -> Values {
        let float = |x: &Number| x.to_f64() as f32;
        let whole = |x: &Number| match x.cast(Scalar::I64) {
            Number::I64(x) => x,
            _ => 0,
        };
        match scalar {
            Scalar::F32 => Values::F32(numbers.iter().map(float).collect()),
            Scalar::F16 => Values::F16(numbers.iter().map(|x| f16::from_f32(float(x))).collect()),
            Scalar::I32 | Scalar::U32 => Values::I32(numbers.iter().map(|x| whole(x) as i32).collect()),
            Scalar::I64 => Values::I64(numbers.iter().map(whole).collect()),
            Scalar::I16 => Values::I16(numbers.iter().map(|x| whole(x) as i16).collect()),
            Scalar::U16 => Values::U16(numbers.iter().map(|x| whole(x) as u16).collect()),
            Scalar::I8 => Values::I8(numbers.iter().map(|x| whole(x) as i8).collect()),
            Scalar::U8 | Scalar::Bool => Values::U8(numbers.iter().map(|x| whole(x) as u8).collect()),
        }
    }

    /// `count` values in the range of a sample: floats in `low..high`, small integers, both booleans.
    pub(crate) fn spread(scalar: Scalar, seed: u32, count: usize, low: f32, high: f32) -> Values {
        let numbers: Vec<Number> = Values::floats(seed, count)
            .into_iter()
            .map(|x| match scalar.computed() {
                Type::F32 => Number::F32(low + (x + 1.0) * 0.5 * (high - low)),
                Type::I32 => Number::I32((x * 100.0) as i32),
                Type::U32 => Number::U32(((x + 1.0) * 100.0) as u32),
                Type::I64 => Number::I64((x * 100.0) as i64),
                Type::Bool => Number::Bool(x > 0.0),
            })
            .collect();
        Values::of_numbers(scalar, &numbers)
    }

    /// `count` values, floats in `-1..1`.
    pub(crate) fn some(scalar: Scalar, seed: u32, count: usize) -> Values {
        Values::spread(scalar, seed, count, -1.0, 1.0)
    }

    /// As many zeros as a tensor of this type has elements.
    pub(crate) fn zeros(scalar: Scalar, count: usize) -> Values {
        Values::of_numbers(scalar, &vec![Number::F32(0.0); count])
    }
}

/// The tensor of `[outer, count, inner]` whose rows along `count` are made of those of `input`.
pub(crate) fn along(
    scalar: Scalar,
    shape: [u64; 3],
    input: &Values,
    make: impl Fn(&[f64]) -> Vec<f64>,
) -> Values {
    let mut numbers = vec![Number::F32(0.0); input.len()];
    for outer in 0..shape[0] as usize {
        for inner in 0..shape[2] as usize {
            let at = |k: usize| ravel(&[outer, k, inner], &shape);
            let row: Vec<f64> = (0..shape[1] as usize)
                .map(|k| input.number(scalar, at(k)).to_f64())
                .collect();
            for (k, value) in make(&row).into_iter().enumerate() {
                numbers[at(k)] = Number::F32(value as f32);
            }
        }
    }
    Values::of_numbers(scalar, &numbers)
}
