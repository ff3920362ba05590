//! Recurrent layers: simple, gated (GRU) and long short-term memory (LSTM).
//!
//! Invariants: sequences are `[t, b, input]`, results `[t, directions, b, hidden]`; steps past a sequence's
//! length give zeros and leave the state alone.

use super::Tensor;
use super::activation::Activation;
use super::error::{Result, refuse, require};

/// The kind of cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Cell {
    Rnn,
    Gru { linear_before_reset: bool },
    Lstm { input_forget: bool },
}

impl Cell {
    const fn gates(self) -> usize {
        match self {
            Self::Rnn => 1,
            Self::Gru { .. } => 3,
            Self::Lstm { .. } => 4,
        }
    }
}

/// One recurrent layer of one or two directions.
#[derive(Clone, Debug)]
pub struct Layer<'a> {
    /// The cell.
    pub cell: Cell,
    /// For each direction, whether time runs backwards.
    pub backwards: Vec<bool>,
    /// For each direction, its activation functions (1, 2 or 3 of them).
    pub activations: Vec<Vec<Activation>>,
    /// The limit of the gates' inputs, if any.
    pub clip: Option<f64>,
    /// `[directions, gates·hidden, input]`.
    pub w: &'a Tensor,
    /// `[directions, gates·hidden, hidden]`.
    pub r: &'a Tensor,
    /// `[directions, 2·gates·hidden]`.
    pub bias: Option<&'a Tensor>,
    /// `[directions, 3·hidden]`: input, output, forget (LSTM).
    pub peephole: Option<&'a Tensor>,
    /// Steps of each sequence.
    pub lengths: Option<Vec<usize>>,
    /// `[directions, b, hidden]`.
    pub initial_h: Option<&'a Tensor>,
    /// `[directions, b, hidden]` (LSTM).
    pub initial_c: Option<&'a Tensor>,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// All outputs `[t, directions, b, hidden]`, the last `h` and the last `c` `[directions, b, hidden]`.
///
/// # Errors
/// If the shapes do not fit.
pub fn run(x: &Tensor, layer: &Layer<'_>) -> Result<(Tensor, Tensor, Tensor)> {
    let (&[t, b, input], &[directions, rows, w_input]) = (x.shape(), layer.w.shape()) else {
        refuse!("sequences {:?} with weights {:?}", x.shape(), layer.w.shape());
    };
    let gates = layer.cell.gates();
    let hidden = rows / gates;
    let fits = |t: Option<&Tensor>, shape: &[usize]| t.is_none_or(|t| t.shape() == shape);
    require!(
        w_input == input
            && rows == gates * hidden
            && directions == layer.backwards.len()
            && directions == layer.activations.len()
            && layer.r.shape() == [directions, rows, hidden]
            && fits(layer.bias, &[directions, 2 * rows])
            && fits(layer.peephole, &[directions, 3 * hidden])
            && fits(layer.initial_h, &[directions, b, hidden])
            && fits(layer.initial_c, &[directions, b, hidden])
            && layer
                .lengths
                .as_ref()
                .is_none_or(|l| l.len() == b && l.iter().all(|&l| l <= t)),
        "sequences {:?} with weights {:?} and {:?}",
        x.shape(),
        layer.w.shape(),
        layer.r.shape()
    );
    let (xs, ws, rs) = (x.to_f64s()?, layer.w.to_f64s()?, layer.r.to_f64s()?);
    let or_zeros = |t: Option<&Tensor>, n: usize| match t {
        Some(t) => t.to_f64s(),
        None => Ok(vec![0.0; n]),
    };
    let biases = or_zeros(layer.bias, directions * 2 * rows)?;
    let peepholes = or_zeros(layer.peephole, directions * 3 * hidden)?;
    let mut h = or_zeros(layer.initial_h, directions * b * hidden)?;
    let mut c = or_zeros(layer.initial_c, directions * b * hidden)?;
    let mut out = vec![0f64; t * directions * b * hidden];
    let limit = |v: f64| layer.clip.map_or(v, |l| v.clamp(-l, l));
    for dir in 0..directions {
        let acts = &layer.activations[dir];
        let wants = match layer.cell {
            Cell::Rnn => 1,
            Cell::Gru { .. } => 2,
            Cell::Lstm { .. } => 3,
        };
        require!(acts.len() == wants, "{} activations, {wants} wanted", acts.len());
        let w_row = |row: usize| &ws[(dir * rows + row) * input..][..input];
        let r_row = |row: usize| &rs[(dir * rows + row) * hidden..][..hidden];
        let wb = |row: usize| biases[dir * 2 * rows + row];
        let rb = |row: usize| biases[dir * 2 * rows + rows + row];
        let peep = |gate: usize, k: usize| peepholes[dir * 3 * hidden + gate * hidden + k];
        for entry in 0..b {
            let steps = layer.lengths.as_ref().map_or(t, |l| l[entry]);
            let state = (dir * b + entry) * hidden;
            for i in 0..steps {
                let step = if layer.backwards[dir] { steps - 1 - i } else { i };
                let seen = &xs[(step * b + entry) * input..][..input];
                let old_h = h[state..state + hidden].to_vec();
                let old_c = c[state..state + hidden].to_vec();
                // what reaches row `row` before its activation
                let sum = |row: usize| dot(w_row(row), seen) + dot(r_row(row), &old_h) + wb(row) + rb(row);
                match layer.cell {
                    Cell::Rnn => {
                        for k in 0..hidden {
                            h[state + k] = acts[0].at(limit(sum(k)));
                        }
                    }
                    Cell::Gru { linear_before_reset } => {
                        // gates in the order update, reset, hidden
                        let z: Vec<f64> = (0..hidden).map(|k| acts[0].at(limit(sum(k)))).collect();
                        let reset: Vec<f64> =
                            (0..hidden).map(|k| acts[0].at(limit(sum(hidden + k)))).collect();
                        let through: Vec<f64> = reset.iter().zip(&old_h).map(|(a, b)| a * b).collect();
                        for k in 0..hidden {
                            let row = 2 * hidden + k;
                            let past = if linear_before_reset {
                                reset[k] * (dot(r_row(row), &old_h) + rb(row))
                            } else {
                                dot(r_row(row), &through) + rb(row)
                            };
                            let new = acts[1].at(limit(dot(w_row(row), seen) + wb(row) + past));
                            h[state + k] = (1.0 - z[k]) * new + z[k] * old_h[k];
                        }
                    }
                    Cell::Lstm { input_forget } => {
                        // gates in the order input, output, forget, cell
                        for k in 0..hidden {
                            let gate_in = acts[0].at(limit(sum(k) + peep(0, k) * old_c[k]));
                            let forget = if input_forget {
                                1.0 - gate_in
                            } else {
                                acts[0].at(limit(sum(2 * hidden + k) + peep(2, k) * old_c[k]))
                            };
                            let new = acts[1].at(limit(sum(3 * hidden + k)));
                            let cell = forget * old_c[k] + gate_in * new;
                            let gate_out = acts[0].at(limit(sum(hidden + k) + peep(1, k) * cell));
                            c[state + k] = cell;
                            h[state + k] = gate_out * acts[2].at(cell);
                        }
                    }
                }
                out[((step * directions + dir) * b + entry) * hidden..][..hidden]
                    .copy_from_slice(&h[state..state + hidden]);
            }
        }
    }
    let last = vec![directions, b, hidden];
    Ok((
        Tensor::from_f64s(x.element(), vec![t, directions, b, hidden], &out)?,
        Tensor::from_f64s(x.element(), last.clone(), &h)?,
        Tensor::from_f64s(x.element(), last, &c)?,
    ))
}
