//! The problem as variables and small cost tables (factors).
//!
//! Invariants: the first variables are the nodes in order, the others are sets of devices needed by
//! a tensor's later readers, which follow from the nodes; a factor's scope is ascending and its
//! table row-major with the last variable fastest; a variable with one value is in no scope.
//! Deliberately not here: the elimination order (`order`).

use crate::problem::{Domain, FORBIDDEN, Moved, Problem, Source, add};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// A few variables, ascending.
pub(super) type Scope = SmallVec<[u32; 6]>;

/// Costs over all values of a scope; nine are two variables of three values.
pub(super) type Table = SmallVec<[u64; 9]>;

/// The key of a factor's table over nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    /// Address of the transfers' costs; 0 for a launch.
    transfer: usize,
    /// Devices that have the tensor in any case.
    base: u32,
    /// The device that writes it, unless that is a variable.
    fixed: u32,
    /// Devices of each node; 0 for none.
    domains: [u32; 3],
}

/// A cost table over a few variables.
#[derive(Clone, Debug)]
pub(super) struct Factor {
    pub(super) scope: Scope,
    /// Shared by factors with equal costs.
    pub(super) table: Arc<Table>,
}

/// Variables with their own costs, and factors between them.
#[derive(Clone)]
pub(super) struct Network {
    nodes: usize,
    /// All values of all variables, one after the other: devices of a node, masks of a tensor.
    values: Vec<u32>,
    /// The own cost of each value.
    pub(super) own: Vec<u64>,
    /// The start of each variable's values, and the end.
    starts: Vec<u32>,
    /// Per set variable, its last node when nodes are visited from the last to the first.
    anchors: Vec<u32>,
    pub(super) factors: Vec<Factor>,
    pub(super) constant: u64,
    /// Tables by key, `None` for tables without cost; empty once the network is complete.
    known: HashMap<Key, Option<Arc<Table>>>,
    /// Whether tables without any cost are kept, so that another network of the same nodes has the
    /// same tables.
    zeros: bool,
}

impl Network {
    /// The network of a problem in which each node may only use the devices of its domain; `None`
    /// if a single factor would exceed `table_limit` entries.
    pub(super) fn new(problem: &Problem, domains: &[Domain], table_limit: u64) -> Option<Self> {
        Self::made(problem, domains, &[], table_limit, false)
    }

    /// As [`Network::new`], without some tensors, ascending.
    pub(super) fn without(
        problem: &Problem,
        domains: &[Domain],
        tensors: &[usize],
        table_limit: u64,
    ) -> Option<Self> {
        Self::made(problem, domains, tensors, table_limit, false)
    }

    /// As [`Network::new`], without some tensors, and with tables and variables that depend only on
    /// the domains and the wiring: two problems that differ only in costs have networks that differ
    /// only in costs.
    pub(super) fn with_zeros(
        problem: &Problem,
        domains: &[Domain],
        without: &[usize],
        table_limit: u64,
    ) -> Option<Self> {
        Self::made(problem, domains, without, table_limit, true)
    }

    fn made(
        problem: &Problem,
        domains: &[Domain],
        without: &[usize],
        table_limit: u64,
        zeros: bool,
    ) -> Option<Self> {
        let mut network = Self {
            zeros,
            known: HashMap::new(),
            nodes: domains.len(),
            values: Vec::with_capacity(domains.len() * problem.devices()),
            own: Vec::with_capacity(domains.len() * problem.devices()),
            starts: vec![0],
            anchors: Vec::new(),
            factors: Vec::with_capacity(domains.len() * 2),
            constant: 0,
        };
        for (node, domain) in domains.iter().enumerate() {
            for &device in domain {
                network.values.push(device as u32);
                let launch = if node == 0 { problem.launch(device) } else { 0 };
                network.own.push(add(problem.cost(node, device), launch));
            }
            network.close();
        }
        for node in 1..domains.len() {
            let (a, b) = (node as u32 - 1, node as u32);
            let key = Key {
                transfer: 0,
                base: 0,
                fixed: 0,
                domains: [network.domain(a), network.domain(b), 0],
            };
            network.factor(Some(key), [a, b], |[a, b]| {
                if a == b { 0 } else { problem.launch(b as usize) }
            });
        }
        for (index, tensor) in problem.tensors().iter().enumerate() {
            if without.binary_search(&index).is_ok() {
                continue;
            }
            network.tensor(problem, tensor, table_limit)?;
        }
        network.known = HashMap::new();
        for variable in 0..network.variables() {
            if network.count(variable) == 1 {
                network.constant = add(
                    network.constant,
                    network.own[network.starts[variable as usize] as usize],
                );
            }
        }
        Some(network)
    }

