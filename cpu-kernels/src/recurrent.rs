//! Recurrent layers: LSTM, GRU and the plain RNN, one direction.
//!
//! The input's contribution to all steps is one product; each step then multiplies only the state.
//! Gates are in ONNX's order: `i o f c`, `z r h`, or a single one.
//!
//! Not here: peepholes, clipping, lengths of single sequences.

use crate::elementwise::unary_in_place;
use crate::gemm::{GemmPlan, Matrix};
use crate::{Epilogue, Error, Isa, ThreadPool, Unary};

/// The kind of cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// `c = f ⊙ c + i ⊙ g(x, h)`, `h = o ⊙ tanh(c)`.
    Lstm,
    /// `h = (1 - z) ⊙ candidate + z ⊙ h`.
    Gru {
        /// Whether the reset gate is applied to the product of the state instead of to the state.
        linear_before_reset: bool,
    },
    /// `h = f(x, h)`.
    Rnn,
}

impl Cell {
    /// Number of gates, each with as many columns as the state.
    #[must_use]
    pub fn gates(self) -> usize {
        match self {
            Cell::Lstm => 4,
            Cell::Gru { .. } => 3,
            Cell::Rnn => 1,
        }
    }

    /// Whether a reset gate scales the state's product.
    fn resets_product(self) -> bool {
        self == Cell::Gru {
            linear_before_reset: true,
        }
    }
}

/// Shape and order of a recurrent layer.
#[derive(Debug, Clone, Copy)]
pub struct RecurrentParams {
    /// The kind of cell.
    pub cell: Cell,
    /// Steps.
    pub steps: usize,
    /// Sequences.
    pub batch: usize,
    /// Elements of the input of a step.
    pub input: usize,
    /// Elements of the state.
    pub hidden: usize,
    /// Whether the sequence is `[batch, steps, input]` instead of `[steps, batch, input]`.
    pub batch_first: bool,
    /// Whether steps are computed from the last to the first.
    pub reverse: bool,
    /// Activation functions: gates, candidate and state for an LSTM; gates and candidate for a GRU;
    /// a single one for an RNN.
    pub functions: [Unary; 3],
}

/// The weights of one direction, in ONNX's layout.
#[derive(Debug, Clone, Copy)]
pub struct Weights<'a> {
    /// `[gates · hidden, input]`.
    pub input: &'a [f32],
    /// `[gates · hidden, hidden]`.
    pub state: &'a [f32],
    /// `[2 · gates · hidden]`: the input's bias, then the state's.
    pub bias: Option<&'a [f32]>,
}

/// The input sequences of a run.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// `[steps, batch, input]`, or `[batch, steps, input]` where the batch is first.
    pub data: &'a [f32],
    /// Number of steps of each sequence, if they differ. After the end of a sequence its state
    /// stays the same and its results are zero; in reverse order, a sequence starts at its own end.
    pub lengths: Option<&'a [i32]>,
}

/// The output for the results of all steps of one direction.
#[derive(Debug)]
pub struct Sequence<'a> {
    /// The elements.
    pub data: &'a mut [f32],
    /// Index of the first step of the first sequence.
    pub first: usize,
    /// Elements between steps.
    pub step: usize,
    /// Elements between sequences.
    pub batch: usize,
}

