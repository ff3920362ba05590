//! CombiLP: solves the variables that reparametrisation leaves undecided exactly, subproblem by
//! subproblem.
//!
//! After reparametrisation no cost is negative, so an assignment that costs only the constant is
//! the optimum. In inference graphs, most tables cost nothing under the best assignment. The
//! variables of the others form connected subproblems, each solved exactly without the tables at
//! its border. If the border's tables cost nothing under that solution, the subproblem is settled:
//! no other choice outside gains. If one has a cost, its variables join the subproblem. (B.
//! Savchynskyy, J. Kappes, P. Swoboda, C. Schnörr, Global MAP-Optimality by Shrinking the
//! Combinatorial Search Area with Convex Relaxation, NIPS 2013.)
//!
//! Invariants: in settled subproblems the assignment is the optimum; among equal solutions of a
//! subproblem, one with the fewest costly tables at its border is taken; work is counted in table
//! entries.
//! Deliberately not here: subproblems that are too wide (`wide`).

use smallvec::SmallVec;
use std::sync::Arc;

use super::around::{Around, entry};
use super::eliminate::{Outcome, eliminate_in};
use super::network::{Factor, Network, Scope, Table};
use super::order::{FEW, within};
use crate::problem::{FORBIDDEN, add};

/// Marks a variable outside the current subproblems.
const OUTSIDE: u32 = u32::MAX;

/// The outcome of solving the subproblems.
pub(super) enum Verdict {
    /// The assignment is the optimum.
    Settled,
    /// The tables of subproblems of these variables would have too many entries.
    Wide(Vec<u32>),
    /// Every assignment uses a forbidden value or link.
    Infeasible,
}

/// Chooses values for some variables greedily, in the order of visits, given the values already
/// chosen.
pub(super) fn choose(core: &Network, around: &Around, variables: &[u32], chosen: &mut [u32]) {
    let mut is_free = vec![false; chosen.len()];
    variables.iter().for_each(|&v| is_free[v as usize] = true);
    let mut sums: Vec<u64> = Vec::new();
    for &v in variables {
        sums.clear();
        sums.extend_from_slice(core.own(v));
        for meeting in around.of(v) {
            let factor = &core.factors[meeting.factor as usize];
            // the table's offset for the others' values, and the axes along which the least entry
            // is sought
            let (mut base, mut distance) = (0, 1);
            let mut free: SmallVec<[(usize, usize); 6]> = SmallVec::new();
            for &u in factor.scope.iter().rev() {
                if u != v && is_free[u as usize] {
                    free.push((core.count(u), distance));
                } else if u != v {
                    base += chosen[u as usize] as usize * distance;
                }
                distance *= core.count(u);
            }
            for (value, sum) in sums.iter_mut().enumerate() {
                let place = base + value * meeting.inner as usize;
                *sum = add(*sum, least(&factor.table, place, &free));
            }
        }
        let best = sums.iter().enumerate().min_by_key(|&(at, &sum)| (sum, at));
        chosen[v as usize] = best.map_or(0, |(at, _)| at as u32);
        is_free[v as usize] = false;
    }
}

/// The least entry of a table from an offset, along axes with a count and a stride each.
fn least(table: &[u64], place: usize, axes: &[(usize, usize)]) -> u64 {
    match axes {
        [] => table[place],
        [(count, distance), inner @ ..] => (0..*count)
            .map(|at| least(table, place + at * distance, inner))
            .min()
            .unwrap_or(FORBIDDEN),
    }
}

/// Subproblems in a network, kept while it is reparametrised further.
pub(super) struct Subproblems {
    /// Per variable, whether it is in a subproblem.
    is_open: Vec<bool>,
    /// Per variable, whether its subproblem is too wide.
    is_wide: Vec<bool>,
    /// Per variable, its number in the subproblem at hand.
    number: Vec<u32>,
    /// Per table, whether the current walk visited it.
    seen: Vec<bool>,
    /// Variables examined since [`Self::keep`], possibly with duplicates.
    touched: Vec<u32>,
    /// Per variable, whether it was in a subproblem then.
    kept: Vec<bool>,
    /// Whether the network is in finer units ([`Network::in_finer_units`]).
    is_finer: bool,
    /// Table entries left for later subproblems.
    pub(super) left: u64,
}

