//! RNN, GRU and LSTM.
//!
//! Invariant: `layout` only transposes what goes in and comes out.

use polychip_cpu_kernels::reference::activation::Activation;
use polychip_cpu_kernels::reference::recurrent::{self as kernel, Cell, Layer};
use polychip_cpu_kernels::reference::{Result, Tensor, shape};
use polychip_ops::operator::{Direction, Rnn};
use polychip_ops::{DType, DTypes, Op, Operator};

use crate::call::{Call, Outputs, bad, sizes};
use crate::row::{FLOATS, Row};

const I32: DTypes = DTypes::of(&[DType::I32]);

pub(crate) fn row(op: Op) -> Option<Row> {
    match op {
        Op::RNN | Op::GRU | Op::LSTM => Some(Row {
            takes: &[FLOATS, FLOATS, FLOATS, FLOATS, I32, FLOATS],
            run,
        }),
        _ => None,
    }
}

/// One activation by name, with the parameters that it takes from the two lists.
fn activation(
    name: &str,
    alphas: &mut impl Iterator<Item = f32>,
    betas: &mut impl Iterator<Item = f32>,
) -> Result<Activation> {
    let mut alpha = |default: f32| f64::from(alphas.next().unwrap_or(default));
    let mut beta = |default: f32| f64::from(betas.next().unwrap_or(default));
    Ok(match name.to_ascii_lowercase().as_str() {
        "relu" => Activation::Relu,
        "tanh" => Activation::Tanh,
        "sigmoid" => Activation::Sigmoid,
        "softsign" => Activation::Softsign,
        "softplus" => Activation::Softplus,
        "affine" => Activation::Affine {
            alpha: alpha(1.0),
            beta: beta(0.0),
        },
        "leakyrelu" => Activation::LeakyRelu { alpha: alpha(0.01) },
        "thresholdedrelu" => Activation::ThresholdedRelu { alpha: alpha(1.0) },
        "scaledtanh" => Activation::ScaledTanh {
            alpha: alpha(1.0),
            beta: beta(1.0),
        },
        "hardsigmoid" => Activation::HardSigmoid {
            alpha: alpha(0.2),
            beta: beta(0.5),
        },
        "elu" => Activation::Elu { alpha: alpha(1.0) },
        other => return bad(format!("activation {other:?} is not one of ONNX's")),
    })
}

fn run(c: &Call<'_>) -> Outputs {
    let (cell, defaults, layer): (Cell, &[&str], Rnn) = match c.operator()? {
        Operator::RNN(layer) => (Cell::Rnn, &["Tanh"], layer),
        Operator::GRU(gru) => {
            let linear_before_reset = gru.linear_before_reset;
            (
                Cell::Gru { linear_before_reset },
                &["Sigmoid", "Tanh"],
                gru.into(),
            )
        }
        Operator::LSTM(lstm) => {
            let input_forget = lstm.input_forget;
            (
                Cell::Lstm { input_forget },
                &["Sigmoid", "Tanh", "Tanh"],
                lstm.into(),
            )
        }
        _ => return bad("not a recurrent layer"),
    };
    let backwards = match layer.direction {
        Direction::Forward => vec![false],
        Direction::Reverse => vec![true],
        Direction::Bidirectional => vec![false, true],
    };
    let mut names: Vec<String> = layer.activations.iter().map(ToString::to_string).collect();
    let wanted = defaults.len() * backwards.len();
    if names.is_empty() {
        names = defaults
            .iter()
            .cycle()
            .take(wanted)
            .map(ToString::to_string)
            .collect();
    }
    if names.len() < wanted {
        return bad(format!("{} activations, {wanted} wanted", names.len()));
    }
    let mut alphas = layer.activation_alpha.iter().copied();
    let mut betas = layer.activation_beta.iter().copied();
    let flat: Vec<Activation> = names
        .iter()
        .take(wanted)
        .map(|n| activation(n, &mut alphas, &mut betas))
        .collect::<Result<_>>()?;
    let batch_first = layer.batch_first;
    let swapped = |x: &Tensor, perm: &[usize]| {
        if batch_first {
            shape::transpose(x, perm)
        } else {
            Ok(x.clone())
        }
    };
    let input = c.input(0)?;
    if input.rank() != 3 {
        return bad(format!("[t, b, input] wanted, shape {:?} seen", input.shape()));
    }
    let x = swapped(input, &[1, 0, 2])?;
    let state = |i: usize| -> Result<Option<Tensor>> {
        match c.optional(i) {
            Some(t) if t.rank() == 3 => swapped(t, &[1, 0, 2]).map(Some),
            Some(t) => bad(format!("a state of shape {:?}", t.shape())),
            None => Ok(None),
        }
    };
    let (initial_h, initial_c) = (state(5)?, state(6)?);
    let lengths = match c.optional_ints(4)? {
        Some(l) => Some(sizes(&l)?),
        None => None,
    };
    let clip = layer.clip;
    let layer = Layer {
        cell,
        backwards,
        activations: flat.chunks(defaults.len()).map(<[Activation]>::to_vec).collect(),
        clip: clip.map(f64::from),
        w: c.input(1)?,
        r: c.input(2)?,
        bias: c.optional(3),
        peephole: c.optional(7),
        lengths,
        initial_h: initial_h.as_ref(),
        initial_c: initial_c.as_ref(),
    };
    let (y, h, cell_state) = kernel::run(&x, &layer)?;
    Ok(vec![
        swapped(&y, &[2, 0, 1, 3])?,
        swapped(&h, &[1, 0, 2])?,
        swapped(&cell_state, &[1, 0, 2])?,
    ])
}
