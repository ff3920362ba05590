//! Functions of ours that the text calls where C has none, or none with WGSL's results.
//!
//! Invariant: a function's name tells its type, so that each is written once.

use polychip_sdk::Result;

use super::types::{Shape, vector};
use super::writer::{Half, Writer};

impl Writer<'_> {
    /// Name of the quotient or the remainder of integers: by zero it is the dividend, or zero.
    pub(super) fn divides(&mut self, shape: Shape, remainder: bool) -> Result<String> {
        let ty = self.shape(shape)?;
        let (word, sign) = if remainder {
            ("remainder", "%")
        } else {
            ("quotient", "/")
        };
        let name = format!("{word}_{ty}");
        let least = match (shape.scalar.width, shape.is_signed()) {
            (_, false) => None,
            (4, true) => Some("(-2147483647 - 1)"),
            (_, true) => Some("(-9223372036854775807L - 1)"),
        };
        let one = format!("({ty})(1)");
        let bad = match least {
            None => format!("b == ({ty})(0)"),
            Some(least) => {
                format!("(b == ({ty})(0)) | ((a == ({ty})({least})) & (b == ({ty})(-1)))")
            }
        };
        self.function(&name, || {
            let divisor = if shape.width == 1 {
                format!("({bad}) ? {one} : b")
            } else {
                format!("select(b, {one}, {bad})")
            };
            format!("static {ty} {name}({ty} a, {ty} b) {{ return a {sign} ({divisor}); }}\n")
        });
        Ok(name)
    }

    /// Text that rounds to a 16-bit float a value that is held as a 32-bit one.
    pub(super) fn rounded(&mut self, width: u32, text: &str) -> String {
        if self.half == Half::Native {
            return text.to_owned();
        }
        let ty = vector("float", width);
        let n = vector("", width);
        let name = format!("rounded_{ty}");
        self.function(&name, || {
            format!(
                "static {ty} {name}({ty} x) {{ ushort4 h; vstore_half{n}_rte(x, 0, (__private half *)&h); return vload_half{n}(0, (const __private half *)&h); }}\n"
            )
        });
        format!("{name}({text})")
    }

    /// The product of bytes, four to a word, summed.
    pub(super) fn dot4(&mut self, signed: bool) -> &'static str {
        if signed {
            self.function("dot4_int", || {
                "#ifdef cl_khr_integer_dot_product\n\
                 #pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable\n\
                 #define dot4_int(a, b) dot_4x8packed_ss_int(a, b)\n\
                 #else\n\
                 static int dot4_int(uint a, uint b) { int4 p = convert_int4(as_char4(a)) * convert_int4(as_char4(b)); return p.x + p.y + p.z + p.w; }\n\
                 #endif\n"
                    .to_owned()
            });
            "dot4_int"
        } else {
            self.function("dot4_uint", || {
                "#ifdef cl_khr_integer_dot_product\n\
                 #pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable\n\
                 #define dot4_uint(a, b) dot_4x8packed_uu_uint(a, b)\n\
                 #else\n\
                 static uint dot4_uint(uint a, uint b) { uint4 p = convert_uint4(as_uchar4(a)) * convert_uint4(as_uchar4(b)); return p.x + p.y + p.z + p.w; }\n\
                 #endif\n"
                    .to_owned()
            });
            "dot4_uint"
        }
    }

    /// Multiply and add: by the device's instruction where it has one, in two steps where C would spell it out.
    pub(super) fn fused(&mut self) -> &'static str {
        self.function("fused", || {
            "#ifdef FP_FAST_FMAF\n#define fused(a, b, c) fma(a, b, c)\n#else\n#define fused(a, b, c) ((a) * (b) + (c))\n#endif\n"
                .to_owned()
        });
        "fused"
    }

    /// The hyperbolic tangent: where it is one to the last bit it is one, which C leaves open by some bits.
    pub(super) fn tanh(&mut self, shape: Shape) -> Result<String> {
        let ty = self.shape(shape)?;
        let name = format!("tanh_{ty}");
        // above 9.02 one is nearer than any other 32-bit float, and 16-bit float
        let far = format!("fabs(x) > ({ty})(9.02f)");
        let one = format!("copysign(({ty})(1.0f), x)");
        let chosen = match shape.width {
            1 => format!("({far}) ? {one} : tanh(x)"),
            _ => format!("select(tanh(x), {one}, {far})"),
        };
        self.function(&name, || {
            format!("static {ty} {name}({ty} x) {{ return {chosen}; }}\n")
        });
        Ok(name)
    }

    /// Bits `o` to `o + c` of a word.
    pub(super) fn extract(&mut self, shape: Shape) -> Result<String> {
        let ty = self.shape(shape)?;
        let name = format!("extract_{ty}");
        let of_counts = vector("uint", shape.width);
        let amount = |text: &str| {
            if shape.is_signed() && shape.width > 1 {
                format!("as_{ty}({text})")
            } else {
                text.to_owned()
            }
        };
        self.function(&name, || {
            // a count of zero shifts by 32, which C takes as 0: the value is masked then
            let shifted = format!(
                "(x << {}) >> {}",
                amount(&format!("(({of_counts})(32u) - o - c)")),
                amount(&format!("(({of_counts})(32u) - c)"))
            );
            let zero = if shape.width == 1 {
                format!("c == 0u ? 0 : {shifted}")
            } else {
                format!("select({shifted}, ({ty})(0), c == ({of_counts})(0u))")
            };
            format!("static {ty} {name}({ty} x, {of_counts} o, {of_counts} c) {{ o = min(o, ({of_counts})(32u)); c = min(c, ({of_counts})(32u) - o); return {zero}; }}\n")
        });
        Ok(name)
    }
}