/// A reparametrised network and an assignment of its variables.
pub(super) struct Labelling<'a> {
    pub(super) core: &'a Network,
    pub(super) around: &'a Around,
    pub(super) chosen: &'a mut [u32],
}

impl Labelling<'_> {
    fn scope(&self, table: u32) -> &[u32] {
        &self.core.factors[table as usize].scope
    }

    pub(super) fn entry(&self, table: u32) -> u64 {
        entry(self.core, table, self.chosen)
    }
}

impl Subproblems {
    pub(super) fn new(core: &Network, left: u64) -> Self {
        let variables = core.variables() as usize;
        Self {
            is_open: vec![false; variables],
            is_wide: vec![false; variables],
            number: vec![OUTSIDE; variables],
            seen: vec![false; core.factors.len()],
            touched: Vec::new(),
            kept: Vec::new(),
            is_finer: false,
            left,
        }
    }

    /// As [`Self::new`], in a network whose costs are already in finer units, so that no subproblem
    /// scales them.
    pub(super) fn in_finer_units(self, is_finer: bool) -> Self {
        Self { is_finer, ..self }
    }

    /// Saves the subproblems, to be restored later.
    pub(super) fn keep(&mut self) {
        self.kept.clone_from(&self.is_open);
        self.touched.clear();
    }

    /// The variables of subproblems since then, without duplicates.
    pub(super) fn touched(&mut self) -> &[u32] {
        self.touched.sort_unstable();
        self.touched.dedup();
        &self.touched
    }

    /// Restores the saved subproblems.
    pub(super) fn go_back(&mut self) {
        for v in self.touched.drain(..) {
            self.is_open[v as usize] = self.kept[v as usize];
        }
    }

    /// Solves the subproblems at these variables, whose tables or values have changed. They grow
    /// until they are settled, or exceed a limit: `times` [`FEW`] entries per variable,
    /// `table_limit` entries of one table, or the entries that are left.
    pub(super) fn settle(
        &mut self,
        labelling: &mut Labelling<'_>,
        changed: &[u32],
        table_limit: u64,
        times: u64,
    ) -> Verdict {
        let mut wide = Vec::new();
        let verdict = self.grow(labelling, changed, &mut wide, table_limit, times);
        wide.iter().for_each(|&v| self.is_wide[v as usize] = false);
        match verdict {
            Verdict::Settled if !wide.is_empty() => Verdict::Wide(wide),
            verdict => verdict,
        }
    }

    /// As [`Self::settle`], with the variables of too wide subproblems listed separately.
    fn grow(
        &mut self,
        labelling: &mut Labelling<'_>,
        changed: &[u32],
        wide: &mut Vec<u32>,
        table_limit: u64,
        times: u64,
    ) -> Verdict {
        let mut seeds = self.costly(labelling, changed);
        while !seeds.is_empty() {
            let mut reached = Vec::new();
            for subproblem in self.connected(labelling, &seeds) {
                let is_wide = subproblem.iter().any(|&v| self.is_wide[v as usize]);
                let solved = (!is_wide).then(|| self.solve(labelling, &subproblem, table_limit, times));
                match solved.flatten() {
                    Some(Outcome::Exact { values, .. }) => {
                        self.touched.extend_from_slice(&subproblem);
                        for (&v, value) in subproblem.iter().zip(values) {
                            labelling.chosen[v as usize] = value;
                        }
                        self.reach(labelling, &subproblem, &mut reached);
                    }
                    Some(Outcome::Infeasible) => return Verdict::Infeasible,
                    Some(Outcome::TooWide) | None => {
                        for v in subproblem {
                            if !std::mem::replace(&mut self.is_wide[v as usize], true) {
                                wide.push(v);
                            }
                        }
                    }
                }
            }
            reached.iter().for_each(|&v| self.is_open[v as usize] = true);
            self.touched.extend_from_slice(&reached);
            seeds = reached;
        }
        Verdict::Settled
    }

