//! How tiles read a and b: WGSL functions that return four neighbours, with zeros beyond the edges.

use super::batch::{base_text, own_batches};
use super::pack;
use super::product::{Arithmetic, Product, Right, Zeros};
use crate::{Access, Scalar, WgslBuilder};

/// Which edges a tile wants zeros beyond; it reads nothing beyond the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Zero {
    pub(super) m: bool,
    pub(super) n: bool,
    pub(super) k: bool,
}

/// What is declared: functions `a4(base, outer, inner)` and `b4(base, outer, inner)` where `inner` is the index
/// that runs in memory, a multiple of four, and texts for the bases of this workgroup's matrices.
pub(super) struct Sides {
    pub(super) a_base: String,
    pub(super) b_base: String,
}

struct Side {
    name: &'static str,
    access: Access,
    scalar: Scalar,
    matrices: u64,
    outer: u32,
    inner: u32,
    pitch: u32,
    zero_outer: bool,
    zero_inner: bool,
}

/// Declares a and b with functions that read them.
pub(super) fn declare(gemm: &Product<'_>, text: &mut WgslBuilder, zero: Zero) -> Sides {
    match gemm.arithmetic {
        Arithmetic::Floats => declare_floats(gemm, text, zero, "f32"),
        Arithmetic::Bytes(zeros) => declare_bytes(gemm, zeros, text),
    }
}

/// `element` is the type in which the functions give the elements.
pub(super) fn declare_floats(gemm: &Product<'_>, text: &mut WgslBuilder, zero: Zero, element: &str) -> Sides {
    let (m, n, k) = (gemm.m, gemm.n, gemm.k);
    let a = Side {
        name: "a",
        access: Access::Read,
        scalar: gemm.scalar,
        matrices: own_batches(gemm.batch, |axis| axis.a),
        outer: if gemm.transposed_a { k } else { m },
        inner: if gemm.transposed_a { m } else { k },
        pitch: if gemm.transposed_a { m } else { k },
        zero_outer: if gemm.transposed_a { zero.k } else { zero.m },
        zero_inner: if gemm.transposed_a { zero.m } else { zero.k },
    };
    if let Right::Quantised(quants) = gemm.b {
        let width = a.declare(text, element);
        let mut guards = String::new();
        for (is_guarded, index, end) in [(zero.n, "outer", n), (zero.k, "inner", k)] {
            if is_guarded {
                guards += &format!("    if {index} >= {end}u {{ return vec4<{element}>(); }}\n");
            }
        }
        quants.declare(text, n, k, &guards, element);
        return Sides {
            a_base: base_text(gemm.batch, a.elements() / u64::from(width), |axis| axis.a),
            b_base: "0u".to_owned(),
        };
    }
    let transposed = gemm.b == Right::Transposed;
    let b = Side {
        name: "b",
        access: gemm.b.access(),
        scalar: gemm.scalar,
        matrices: own_batches(gemm.batch, |axis| axis.b),
        outer: if transposed { n } else { k },
        inner: match gemm.b {
            Right::Plain => n,
            Right::Transposed => k,
            Right::Packed | Right::Quantised(_) => pack::pitch(n),
        },
        pitch: match gemm.b {
            Right::Plain => n,
            Right::Transposed => k,
            Right::Packed | Right::Quantised(_) => pack::pitch(n),
        },
        zero_outer: if transposed { zero.n } else { zero.k },
        zero_inner: if transposed { zero.k } else { zero.n },
    };
    let widths = [a.declare(text, element), b.declare(text, element)];
    Sides {
        a_base: base_text(gemm.batch, a.elements() / u64::from(widths[0]), |axis| axis.a),
        b_base: base_text(gemm.batch, b.elements() / u64::from(widths[1]), |axis| axis.b),
    }
}

impl Side {
    fn elements(&self) -> u64 {
        u64::from(self.outer) * u64::from(self.pitch)
    }

    /// Declares the binding and its function; gives the width of the binding's vectors.
    fn declare(&self, text: &mut WgslBuilder, element: &str) -> u32 {
        let Side {
            name,
            outer,
            inner,
            pitch,
            ..
        } = self;
        let width = if pitch.is_multiple_of(4) { 4 } else { 1 };
        text.binding(
            name,
            self.access,
            self.scalar,
            width,
            self.matrices.saturating_mul(self.elements()),
        );
        let mut body = String::new();
        if self.zero_outer {
            body += &format!("    if outer >= {outer}u {{ return vec4<{element}>(); }}\n");
        }
        if width == 4 {
            if self.zero_inner {
                body += &format!("    if inner >= {inner}u {{ return vec4<{element}>(); }}\n");
            }
            body += &format!(
                "    return vec4<{element}>({name}[base + outer * {}u + inner / 4u]);",
                pitch / 4
            );
        } else {
            body += &format!(
                "    let at = base + outer * {pitch}u + inner;\n    var four = vec4<{element}>();\n"
            );
            // the last four of a row are cut, so these guards stand always
            for i in 0..4 {
                body += &format!(
                    "    if inner + {i}u < {inner}u {{ four[{i}] = {element}({name}[at + {i}u]); }}\n"
                );
            }
            body += "    return four;";
        }
        text.declare(&format!(
            "fn {name}4(base: u32, outer: u32, inner: u32) -> vec4<{element}> {{\n{body}\n}}"
        ));
        width
    }
}

