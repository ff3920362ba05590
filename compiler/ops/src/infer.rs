//! Shape and dtype inference of one node from what is known of its inputs.
//!
//! Invariants:
//! 1. Inputs that are certainly wrong are an error; what is only unknown flows through.
//! 2. A size that is given is right for every run, or a bound where `upper_bound` says so.
//! 3. Without symbols and with the values of shape inputs, every size comes out known, but those
//!    that text decides.
//!
//! Not here: body graphs of If, Loop and Scan, sequences and optionals (an error names them).
//! Start reading at [`infer`], then at the file of a class.

use crate::table::ShapeClass;
use crate::{Attributes, DType, ErrorKind, InferError, Op};

mod arithmetic;
mod attention;
mod call;
mod cast;
mod convolution;
mod elementwise;
mod fact;
mod gather_scatter;
mod generate;
mod image;
mod loss;
mod matrix;
mod ml;
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

pub use fact::{InferInput, Inferred};

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
    let outs = by_class(&call)?;
    call.finish(outs)
}

/// The shape function of an op: that of the class in whose file its row stands.
fn by_class(call: &Call<'_>) -> Result<Vec<Out>, InferError> {
    let Some(class) = call.op.class() else {
        return Err(call.error(ErrorKind::Custom, "nothing is known of a custom op"));
    };
    match class {
        ShapeClass::Attention => attention::infer(call),
        ShapeClass::Cast => cast::infer(call),
        ShapeClass::Convolution => convolution::infer(call),
        ShapeClass::Elementwise => elementwise::infer(call),
        ShapeClass::GatherScatter => gather_scatter::infer(call),
        ShapeClass::Generate => generate::infer(call),
        ShapeClass::Image => image::infer(call),
        ShapeClass::Loss => loss::infer(call),
        ShapeClass::Matrix => matrix::infer(call),
        ShapeClass::Ml => ml::infer(call),
        ShapeClass::Normalisation => normalisation::infer(call),
        ShapeClass::Pooling => pooling::infer(call),
        ShapeClass::Quantise => quantise::infer(call),
        ShapeClass::Recurrent => recurrent::infer(call),
        ShapeClass::Reduction => reduction::infer(call),
        ShapeClass::Shape => shape::infer(call),
        ShapeClass::Signal => signal::infer(call),
        ShapeClass::Text => text::infer(call),
        ShapeClass::ControlFlow => Err(call.error(
            ErrorKind::NeedsBody,
            "the types of its outputs are those of its body graphs, which are inferred first",
        )),
        ShapeClass::Sequence => of_sequence(call),
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