/// A recurrent layer of one direction, planned for its shape.
///
/// ```
/// use polychip_cpu_kernels::recurrent::{Cell, Input, RecurrentParams, RecurrentPlan, Sequence, Weights};
/// use polychip_cpu_kernels::{Isa, ThreadPool, Unary};
///
/// let params = RecurrentParams {
///     cell: Cell::Rnn,
///     steps: 3,
///     batch: 1,
///     input: 1,
///     hidden: 1,
///     batch_first: false,
///     reverse: false,
///     functions: [Unary::Identity; 3],
/// };
/// let (plan, pool) = (RecurrentPlan::new(Isa::detect(), params)?, ThreadPool::new(1));
/// let mut packed = vec![0.0; plan.packed_len()];
/// plan.pack(Weights { input: &[1.0], state: &[2.0], bias: None }, &mut packed);
/// let (mut y, mut state) = ([0.0; 3], [0.0]);
/// let mut scratch = vec![0.0; plan.scratch_len(&pool)];
/// let sequence = Sequence { data: &mut y, first: 0, step: 1, batch: 1 };
/// let input = Input { data: &[1.0, 10.0, 100.0], lengths: None };
/// plan.run(&pool, &packed, input, &mut state, &mut [], Some(sequence), &mut scratch);
/// assert_eq!(y, [1.0, 12.0, 124.0]);
/// # Ok::<(), polychip_cpu_kernels::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RecurrentPlan {
    params: RecurrentParams,
    isa: Isa,
    /// The input's product, for all gates.
    input: GemmPlan,
    /// The state's product, for all gates but a candidate that is reset before it.
    state: GemmPlan,
    /// That candidate's.
    candidate: Option<GemmPlan>,
}

fn aligned(len: usize) -> usize {
    len.next_multiple_of(16)
}

impl RecurrentPlan {
    /// Plans a layer.
    ///
    /// # Errors
    /// If a product is too large for the address space.
    pub fn new(isa: Isa, params: RecurrentParams) -> Result<Self, Error> {
        let RecurrentParams {
            cell, input, hidden, ..
        } = params;
        let columns = cell.gates().saturating_mul(hidden);
        let resets_state = cell
            == Cell::Gru {
                linear_before_reset: false,
            };
        let (own, candidate) = if resets_state {
            (2 * hidden, Some(GemmPlan::new(isa, hidden, hidden)?))
        } else {
            (columns, None)
        };
        Ok(Self {
            params,
            isa,
            input: GemmPlan::new(isa, input, columns)?,
            state: GemmPlan::new(isa, hidden, own)?,
            candidate,
        })
    }

    /// Multiply-adds: of the inputs of a whole run, and of the state in one step of one sequence.
    #[must_use]
    pub fn multiply_adds(&self) -> (usize, usize) {
        let row = |plan: &GemmPlan| plan.multiply_adds_per_row();
        let inputs = row(&self.input).saturating_mul(self.params.steps * self.params.batch);
        (inputs, row(&self.state) + self.candidate.as_ref().map_or(0, row))
    }

    /// Floats of the packed weights.
    #[must_use]
    pub fn packed_len(&self) -> usize {
        let candidate = self.candidate.as_ref().map_or(0, GemmPlan::packed_len);
        aligned(self.input.packed_len()) + aligned(self.state.packed_len()) + candidate
    }

    /// The packed weights of each product.
    fn parts(&self) -> [std::ops::Range<usize>; 3] {
        let state = aligned(self.input.packed_len());
        let candidate = state + aligned(self.state.packed_len());
        [
            0..self.input.packed_len(),
            state..state + self.state.packed_len(),
            candidate..self.packed_len(),
        ]
    }

    /// Packs weights.
    ///
    /// # Panics
    /// If a slice is shorter than its shape.
    pub fn pack(&self, weights: Weights<'_>, packed: &mut [f32]) {
        let RecurrentParams {
            cell, input, hidden, ..
        } = self.params;
        let columns = cell.gates() * hidden;
        let [first, second, third] = self.parts();
        let linear = cell.resets_product();
        let mut bias = vec![0.0; columns];
        let mut behind = vec![0.0; columns];
        if let Some(both) = weights.bias {
            for (i, bias) in bias.iter_mut().enumerate() {
                // what the reset gate scales is added behind its product
                let scaled = linear && i >= 2 * hidden;
                *bias = both[i] + if scaled { 0.0 } else { both[columns + i] };
                if scaled {
                    behind[i] = both[columns + i];
                }
            }
        }
        self.input.pack(
            Matrix::columns(&weights.input[..columns * input], input),
            Some(&bias),
            &mut packed[first],
        );
        let state = &weights.state[..columns * hidden];
        let behind = linear.then_some(&behind[..]);
        self.state
            .pack(Matrix::columns(state, hidden), behind, &mut packed[second]);
        if let Some(candidate) = &self.candidate {
            let own = Matrix::columns(&state[2 * hidden * hidden..], hidden);
            candidate.pack(own, None, &mut packed[third]);
        }
    }

