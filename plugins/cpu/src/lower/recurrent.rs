//! LSTM, GRU and RNN with constant weights: each direction is one step, which loops over the sequence.
//!
//! Not here: peepholes, clipping, weights that are computed; those are the reference's.

use std::sync::Arc;

use polychip_cpu_kernels::Unary;
use polychip_cpu_kernels::recurrent::{Cell, Input, RecurrentParams, RecurrentPlan, Sequence, Weights};
use polychip_ops::operator::{Direction, Rnn};
use polychip_ops::{DType, Operator};
use polychip_sdk::{Error, Result};

use super::builder::{Lowering, kernel_error};
use super::encoding::stands_for_f32;
use crate::part::{Node, Part, Tensor, TensorIndex};
use crate::step::{Operands, ValueId};
use crate::weights::Recipe;
use crate::work::Class;

/// A function of gates, by ONNX's name.
fn function(name: &str) -> Option<Unary> {
    Some(match name.to_ascii_lowercase().as_str() {
        "sigmoid" => Unary::Sigmoid,
        "tanh" => Unary::Tanh,
        "relu" => Unary::Relu,
        "softsign" => Unary::Softsign,
        "softplus" => Unary::Softplus,
        _ => return None,
    })
}

/// The functions of one direction.
fn functions(names: &[Arc<str>], cell: Cell, direction: usize) -> Option<[Unary; 3]> {
    let (defaults, count) = match cell {
        Cell::Lstm => ([Unary::Sigmoid, Unary::Tanh, Unary::Tanh], 3),
        Cell::Gru { .. } => ([Unary::Sigmoid, Unary::Tanh, Unary::Tanh], 2),
        Cell::Rnn => ([Unary::Tanh; 3], 1),
    };
    if names.is_empty() {
        return Some(defaults);
    }
    let mut functions = defaults;
    for (to, name) in functions
        .iter_mut()
        .zip(names.get(direction * count..(direction + 1) * count)?)
    {
        *to = function(name)?;
    }
    Some(functions)
}

/// A layer of these kernels.
struct Layer {
    cell: Cell,
    directions: usize,
    steps: usize,
    batch: usize,
    input: usize,
    hidden: usize,
    batch_first: bool,
    /// Whether the only direction is backwards.
    reverse: bool,
    /// Names of the functions of all directions; none for the usual ones.
    activations: Vec<Arc<str>>,
}

fn layer(part: &Part, node: &Node) -> Option<Layer> {
    let (cell, attributes): (Cell, Rnn) = match node.operator().ok()? {
        Operator::LSTM(lstm) if !lstm.input_forget && node.input(7).is_none() => (Cell::Lstm, lstm.into()),
        Operator::GRU(gru) => {
            let linear_before_reset = gru.linear_before_reset;
            (Cell::Gru { linear_before_reset }, gru.into())
        }
        Operator::RNN(rnn) => (Cell::Rnn, rnn),
        _ => return None,
    };
    let parameters = [&attributes.activation_alpha, &attributes.activation_beta];
    if attributes.clip.is_some() || parameters.iter().any(|list| !list.is_empty()) {
        return None;
    }
    let (directions, reverse) = match attributes.direction {
        Direction::Forward => (1, false),
        Direction::Reverse => (1, true),
        Direction::Bidirectional => (2, false),
    };
    let batch_first = attributes.batch_first;
    let &[first, second, input] = part.dims(node.input(0)?)? else {
        return None;
    };
    let (steps, batch) = if batch_first {
        (second, first)
    } else {
        (first, second)
    };
    let &[_, _, hidden] = part.dims(node.input(2)?)? else {
        return None;
    };
    let gates = cell.gates() * hidden;
    let shaped = |i: usize, shape: &[usize]| node.input(i).is_none_or(|t| part.dims(t) == Some(shape));
    let state = if batch_first {
        [batch, directions, hidden]
    } else {
        [directions, batch, hidden]
    };
    let constant = |i: usize| node.input(i).is_none_or(|t| part.is_constant(t));
    let floats = |t: Option<TensorIndex>| t.is_none_or(|t| stands_for_f32(part, t));
    let lengths = node
        .input(4)
        .is_none_or(|t| part.tensors[t].dtype == DType::I32 && part.dims(t) == Some(&[batch]));
    let fits = shaped(1, &[directions, gates, input])
        && shaped(2, &[directions, gates, hidden])
        && shaped(3, &[directions, 2 * gates])
        && shaped(5, &state)
        && shaped(6, &state)
        && (1..=3).all(constant)
        && lengths
        && [0, 1, 2, 3, 5, 6].iter().all(|&i| floats(node.input(i)))
        && node.outputs.iter().all(|&t| floats(t))
        && [steps, batch, input, hidden].iter().all(|&size| size > 0)
        // states of one direction lie together
        && (!batch_first || directions == 1);
    fits.then_some(Layer {
        cell,
        directions,
        steps,
        batch,
        input,
        hidden,
        batch_first,
        reverse,
        activations: attributes.activations,
    })
}

