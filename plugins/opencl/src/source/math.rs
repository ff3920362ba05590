//! Functions of WGSL on numbers, as C has them.

use naga::MathFunction as F;
use polychip_sdk::Result;

use super::types::{Shape, vector};
use super::writer::{Half, Writer, unknown};

impl Writer<'_> {
    /// Text of a function of WGSL; `shape` is that of the first argument.
    pub(super) fn math(&mut self, fun: F, shape: Shape, arguments: &[String]) -> Result<String> {
        let a = &arguments[0];
        let b = arguments.get(1).map_or("", String::as_str);
        let c = arguments.get(2).map_or("", String::as_str);
        let ty = self.shape(shape)?;
        let float = shape.is_float();
        let one = |name: &str| Ok(format!("{name}({a})"));
        let two = |name: &str| Ok(format!("{name}({a}, {b})"));
        match fun {
            F::Abs if float => one("fabs"),
            F::Abs if shape.is_signed() => Ok(format!("as_{ty}(abs({a}))")),
            F::Abs => Ok(a.clone()),
            F::Min => two(if float { "fmin" } else { "min" }),
            F::Max => two(if float { "fmax" } else { "max" }),
            F::Clamp if float => Ok(format!("fmin(fmax({a}, {b}), {c})")),
            F::Clamp => Ok(format!("min(max({a}, {b}), {c})")),
            F::Saturate => Ok(format!("fmin(fmax({a}, ({ty})(0.0f)), ({ty})(1.0f))")),
            F::Cos => one("cos"),
            F::Cosh => one("cosh"),
            F::Sin => one("sin"),
            F::Sinh => one("sinh"),
            F::Tan => one("tan"),
            F::Tanh => Ok(format!("{}({a})", self.tanh(shape)?)),
            F::Acos => one("acos"),
            F::Asin => one("asin"),
            F::Atan => one("atan"),
            F::Atan2 => two("atan2"),
            F::Asinh => one("asinh"),
            F::Acosh => one("acosh"),
            F::Atanh => one("atanh"),
            F::Ceil => one("ceil"),
            F::Floor => one("floor"),
            // to even, as WGSL has it
            F::Round => one("rint"),
            F::Fract => Ok(format!("({a} - floor({a}))")),
            F::Trunc => one("trunc"),
            F::Exp => one("exp"),
            F::Exp2 => one("exp2"),
            F::Log => one("log"),
            F::Log2 => one("log2"),
            F::Pow => two("pow"),
            F::Sqrt => one("sqrt"),
            F::InverseSqrt => Ok(format!("(({ty})(1.0f) / sqrt({a}))")),
            F::Sign if float => one("sign"),
            F::Sign if shape.is_signed() => Ok(format!("clamp({a}, ({ty})(-1), ({ty})(1))")),
            F::Dot if float => two("dot"),
            F::Fma if shape.is_half() && self.half == Half::Native => Ok(format!("fma({a}, {b}, {c})")),
            F::Fma => Ok(format!("{}({a}, {b}, {c})", self.fused())),
            F::Mix => Ok(format!("({a} * (({ty})(1.0f) - {c}) + {b} * {c})")),
            F::Step => Ok(format!("step({a}, {b})")),
            F::CountOneBits => one("popcount"),
            F::CountLeadingZeros => one("clz"),
            F::ExtractBits if shape.scalar.width == 4 => {
                Ok(format!("{}({a}, {b}, {c})", self.extract(shape)?))
            }
            F::Dot4I8Packed => Ok(format!("{}({a}, {b})", self.dot4(true))),
            F::Dot4U8Packed => Ok(format!("{}({a}, {b})", self.dot4(false))),
            F::Unpack4xI8 => Ok(format!("convert_int4(as_char4({a}))")),
            F::Unpack4xU8 => Ok(format!("convert_uint4(as_uchar4({a}))")),
            F::Pack4xI8 => Ok(format!("as_uint(convert_char4({a}))")),
            F::Pack4xU8 => Ok(format!("as_uint(convert_uchar4({a}))")),
            F::Pack4xI8Clamp => Ok(format!("as_uint(convert_char4_sat({a}))")),
            F::Pack4xU8Clamp => Ok(format!("as_uint(convert_uchar4_sat({a}))")),
            F::Unpack2x16float => {
                self.function("halves", || {
                    "static float2 halves(uint x) { return vload_half2(0, (const __private half *)&x); }\n"
                        .to_owned()
                });
                one("halves")
            }
            F::Pack2x16float => {
                self.function("of_halves", || {
                    "static uint of_halves(float2 x) { uint w; vstore_half2_rte(x, 0, (__private half *)&w); return w; }\n"
                        .to_owned()
                });
                one("of_halves")
            }
            F::QuantizeToF16 => {
                let ty = vector("float", shape.width);
                match self.half {
                    Half::Stored => Ok(self.rounded(shape.width, a)),
                    Half::Native => Ok(format!(
                        "convert_{ty}(convert_{}({a}))",
                        vector("half", shape.width)
                    )),
                }
            }
            other => unknown(format_args!("the function {other:?} of {ty}")),
        }
    }
}
