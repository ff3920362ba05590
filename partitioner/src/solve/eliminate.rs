//! Exact minimisation by variable elimination (non-serial dynamic programming).
//!
//! Invariants: each step replaces all tables that hold a variable by their minimum over it, which
//! keeps the minimum of the whole; among equal values the first one is taken.
//! Deliberately not here: the order (`order`), and tables that grow too large (`bound`).

use super::network::{Factor, Network, Table};
use super::order::{Order, order};
use crate::problem::{FORBIDDEN, add};
use smallvec::SmallVec;
use std::sync::Arc;

/// The best value of a variable, over all values of its scope.
pub(super) type Choices = SmallVec<[u16; 12]>;

/// Table size from which tables are built value by value instead of entry by entry.
const LARGE: usize = 64;

/// The outcome of elimination.
pub(super) enum Outcome {
    /// The minimum, with the index of each variable's value.
    Exact { values: Vec<u32>, cost: u64 },
    /// Every assignment uses a forbidden value or link.
    Infeasible,
    /// A table would exceed the limit.
    TooWide,
}

/// Minimises a network whose tables all fit in `table_limit` entries.
pub(super) fn eliminate(network: &Network, table_limit: u64) -> Outcome {
    eliminate_in(network, &order(network, table_limit))
}

/// As [`eliminate`], in an order that was made for a network with the same scopes.
pub(super) fn eliminate_in(network: &Network, order: &Order) -> Outcome {
    if !order.narrow {
        return Outcome::TooWide;
    }
    let gone = eliminate_first(network, order);
    if gone.cost == FORBIDDEN {
        return Outcome::Infeasible;
    }
    let mut values = vec![0u32; network.variables() as usize];
    read_off(network, order, &gone.best, &mut values);
    Outcome::Exact {
        values,
        cost: gone.cost,
    }
}

/// The rest of a network after elimination of the first variables.
pub(super) struct Gone {
    /// The best value of each of those, over all values of its scope.
    pub(super) best: Vec<Choices>,
    /// The constant of the rest.
    pub(super) cost: u64,
    /// The tables of the rest.
    pub(super) left: Vec<Factor>,
}

/// Eliminates the variables that have a scope in the order: all of a narrow one.
pub(super) fn eliminate_first(network: &Network, order: &Order) -> Gone {
    let steps = order.scopes.len();
    // tables without such a variable remain
    let first = |scope: &[u32]| {
        let places = scope.iter().map(|&v| order.position[v as usize] as usize);
        places.min().expect("invariant: scopes are not empty").min(steps)
    };
    let given = ByStep::new(
        steps + 1,
        network.factors.iter().map(|factor| first(&factor.scope)),
    );
    // the table of each step over its scope, until the step that reads it
    let mut sent: Vec<Table> = Vec::with_capacity(steps);
    let mut senders = Waiting::new(steps + 1);
    let mut best: Vec<Choices> = Vec::with_capacity(steps);
    let mut cost = network.constant;
    for step in 0..steps {
        let variable = order.sequence[step];
        let scope = &order.scopes[step];
        let messages: SmallVec<[(usize, Table); 4]> = senders
            .of(step)
            .map(|sender| (sender, std::mem::take(&mut sent[sender])))
            .collect();
        let factors = given.of(step).map(|index| {
            let factor = &network.factors[index];
            (factor.scope.as_slice(), factor.table.as_slice())
        });
        let tables: SmallVec<[(&[u32], &[u64]); 8]> = factors
            .chain(
                messages
                    .iter()
                    .map(|(sender, table)| (order.scopes[*sender].as_slice(), table.as_slice())),
            )
            .collect();
        let (table, choice) = least(network, variable, scope, &tables);
        best.push(choice);
        if scope.is_empty() {
            cost = add(cost, table[0]);
            sent.push(Table::new());
        } else {
            senders.add(first(scope), step);
            sent.push(table);
        }
    }
    let mut left: Vec<Factor> = given
        .of(steps)
        .map(|index| network.factors[index].clone())
        .collect();
    left.extend(senders.of(steps).map(|sender| Factor {
        scope: order.scopes[sender].clone(),
        table: Arc::new(std::mem::take(&mut sent[sender])),
    }));
    Gone { best, cost, left }
}

/// Fills in the values chosen by each step, from the last step to the first.
pub(super) fn read_off(network: &Network, order: &Order, best: &[Choices], values: &mut [u32]) {
    for step in (0..best.len()).rev() {
        let place = order.scopes[step].iter().fold(0usize, |place, &v| {
            place * network.count(v) + values[v as usize] as usize
        });
        values[order.sequence[step] as usize] = u32::from(best[step][place]);
    }
}