/// Lowers a recurrent layer.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let Some(layer) = layer(l.part, node) else {
        return Ok(false);
    };
    let (Some(x), Some(w), Some(r)) = (node.input(0), node.input(1), node.input(2)) else {
        return Ok(false);
    };
    let mut plans = Vec::new();
    for direction in 0..layer.directions {
        let Some(functions) = functions(&layer.activations, layer.cell, direction) else {
            return Ok(false);
        };
        let params = RecurrentParams {
            cell: layer.cell,
            steps: layer.steps,
            batch: layer.batch,
            input: layer.input,
            hidden: layer.hidden,
            batch_first: layer.batch_first,
            reverse: layer.reverse || direction == 1,
            functions,
        };
        plans.push(RecurrentPlan::new(l.isa, params).map_err(kernel_error)?);
    }
    let weights = [Some(w), Some(r), node.input(3)];
    let weights = weights.map(|t| t.map(|t| l.source(t)).transpose());
    let [w, r, b] = weights;
    let (Some(w), Some(r), b) = (w?, r?, b?) else {
        return Ok(false);
    };
    let all_steps = |t: &TensorIndex| {
        let lengths = l.part.integers(*t);
        lengths.is_some_and(|lengths| lengths.iter().all(|&length| length == layer.steps as i64))
    };
    let lengths = node.input(4).filter(|t| !all_steps(t));
    let (input, lengths) = (l.rows(x)?, lengths.map(|t| l.rows(t)).transpose()?);
    let state = |l: &mut Lowering<'_>, i: usize| node.input(i).map(|t| l.rows(t)).transpose();
    let initial = [state(l, 5)?, state(l, 6)?];
    let (states, is_lstm) = (
        layer.directions * layer.batch * layer.hidden,
        layer.cell == Cell::Lstm,
    );
    let last = |l: &mut Lowering<'_>, i: usize| match node.output(i) {
        Some(t) => l.write_rows(t),
        None => l.fresh(DType::F32, vec![states]),
    };
    let mut ends = vec![last(l, 1)?];
    if is_lstm {
        ends.push(last(l, 2)?);
    }
    let all = node.output(0).map(|t| l.write_rows(t)).transpose()?;
    for (direction, plan) in plans.into_iter().enumerate() {
        let (packer, directions) = (plan.clone(), layer.directions);
        let (w, r, b) = (w.clone(), r.clone(), b.clone());
        let recipe = Recipe::new("recurrent")
            .by((
                l.isa.code(),
                layer.cell,
                layer.input,
                layer.hidden,
                directions,
                direction,
            ))
            .of(&w)
            .of(&r)
            .of_any(b.as_ref());
        let packed = l.packed_floats(vec![plan.packed_len()], recipe, move |target| {
            let b = b.as_ref().map(Tensor::reals).transpose()?;
            let (w, r) = (w.reals()?, r.reals()?);
            fn own(values: &[f32], directions: usize, direction: usize) -> &[f32] {
                let len = values.len() / directions;
                &values[direction * len..(direction + 1) * len]
            }
            let weights = Weights {
                input: own(&w, directions, direction),
                state: own(&r, directions, direction),
                bias: b.as_deref().map(|b| own(b, directions, direction)),
            };
            packer.pack(weights, target);
            Ok(())
        })?;
        let values = Values {
            reads: [input, packed],
            lengths,
            initial,
            ends: &ends,
            all,
        };
        run(l, &layer, direction, plan, &values)?;
    }
    Ok(true)
}

