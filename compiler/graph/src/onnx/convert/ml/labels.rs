//! Labels: values looked up by keys, in the lists of each version.

use polychip_ops::{Attr, AttrValue, Attributes, DType, Literal, Op};

use super::listed;
use crate::onnx::convert::foreign::Foreign;
use crate::{Error, TensorId};

impl Foreign<'_, '_> {
    fn table(keys: Literal, values: Literal, default: Literal) -> Attributes {
        Attributes::new()
            .with(Attr::KeysTensor, AttrValue::Tensor(keys))
            .with(Attr::ValuesTensor, AttrValue::Tensor(values))
            .with(Attr::DefaultTensor, AttrValue::Tensor(default))
    }

    /// Elements looked up in a table.
    pub(super) fn looked_up(
        &mut self,
        x: TensorId,
        keys: Literal,
        values: Literal,
        default: Literal,
        role: &str,
    ) -> Result<TensorId, Error> {
        self.0
            .step(Op::LabelEncoder, &[x], role, Self::table(keys, values, default))
    }

    /// What an unknown key becomes.
    fn default(&self, values: DType) -> Option<Literal> {
        if let Some(default) = self.tensor("default_tensor") {
            return Some(Literal {
                shape: vec![default.elements()?],
                ..default
            })
            .filter(|default| default.dtype == values);
        }
        match values {
            DType::String => {
                let text = self
                    .text("default_string")
                    .unwrap_or_else(|| "_Unused".to_owned());
                Literal::from_strings(&[text])
            }
            DType::I64 => Some(Literal::i64s(&[self.int("default_int64").unwrap_or(-1)])),
            DType::F32 => Some(Literal::f32s(&[self.float("default_float").unwrap_or(-0.0)])),
            DType::F64 => Literal::new(DType::F64, vec![1], (-0.0f64).to_le_bytes().to_vec()),
            dtype => Literal::from_ints(dtype, vec![1], &[-1]),
        }
    }

    pub(super) fn encode(&mut self) -> Result<bool, Error> {
        let x = self.input(0);
        let classes = self.texts("classes_strings");
        let pair = if classes.is_empty() {
            let keys = ["keys_strings", "keys_int64s", "keys_floats", "keys_tensor"];
            let values = [
                "values_strings",
                "values_int64s",
                "values_floats",
                "values_tensor",
            ];
            listed(self, keys).zip(listed(self, values))
        } else {
            // version 1: texts and their places in a list, whichever way
            self.both_ways(&classes, (0..).take(classes.len()).collect())
        };
        self.by_table(x, pair)
    }

    /// CategoryMapper: texts and integers, whichever way.
    pub(super) fn categories(&mut self) -> Result<bool, Error> {
        let (texts, ints) = (self.texts("cats_strings"), self.ints("cats_int64s"));
        let pair = self.both_ways(&texts, ints);
        self.by_table(self.input(0), pair)
    }

    fn both_ways(&self, texts: &[String], ints: Vec<i64>) -> Option<(Literal, Literal)> {
        let (texts, ints) = (Literal::from_strings(texts)?, Literal::i64s(&ints));
        match self.dtype(self.input(0)?)? {
            DType::String => Some((texts, ints)),
            DType::I64 => Some((ints, texts)),
            _ => None,
        }
    }

    fn by_table(&mut self, x: Option<TensorId>, pair: Option<(Literal, Literal)>) -> Result<bool, Error> {
        let Some((keys, values)) = pair else {
            return Ok(false);
        };
        let Some(default) = self.default(values.dtype) else {
            return Ok(false);
        };
        self.last(Op::LabelEncoder, vec![x], Self::table(keys, values, default))
    }
}