/// The least sum of tables around a variable, over all values of a scope, and the first value that gives it.
pub(super) fn least(
    network: &Network,
    variable: u32,
    scope: &[u32],
    tables: &[(&[u32], &[u64])],
) -> (Table, Choices) {
    let size: usize = scope.iter().map(|&v| network.count(v)).product();
    if size >= LARGE {
        let (table, choice) = large(network, variable, scope, tables);
        return (table.into(), choice.into());
    }
    let mut sum = Sum::new(network, variable, scope, tables.iter().copied());
    let (mut table, mut choice) = (Table::with_capacity(size), Choices::with_capacity(size));
    for _ in 0..size {
        let (value, least) = sum.least();
        table.push(least);
        choice.push(value);
        sum.advance();
    }
    (table, choice)
}

/// Numbers of factors in groups, by the step that reads them.
pub(super) struct ByStep {
    /// Where each group starts, and the end.
    starts: Vec<u32>,
    indices: Vec<u32>,
}

impl ByStep {
    pub(super) fn new(steps: usize, step_of: impl ExactSizeIterator<Item = usize> + Clone) -> Self {
        let mut starts = vec![0u32; steps + 1];
        for step in step_of.clone() {
            starts[step + 1] += 1;
        }
        for step in 0..steps {
            starts[step + 1] += starts[step];
        }
        let mut next = starts.clone();
        let mut indices = vec![0; step_of.len()];
        for (index, step) in step_of.enumerate() {
            indices[next[step] as usize] = index as u32;
            next[step] += 1;
        }
        Self { starts, indices }
    }

    pub(super) fn of(&self, step: usize) -> impl Iterator<Item = usize> + '_ {
        let group = self.starts[step] as usize..self.starts[step + 1] as usize;
        self.indices[group].iter().map(|&index| index as usize)
    }
}

/// Per step, the earlier steps whose tables it reads, as linked lists.
pub(super) struct Waiting {
    /// The last added one; `NO_STEP` at the end of a list.
    last: Vec<u32>,
    before: Vec<u32>,
}

const NO_STEP: u32 = u32::MAX;

impl Waiting {
    pub(super) fn new(steps: usize) -> Self {
        Self {
            last: vec![NO_STEP; steps],
            before: vec![NO_STEP; steps],
        }
    }

    pub(super) fn add(&mut self, step: usize, sender: usize) {
        self.before[sender] = self.last[step];
        self.last[step] = sender as u32;
    }

    pub(super) fn of(&self, step: usize) -> impl Iterator<Item = usize> + '_ {
        let some = |sender: u32| (sender != NO_STEP).then_some(sender as usize);
        std::iter::successors(some(self.last[step]), move |&sender| some(self.before[sender]))
    }
}

/// The least sum of tables around a variable, and the first value that gives it, over all values of a scope: one
/// value of the variable at a time, so that the inner loops run over whole rows of the tables.
fn large(
    network: &Network,
    variable: u32,
    scope: &[u32],
    tables: &[(&[u32], &[u64])],
) -> (Vec<u64>, Vec<u16>) {
    let size = scope.iter().map(|&v| network.count(v)).product();
    let mut axes = Vec::with_capacity(tables.len());
    for &(variables, _) in tables {
        let (mut distance, mut stride) = (1, 0);
        let mut strides = vec![0; scope.len()];
        for &v in variables.iter().rev() {
            if v == variable {
                stride = distance;
            } else if let Ok(at) = scope.binary_search(&v) {
                strides[at] = distance;
            }
            distance *= network.count(v);
        }
        axes.push((
            stride,
            Axis::joined(scope.iter().map(|&v| network.count(v)), &strides),
        ));
    }
    let (mut least, mut choice) = (vec![FORBIDDEN; size], vec![0u16; size]);
    let mut sums = vec![0; size];
    for (value, &own) in network.own(variable).iter().enumerate() {
        sums.fill(own);
        for ((stride, axes), (_, table)) in axes.iter().zip(tables) {
            add_table(&mut sums, &table[value * stride..], axes);
        }
        for ((least, choice), &sum) in least.iter_mut().zip(&mut choice).zip(&sums) {
            if sum < *least {
                (*least, *choice) = (sum, value as u16);
            }
        }
    }
    (least, choice)
}