/// What a direction reads and writes.
struct Values<'a> {
    reads: [ValueId; 2],
    /// Steps of each sequence, where they may differ.
    lengths: Option<ValueId>,
    initial: [Option<ValueId>; 2],
    /// The last state of all directions, and of an LSTM the last cells.
    ends: &'a [ValueId],
    all: Option<ValueId>,
}

fn run(
    l: &mut Lowering<'_>,
    layer: &Layer,
    direction: usize,
    plan: RecurrentPlan,
    values: &Values<'_>,
) -> Result<()> {
    let mut reads = values.reads.to_vec();
    let mut place = |value: Option<ValueId>| {
        value.map(|value| {
            reads.push(value);
            reads.len() - 1
        })
    };
    let places = values.initial.map(&mut place);
    let lengths = place(values.lengths);
    let mut writes = values.ends.to_vec();
    writes.extend(values.all);
    let scratch = l.scratch(plan.scratch_len(l.pool))?;
    let &Layer {
        directions,
        steps,
        batch,
        hidden,
        batch_first,
        ..
    } = layer;
    let (is_lstm, has_all) = (values.ends.len() == 2, values.all.is_some());
    let own = direction * batch * hidden..(direction + 1) * batch * hidden;
    // where the results of a step and of a sequence begin
    let (first, step, sequence) = if batch_first {
        (
            direction * hidden,
            directions * hidden,
            steps * directions * hidden,
        )
    } else {
        (own.start, directions * batch * hidden, hidden)
    };
    let (inputs, state) = plan.multiply_adds();
    // a tile of few rows waits for its operands as long as one of four
    let products = state.saturating_mul(steps.saturating_mul(batch.max(4)));
    l.step(
        "recurrent",
        &reads,
        &writes,
        scratch,
        Box::new(move |o| {
            let begin = |o: &Operands<'_>, place: Option<usize>, state: &mut [f32]| match place {
                Some(place) => state.copy_from_slice(&o.read::<f32>(place)[own.clone()]),
                None => state.fill(0.0),
            };
            let lengths = lengths.map(|place| o.read::<i32>(place));
            if let Some(length) = lengths.and_then(|l| l.iter().find(|&&l| l < 0 || l as usize > steps)) {
                return Err(Error::bad_argument(format!(
                    "a sequence of {length} steps in a tensor of {steps}"
                )));
            }
            let h = &mut o.write::<f32>(0)[own.clone()];
            begin(o, places[0], h);
            let c: &mut [f32] = if is_lstm {
                let c = &mut o.write::<f32>(1)[own.clone()];
                begin(o, places[1], c);
                c
            } else {
                &mut []
            };
            let at = 1 + usize::from(is_lstm);
            let y = has_all.then(|| Sequence {
                data: o.write::<f32>(at),
                first,
                step,
                batch: sequence,
            });
            let scratch = o.scratch(at + usize::from(has_all));
            let x = Input {
                data: o.read(0),
                lengths,
            };
            plan.run(o.pool, o.read(1), x, h, c, y, scratch);
            Ok(())
        }),
    )
    .does(Class::Product, inputs.saturating_add(products));
    Ok(())
}