    /// Opens subproblems at these variables where they, their tables or those of their subproblems
    /// have a cost.
    fn costly(&mut self, labelling: &Labelling<'_>, changed: &[u32]) -> Vec<u32> {
        let open: Vec<u32> = changed
            .iter()
            .copied()
            .filter(|&v| self.is_open[v as usize])
            .collect();
        let mut all = changed.to_vec();
        all.extend(self.connected(labelling, &open).into_iter().flatten());
        all.iter().for_each(|&v| self.is_open[v as usize] = false);
        let mut seeds: Vec<u32> = all.clone();
        seeds.retain(|&v| labelling.core.own(v)[labelling.chosen[v as usize] as usize] > 0);
        for table in self.tables(labelling, &all) {
            if labelling.entry(table) > 0 {
                seeds.extend_from_slice(labelling.scope(table));
            }
        }
        seeds.iter().for_each(|&v| self.is_open[v as usize] = true);
        self.touched.extend_from_slice(&all);
        self.touched.extend_from_slice(&seeds);
        seeds
    }

    /// The subproblems of open variables, each ascending: variables connected by tables with open
    /// variables only.
    fn connected(&mut self, labelling: &Labelling<'_>, variables: &[u32]) -> Vec<Vec<u32>> {
        let mut subproblems = Vec::new();
        for &seed in variables {
            if std::mem::replace(&mut self.number[seed as usize], 0) != OUTSIDE {
                continue;
            }
            let (mut subproblem, mut next) = (vec![seed], 0);
            while let Some(&v) = subproblem.get(next) {
                next += 1;
                for meeting in labelling.around.of(v) {
                    let scope = labelling.scope(meeting.factor);
                    if scope.iter().all(|&v| self.is_open[v as usize]) {
                        for &u in scope {
                            if std::mem::replace(&mut self.number[u as usize], 0) == OUTSIDE {
                                subproblem.push(u);
                            }
                        }
                    }
                }
            }
            subproblem.sort_unstable();
            subproblems.push(subproblem);
        }
        for &v in subproblems.iter().flatten() {
            self.number[v as usize] = OUTSIDE;
        }
        subproblems
    }

    /// The tables around some variables, without duplicates.
    pub(super) fn tables(&mut self, labelling: &Labelling<'_>, variables: &[u32]) -> Vec<u32> {
        let mut tables = Vec::new();
        for &v in variables {
            for meeting in labelling.around.of(v) {
                if !std::mem::replace(&mut self.seen[meeting.factor as usize], true) {
                    tables.push(meeting.factor);
                }
            }
        }
        tables.iter().for_each(|&table| self.seen[table as usize] = false);
        tables
    }

