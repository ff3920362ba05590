//! The computation of a QNN node: a short list of ONNX nodes, which the scalar reference (the
//! *oracle*) computes.
//!
//! Invariants:
//! 1. Shapes and values of a node come from one recipe, so they cannot disagree.
//! 2. A value is an input, a constant or the output of an earlier step.
//!
//! Not here: which recipe a QNN op has (`lower`), fast paths (`fast`).

use polychip_ops::{
    AttrKey, AttrValue, Attributes, DType, InferInput, Inferred, Literal, Op, TensorType, Value as Known,
    infer,
};
use polychip_reference::{Tensor, evaluate, tensor_from_literal};

/// A tensor within a recipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    /// An input of the node.
    Input(usize),
    /// A constant.
    Const(usize),
    /// Output `.1` of step `.0`.
    Step(usize, usize),
}

#[derive(Clone, Debug)]
struct Step {
    op: Op,
    attributes: Attributes,
    args: Vec<Option<Value>>,
    outputs: usize,
}

/// The steps of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recipe {
    constants: Vec<Literal>,
    steps: Vec<Step>,
    outputs: Vec<Value>,
    /// Each element of the output follows from the same element of input 0 alone.
    pub(crate) pointwise: bool,
}

/// Attributes of a step.
pub(crate) fn with<K: Into<AttrKey>, const N: usize>(entries: [(K, AttrValue); N]) -> Attributes {
    let mut attributes = Attributes::new();
    for (key, value) in entries {
        attributes.set(key, value);
    }
    attributes
}

impl Recipe {
    /// A constant.
    pub(crate) fn constant(&mut self, literal: Literal) -> Value {
        self.constants.push(literal);
        Value::Const(self.constants.len() - 1)
    }

    /// A vector of integers.
    pub(crate) fn ints(&mut self, values: &[i64]) -> Value {
        self.constant(Literal::i64s(values))
    }

    /// A scalar of a node's real type.
    pub(crate) fn real(&mut self, real: DType, value: f64) -> Value {
        let literal = match real {
            DType::F64 => Literal::new(DType::F64, Vec::new(), value.to_le_bytes().to_vec())
                .expect("invariant: eight bytes are a scalar"),
            _ => Literal::scalar_f32(value as f32),
        };
        self.constant(literal)
    }

    /// A step with several outputs.
    pub(crate) fn many(
        &mut self,
        op: Op,
        attributes: Attributes,
        args: &[Option<Value>],
        outputs: usize,
    ) -> Vec<Value> {
        self.steps.push(Step {
            op,
            attributes,
            args: args.to_vec(),
            outputs,
        });
        let step = self.steps.len() - 1;
        (0..outputs).map(|output| Value::Step(step, output)).collect()
    }

    /// A step with one output.
    pub(crate) fn step(&mut self, op: Op, attributes: Attributes, args: &[Value]) -> Value {
        let args: Vec<Option<Value>> = args.iter().copied().map(Some).collect();
        self.many(op, attributes, &args, 1)[0]
    }

    /// A step without attributes.
    pub(crate) fn plain(&mut self, op: Op, args: &[Value]) -> Value {
        self.step(op, Attributes::new(), args)
    }

    /// The dims of `value` in another order.
    pub(crate) fn transpose(&mut self, value: Value, perm: &[usize]) -> Value {
        let perm: Vec<i64> = perm.iter().map(|&axis| axis as i64).collect();
        self.step(
            Op::Transpose,
            with([(polychip_ops::Attr::Perm, AttrValue::Ints(perm))]),
            &[value],
        )
    }

    /// `[n, …, c]` as `[n, c, …]`.
    pub(crate) fn channels_first(&mut self, value: Value, rank: usize) -> Value {
        let mut perm = vec![0, rank - 1];
        perm.extend(1..rank - 1);
        self.transpose(value, &perm)
    }

    /// `[n, c, …]` as `[n, …, c]`.
    pub(crate) fn channels_last(&mut self, value: Value, rank: usize) -> Value {
        let mut perm = vec![0];
        perm.extend(2..rank);
        perm.push(1);
        self.transpose(value, &perm)
    }