    /// Number of variables.
    pub(super) fn variables(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    /// Number of values of a variable.
    pub(super) fn count(&self, variable: u32) -> usize {
        (self.starts[variable as usize + 1] - self.starts[variable as usize]) as usize
    }

    /// The values' own costs.
    pub(super) fn own(&self, variable: u32) -> &[u64] {
        &self.own[self.starts[variable as usize] as usize..self.starts[variable as usize + 1] as usize]
    }

    /// The values' own costs, mutable.
    pub(super) fn own_mut(&mut self, variable: u32) -> &mut [u64] {
        let (start, end) = (self.starts[variable as usize], self.starts[variable as usize + 1]);
        &mut self.own[start as usize..end as usize]
    }

    /// The meaning of a variable's values: devices of a node, or masks of a set.
    pub(super) fn list(&self, variable: u32) -> &[u32] {
        &self.values[self.starts[variable as usize] as usize..self.starts[variable as usize + 1] as usize]
    }

    /// The devices of a node as a mask.
    fn domain(&self, node: u32) -> u32 {
        self.list(node).iter().fold(0, |mask, &device| mask | 1 << device)
    }

    /// The nodes' devices, given the index of each variable's value.
    pub(super) fn placement(&self, chosen: &[u32]) -> Vec<usize> {
        (0..self.nodes)
            .map(|node| self.list(node as u32)[chosen[node] as usize] as usize)
            .collect()
    }

    /// The range of a variable's values in `own`.
    pub(super) fn slots(&self, variable: u32) -> std::ops::Range<usize> {
        self.starts[variable as usize] as usize..self.starts[variable as usize + 1] as usize
    }

    /// Per variable of a factor and value, the least entry.
    pub(super) fn least(&self, factor: &Factor) -> SmallVec<[Vec<u64>; 6]> {
        let scope = factor.scope.iter();
        let mut least: SmallVec<[Vec<u64>; 6]> = scope.map(|&v| vec![FORBIDDEN; self.count(v)]).collect();
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, factor.scope.len());
        for &cost in factor.table.iter() {
            for (least, &at) in least.iter_mut().zip(&index) {
                least[at] = least[at].min(cost);
            }
            for (at, least) in index.iter_mut().zip(&least).rev() {
                *at += 1;
                if *at < least.len() {
                    break;
                }
                *at = 0;
            }
        }
        least
    }

    /// The network of some variables, ascending, under other factors over these by their new numbers; values are the
    /// indices of the old ones.
    pub(super) fn rest(&self, kept: &[u32], mut factors: Vec<Factor>, constant: u64) -> Self {
        let mut rest = Self {
            nodes: 0,
            values: Vec::new(),
            own: Vec::new(),
            starts: vec![0],
            anchors: kept.iter().map(|&v| self.anchor(v)).collect(),
            factors: Vec::with_capacity(factors.len()),
            constant,
            known: HashMap::new(),
            zeros: false,
        };
        for &v in kept {
            rest.values.extend(0..self.count(v) as u32);
            rest.own.extend_from_slice(self.own(v));
            rest.close();
        }
        // large ones first, so that small ones are merged into one with all their variables
        factors.sort_by(|a, b| (b.scope.len(), &a.scope).cmp(&(a.scope.len(), &b.scope)));
        let mut around: Vec<Vec<usize>> = vec![Vec::new(); kept.len()];
        for factor in factors {
            let holds = |&&index: &&usize| {
                let wide: &Factor = &rest.factors[index];
                factor.scope.iter().all(|v| wide.scope.binary_search(v).is_ok())
            };
            if let Some(&index) = around[factor.scope[0] as usize].iter().find(holds) {
                let mut wide = std::mem::take(&mut rest.factors[index].table);
                let scope = rest.factors[index].scope.clone();
                let sums: &mut Table = Arc::make_mut(&mut wide);
                add_onto(&rest, &scope, sums, &factor.scope, &factor.table);
                rest.factors[index].table = wide;
            } else {
                for &v in &factor.scope {
                    around[v as usize].push(rest.factors.len());
                }
                rest.factors.push(factor);
            }
        }
        rest
    }

