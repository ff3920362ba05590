//! How the tiles read a and b: WGSL functions that give four neighbours, and zeros beyond the edges.

use super::{Product, Right, b_access, base_text, own_batches, pack};
use crate::{Access, Scalar, Text};

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

/// `element` is the type in which the functions give the elements.
pub(super) fn declare(gemm: &Product<'_>, text: &mut Text, zero: Zero, element: &str) -> Sides {
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
    let turned = gemm.b == Right::Transposed;
    let b = Side {
        name: "b",
        access: b_access(gemm.b),
        scalar: gemm.scalar,
        matrices: own_batches(gemm.batch, |axis| axis.b),
        outer: if turned { n } else { k },
        inner: match gemm.b {
            Right::Plain => n,
            Right::Transposed => k,
            Right::Packed => pack::pitch(n),
        },
        pitch: match gemm.b {
            Right::Plain => n,
            Right::Transposed => k,
            Right::Packed => pack::pitch(n),
        },
        zero_outer: if turned { zero.n } else { zero.k },
        zero_inner: if turned { zero.k } else { zero.n },
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
    fn declare(&self, text: &mut Text, element: &str) -> u32 {
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
