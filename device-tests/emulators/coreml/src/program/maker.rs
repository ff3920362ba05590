//! Builds the steps of a program, and infers the type of each result.

use std::collections::BTreeMap;

use polychip_emulator_chip::program::{Builder, Id, Spec};
use polychip_emulator_chip::table::{Chip, Width, Work};
use polychip_ops::{Attributes, DType, InferInput, Literal, Op, TensorType, Value, infer};

use crate::package::{Content, Function, Operation};

use super::args::Args;

/// A value: its id in the chip's program, its type and its shape.
#[derive(Clone)]
pub(super) struct Known {
    id: Id,
    pub(super) dtype: DType,
    pub(super) dims: Vec<usize>,
    value: Option<Value>,
}

/// Builds a program.
pub(super) struct Maker<'a> {
    pub(super) main: &'a Function,
    pub(super) builder: Builder,
    known: BTreeMap<String, Known>,
    work: Vec<Work>,
}

type Shaped = (String, crate::package::Shaped);

impl<'a> Maker<'a> {
    pub(super) fn new(main: &'a Function) -> Maker<'a> {
        Maker {
            main,
            builder: Builder::default(),
            known: BTreeMap::new(),
            work: Vec::new(),
        }
    }

    pub(super) fn input(&mut self, name: &str, of: &crate::package::Shaped) -> Result<Id, String> {
        let dtype = of.ty.dtype().ok_or_else(|| format!("{name} is no array"))?;
        let id = self.builder.tensor(Spec::plain(dtype, of.dims.clone()));
        let known = Known {
            id,
            dtype,
            dims: of.dims.clone(),
            value: None,
        };
        self.known.insert(name.to_owned(), known);
        Ok(id)
    }

    pub(super) fn id(&self, name: &str) -> Result<Id, String> {
        let known = self.known.get(name);
        known
            .map(|known| known.id)
            .ok_or_else(|| format!("{name} is made by nothing"))
    }

    /// A value by its name; a constant becomes one.
    pub(super) fn named(&mut self, name: &str) -> Result<Known, String> {
        if let Some(known) = self.known.get(name) {
            return Ok(known.clone());
        }
        let dims = self
            .main
            .constants
            .get(name)
            .map(|constant| constant.of.dims.clone());
        let known = self.constant(name, dims.ok_or_else(|| format!("{name} is not there"))?)?;
        self.known.insert(name.to_owned(), known.clone());
        Ok(known)
    }

    /// A constant with these extents.
    pub(super) fn constant(&mut self, name: &str, dims: Vec<usize>) -> Result<Known, String> {
        let constant = self
            .main
            .constants
            .get(name)
            .ok_or_else(|| format!("{name} is no constant"))?;
        let (Content::Bytes(bytes), Some(dtype)) = (&constant.content, constant.of.ty.dtype()) else {
            return Err(format!("{name} is no tensor"));
        };
        let id = self.builder.constant(Spec::plain(dtype, dims.clone()), bytes)?;
        let literal = Literal::new(dtype, dims.clone(), &bytes[..]);
        let value = literal.filter(|_| dtype == DType::I32).map(Value::Literal);
        Ok(Known {
            id,
            dtype,
            dims,
            value,
        })
    }

    /// The value of an argument.
    pub(super) fn arg(&mut self, args: &Args<'_>, name: &'static str) -> Result<Known, String> {
        match args.names(name) {
            [value] => self.named(value),
            [] => Err(format!("{name} is not given")),
            _ => Err(format!("{name} is a list")),
        }
    }

    /// Integers as an operand of an ONNX op.
    pub(super) fn numbers(&mut self, values: &[i64]) -> Result<Known, String> {
        let literal = Literal::i64s(values);
        Ok(Known {
            id: self.builder.literal(&literal)?,
            dtype: DType::I64,
            dims: vec![values.len()],
            value: Some(Value::Literal(literal)),
        })
    }

    /// Floats as an operand of an ONNX op: one as a scalar, several as a list.
    pub(super) fn reals(&mut self, values: &[f32], scalar: bool) -> Result<Known, String> {
        let literal = if scalar {
            Literal::scalar_f32(values[0])
        } else {
            Literal::f32s(values)
        };
        Ok(Known {
            id: self.builder.literal(&literal)?,
            dtype: DType::F32,
            dims: if scalar { vec![] } else { vec![values.len()] },
            value: Some(Value::Literal(literal)),
        })
    }

    /// Types of results: reals in between are f32, whatever the width of the operands.
    fn infer(
        op: Op,
        attributes: &Attributes,
        inputs: &[Option<&Known>],
        outputs: usize,
    ) -> Result<Vec<TensorType>, String> {
        let reals = |dtype| if dtype == DType::F16 { DType::F32 } else { dtype };
        let types: Vec<Option<TensorType>> = inputs
            .iter()
            .map(|known| known.map(|known| TensorType::known(reals(known.dtype), &known.dims)))
            .collect();
        let inputs: Vec<Option<InferInput<'_>>> = types
            .iter()
            .zip(inputs)
            .map(|(ty, known)| {
                let value = known.and_then(|known| known.value.as_ref());
                ty.as_ref().map(|ty| InferInput { ty, value })
            })
            .collect();
        let inferred = infer(op, attributes, &inputs, outputs).map_err(|error| error.to_string())?;
        Ok(inferred.into_iter().map(|inferred| inferred.ty).collect())
    }

    /// Adds a step whose result is an intermediate value.
    pub(super) fn step(
        &mut self,
        op: Op,
        attributes: Attributes,
        inputs: &[&Known],
    ) -> Result<Known, String> {
        let given: Vec<Option<&Known>> = inputs.iter().copied().map(Some).collect();
        let types = Self::infer(op, &attributes, &given, 1)?;
        let dims = types
            .first()
            .and_then(TensorType::sizes)
            .ok_or("the extents do not follow")?;
        let dtype = types[0].dtype;
        let ids: Vec<Id> = inputs.iter().map(|known| known.id).collect();
        let id = self.builder.step(op, attributes, &ids);
        Ok(Known {
            id,
            dtype,
            dims,
            value: None,
        })
    }

    /// Adds the last step of an operation, which writes the operation's outputs. Their declared
    /// types must be the inferred ones.
    pub(super) fn finish(
        &mut self,
        op: Op,
        attributes: Attributes,
        inputs: &[Option<&Known>],
        operation: &Operation,
    ) -> Result<(), String> {
        let outputs: &[Shaped] = &operation.outputs;
        let types = Self::infer(op, &attributes, inputs, outputs.len())?;
        let mut made = Vec::new();
        for ((name, of), ty) in outputs.iter().zip(&types) {
            let dtype = of
                .ty
                .dtype()
                .ok_or_else(|| format!("{name} is declared of {:?}", of.ty))?;
            let follows = ty.sizes().ok_or("the extents do not follow")?;
            if follows != of.dims {
                return Err(format!(
                    "{name} is declared {:?}, and {follows:?} follows",
                    of.dims
                ));
            }
            let id = self.builder.tensor(Spec::plain(dtype, of.dims.clone()));
            let known = Known {
                id,
                dtype,
                dims: of.dims.clone(),
                value: None,
            };
            self.known.insert(name.clone(), known);
            made.push(id);
        }
        if made.len() != outputs.len() || made.is_empty() {
            return Err(format!("{} outputs, and {} follow", outputs.len(), types.len()));
        }
        let ids: Vec<Option<Id>> = inputs.iter().map(|known| known.map(|known| known.id)).collect();
        self.builder.step_to(op, attributes, &ids, &made);
        self.count(op, inputs, outputs);
        Ok(())
    }

    /// Records the work of an operation.
    fn count(&mut self, op: Op, inputs: &[Option<&Known>], outputs: &[Shaped]) {
        let elements = |dims: &[usize]| dims.iter().product::<usize>() as u64;
        let out: u64 = outputs.iter().map(|(_, of)| elements(&of.dims)).sum();
        let read: u64 = inputs.iter().flatten().map(|known| elements(&known.dims)).sum();
        let weights = inputs
            .get(1)
            .copied()
            .flatten()
            .map_or(&[][..], |known| &known.dims);
        let macs = match op {
            Op::Conv => out * elements(weights.get(1..).unwrap_or_default()),
            Op::MatMul => out * weights.iter().rev().nth(1).copied().unwrap_or(1) as u64,
            _ => 0,
        };
        self.work.push(Work {
            macs,
            bytes: 2 * (out + read),
        });
    }

    /// Nanoseconds of each operation by a chip's table, the launch apart.
    pub(super) fn times(&self, chip: &Chip, width: Width) -> Vec<f64> {
        let time = |&work: &Work| (chip.spent(work, width).ns - chip.launch_ns) as f64;
        self.work.iter().map(time).collect()
    }
}
