//! Expressions: values, lvalues, and the constants of the whole text.

use naga::{
    BinaryOperator as B, Expression, Handle, Literal, MathFunction, RelationalFunction, Scalar, ScalarKind,
    TypeInner, UnaryOperator,
};
use polychip_sdk::Result;

use super::super::types::{Shape, vector, width};
use super::super::writer::{Half, Writer, is_whole, unknown};
use super::{Body, LValue, space};

/// Text of an expression, and how deep it nests.
type Written = (String, u32);

const NAMES: [&str; 4] = ["x", "y", "z", "w"];

impl<'a> Body<'_, 'a> {
    /// Text of a value.
    pub(super) fn expression(&mut self, handle: Handle<Expression>) -> Result<Written> {
        if self.baked[handle.index()] {
            return Ok((format!("e{}", handle.index()), 0));
        }
        self.spelled(handle)
    }

    /// Text of a value, spelled out.
    pub(super) fn spelled(&mut self, handle: Handle<Expression>) -> Result<Written> {
        let function = self.function;
        let mut deep = 0;
        let mut of = |body: &mut Self, handle| {
            let (text, depth) = body.expression(handle)?;
            deep = deep.max(depth + 1);
            Ok::<_, polychip_sdk::Error>(text)
        };
        let text = match function.expressions[handle] {
            Expression::Literal(literal) => self.writer.literal(literal)?,
            Expression::Constant(constant) => self.writer.constant(constant)?,
            Expression::ZeroValue(ty) => {
                let inner = &self.writer.module.types[ty].inner;
                self.writer.zero_value(inner)?
            }
            Expression::Compose { ty, ref components } => {
                let parts = components
                    .iter()
                    .map(|&component| {
                        let text = of(self, component)?;
                        self.component(ty, component, text)
                    })
                    .collect::<Result<Vec<_>>>()?;
                self.writer.composed(ty, &parts)?
            }
            Expression::Splat { size, value } => {
                let shape = Shape {
                    width: width(size),
                    ..self.shape(value)?
                };
                let text = of(self, value)?;
                let text = masked(self.shape(value)?, text);
                format!("({})({text})", self.writer.shape(shape)?)
            }
            Expression::Swizzle {
                size,
                vector,
                pattern,
            } => {
                let text = of(self, vector)?;
                let names: String = pattern[..width(size) as usize]
                    .iter()
                    .map(|&component| NAMES[component as usize])
                    .collect();
                format!("{text}.{names}")
            }
            Expression::Access { base, index } => {
                let inner = self.inner(base);
                let text = of(self, base)?;
                let index = of(self, index)?;
                match Shape::of(inner) {
                    // C does not index vectors that have no address
                    Some(shape) => {
                        let mut chosen = format!("{text}.{}", NAMES[shape.width as usize - 1]);
                        for at in (0..shape.width as usize - 1).rev() {
                            chosen = format!("({index} == {at} ? {text}.{} : {chosen})", NAMES[at]);
                        }
                        unmasked(shape, chosen)
                    }
                    None => format!("{text}.a[{index}]"),
                }
            }
            Expression::AccessIndex { base, index } => {
                let inner = self.inner(base);
                let text = of(self, base)?;
                match Shape::of(inner) {
                    Some(shape) => unmasked(shape, format!("{text}.{}", NAMES[index as usize])),
                    None => format!("{text}{}", part(inner, &index.to_string())),
                }
            }
            Expression::FunctionArgument(index) => {
                if is_whole(self.inner(handle)) {
                    format!("(*a{index})")
                } else {
                    format!("a{index}")
                }
            }
            Expression::Load { pointer } => self.load(pointer)?,
            Expression::Unary { op, expr } => {
                let shape = self.shape(expr)?;
                let text = of(self, expr)?;
                match op {
                    UnaryOperator::Negate if shape.is_float() => format!("(-{text})"),
                    UnaryOperator::Negate => self.wrapping(shape, &[text], |a| format!("-{}", a[0]))?,
                    UnaryOperator::LogicalNot if shape.width == 1 => format!("(!{text})"),
                    UnaryOperator::LogicalNot | UnaryOperator::BitwiseNot => format!("(~{text})"),
                }
            }
            Expression::Binary { op, left, right } => {
                let (a, b) = (of(self, left)?, of(self, right)?);
                self.binary(op, left, right, a, b)?
            }
            Expression::Select {
                condition,
                accept,
                reject,
            } => {
                let of_condition = self.shape(condition)?;
                let (c, a, r) = (of(self, condition)?, of(self, accept)?, of(self, reject)?);
                if of_condition.width == 1 {
                    format!("({c} ? {a} : {r})")
                } else {
                    let shape = self.shape(accept)?;
                    let mask = match (
                        shape.scalar.width,
                        shape.is_half() && self.writer.half == Half::Native,
                    ) {
                        (8, _) => format!("convert_{}({c})", vector("long", shape.width)),
                        (_, true) => format!("convert_{}({c})", vector("short", shape.width)),
                        _ => c,
                    };
                    format!("select({r}, {a}, {mask})")
                }
            }
            Expression::Relational { fun, argument } => {
                let shape = self.shape(argument)?;
                let text = of(self, argument)?;
                match fun {
                    RelationalFunction::All | RelationalFunction::Any if shape.width == 1 => text,
                    RelationalFunction::All => format!("(all({text}) != 0)"),
                    RelationalFunction::Any => format!("(any({text}) != 0)"),
                    RelationalFunction::IsNan => self.compared(shape, format!("isnan({text})")),
                    RelationalFunction::IsInf => self.compared(shape, format!("isinf({text})")),
                }
            }
            Expression::Math {
                fun,
                arg,
                arg1,
                arg2,
                arg3,
            } => {
                let shape = self.shape(arg)?;
                let mut arguments = Vec::new();
                for argument in [Some(arg), arg1, arg2, arg3].into_iter().flatten() {
                    arguments.push(of(self, argument)?);
                }
                // a field of bits at places that the text knows is two shifts
                if fun == MathFunction::ExtractBits
                    && let Some(field) = self.field(shape, &arguments[..], arg1, arg2)
                {
                    field
                } else {
                    self.writer.math(fun, shape, &arguments)?
                }
            }
            Expression::As { expr, kind, convert } => {
                let shape = self.shape(expr)?;
                let text = of(self, expr)?;
                self.cast(shape, kind, convert, text)?
            }
            ref other => return unknown(format_args!("{other:?}")),
        };
        Ok((text, deep))
    }

    /// A component of a vector of booleans is a mask, as the vector's elements are.
    fn component(&self, ty: Handle<naga::Type>, of: Handle<Expression>, text: String) -> Result<String> {
        match Shape::of(&self.writer.module.types[ty].inner) {
            Some(_) => Ok(masked(self.shape(of)?, text)),
            None => Ok(text),
        }
    }

    /// Shifts of a field whose place and size are constants: of the size only, for the place may be computed.
    fn field(
        &self,
        shape: Shape,
        arguments: &[String],
        at: Option<Handle<Expression>>,
        count: Option<Handle<Expression>>,
    ) -> Option<String> {
        let count = self.whole(count?).filter(|count| (1..32).contains(count))?;
        at?;
        if shape.width != 1 || shape.scalar.width != 4 {
            return None;
        }
        let [x, at, ..] = arguments else { return None };
        // the text keeps the field inside the word
        Some(if shape.is_signed() {
            format!("(({x} << ({}u - {at})) >> {}u)", 32 - count, 32 - count)
        } else {
            format!("(({x} >> {at}) & {}u)", (1u64 << count) - 1)
        })
    }

    /// The value of an integer that the text spells out.
    fn whole(&self, handle: Handle<Expression>) -> Option<i64> {
        let literal = match self.function.expressions[handle] {
            Expression::Literal(literal) => literal,
            Expression::Constant(constant) => self.writer.literal_of(constant)?,
            Expression::Splat { value, .. } => return self.whole(value),
            _ => return None,
        };
        match literal {
            Literal::I32(x) => Some(x.into()),
            Literal::U32(x) => Some(x.into()),
            Literal::I64(x) => Some(x),
            Literal::U64(x) => i64::try_from(x).ok(),
            _ => None,
        }
    }

    /// Arithmetic on integers that wraps: C leaves that open for signed ones.
    fn wrapping(
        &self,
        shape: Shape,
        operands: &[String],
        write: impl Fn(&[String]) -> String,
    ) -> Result<String> {
        if !shape.is_signed() {
            return Ok(format!("({})", write(operands)));
        }
        let unsigned = self.writer.shape(shape.unsigned())?;
        let operands: Vec<String> = operands
            .iter()
            .map(|operand| format!("as_{unsigned}({operand})"))
            .collect();
        Ok(format!("as_{}({})", self.writer.shape(shape)?, write(&operands)))
    }

    /// A comparison as a boolean, or as a vector of masks of 32 bits.
    fn compared(&self, of: Shape, text: String) -> String {
        let native = of.is_half() && self.writer.half == Half::Native;
        match of.width {
            1 => format!("({text})"),
            width if of.scalar.width == 8 || native => format!("convert_{}({text})", vector("int", width)),
            _ => format!("({text})"),
        }
    }

    fn binary(
        &mut self,
        op: B,
        left: Handle<Expression>,
        right: Handle<Expression>,
        a: String,
        b: String,
    ) -> Result<String> {
        let (of_left, of_right) = (self.shape(left)?, self.shape(right)?);
        let shape = Shape {
            width: of_left.width.max(of_right.width),
            ..of_left
        };
        // a scalar beside a vector is one as wide
        let ty = self.writer.shape(shape)?;
        let wide = |of: Shape, text: String| {
            if of.width < shape.width {
                format!("({ty})({text})")
            } else {
                text
            }
        };
        let shift = matches!(op, B::ShiftLeft | B::ShiftRight);
        let (a, b) = if shift {
            (a, b)
        } else {
            (wide(of_left, a), wide(of_right, b))
        };
        let plain = |sign: &str| format!("({a} {sign} {b})");
        let integer = !shape.is_float() && !shape.is_bool();
        Ok(match op {
            B::Add | B::Subtract | B::Multiply => {
                let sign = match op {
                    B::Add => "+",
                    B::Subtract => "-",
                    _ => "*",
                };
                if integer {
                    self.wrapping(shape, &[a, b], |x| format!("{} {sign} {}", x[0], x[1]))?
                } else {
                    plain(sign)
                }
            }
            B::Divide | B::Modulo => {
                let remainder = op == B::Modulo;
                if !integer {
                    // the sign of the dividend, as in WGSL
                    return Ok(if remainder {
                        format!("fmod({a}, {b})")
                    } else {
                        plain("/")
                    });
                }
                let safe = self.whole(right).is_some_and(|x| x != 0 && x != -1);
                if safe {
                    plain(if remainder { "%" } else { "/" })
                } else {
                    format!("{}({a}, {b})", self.writer.divides(shape, remainder)?)
                }
            }
            B::Equal => self.compared(shape, plain("==")),
            B::NotEqual => self.compared(shape, plain("!=")),
            B::Less => self.compared(shape, plain("<")),
            B::LessEqual => self.compared(shape, plain("<=")),
            B::Greater => self.compared(shape, plain(">")),
            B::GreaterEqual => self.compared(shape, plain(">=")),
            B::And => plain("&"),
            B::InclusiveOr => plain("|"),
            B::ExclusiveOr => plain("^"),
            B::LogicalAnd => plain("&&"),
            B::LogicalOr => plain("||"),
            B::ShiftLeft | B::ShiftRight => {
                // amounts are of the shifted type where both are vectors
                let amount = match (of_left.width, of_left.scalar) {
                    (1, _) => b,
                    (_, scalar) if scalar == of_right.scalar => b,
                    (width, scalar) => {
                        let ty = self.writer.shape(Shape { scalar, width })?;
                        format!("convert_{ty}({b})")
                    }
                };
                if op == B::ShiftLeft && shape.is_signed() {
                    let unsigned = self.writer.shape(of_left.unsigned())?;
                    let amount = match of_left.width {
                        1 => amount,
                        _ => format!("as_{unsigned}({amount})"),
                    };
                    format!(
                        "as_{}(as_{unsigned}({a}) << {amount})",
                        self.writer.shape(of_left)?
                    )
                } else {
                    format!("({a} {} {amount})", if op == B::ShiftLeft { "<<" } else { ">>" })
                }
            }
        })
    }

    fn cast(
        &mut self,
        from: Shape,
        kind: ScalarKind,
        convert: Option<naga::Bytes>,
        text: String,
    ) -> Result<String> {
        let Some(bytes) = convert else {
            let to = from.with(Scalar {
                kind,
                width: from.scalar.width,
            });
            if from == to {
                return Ok(text);
            }
            if (from.is_half() || to.is_half()) && self.writer.half == Half::Stored {
                return unknown("the bits of a 16-bit float on a device that computes with none");
            }
            return Ok(format!("as_{}({text})", self.writer.shape(to)?));
        };
        let to = from.with(Scalar { kind, width: bytes });
        if from == to {
            return Ok(text);
        }
        let ty = self.writer.shape(to)?;
        if from.is_bool() {
            return Ok(match (from.width, to.is_float()) {
                (1, _) => format!("({ty})({text} ? 1 : 0)"),
                _ if ty == vector("int", to.width) => format!("(-{text})"),
                _ => format!("convert_{ty}(-{text})"),
            });
        }
        if to.is_bool() {
            let of = self.writer.shape(from)?;
            return Ok(self.compared(from, format!("{text} != ({of})(0)")));
        }
        if to.is_half() && self.writer.half == Half::Stored {
            let text = if from.is_float() {
                text
            } else {
                format!("convert_{ty}({text})")
            };
            return Ok(self.writer.rounded(to.width, &text));
        }
        if self.writer.shape(from)? == ty {
            return Ok(text);
        }
        Ok(match (from.is_float(), to.is_float()) {
            (true, false) => format!("convert_{ty}_sat_rtz({text})"),
            _ => format!("convert_{ty}({text})"),
        })
    }

    /// Text of the value of an lvalue.
    fn load(&mut self, pointer: Handle<Expression>) -> Result<String> {
        let lvalue = self.lvalue(pointer)?;
        let inner = self.pointee(pointer);
        if let TypeInner::Atomic(_) = inner {
            return Ok(format!("atomic_or(&{}, 0)", lvalue.text));
        }
        if lvalue.is_memory && self.writer.stores_half(inner) {
            let shape = self.shape(pointer)?;
            let n = vector("", shape.width);
            return Ok(format!(
                "vload_half{n}(0, (const {} half *)&{})",
                lvalue.space, lvalue.text
            ));
        }
        Ok(lvalue.text)
    }

    /// Statement that assigns a value.
    pub(super) fn store(&mut self, pointer: Handle<Expression>, value: String) -> Result<String> {
        let lvalue = self.lvalue(pointer)?;
        let inner = self.pointee(pointer);
        if let TypeInner::Atomic(_) = inner {
            return Ok(format!("atomic_xchg(&{}, {value});", lvalue.text));
        }
        if lvalue.is_memory && self.writer.stores_half(inner) {
            let shape = self.shape(pointer)?;
            let n = vector("", shape.width);
            return Ok(format!(
                "vstore_half{n}_rte({value}, 0, ({} half *)&{});",
                lvalue.space, lvalue.text
            ));
        }
        // an element of a vector of booleans is a mask
        let value = if self.is_element_of_booleans(pointer) {
            format!("-(int)({value})")
        } else {
            value
        };
        Ok(format!("{} = {value};", lvalue.text))
    }

    fn is_element_of_booleans(&self, pointer: Handle<Expression>) -> bool {
        matches!(self.inner(pointer), TypeInner::ValuePointer { scalar, .. } if scalar.kind == ScalarKind::Bool)
    }

    fn pointee(&self, pointer: Handle<Expression>) -> &'a TypeInner {
        let inner = self.inner(pointer);
        match *inner {
            TypeInner::Pointer { base, .. } => &self.writer.module.types[base].inner,
            _ => inner,
        }
    }

    /// Where a pointer points.
    pub(super) fn lvalue(&mut self, pointer: Handle<Expression>) -> Result<LValue> {
        let function = self.function;
        match function.expressions[pointer] {
            Expression::GlobalVariable(global) => {
                let of = self.writer.module.global_variables[global].space;
                let name = self.writer.global(global);
                let is_binding = matches!(of, naga::AddressSpace::Storage { .. });
                Ok(LValue {
                    text: if is_binding || self.is_kernel {
                        name
                    } else {
                        format!("(*{name})")
                    },
                    space: space(of)?,
                    is_binding,
                    is_memory: true,
                })
            }
            Expression::LocalVariable(local) => Ok(LValue {
                text: self.local(local),
                space: "__private",
                is_binding: false,
                is_memory: false,
            }),
            Expression::Access { base, index } => {
                let lvalue = self.lvalue(base)?;
                let (index, _) = self.expression(index)?;
                self.at(base, lvalue, &index, None)
            }
            Expression::AccessIndex { base, index } => {
                let lvalue = self.lvalue(base)?;
                self.at(base, lvalue, &index.to_string(), Some(index))
            }
            ref other => unknown(format_args!("{other:?} as a place")),
        }
    }

    fn at(
        &mut self,
        base: Handle<Expression>,
        lvalue: LValue,
        index: &str,
        known: Option<u32>,
    ) -> Result<LValue> {
        let inner = self.pointee(base);
        let text = match Shape::of(inner) {
            Some(shape) => match known {
                Some(at) if !(lvalue.is_memory && self.writer.stores_half(inner)) => {
                    format!("{}.{}", lvalue.text, NAMES[at as usize])
                }
                _ => {
                    let scalar = Shape { width: 1, ..shape };
                    let element = if lvalue.is_memory && self.writer.stores_half(inner) {
                        "ushort".to_owned()
                    } else if shape.is_bool() {
                        "int".to_owned()
                    } else {
                        self.writer.shape(scalar)?
                    };
                    format!("(({} {element} *)&{})[{index}]", lvalue.space, lvalue.text)
                }
            },
            None if lvalue.is_binding => format!("{}[{index}]", lvalue.text),
            None => format!("{}{}", lvalue.text, part(inner, index)),
        };
        Ok(LValue {
            text,
            is_binding: false,
            ..lvalue
        })
    }
}