    /// Multiplies all costs, so that one unit for each table and each of its variables but one
    /// outweighs no difference: a table may be at the border of that many subproblems. Returns the
    /// factor; 1, without a change, if costs would overflow.
    pub(super) fn in_finer_units(&mut self) -> u64 {
        let dearest = |costs: &[u64]| {
            let finite = costs.iter().filter(|&&cost| cost != FORBIDDEN);
            u128::from(finite.copied().max().unwrap_or(0))
        };
        let own: u128 = (0..self.variables()).map(|v| dearest(self.own(v))).sum();
        let tables: u128 = self.factors.iter().map(|factor| dearest(&factor.table)).sum();
        let borders = self
            .factors
            .iter()
            .map(|factor| factor.scope.len().saturating_sub(1).max(1) as u64);
        let unit = 1 + borders.sum::<u64>();
        let most = u128::from(u64::MAX / 2);
        let sum = own + tables + u128::from(self.constant) + 1;
        if self.constant == FORBIDDEN || sum.checked_mul(u128::from(unit)).is_none_or(|sum| sum >= most) {
            return 1;
        }
        let scale = |costs: &mut [u64]| {
            let finite = costs.iter_mut().filter(|cost| **cost != FORBIDDEN);
            finite.for_each(|cost| *cost *= unit);
        };
        self.constant *= unit;
        scale(&mut self.own);
        // shared tables stay shared; each is kept until the end, so that its address is not reused
        let mut shared: HashMap<*const Table, (Arc<Table>, Arc<Table>)> = HashMap::new();
        for factor in &mut self.factors {
            if let Some(table) = Arc::get_mut(&mut factor.table) {
                scale(table);
                continue;
            }
            let (_, scaled) = shared.entry(Arc::as_ptr(&factor.table)).or_insert_with(|| {
                let mut scaled = factor.table.as_ref().clone();
                scale(&mut scaled);
                (Arc::clone(&factor.table), Arc::new(scaled))
            });
            factor.table = Arc::clone(scaled);
        }
        unit
    }

    /// The network with some of each variable's values, ascending and at least one.
    pub(super) fn restricted(&self, keep: &[Vec<usize>]) -> Self {
        let mut less = Self {
            nodes: self.nodes,
            values: Vec::new(),
            own: Vec::new(),
            starts: vec![0],
            anchors: self.anchors.clone(),
            factors: Vec::with_capacity(self.factors.len()),
            constant: self.constant,
            known: HashMap::new(),
            zeros: self.zeros,
        };
        for (v, values) in keep.iter().enumerate() {
            let start = self.starts[v] as usize;
            less.values
                .extend(values.iter().map(|&value| self.values[start + value]));
            less.own
                .extend(values.iter().map(|&value| self.own[start + value]));
            less.close();
            if values.len() == 1 && self.count(v as u32) > 1 {
                less.constant = add(less.constant, self.own[start + values[0]]);
            }
        }
        for factor in &self.factors {
            let is_whole = |&v: &u32| keep[v as usize].len() == self.count(v);
            if factor.scope.iter().all(is_whole) {
                less.factors.push(factor.clone());
                continue;
            }
            let mut places: Vec<usize> = vec![0];
            for &v in &factor.scope {
                let count = self.count(v);
                places = places
                    .iter()
                    .flat_map(|&place| keep[v as usize].iter().map(move |&value| place * count + value))
                    .collect();
            }
            let scope: Scope = factor
                .scope
                .iter()
                .copied()
                .filter(|&v| less.count(v) > 1)
                .collect();
            let table: Table = places.iter().map(|&place| factor.table[place]).collect();
            match scope[..] {
                [] => less.constant = add(less.constant, table[0]),
                [v] => {
                    for (own, &cost) in less.own_mut(v).iter_mut().zip(&table) {
                        *own = add(*own, cost);
                    }
                }
                _ => less.factors.push(Factor {
                    scope,
                    table: Arc::new(table),
                }),
            }
        }
        less
    }

    /// The node of a variable, or next to a set variable.
    pub(super) fn anchor(&self, variable: u32) -> u32 {
        match (variable as usize).checked_sub(self.nodes) {
            None => variable,
            Some(set) => self.anchors[set],
        }
    }

    fn close(&mut self) {
        self.starts.push(self.values.len() as u32);
    }

    /// Adds a variable for a set of devices.
    fn masks(&mut self, masks: &[u32], anchor: u32) -> u32 {
        self.anchors.push(anchor);
        self.values.extend_from_slice(masks);
        self.own.extend(masks.iter().map(|_| 0));
        self.close();
        self.variables() - 1
    }

