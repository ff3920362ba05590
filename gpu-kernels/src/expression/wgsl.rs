//! An expression as WGSL.
//!
//! Invariant: the text of each operand is inserted as it is, so it should be a name, not a computation.

use super::{Binary, Expression, Type, Unary};
use crate::Scalar;

impl Expression {
    /// WGSL text over the names of operands, which are all `f32` or `vec{width}<f32>` (1, 2 or 4).
    #[must_use]
    pub fn text(&self, operands: &[&str], width: u32) -> String {
        let operands: Vec<(&str, Type)> = operands.iter().map(|name| (*name, Type::F32)).collect();
        self.typed_text(&operands, width)
    }

    /// WGSL text over names of operands of these types, of `width` values each (1, 2 or 4). What
    /// [`Expression::kind`] refuses gives text that no device takes.
    #[must_use]
    pub fn typed_text(&self, operands: &[(&str, Type)], width: u32) -> String {
        Writer { operands, width }.write(self).0
    }
}

struct Writer<'a> {
    operands: &'a [(&'a str, Type)],
    width: u32,
}

impl Writer<'_> {
    /// A constant in every place.
    fn all(&self, kind: Type, value: &str) -> String {
        format!("{}({value})", kind.text(self.width))
    }

    fn write(&self, expression: &Expression) -> (String, Type) {
        let w = self.width;
        match expression {
            Expression::Operand(index) => match self.operands.get(*index as usize) {
                Some((name, kind)) => ((*name).to_owned(), *kind),
                None => (format!("missing_operand_{index}"), Type::F32),
            },
            Expression::Constant(value) if value.is_finite() => {
                (self.all(Type::F32, &format!("{value:?}")), Type::F32)
            }
            // WGSL has no literal of these, and refuses what computes them from constants
            Expression::Constant(value) => (format!("px_bits{w}({}u)", value.to_bits()), Type::F32),
            Expression::Integer(value) if *value == i32::MIN => {
                (self.all(Type::I32, "-2147483647i - 1i"), Type::I32)
            }
            Expression::Integer(value) => (self.all(Type::I32, &format!("{value}i")), Type::I32),
            Expression::Unary(function, x) => self.unary(*function, x),
            Expression::Binary(function, a, b) => self.binary(*function, a, b),
            Expression::Select(c, a, b) => {
                let (c, (a, kind), b) = (self.write(c).0, self.write(a), self.write(b).0);
                (format!("select({b}, {a}, {c})"), kind)
            }
            Expression::Cast(to, x) => self.cast(*to, x),
            Expression::Saturate(to, x) => {
                let x = self.write(x).0;
                let (least, most) = match to {
                    Scalar::U8 => ("0.0", "255.0"),
                    Scalar::I8 => ("-128.0", "127.0"),
                    Scalar::U16 => ("0.0", "65535.0"),
                    _ => ("-32768.0", "32767.0"),
                };
                let kind = to.computed();
                let (least, most) = (self.all(Type::F32, least), self.all(Type::F32, most));
                let text = format!("{}(clamp(round({x}), {least}, {most}))", kind.text(w));
                (text, kind)
            }
        }
    }

    fn unary(&self, function: Unary, x: &Expression) -> (String, Type) {
        let w = self.width;
        let (x, kind) = self.write(x);
        let zero = || self.all(kind, "0");
        if kind != Type::F32 {
            let text = match function {
                Unary::Not => format!("!({x})"),
                Unary::BitwiseNot => format!("(~({x}))"),
                Unary::Neg => format!("(-({x}))"),
                Unary::Abs => format!("abs({x})"),
                Unary::Sign if kind == Type::U32 => format!("min({x}, {})", self.all(kind, "1")),
                Unary::Sign => format!("sign({x})"),
                _ => format!("max({x}, {})", zero()),
            };
            return (text, kind);
        }
        let one = || self.all(Type::F32, "1.0");
        let call = |name: &str| format!("px_{name}{w}({x})");
        let built_in = |name: &str| format!("{name}({x})");
        let text = match function {
            Unary::Relu => call("relu"),
            Unary::Neg => format!("(-({x}))"),
            Unary::Abs => built_in("abs"),
            Unary::Sign => call("sign"),
            Unary::Exp => built_in("exp"),
            Unary::Log => built_in("log"),
            Unary::Sqrt => built_in("sqrt"),
            Unary::Reciprocal => format!("({} / ({x}))", one()),
            Unary::Erf => call("erf"),
            Unary::Sigmoid => format!("({} / ({} + exp(-({x}))))", one(), one()),
            Unary::Tanh => call("tanh"),
            Unary::HardSwish => call("hardswish"),
            Unary::Gelu => call("gelu"),
            Unary::GeluTanh => call("gelutanh"),
            Unary::Silu => call("silu"),
            Unary::Mish => call("mish"),
            Unary::Softplus => call("softplus"),
            Unary::Softsign => call("softsign"),
            Unary::Floor => built_in("floor"),
            Unary::Ceil => built_in("ceil"),
            Unary::Round => built_in("round"),
            Unary::Sin => built_in("sin"),
            Unary::Cos => built_in("cos"),
            Unary::Tan => built_in("tan"),
            Unary::Asin => call("asin"),
            Unary::Acos => call("acos"),
            Unary::Atan => call("atan"),
            Unary::Sinh => built_in("sinh"),
            Unary::Cosh => built_in("cosh"),
            Unary::Asinh => call("asinh"),
            Unary::Acosh => built_in("acosh"),
            Unary::Atanh => built_in("atanh"),
            Unary::IsNan => return (call("isnan"), Type::Bool),
            Unary::IsInf => return (call("isinf"), Type::Bool),
            Unary::IsPositiveInf => return (call("isposinf"), Type::Bool),
            Unary::IsNegativeInf => return (call("isneginf"), Type::Bool),
            Unary::Not | Unary::BitwiseNot => format!("undefined_{function:?}({x})"),
        };
        (text, Type::F32)
    }

    fn binary(&self, function: Binary, a: &Expression, b: &Expression) -> (String, Type) {
        let w = self.width;
        let constant = |x: &Expression| match x {
            Expression::Constant(value) if !value.is_nan() => Some(*value),
            _ => None,
        };
        let (known_a, known_b) = (constant(a), constant(b));
        let ((a, kind), (b, _)) = (self.write(a), self.write(b));
        let float = kind == Type::F32;
        let infix = |sign: &str| format!("({a} {sign} {b})");
        let call = |name: &str| format!("px_{name}{w}({a}, {b})");
        let text = match function {
            Binary::Add => infix("+"),
            Binary::Sub => infix("-"),
            Binary::Mul => infix("*"),
            Binary::Div => infix("/"),
            // beside a constant that is a number, one comparison keeps NaN
            Binary::Min if float && known_b.is_some() => call("mink"),
            Binary::Max if float && known_b.is_some() => call("maxk"),
            Binary::Min if float && known_a.is_some() => format!("px_mink{w}({b}, {a})"),
            Binary::Max if float && known_a.is_some() => format!("px_maxk{w}({b}, {a})"),
            Binary::Min if float => call("min"),
            Binary::Max if float => call("max"),
            Binary::Min => format!("min({a}, {b})"),
            Binary::Max => format!("max({a}, {b})"),
            Binary::Pow => match known_b {
                Some(1.0) => a,
                Some(2.0) => format!("px_square{w}({a})"),
                Some(3.0) => format!("px_cube{w}({a})"),
                Some(0.5) => format!("sqrt({a})"),
                Some(-1.0) => format!("({} / ({a}))", self.all(Type::F32, "1.0")),
                _ => call("pow"),
            },
            Binary::Mod => match kind {
                Type::F32 => call("floormod"),
                Type::I32 => call("imod"),
                Type::I64 => call("lmod"),
                _ => infix("%"),
            },
            Binary::FMod if float => call("fmod"),
            Binary::FMod => infix("%"),
            Binary::PRelu if float => call("prelu"),
            Binary::PRelu => call("iprelu"),
            Binary::Elu => call("elu"),
            Binary::Celu => call("celu"),
            Binary::ThresholdedRelu => call("thresholded"),
            Binary::Swish => call("swish"),
            Binary::BitwiseAnd => infix("&"),
            Binary::BitwiseOr => infix("|"),
            Binary::BitwiseXor => infix("^"),
            Binary::ShiftLeft => call("shl"),
            Binary::ShiftRight => call("shr"),
            Binary::Equal => return (infix("=="), Type::Bool),
            Binary::Less => return (infix("<"), Type::Bool),
            Binary::LessOrEqual => return (infix("<="), Type::Bool),
            Binary::Greater => return (infix(">"), Type::Bool),
            Binary::GreaterOrEqual => return (infix(">="), Type::Bool),
            Binary::And => infix("&"),
            Binary::Or => infix("|"),
            Binary::Xor => infix("!="),
        };
        (text, kind)
    }

    fn cast(&self, to: Scalar, x: &Expression) -> (String, Type) {
        let w = self.width;
        let (x, from) = self.write(x);
        let kind = to.computed();
        let text = match (from, to) {
            (Type::Bool, Scalar::Bool) => x,
            (_, Scalar::Bool) => format!("({x} != {})", self.all(from, "0")),
            (Type::Bool, _) => {
                format!("select({}, {}, {x})", self.all(kind, "0"), self.all(kind, "1"))
            }
            (Type::F32, Scalar::F32) => x,
            (Type::F32, Scalar::F16) => format!("quantizeToF16({x})"),
            (_, Scalar::F16) => format!("quantizeToF16({}({x}))", Type::F32.text(w)),
            // a negative float becomes what a signed integer would, then wraps
            (Type::F32, Scalar::U8 | Scalar::U16) => {
                format!("{}({}({x}))", kind.text(w), Type::I32.text(w))
            }
            (from, _) if from == kind => x,
            _ => format!("{}({x})", kind.text(w)),
        };
        let shift = |bits: &str| {
            let bits = self.all(Type::U32, bits);
            format!("(({text} << {bits}) >> {bits})")
        };
        let text = match to {
            Scalar::U8 => format!("({text} & {})", self.all(Type::U32, "255u")),
            Scalar::U16 => format!("({text} & {})", self.all(Type::U32, "65535u")),
            Scalar::I8 => shift("24u"),
            Scalar::I16 => shift("16u"),
            _ => text,
        };
        (text, kind)
    }
}