/// Text of an element of an array, or of a member of a struct.
fn part(of: &TypeInner, index: &str) -> String {
    match of {
        TypeInner::Struct { .. } => format!(".m{index}"),
        _ => format!(".a[{index}]"),
    }
}

/// A boolean as an element of a vector.
fn masked(shape: Shape, text: String) -> String {
    if shape.is_bool() && shape.width == 1 {
        format!("-(int)({text})")
    } else {
        text
    }
}

/// An element of a vector as a boolean, where it is one.
fn unmasked(shape: Shape, text: String) -> String {
    if shape.is_bool() {
        format!("({text} != 0)")
    } else {
        text
    }
}

impl Writer<'_> {
    pub(in super::super) fn literal(&self, literal: Literal) -> Result<String> {
        let float = |x: f32| {
            let text = format!("{x:?}f");
            if x.is_sign_negative() {
                format!("({text})")
            } else {
                text
            }
        };
        Ok(match literal {
            Literal::F32(x) if !x.is_finite() => format!("as_float({}u)", x.to_bits()),
            Literal::F32(x) => float(x),
            Literal::F16(x) => match self.half {
                Half::Native => format!("((half){})", float(x.to_f32())),
                Half::Stored => float(x.to_f32()),
            },
            Literal::I32(i32::MIN) => "(-2147483647 - 1)".to_owned(),
            Literal::I32(x) if x < 0 => format!("({x})"),
            Literal::I32(x) => x.to_string(),
            Literal::U32(x) => format!("{x}u"),
            Literal::I64(i64::MIN) => "(-9223372036854775807L - 1)".to_owned(),
            Literal::I64(x) if x < 0 => format!("({x}L)"),
            Literal::I64(x) => format!("{x}L"),
            Literal::U64(x) => format!("{x}UL"),
            Literal::Bool(x) => x.to_string(),
            other => return unknown(format_args!("the number {other:?}")),
        })
    }

    /// Text of a value of zeros.
    pub(in super::super) fn zero_value(&mut self, inner: &TypeInner) -> Result<String> {
        let ty = self.value(inner)?;
        Ok(match Shape::of(inner) {
            Some(_) => format!("({ty})(0)"),
            None => format!("({ty}){}", self.zero(inner)?),
        })
    }

    /// What a variable of zeros starts with.
    pub(in super::super) fn zero(&mut self, inner: &TypeInner) -> Result<String> {
        match (inner, Shape::of(inner)) {
            (_, Some(_)) => self.zero_value(inner),
            // braces for the struct and its array, then as many as the elements have
            (TypeInner::Array { base, .. }, None) => {
                let element = &self.module.types[*base].inner;
                let element = match Shape::of(element) {
                    Some(_) => self.zero_value(element)?,
                    None => self.zero(element)?,
                };
                Ok(format!("{{{{{element}}}}}"))
            }
            (TypeInner::Struct { members, .. }, None) => {
                let first = &self.module.types[members[0].ty].inner;
                Ok(format!("{{{}}}", self.zero(first)?))
            }
            (other, None) => unknown(format_args!("zeros of {other:?}")),
        }
    }

    /// A vector or an array put together.
    pub(in super::super) fn composed(&mut self, ty: Handle<naga::Type>, parts: &[String]) -> Result<String> {
        let inner = &self.module.types[ty].inner;
        let name = self.value(inner)?;
        let parts = parts.join(", ");
        Ok(match Shape::of(inner) {
            Some(_) => format!("({name})({parts})"),
            None if matches!(inner, TypeInner::Struct { .. }) => format!("({name}){{{parts}}}"),
            None => format!("({name}){{{{{parts}}}}}"),
        })
    }

    fn literal_of(&self, constant: Handle<naga::Constant>) -> Option<Literal> {
        match self.module.global_expressions[self.module.constants[constant].init] {
            Expression::Literal(literal) => Some(literal),
            _ => None,
        }
    }

    /// A constant of the text: a table by its name, else spelled out.
    fn constant(&mut self, handle: Handle<naga::Constant>) -> Result<String> {
        let constant = &self.module.constants[handle];
        if matches!(self.module.types[constant.ty].inner, TypeInner::Array { .. }) {
            return Ok(format!("c{}", handle.index()));
        }
        self.constant_value(constant.init)
    }

    fn constant_value(&mut self, handle: Handle<Expression>) -> Result<String> {
        let module = self.module;
        match &module.global_expressions[handle] {
            Expression::Literal(literal) => self.literal(*literal),
            Expression::Constant(constant) => self.constant(*constant),
            Expression::ZeroValue(ty) => self.zero_value(&module.types[*ty].inner),
            Expression::Compose { ty, components } => {
                let parts = components
                    .iter()
                    .map(|&component| self.constant_value(component))
                    .collect::<Result<Vec<_>>>()?;
                self.composed(*ty, &parts)
            }
            other => unknown(format_args!("the constant {other:?}")),
        }
    }

    /// What a table is made of: braces all the way.
    pub(in super::super) fn initialiser(&mut self, handle: Handle<Expression>) -> Result<String> {
        let module = self.module;
        match &module.global_expressions[handle] {
            Expression::Compose { ty, components }
                if matches!(module.types[*ty].inner, TypeInner::Array { .. }) =>
            {
                let parts = components
                    .iter()
                    .map(|&component| self.initialiser(component))
                    .collect::<Result<Vec<_>>>()?;
                Ok(format!("{{{{{}}}}}", parts.join(", ")))
            }
            Expression::ZeroValue(ty) => self.zero(&module.types[*ty].inner),
            _ => self.constant_value(handle),
        }
    }
}