/// Some neighbouring variables of a scope, walked as one.
struct Axis {
    count: usize,
    /// Distance in the table between two steps.
    stride: usize,
}

impl Axis {
    /// The axes of a table, with contiguous neighbours merged.
    fn joined(counts: impl Iterator<Item = usize>, strides: &[usize]) -> Vec<Self> {
        let mut axes: Vec<Self> = Vec::with_capacity(strides.len());
        for (count, &stride) in counts.zip(strides) {
            match axes.last_mut() {
                Some(outer) if outer.stride == stride * count => {
                    *outer = Self {
                        count: outer.count * count,
                        stride,
                    };
                }
                _ => axes.push(Self { count, stride }),
            }
        }
        axes
    }
}

/// Adds a table, repeated along axes of stride zero, to sums over all axes.
fn add_table(sums: &mut [u64], table: &[u64], axes: &[Axis]) {
    match axes {
        [] => sums[0] = add(sums[0], table[0]),
        [Axis { stride: 0, .. }] => sums.iter_mut().for_each(|sum| *sum = add(*sum, table[0])),
        [Axis { stride, .. }] => {
            for (sum, &cost) in sums.iter_mut().zip(table.iter().step_by(*stride)) {
                *sum = add(*sum, cost);
            }
        }
        [outer, inner @ ..] => {
            let rows = sums.chunks_exact_mut(sums.len() / outer.count);
            for (index, row) in rows.enumerate() {
                add_table(row, &table[index * outer.stride..], inner);
            }
        }
    }
}

/// The sum of tables around one variable, walked over all values of a scope, last variable fastest.
pub(super) struct Sum<'a> {
    own: std::borrow::Cow<'a, [u64]>,
    tables: SmallVec<[Operand<'a>; 8]>,
    counts: SmallVec<[usize; 6]>,
    index: SmallVec<[usize; 6]>,
    /// Per table and scope variable, the distance in the table.
    strides: SmallVec<[usize; 32]>,
    /// Number of value combinations of the scope.
    pub(super) size: usize,
}

struct Operand<'a> {
    table: &'a [u64],
    place: usize,
    /// Distance in the table between two values of the eliminated variable.
    stride: usize,
}

impl<'a> Sum<'a> {
    pub(super) fn new(
        network: &'a Network,
        variable: u32,
        scope: &[u32],
        inputs: impl Iterator<Item = (&'a [u32], &'a [u64])>,
    ) -> Self {
        let counts: SmallVec<[usize; 6]> = scope.iter().map(|&v| network.count(v)).collect();
        let mut tables = SmallVec::new();
        let mut strides: SmallVec<[usize; 32]> = SmallVec::new();
        for (variables, table) in inputs {
            let base = strides.len();
            strides.resize(base + scope.len(), 0);
            let (mut distance, mut stride) = (1, 0);
            for &v in variables.iter().rev() {
                if v == variable {
                    stride = distance;
                } else if let Ok(at) = scope.binary_search(&v) {
                    strides[base + at] = distance;
                }
                distance *= network.count(v);
            }
            tables.push(Operand {
                table,
                place: 0,
                stride,
            });
        }
        let size = counts.iter().product();
        Self {
            own: network.own(variable).into(),
            tables,
            index: SmallVec::from_elem(0, counts.len()),
            counts,
            strides,
            size,
        }
    }

    /// Leaves the variable's own costs out.
    pub(super) fn without_own(&mut self) {
        self.own.to_mut().fill(0);
    }

    /// The least value at the current position and its cost; the first among equals.
    pub(super) fn least(&self) -> (u16, u64) {
        let (mut value, mut least) = (0u16, FORBIDDEN);
        for (at, &own) in self.own.iter().enumerate() {
            let mut sum = own;
            for operand in &self.tables {
                sum = add(sum, operand.table[operand.place + at * operand.stride]);
            }
            if sum < least {
                (value, least) = (at as u16, sum);
            }
        }
        (value, least)
    }

    /// Moves to the next position.
    pub(super) fn advance(&mut self) {
        let width = self.counts.len();
        for at in (0..width).rev() {
            self.index[at] += 1;
            let back = if self.index[at] < self.counts[at] {
                0
            } else {
                self.index[at] = 0;
                self.counts[at]
            };
            for (operand, strides) in self.tables.iter_mut().zip(self.strides.chunks(width)) {
                operand.place = operand.place + strides[at] - back * strides[at];
            }
            if back == 0 {
                return;
            }
        }
    }
}