    /// Adds a cost over `N` variables, given as a function of their values; variables of one value
    /// are dropped from the scope. Scopes must be ascending apart from that. Factors of one key over as many variables have
    /// the same table.
    fn factor<const N: usize>(
        &mut self,
        key: Option<Key>,
        variables: [u32; N],
        cost: impl Fn([u32; N]) -> u64,
    ) {
        let mut scope: Scope = variables.into_iter().filter(|&v| self.count(v) > 1).collect();
        scope.sort_unstable();
        scope.dedup();
        // a key lists its nodes in the factor's order: a different order of the scope means a
        // different table
        let is_ascending = variables.is_sorted_by(|a, b| a < b);
        let key = key.filter(|_| scope.len() > 1 && is_ascending);
        if let Some(known) = key.and_then(|key| self.known.get(&key)) {
            if let Some(table) = known {
                let table = Arc::clone(table);
                self.factors.push(Factor { scope, table });
            }
            return;
        }
        let size: usize = scope.iter().map(|&v| self.count(v)).product();
        let mut table = Table::with_capacity(size);
        // the value index of each variable in the scope; variables outside have a single value
        let places = variables.map(|v| scope.iter().position(|&s| s == v));
        let lists = variables.map(|v| self.list(v));
        let mut index = [0usize; N];
        for _ in 0..size {
            let values = std::array::from_fn(|at| lists[at][places[at].map_or(0, |place| index[place])]);
            table.push(cost(values));
            for at in (0..scope.len()).rev() {
                index[at] += 1;
                if index[at] < self.count(scope[at]) {
                    break;
                }
                index[at] = 0;
            }
        }
        match scope.len() {
            0 => self.constant = add(self.constant, table[0]),
            1 => {
                let start = self.starts[scope[0] as usize] as usize;
                for (slot, cost) in self.own[start..].iter_mut().zip(&table) {
                    *slot = add(*slot, *cost);
                }
            }
            _ => {
                let is_free = !self.zeros && table.iter().all(|&cost| cost == 0);
                let table = (!is_free).then(|| Arc::new(table));
                if let Some(key) = key {
                    self.known.insert(key, table.clone());
                }
                if let Some(table) = table {
                    self.factors.push(Factor { scope, table });
                }
            }
        }
    }

