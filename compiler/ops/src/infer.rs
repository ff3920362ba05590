//! Shape and dtype inference of one node from what is known of its inputs.
//!
//! Invariants:
//! 1. Inputs that are certainly wrong are an error; what is only unknown flows through.
//! 2. A given size is right for every run, or a bound where `upper_bound` is set.
//! 3. Without symbols and with the values of shape inputs, every size comes out known, but those
//!    that text decides.
//!
//! Not here: body graphs of If, Loop and Scan, sequences and optionals (an error names them).
//! Start reading at [`infer`], then at the file of a class.

use crate::table::OpGroup;
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
    let Some(group) = call.op.group() else {
        return Err(call.error(ErrorKind::Custom, "nothing is known of a custom op"));
    };
    match group {
        OpGroup::Attention => attention::infer(call),
        OpGroup::Cast => cast::infer(call),
        OpGroup::Convolution => convolution::infer(call),
        OpGroup::Elementwise => elementwise::infer(call),
        OpGroup::GatherScatter => gather_scatter::infer(call),
        OpGroup::Generate => generate::infer(call),
        OpGroup::Image => image::infer(call),
        OpGroup::Loss => loss::infer(call),
        OpGroup::Matrix => matrix::infer(call),
        OpGroup::Ml => ml::infer(call),
        OpGroup::Normalisation => normalisation::infer(call),
        OpGroup::Pooling => pooling::infer(call),
        OpGroup::Quantise => quantise::infer(call),
        OpGroup::Recurrent => recurrent::infer(call),
        OpGroup::Reduction => reduction::infer(call),
        OpGroup::Shape => shape::infer(call),
        OpGroup::Signal => signal::infer(call),
        OpGroup::Text => text::infer(call),
        OpGroup::ControlFlow => Err(call.error(
            ErrorKind::NeedsBody,
            "the types of its outputs are those of its body graphs, which are inferred first",
        )),
        OpGroup::Sequence => of_sequence(call),
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