    /// The optimum of a subproblem without the tables at its border; `None` if it has too many
    /// entries.
    fn solve(
        &mut self,
        labelling: &Labelling<'_>,
        subproblem: &[u32],
        table_limit: u64,
        times: u64,
    ) -> Option<Outcome> {
        for (number, &v) in subproblem.iter().enumerate() {
            self.number[v as usize] = number as u32;
        }
        let tables = self.tables(labelling, subproblem);
        let is_inside = |table: &u32| {
            let mut scope = labelling.scope(*table).iter();
            scope.all(|&v| self.number[v as usize] != OUTSIDE)
        };
        let (inside, border): (Vec<u32>, Vec<u32>) = tables.into_iter().partition(is_inside);
        // costs are scaled so that all border tables together weigh less than one unit
        let scale = if self.is_finer {
            1
        } else {
            scale(labelling.core, subproblem, &inside, border.len() as u64)
        };
        let scaled = |cost: u64| if cost == FORBIDDEN { cost } else { cost * scale };
        let mut factors: Vec<Factor> = Vec::with_capacity(inside.len() + border.len());
        factors.extend(inside.iter().map(|&table| {
            let factor = &labelling.core.factors[table as usize];
            let table = match scale {
                1 => Arc::clone(&factor.table),
                _ => Arc::new(factor.table.iter().map(|&cost| scaled(cost)).collect()),
            };
            Factor {
                scope: factor.scope.iter().map(|&v| self.number[v as usize]).collect(),
                table,
            }
        }));
        let mut alone = Vec::new();
        if scale > 1 || self.is_finer {
            for &table in &border {
                let factor = self.agreement(labelling, table);
                match factor.scope[..] {
                    _ if factor.table.iter().all(|&cost| cost == 0) => {}
                    [v] => alone.push((v, factor.table)),
                    _ => factors.push(factor),
                }
            }
        }
        let mut inner = labelling.core.rest(subproblem, factors, 0);
        inner.own.iter_mut().for_each(|own| *own = scaled(*own));
        for (v, table) in alone {
            for (own, cost) in inner.own_mut(v).iter_mut().zip(table.iter().copied()) {
                *own = add(*own, cost);
            }
        }
        subproblem.iter().for_each(|&v| self.number[v as usize] = OUTSIDE);
        // computing the order of a too wide one takes time as well
        self.left = self.left.saturating_sub(subproblem.len() as u64);
        let most = (FEW * subproblem.len() as u64)
            .saturating_mul(times)
            .min(self.left);
        let order = within(&inner, table_limit, most)?;
        self.left -= order.entries(&inner).unwrap_or(0).min(self.left);
        Some(eliminate_in(&inner, &order))
    }

    /// One where a border table has a cost given the others' values, over its variables in the
    /// subproblem.
    fn agreement(&self, labelling: &Labelling<'_>, table: u32) -> Factor {
        let factor = &labelling.core.factors[table as usize];
        let mut places: SmallVec<[usize; 16]> = SmallVec::from_elem(0, 1);
        let mut scope = Scope::new();
        for &v in &factor.scope {
            let count = labelling.core.count(v);
            if self.number[v as usize] == OUTSIDE {
                let value = labelling.chosen[v as usize] as usize;
                places
                    .iter_mut()
                    .for_each(|place| *place = *place * count + value);
            } else {
                scope.push(self.number[v as usize]);
                places = places
                    .iter()
                    .flat_map(|&place| (0..count).map(move |value| place * count + value))
                    .collect();
            }
        }
        let table: Table = places
            .iter()
            .map(|&place| u64::from(factor.table[place] > 0))
            .collect();
        Factor {
            scope,
            table: Arc::new(table),
        }
    }

    /// The variables of costly tables at the border of a subproblem.
    fn reach(&mut self, labelling: &Labelling<'_>, subproblem: &[u32], reached: &mut Vec<u32>) {
        for table in self.tables(labelling, subproblem) {
            let is_border = labelling.scope(table).iter().any(|&v| !self.is_open[v as usize]);
            if is_border && labelling.entry(table) > 0 {
                reached.extend_from_slice(labelling.scope(table));
            }
        }
    }
}

/// The factor of costs that leaves room for one unit per border table; one if that could overflow.
fn scale(core: &Network, subproblem: &[u32], inside: &[u32], border: u64) -> u64 {
    let dearest = |costs: &[u64]| {
        let finite = costs.iter().filter(|&&cost| cost != FORBIDDEN);
        u128::from(finite.copied().max().unwrap_or(0))
    };
    let own: u128 = subproblem.iter().map(|&v| dearest(core.own(v))).sum();
    let tables = inside
        .iter()
        .map(|&table| dearest(&core.factors[table as usize].table));
    let scale = border + 1;
    match (own + tables.sum::<u128>() + 1).checked_mul(u128::from(scale)) {
        Some(sum) if sum < u128::from(u64::MAX / 2) => scale,
        _ => 1,
    }
}