    /// Floats of scratch: all steps' gates of the input, one step's gates, a spare state, states that stay, and what
    /// products need.
    fn shares(&self, pool: &ThreadPool) -> [usize; 5] {
        let RecurrentParams {
            cell,
            steps,
            batch,
            hidden,
            ..
        } = self.params;
        let columns = cell.gates() * hidden;
        let product = |plan: &GemmPlan, rows| plan.scratch_len(rows, pool);
        let products = [
            product(&self.input, steps * batch),
            product(&self.state, batch),
            self.candidate.as_ref().map_or(0, |plan| product(plan, batch)),
        ];
        [
            aligned(steps * batch * columns),
            aligned(batch * columns),
            aligned(batch * hidden),
            aligned(2 * batch * hidden),
            products.into_iter().max().unwrap_or(0),
        ]
    }

    /// Floats of scratch that a run needs.
    #[must_use]
    pub fn scratch_len(&self, pool: &ThreadPool) -> usize {
        self.shares(pool).iter().sum()
    }

    /// Runs all steps on the sequences of `x`. `h`, and `c` for an LSTM, `[batch, hidden]`, hold
    /// the initial state and afterwards the final one.
    ///
    /// # Panics
    /// If a slice is shorter than its shape, or scratch than [`scratch_len`](Self::scratch_len).
    pub fn run(
        &self,
        pool: &ThreadPool,
        packed: &[f32],
        x: Input<'_>,
        h: &mut [f32],
        c: &mut [f32],
        mut y: Option<Sequence<'_>>,
        scratch: &mut [f32],
    ) {
        let params = &self.params;
        let RecurrentParams {
            cell,
            steps,
            batch,
            input,
            hidden,
            ..
        } = *params;
        let columns = cell.gates() * hidden;
        let [input_weights, state_weights, candidate_weights] = self.parts().map(|part| &packed[part]);
        let [all, one, other, kept, products] = self.shares(pool);
        let (all, rest) = scratch.split_at_mut(all);
        let (gates, rest) = rest.split_at_mut(one);
        let (spare, rest) = rest.split_at_mut(other);
        let (kept, rest) = rest.split_at_mut(kept);
        let products = &mut rest[..products];
        self.input.run(
            pool,
            steps * batch,
            Matrix::rows(x.data, input),
            input_weights,
            None,
            Epilogue::NONE,
            &mut *all,
            columns,
            products,
        );
        for i in 0..steps {
            let step = if params.reverse { steps - 1 - i } else { i };
            // a sequence that is over, or backwards has not begun
            let rests = |row: usize| {
                x.lengths
                    .is_some_and(|lengths| step as i64 >= i64::from(lengths[row]))
            };
            let resting = (0..batch).filter(|&row| rests(row));
            for row in resting.clone() {
                let of = row * hidden..(row + 1) * hidden;
                kept[of.clone()].copy_from_slice(&h[of.clone()]);
                if cell == Cell::Lstm {
                    kept[batch * hidden..][of.clone()].copy_from_slice(&c[of]);
                }
            }
            let (first, stride) = if params.batch_first {
                (step * columns, steps * columns)
            } else {
                (step * batch * columns, columns)
            };
            let taken = &all[first..];
            let added = |from: usize| Some(Matrix::rows(&taken[from..], stride));
            let linear = cell.resets_product();
            let own = if self.candidate.is_some() {
                2 * hidden
            } else {
                columns
            };
            self.state.run(
                pool,
                batch,
                Matrix::rows(&*h, hidden),
                state_weights,
                if linear { None } else { added(0) },
                Epilogue::NONE,
                &mut *gates,
                own,
                products,
            );
            let apply = |function: Unary, data: &mut [f32]| unary_in_place(self.isa, pool, function, data);
            let [first_function, second, third] = params.functions;
            match cell {
                Cell::Rnn => {
                    h.copy_from_slice(&gates[..batch * hidden]);
                    apply(first_function, h);
                }
                Cell::Lstm => {
                    for row in gates[..batch * columns].chunks_exact_mut(columns) {
                        apply(first_function, &mut row[..3 * hidden]);
                        apply(second, &mut row[3 * hidden..]);
                    }
                    let rows = gates.chunks_exact(columns).zip(c.chunks_exact_mut(hidden));
                    for (row, c) in rows {
                        let (i, f, g) = (&row[..hidden], &row[2 * hidden..3 * hidden], &row[3 * hidden..]);
                        for (((c, i), f), g) in c.iter_mut().zip(i).zip(f).zip(g) {
                            *c = f * *c + i * g;
                        }
                    }
                    h.copy_from_slice(c);
                    apply(third, h);
                    for (row, h) in gates.chunks_exact(columns).zip(h.chunks_exact_mut(hidden)) {
                        for (h, o) in h.iter_mut().zip(&row[hidden..2 * hidden]) {
                            *h *= o;
                        }
                    }
                }
                Cell::Gru { .. } => {
                    let candidates = &mut spare[..batch * hidden];
                    let rows = |row: usize| row * stride..row * stride + columns;
                    if linear {
                        for (row, gates) in gates[..batch * columns].chunks_exact_mut(columns).enumerate() {
                            let (both, _) = gates.split_at_mut(2 * hidden);
                            for (gate, x) in both.iter_mut().zip(&taken[rows(row)]) {
                                *gate += x;
                            }
                            apply(first_function, both);
                        }
                        let each = gates
                            .chunks_exact(columns)
                            .zip(candidates.chunks_exact_mut(hidden));
                        for (row, (gates, candidate)) in each.enumerate() {
                            let own = &taken[rows(row)][2 * hidden..];
                            let (r, product) = (&gates[hidden..2 * hidden], &gates[2 * hidden..]);
                            for (((y, x), r), product) in candidate.iter_mut().zip(own).zip(r).zip(product) {
                                *y = x + r * product;
                            }
                        }
                    } else {
                        apply(first_function, &mut gates[..batch * own]);
                        let each = gates.chunks_exact(own).zip(h.chunks_exact(hidden));
                        // the reset state lies where candidates will, and the product behind the gates
                        for ((gates, h), reset) in each.zip(candidates.chunks_exact_mut(hidden)) {
                            for ((reset, h), r) in reset.iter_mut().zip(h).zip(&gates[hidden..2 * hidden]) {
                                *reset = h * r;
                            }
                        }
                        let (_, product) = gates.split_at_mut(batch * own);
                        if let Some(plan) = &self.candidate {
                            plan.run(
                                pool,
                                batch,
                                Matrix::rows(&*candidates, hidden),
                                candidate_weights,
                                added(2 * hidden),
                                Epilogue::NONE,
                                &mut *product,
                                hidden,
                                products,
                            );
                        }
                        candidates.copy_from_slice(&product[..batch * hidden]);
                    }
                    apply(second, candidates);
                    let each = gates.chunks_exact(own).zip(h.chunks_exact_mut(hidden));
                    for ((gates, h), candidate) in each.zip(candidates.chunks_exact(hidden)) {
                        for ((h, z), candidate) in h.iter_mut().zip(&gates[..hidden]).zip(candidate) {
                            *h = (1.0 - z) * candidate + z * *h;
                        }
                    }
                }
            }
            for row in resting {
                let of = row * hidden..(row + 1) * hidden;
                h[of.clone()].copy_from_slice(&kept[of.clone()]);
                if cell == Cell::Lstm {
                    c[of.clone()].copy_from_slice(&kept[batch * hidden..][of]);
                }
            }
            if let Some(y) = &mut y {
                for (row, h) in h.chunks_exact(hidden).enumerate() {
                    let at = y.first + step * y.step + row * y.batch;
                    if rests(row) {
                        y.data[at..at + hidden].fill(0.0);
                    } else {
                        y.data[at..at + hidden].copy_from_slice(h);
                    }
                }
            }
        }
    }
}