/// Declares a and b: `a4` gives four words along k, `b4` four words along n, both zeros beyond k; a row or column
/// beyond the edge is clamped. Also `b_correction` and `b_zero` for four columns.
fn declare_bytes(gemm: &Product<'_>, zeros: Zeros, text: &mut WgslBuilder) -> Sides {
    let (m, words, k) = (gemm.m, gemm.k, zeros.k);
    let matrices = own_batches(gemm.batch, |axis| axis.a);
    let wide = k.is_multiple_of(16);
    let bytes = matrices * u64::from(m) * u64::from(k);
    text.binding("a", Access::Read, gemm.scalar, if wide { 4 } else { 1 }, bytes);
    let flip = if zeros.unsigned_a { " ^ 0x80808080u" } else { "" };
    let flip4 = if zeros.unsigned_a {
        " ^ vec4<u32>(0x80808080u)"
    } else {
        ""
    };
    let body = if wide {
        format!("return a[base + row * {}u + word / 4u]{flip4};", k / 16)
    } else {
        let one = if k.is_multiple_of(4) {
            format!("a[base + row * {words}u + at]{flip}")
        } else {
            "a_word(base + row_byte, at)".to_owned()
        };
        let mut body = format!("let row_byte = row * {k}u; var four = vec4<u32>();\n");
        for i in 0..4 {
            body += &format!("{{ let at = word + {i}u; if at < {words}u {{ four[{i}] = {one}; }} }}\n");
        }
        body + "return four;"
    };
    if !k.is_multiple_of(4) {
        // a row starts within a word: two neighbours are put together, the last cut
        let last = bytes.div_ceil(4) - 1;
        let cut = 0xffff_ffffu32 >> (8 * (4 - k % 4));
        text.declare(&format!(
            "fn a_word(start: u32, word: u32) -> u32 {{
    let byte = start + word * 4u;
    let shift = byte % 4u * 8u;
    let low = a[byte / 4u] >> shift;
    let high = (a[min(byte / 4u + 1u, {last}u)] << (31u - shift)) << 1u;
    let value = (low | high){flip};
    return select(value, value & {cut}u, word == {}u);
}}",
            words - 1
        ));
    }
    let edge = if wide {
        format!("if word >= {words}u {{ return vec4<u32>(); }}\n")
    } else {
        String::new()
    };
    text.declare(&format!(
        "fn a4(base: u32, outer: u32, word: u32) -> vec4<u32> {{ let row = min(outer, {}u);\n{edge}{body} }}",
        m - 1
    ));

    let pitch = pack::pitch(gemm.n) / 4;
    let own = own_batches(gemm.batch, |axis| axis.b);
    let matrix = u64::from(words + 2) * u64::from(pitch);
    text.binding("b", Access::Constant, Scalar::U32, 4, own * matrix * 4);
    text.declare(&format!(
        "fn b4(base: u32, word: u32, column: u32) -> vec4<u32> {{
    if word >= {words}u {{ return vec4<u32>(); }}
    return b[base + word * {pitch}u + min(column / 4u, {last}u)];
}}
fn b_correction(base: u32, column: u32) -> vec4<i32> {{
    return bitcast<vec4<i32>>(b[base + {}u + min(column / 4u, {last}u)]);
}}
fn b_zero(base: u32, column: u32) -> vec4<i32> {{
    return bitcast<vec4<i32>>(b[base + {}u + min(column / 4u, {last}u)]);
}}",
        words * pitch,
        (words + 1) * pitch,
        last = pitch - 1,
    ));
    Sides {
        a_base: base_text(
            gemm.batch,
            if wide {
                u64::from(m) * u64::from(k) / 16
            } else if k.is_multiple_of(4) {
                u64::from(m) * u64::from(words)
            } else {
                u64::from(m) * u64::from(k)
            },
            |axis| axis.a,
        ),
        b_base: base_text(gemm.batch, matrix, |axis| axis.b),
    }
}