    /// Adds the transfers of one tensor. With three or more readers, the devices of the later
    /// readers are gathered from the last reader to the first, so that a cut through the order has
    /// one set variable instead of every reader.
    fn tensor(&mut self, problem: &Problem, tensor: &Moved, table_limit: u64) -> Option<()> {
        if !self.zeros && tensor.transfer.iter().all(|&cost| cost == 0) {
            return Some(());
        }
        let (source, fixed) = match tensor.source {
            Source::Node(node) if self.count(node as u32) > 1 => (Some(node as u32), 0),
            Source::Node(node) => (None, self.list(node as u32)[0]),
            Source::Device(device) => (None, device as u32),
        };
        let mut base = tensor.home.map_or(0, |home| 1 << home);
        let mut readers = Vec::with_capacity(tensor.readers.len());
        for &reader in &tensor.readers {
            if source == Some(reader as u32) {
                continue;
            }
            match self.list(reader as u32) {
                [only] => base |= 1 << only,
                _ => readers.push(reader as u32),
            }
        }
        // fixed charges need no set, nor do readers with a single device
        if source.is_none() {
            base |= 1 << fixed;
        }
        let beyond = move |device: u32| (1u32 << device) & !base;
        readers.retain(|&reader| self.list(reader).iter().any(|&device| beyond(device) != 0));
        // gather from the back until two items are left: a set of devices and the first reader
        let mut gathered: Option<u32> = None;
        while readers.len() + usize::from(gathered.is_some()) > 2 {
            let last = readers.pop().expect("invariant: more than one reader is left");
            match gathered {
                None => {
                    let other = readers.pop().expect("invariant: three readers or more");
                    let sets = unions(
                        self.list(other).iter().map(|&d| beyond(d)),
                        self.list(last).iter().map(|&d| beyond(d)),
                    );
                    let set = self.masks(&sets, *readers.last().expect("invariant: one reader is left"));
                    self.limit(&[other, last, set], table_limit)?;
                    self.factor(None, [other, last, set], |[a, b, set]| {
                        if set == beyond(a) | beyond(b) {
                            0
                        } else {
                            FORBIDDEN
                        }
                    });
                    gathered = Some(set);
                }
                Some(before) => {
                    let sets = unions(
                        self.list(before).iter().copied(),
                        self.list(last).iter().map(|&d| beyond(d)),
                    );
                    let set = self.masks(&sets, *readers.last().expect("invariant: one reader is left"));
                    self.limit(&[last, before, set], table_limit)?;
                    self.factor(None, [last, before, set], |[a, b, set]| {
                        if set == beyond(a) | b { 0 } else { FORBIDDEN }
                    });
                    gathered = Some(set);
                }
            }
        }
        let cost = |from: u32, set: u32| problem.spread(tensor, from as usize, set | base);
        let transfer = tensor.transfer.as_ptr() as usize;
        let masks = |network: &Self, nodes: [Option<u32>; 3]| {
            nodes.map(|node| node.map_or(0, |node| network.domain(node)))
        };
        match (source, readers.as_slice(), gathered) {
            (None, [], None) => self.constant = add(self.constant, cost(fixed, 0)),
            (None, [a], None) => self.factor(None, [*a], |[a]| cost(fixed, 1 << a)),
            (None, [a], Some(set)) => {
                self.limit(&[*a, set], table_limit)?;
                self.factor(None, [*a, set], |[a, set]| cost(fixed, 1 << a | set));
            }
            (None, [a, b], _) => self.factor(
                Some(Key {
                    transfer,
                    base,
                    fixed,
                    domains: masks(self, [None, Some(*a), Some(*b)]),
                }),
                [*a, *b],
                |[a, b]| cost(fixed, 1 << a | 1 << b),
            ),
            (Some(s), [], None) => self.factor(None, [s], |[s]| cost(s, 0)),
            (Some(s), [a], None) => self.factor(
                Some(Key {
                    transfer,
                    base,
                    fixed,
                    domains: masks(self, [Some(s), Some(*a), None]),
                }),
                [s, *a],
                |[s, a]| cost(s, 1 << a),
            ),
            (Some(s), [a], Some(set)) => {
                self.limit(&[s, *a, set], table_limit)?;
                self.factor(None, [s, *a, set], |[s, a, set]| cost(s, 1 << a | set));
            }
            (Some(s), [a, b], _) => self.factor(
                Some(Key {
                    transfer,
                    base,
                    fixed,
                    domains: masks(self, [Some(s), Some(*a), Some(*b)]),
                }),
                [s, *a, *b],
                |[s, a, b]| cost(s, 1 << a | 1 << b),
            ),
            _ => unreachable!("invariant: gathering leaves at most two items"),
        }
        Some(())
    }

    fn limit(&self, scope: &[u32], table_limit: u64) -> Option<()> {
        let size = scope
            .iter()
            .fold(1u64, |size, &v| size.saturating_mul(self.count(v) as u64));
        (size <= table_limit).then_some(())
    }
}

/// All unions of one set of each list, ascending.
fn unions(a: impl Iterator<Item = u32>, b: impl Iterator<Item = u32> + Clone) -> Vec<u32> {
    let mut all: Vec<u32> = a.flat_map(|a| b.clone().map(move |b| a | b)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Entries of a table over a scope.
pub(super) fn size(network: &Network, scope: &[u32]) -> usize {
    scope.iter().map(|&v| network.count(v)).product()
}

/// Walks all values of a clique, with the index of each in a table over some of its variables.
pub(super) fn walk(network: &Network, clique: &[u32], scope: &[u32], mut visit: impl FnMut(usize, usize)) {
    let mut strides = vec![0; clique.len()];
    let mut distance = 1;
    for &v in scope.iter().rev() {
        let at = clique
            .binary_search(&v)
            .expect("invariant: the clique holds the scope");
        strides[at] = distance;
        distance *= network.count(v);
    }
    let counts: Vec<usize> = clique.iter().map(|&v| network.count(v)).collect();
    let mut index = vec![0; clique.len()];
    let mut place = 0;
    for entry in 0..counts.iter().product() {
        visit(entry, place);
        for at in (0..clique.len()).rev() {
            index[at] += 1;
            place += strides[at];
            if index[at] < counts[at] {
                break;
            }
            place -= strides[at] * counts[at];
            index[at] = 0;
        }
    }
}

/// Adds a table over some variables of a clique to sums over all of them.
pub(super) fn add_onto(network: &Network, clique: &[u32], sums: &mut [u64], scope: &[u32], table: &[u64]) {
    walk(network, clique, scope, |entry, place| {
        sums[entry] = add(sums[entry], table[place]);
    });
}