    /// The same elements in another shape; one size may be -1.
    pub(crate) fn reshape(&mut self, value: Value, shape: &[i64]) -> Value {
        let shape = self.ints(shape);
        self.plain(Op::Reshape, &[value, shape])
    }

    /// Ends the recipe.
    pub(crate) fn gives(mut self, outputs: &[Value]) -> Recipe {
        self.outputs = outputs.to_vec();
        self
    }

    /// Ends a recipe that computes each element by itself.
    pub(crate) fn pointwise(mut self, output: Value) -> Recipe {
        self.outputs = vec![output];
        self.pointwise = true;
        self
    }

    /// The shapes of the outputs; `None` if they depend on values.
    ///
    /// # Errors
    /// The inputs do not fit the recipe.
    pub(crate) fn shapes(&self, inputs: &[Option<TensorType>]) -> Result<Vec<Option<Vec<usize>>>, String> {
        let constants: Vec<Inferred> = self
            .constants
            .iter()
            .map(|literal| Inferred {
                ty: literal.ty(),
                value: Some(Known::Literal(literal.clone())),
                upper_bound: false,
            })
            .collect();
        let mut done: Vec<Vec<Inferred>> = Vec::new();
        for step in &self.steps {
            let args: Vec<Option<InferInput<'_>>> = step
                .args
                .iter()
                .map(|arg| match (*arg)? {
                    Value::Input(i) => Some(InferInput {
                        ty: inputs.get(i)?.as_ref()?,
                        value: None,
                    }),
                    Value::Const(i) => Some(known(&constants[i])),
                    Value::Step(i, output) => Some(known(&done[i][output])),
                })
                .collect();
            let outputs = infer(step.op, &step.attributes, &args, step.outputs).map_err(|e| e.to_string())?;
            if outputs.len() < step.outputs {
                return Err(format!("{} has {} outputs", step.op.name(), outputs.len()));
            }
            done.push(outputs);
        }
        self.outputs
            .iter()
            .map(|value| {
                let ty = match *value {
                    Value::Input(i) => inputs.get(i).and_then(Option::as_ref),
                    Value::Const(i) => Some(&constants[i].ty),
                    Value::Step(i, output) => Some(&done[i][output].ty),
                };
                ty.map(TensorType::sizes)
                    .ok_or_else(|| "an input is missing".to_owned())
            })
            .collect()
    }

    /// The values of the outputs.
    ///
    /// # Errors
    /// The scalar reference fails.
    pub(crate) fn run(&self, inputs: &[Option<&Tensor>]) -> Result<Vec<Tensor>, String> {
        let constants = self
            .constants
            .iter()
            .map(tensor_from_literal)
            .collect::<Result<Vec<Tensor>, _>>()
            .map_err(|e| e.to_string())?;
        let mut done: Vec<Vec<Tensor>> = Vec::new();
        let get = |value: Value, done: &'_ [Vec<Tensor>]| -> Option<Tensor> {
            match value {
                Value::Input(i) => inputs.get(i).copied().flatten().cloned(),
                Value::Const(i) => Some(constants[i].clone()),
                Value::Step(i, output) => done[i].get(output).cloned(),
            }
        };
        for step in &self.steps {
            let args: Vec<Option<&Tensor>> = step
                .args
                .iter()
                .map(|arg| match (*arg)? {
                    Value::Input(i) => inputs.get(i).copied().flatten(),
                    Value::Const(i) => Some(&constants[i]),
                    Value::Step(i, output) => done[i].get(output),
                })
                .collect();
            let outputs =
                evaluate(step.op, &step.attributes, &args, step.outputs).map_err(|e| e.to_string())?;
            done.push(outputs);
        }
        self.outputs
            .iter()
            .map(|&value| get(value, &done).ok_or_else(|| "an input is missing".to_owned()))
            .collect()
    }
}

fn known(inferred: &Inferred) -> InferInput<'_> {
    InferInput {
        ty: &inferred.ty,
        value: inferred.value.as_ref(),
    }
}
