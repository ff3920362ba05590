//! The functions that the text of expressions calls.
//!
//! Invariant: a function `px_{name}{width}` takes and returns vectors of `width` values (scalars if
//! `width` is 1).

use std::collections::BTreeSet;

/// Name, and text in which `$W` is the width, `$T`, `$I`, `$U`, `$L` and `$B` are vectors of `f32`, `i32`, `u32`,
/// `i64` and `bool`.
///
/// `erf`: both polynomials were fitted by us at Chebyshev nodes to below 1e-8: `erf(x) / x` in `x * x` up to 1,
/// `erfc(x) * exp(x * x)` in `1 / (1 + x / 2)` from 1 to 4, after which erf is 1 in f32. So was that of `arcsine`,
/// `(asin(s) / s - 1) / z` in `z = s * s` up to 1/4: drivers' own are as exact as `atan2` of a square root, 4096 units of the last place.
const FUNCTIONS: &[(&str, &str)] = &[
    (
        "bits",
        "(bits: u32) -> $T { var b = bits; return $T(bitcast<f32>(b)); }",
    ),
    (
        "isnan",
        "(x: $T) -> $B { return (bitcast<$U>(x) & $U(0x7fffffffu)) > $U(0x7f800000u); }",
    ),
    (
        "isinf",
        "(x: $T) -> $B { return (bitcast<$U>(x) & $U(0x7fffffffu)) == $U(0x7f800000u); }",
    ),
    (
        "isposinf",
        "(x: $T) -> $B { return bitcast<$U>(x) == $U(0x7f800000u); }",
    ),
    (
        "isneginf",
        "(x: $T) -> $B { return bitcast<$U>(x) == $U(0xff800000u); }",
    ),
    // NaN is detected by its bits: NVIDIA's driver turns a select on `x < 0` into a maximum, which loses NaN
    (
        "relu",
        "(x: $T) -> $T { return select(max(x, $T(0.0)), x, px_isnan$W(x)); }",
    ),
    (
        "mink",
        "(x: $T, k: $T) -> $T { return select(min(x, k), x, px_isnan$W(x)); }",
    ),
    (
        "maxk",
        "(x: $T, k: $T) -> $T { return select(max(x, k), x, px_isnan$W(x)); }",
    ),
    (
        "min",
        "(a: $T, b: $T) -> $T {
    return select(select(a, b, b < a), a + b, px_isnan$W(a) | px_isnan$W(b));
}",
    ),
    (
        "max",
        "(a: $T, b: $T) -> $T {
    return select(select(a, b, b > a), a + b, px_isnan$W(a) | px_isnan$W(b));
}",
    ),
    (
        "sign",
        "(x: $T) -> $T { return select(sign(x), x, px_isnan$W(x)); }",
    ),
    ("square", "(x: $T) -> $T { return x * x; }"),
    ("cube", "(x: $T) -> $T { return x * x * x; }"),
    // of a negative base only whole exponents have a value; from 2^24 on all floats are even
    (
        "pow",
        "(a: $T, b: $T) -> $T {
    let whole = b == floor(b);
    let half = b * 0.5;
    let odd = whole & (half != floor(half)) & (abs(b) < $T(16777216.0));
    let size = select(pow(abs(a), b), px_zeropow$W(b), a == $T(0.0));
    let one = (b == $T(0.0)) | (a == $T(1.0));
    let signed = select(size, -size, (a < $T(0.0)) & odd);
    let all = select(signed, px_bits$W(0x7fc00000u), (a < $T(0.0)) & !whole & !px_isinf$W(a));
    return select(select(all, a + b, px_isnan$W(a) | px_isnan$W(b)), $T(1.0), one);
}",
    ),
    (
        "zeropow",
        "(b: $T) -> $T { return select($T(0.0), px_bits$W(0x7f800000u), b < $T(0.0)); }",
    ),
    (
        "floormod",
        "(a: $T, b: $T) -> $T { return a - b * floor(a / b); }",
    ),
    // a divisor larger than the dividend, infinity too, leaves the dividend
    (
        "fmod",
        "(a: $T, b: $T) -> $T { return select(a % b, a, abs(a) < abs(b)); }",
    ),
    // some devices give 0 of NaN
    (
        "atan",
        "(x: $T) -> $T { return select(atan(x), x, px_isnan$W(x)); }",
    ),
    // asin of s for z = s * s
    (
        "arcsine",
        "(s: $T, z: $T) -> $T {
    var p = $T(0.033805908) * z + 0.01707775;
    p = p * z + 0.031116184;
    p = p * z + 0.04459803;
    p = p * z + 0.07500099;
    p = p * z + 0.16666666;
    return s + s * z * p;
}",
    ),
    // above 1/2 by half the angle: asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2))
    (
        "asin",
        "(x: $T) -> $T {
    let a = min(abs(x), $T(1.0));
    let small = a <= $T(0.5);
    let z = select(0.5 - 0.5 * a, a * a, small);
    let r = px_arcsine$W(select(sqrt(z), a, small), z);
    let y = select(1.5707964 - 2.0 * r, r, small);
    let inside = select(y, -y, x < $T(0.0));
    return select(inside, px_bits$W(0x7fc00000u), (abs(x) > $T(1.0)) | px_isnan$W(x));
}",
    ),
    (
        "acos",
        "(x: $T) -> $T {
    let a = min(abs(x), $T(1.0));
    let small = a <= $T(0.5);
    let z = select(0.5 - 0.5 * a, a * a, small);
    let r = px_arcsine$W(select(sqrt(z), a, small), z);
    let near = 1.5707964 - select(r, -r, x < $T(0.0));
    let far = select(2.0 * r, 3.1415927 - 2.0 * r, x < $T(0.0));
    let inside = select(far, near, small);
    return select(inside, px_bits$W(0x7fc00000u), (abs(x) > $T(1.0)) | px_isnan$W(x));
}",
    ),
    (
        "imod",
        "(a: $I, b: $I) -> $I {
    let r = a % b;
    return select(r, r + b, (r != $I(0)) & ((r < $I(0)) != (b < $I(0))));
}",
    ),
    (
        "lmod",
        "(a: $L, b: $L) -> $L {
    let r = a % b;
    return select(r, r + b, (r != $L(0)) & ((r < $L(0)) != (b < $L(0))));
}",
    ),
    (
        "prelu",
        "(x: $T, slope: $T) -> $T { return select(x, x * slope, x < $T(0.0)); }",
    ),
    (
        "iprelu",
        "(x: $I, slope: $I) -> $I { return select(x, x * slope, x < $I(0)); }",
    ),
    (
        "elu",
        "(x: $T, alpha: $T) -> $T { return select(x, alpha * (exp(x) - 1.0), x < $T(0.0)); }",
    ),
    (
        "celu",
        "(x: $T, alpha: $T) -> $T { return select(x, alpha * (exp(x / alpha) - 1.0), x < $T(0.0)); }",
    ),
    (
        "thresholded",
        "(x: $T, alpha: $T) -> $T { return select(x, $T(0.0), x <= alpha); }",
    ),
    (
        "erf",
        "(x: $T) -> $T {
    let a = abs(x);
    let s = x * x;
    let small = x * (1.1283791 + s * (-0.37612626 + s * (0.11283597 + s * (-0.026854329
        + s * (0.0051893123 + s * (-0.00080188555 + s * 0.000078824974))))));
    let t = 1.0 / (1.0 + 0.5 * min(a, $T(4.0)));
    let tail = exp(-s) * (0.00060640875 + t * (0.27361816 + t * (0.33084068 + t * (0.10126825
        + t * (0.40383837 + t * (-0.057338737 + t * -0.053540617))))));
    let large = select($T(1.0) - tail, $T(1.0), a > $T(4.0));
    let signed = select(large, -large, x < $T(0.0));
    return select(select(signed, small, a < $T(1.0)), x, px_isnan$W(x));
}",
    ),
    // some devices take the quotient of two exponentials, which overflow
    (
        "tanh",
        "(x: $T) -> $T {
    return select(tanh(clamp(x, $T(-15.0), $T(15.0))), x, px_isnan$W(x));
}",
    ),
    (
        "hardswish",
        "(x: $T) -> $T { return x * clamp(x * (1.0 / 6.0) + 0.5, $T(0.0), $T(1.0)); }",
    ),
    (
        "gelu",
        "(x: $T) -> $T { return 0.5 * x * (1.0 + px_erf$W(x * 0.70710677)); }",
    ),
    (
        "gelutanh",
        "(x: $T) -> $T {
    return 0.5 * x * (1.0 + px_tanh$W(0.7978846 * (x + 0.044715 * x * x * x)));
}",
    ),
    ("silu", "(x: $T) -> $T { return x / (1.0 + exp(-x)); }"),
    (
        "swish",
        "(x: $T, alpha: $T) -> $T { return x / (1.0 + exp(-(alpha * x))); }",
    ),
    (
        "softplus",
        "(x: $T) -> $T { return px_relu$W(x) + log(1.0 + exp(-abs(x))); }",
    ),
    (
        "mish",
        "(x: $T) -> $T { return x * px_tanh$W(px_softplus$W(x)); }",
    ),
    ("softsign", "(x: $T) -> $T { return x / (1.0 + abs(x)); }"),
    (
        "asinh",
        "(x: $T) -> $T {
    let a = abs(x);
    let y = log(a + sqrt(a * a + 1.0));
    return select(y, -y, x < $T(0.0));
}",
    ),
    (
        "shl",
        "(a: $U, b: $U) -> $U { return select(a << (b & $U(31u)), $U(0u), b > $U(31u)); }",
    ),
    (
        "shr",
        "(a: $U, b: $U) -> $U { return select(a >> (b & $U(31u)), $U(0u), b > $U(31u)); }",
    ),
];

