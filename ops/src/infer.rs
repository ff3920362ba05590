//! Shape and dtype inference of one node from what is known of its inputs.
//!
//! Invariants:
//! 1. Inputs that are certainly wrong are an error; what is only unknown flows through.
//! 2. A size that is given is right for every run, or a bound where `upper_bound` says so.
//! 3. Without symbols and with the values of shape inputs, every size comes out known, but those
//!    that text decides.
//!
//! Not here: body graphs of If, Loop and Scan, sequences and optionals (an error names them).
//! Start reading at [`infer`], then at the file of a family.

use crate::table::Family;
use crate::{Attributes, DType, ErrorKind, InferError, Op, TensorType, Value};

mod arithmetic;
mod attention;
mod call;
mod cast;
mod convolution;
mod elementwise;
mod gather_scatter;
mod generate;
mod image;
mod loss;
mod matrix;
mod normalisation;
mod pooling;
mod quantise;
mod recurrent;
mod reduction;
mod shape;
mod signal;
mod text;

#[cfg(test)]
mod tests;

use call::{Call, Out};

/// What is known of one input.
#[derive(Clone, Copy, Debug)]
pub struct InferInput<'a> {
    /// Element type and shape.
    pub ty: &'a TensorType,
    /// Its values, as far as they are known.
    pub value: Option<&'a Value>,
}

/// What follows for one output.
#[derive(Clone, PartialEq, Debug)]
pub struct Inferred {
    /// Element type and shape.
    pub ty: TensorType,
    /// Its values, where shape arithmetic gives them.
    pub value: Option<Value>,
    /// The sizes depend on values at run time: the known ones are upper bounds.
    pub upper_bound: bool,
}

/// Infers the outputs of a node: `outputs` of them, trailing optional ones left out.
///
/// # Errors
/// Where a rule of the op is broken, or the op is one that shapes alone do not tell:
/// see [`ErrorKind`].
pub fn infer(
    op: Op,
    attributes: &Attributes,
    inputs: &[Option<InferInput<'_>>],
    outputs: usize,
) -> Result<Vec<Inferred>, InferError> {
    if op == Op::Custom {
        let message = "nothing is known of the outputs of a custom op";
        return Err(InferError::new(op, ErrorKind::Custom, message));
    }
    let call = Call::new(op, attributes, inputs, outputs)?;
    let outs = by_family(&call)?;
    call.finish(outs)
}

/// The shape function of an op: that of the family in whose file its row stands.
fn by_family(call: &Call<'_>) -> Result<Vec<Out>, InferError> {
    let Some(family) = call.op.family() else {
        return Err(call.error(ErrorKind::Custom, "nothing is known of a custom op"));
    };
    match family {
        Family::Attention => attention::infer(call),
        Family::Cast => cast::infer(call),
        Family::Convolution => convolution::infer(call),
        Family::Elementwise => elementwise::infer(call),
        Family::GatherScatter => gather_scatter::infer(call),
        Family::Generate => generate::infer(call),
        Family::Image => image::infer(call),
        Family::Loss => loss::infer(call),
        Family::Matrix => matrix::infer(call),
        Family::Normalisation => normalisation::infer(call),
        Family::Pooling => pooling::infer(call),
        Family::Quantise => quantise::infer(call),
        Family::Recurrent => recurrent::infer(call),
        Family::Reduction => reduction::infer(call),
        Family::Shape => shape::infer(call),
        Family::Signal => signal::infer(call),
        Family::Text => text::infer(call),
        Family::ControlFlow => Err(call.error(
            ErrorKind::NeedsBody,
            "the types of its outputs are those of its body graphs, which are inferred first",
        )),
        Family::Sequence => of_sequence(call),
    }
}

/// What can be said of ops on sequences and optionals.
fn of_sequence(call: &Call<'_>) -> Result<Vec<Out>, InferError> {
    match call.op {
        Op::OptionalHasElement => Ok(vec![Out::scalar().typed(Some(DType::Bool))]),
        Op::OptionalGetElement => {
            let shape = call.dims(0).map(<[_]>::to_vec);
            Ok(vec![
                Out::new(shape)
                    .typed(call.dtype(0))
                    .valued(call.value(0).cloned()),
            ])
        }
        _ => Err(call.error(
            ErrorKind::NotTensor,
            "works on sequences or optionals, which are not tensors",
        )),
    }
}
