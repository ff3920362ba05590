//! The arguments of operations, by name.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::package::{Constant, Content, Function, Operation, Type};

/// The arguments of one operation. Records which of them were read.
pub(super) struct Args<'a> {
    operation: &'a Operation,
    main: &'a Function,
    asked: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Args<'a> {
    pub(super) fn of(operation: &'a Operation, main: &'a Function) -> Args<'a> {
        Args {
            operation,
            main,
            asked: RefCell::new(BTreeSet::new()),
        }
    }

    /// Values bound to a name; empty if the argument is absent.
    pub(super) fn names(&self, name: &'static str) -> &'a [String] {
        self.asked.borrow_mut().insert(name);
        self.operation.inputs.get(name).map_or(&[], Vec::as_slice)
    }

    pub(super) fn is_given(&self, name: &'static str) -> bool {
        !self.names(name).is_empty()
    }

    pub(super) fn constant(&self, name: &'static str) -> Result<&'a Constant, String> {
        let [value] = self.names(name) else {
            return Err(format!("{name} is not given"));
        };
        let constant = self.main.constants.get(value);
        constant.ok_or_else(|| format!("{name} is no constant"))
    }

    /// Refuses an argument that is neither a constant nor computed from constants before a run.
    pub(super) fn known(&self, name: &'static str) -> Result<(), String> {
        let made = |operation: &Operation| {
            let outputs = operation.outputs.iter().map(|(output, _)| output);
            operation.kind.starts_with("constexpr_") && outputs.eq(self.names(name))
        };
        if self.main.operations.iter().any(made) {
            Ok(())
        } else {
            self.constant(name).map(drop)
        }
    }

    fn bytes(&self, name: &'static str, ty: Type) -> Result<&'a [u8], String> {
        let constant = self.constant(name)?;
        match &constant.content {
            Content::Bytes(bytes) if constant.of.ty == ty => Ok(bytes),
            _ => Err(format!("{name} is of {:?}, and not of {ty:?}", constant.of.ty)),
        }
    }

    pub(super) fn ints(&self, name: &'static str) -> Result<Vec<i64>, String> {
        if self.constant(name)?.of.dims.len() != 1 {
            return Err(format!("{name} is no list"));
        }
        let words = self.bytes(name, Type::I32)?.as_chunks().0;
        Ok(words
            .iter()
            .map(|&word| i32::from_le_bytes(word).into())
            .collect())
    }

    pub(super) fn int(&self, name: &'static str) -> Result<i64, String> {
        if !self.constant(name)?.of.dims.is_empty() {
            return Err(format!("{name} is no single number"));
        }
        let bytes = self.bytes(name, Type::I32)?;
        let word = bytes.first_chunk().ok_or("a number without bytes")?;
        Ok(i32::from_le_bytes(*word).into())
    }

    /// A number of the type that the operation computes in.
    pub(super) fn real(&self, name: &'static str, ty: Type) -> Result<f32, String> {
        let constant = self.constant(name)?;
        let bytes = self.bytes(name, ty)?;
        if !constant.of.dims.is_empty() {
            return Err(format!("{name} is no single number"));
        }
        Ok(match bytes {
            [a, b] => half(u16::from_le_bytes([*a, *b])),
            [a, b, c, d] => f32::from_le_bytes([*a, *b, *c, *d]),
            _ => return Err(format!("{name} is no number")),
        })
    }

    pub(super) fn truth(&self, name: &'static str) -> Result<bool, String> {
        match &self.constant(name)?.content {
            Content::Bools(bools) if bools.len() == 1 => Ok(bools[0]),
            _ => Err(format!("{name} is no truth value")),
        }
    }

    pub(super) fn text(&self, name: &'static str) -> Result<&'a str, String> {
        match &self.constant(name)?.content {
            Content::Text(text) => Ok(text),
            _ => Err(format!("{name} is no text")),
        }
    }

    /// Refuses arguments that were not read.
    pub(super) fn finish(&self) -> Result<(), String> {
        let asked = self.asked.borrow();
        match self
            .operation
            .inputs
            .keys()
            .find(|name| !asked.contains(name.as_str()))
        {
            Some(name) => Err(format!("it has no argument {name}")),
            None => Ok(()),
        }
    }
}

/// A 16-bit float.
fn half(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15, bits >> 10 & 31, bits & 1023);
    let size = match exponent {
        0 => f32::from(fraction) * (-24f32).exp2(),
        31 if fraction == 0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + f32::from(fraction) / 1024.0) * (f32::from(exponent) - 15.0).exp2(),
    };
    if sign == 1 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::half;

    #[test]
    fn halves_are_decoded() {
        let pairs = [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (1, 5.960_464_5e-8),
            (0x7c00, f32::INFINITY),
        ];
        for (bits, value) in pairs {
            assert_eq!(half(bits), value);
        }
    }
}