/// Declarations of the functions that `text` calls, and that they call.
pub(crate) fn declarations(text: &str) -> String {
    let mut known: BTreeSet<(usize, u32)> = BTreeSet::new();
    let mut declared = String::new();
    let mut open = vec![text.to_owned()];
    while let Some(text) = open.pop() {
        for rest in text.split("px_").skip(1) {
            let name = &rest[..rest.find('(').unwrap_or(0)];
            let Some(width) = name.chars().last().and_then(|digit| digit.to_digit(10)) else {
                continue;
            };
            let name = &name[..name.len() - 1];
            let Some(place) = FUNCTIONS.iter().position(|(known, _)| *known == name) else {
                continue;
            };
            if !known.insert((place, width)) {
                continue;
            }
            let vector = |one: &str| match width {
                1 => one.to_owned(),
                width => format!("vec{width}<{one}>"),
            };
            let body = FUNCTIONS[place]
                .1
                .replace("$W", &width.to_string())
                .replace("$T", &vector("f32"))
                .replace("$I", &vector("i32"))
                .replace("$U", &vector("u32"))
                .replace("$L", &vector("i64"))
                .replace("$B", &vector("bool"));
            declared.push_str(&format!("fn px_{name}{width}{body}\n"));
            open.push(body);
        }
    }
    declared
}
