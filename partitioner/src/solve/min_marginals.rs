//! Min-marginals of all nodes and devices: the least values of a problem with one node forced onto
//! one device.
//!
//! (D. Koller, N. Friedman, Probabilistic Graphical Models, 2009, section 13.2, which maximises.)
//!
//! Elimination passes each step's minima to later steps. A backward pass over the same steps sends
//! the minima of all the others back. Together they are the least value around a variable, so two
//! passes replace one solution per node and device.
//!
//! Invariants: values equal those of `solve` on the same problem with the node forced; a node's own
//! cost is left out, so that queries include devices that refuse the node.
//! Deliberately not here: limits and measured segments, which do not add up node by node.

use super::network::{Network, Scope, add_onto, size, walk};
use super::order::order;
use crate::problem::{Domain, FORBIDDEN, Problem, add};

/// Per node and device, the least value of everything but the node's own cost with the node there.
#[derive(Clone, Debug)]
pub(crate) struct MinMarginals {
    devices: usize,
    around: Vec<u64>,
}

/// A table over variables, ascending, the last fastest.
struct Table {
    scope: Scope,
    values: Vec<u64>,
}

impl MinMarginals {
    /// The min-marginals of a problem whose tables fit in `table_limit` entries; `None` for a wider
    /// one.
    pub(crate) fn of(problem: &Problem, table_limit: u64) -> Option<Self> {
        let (nodes, devices) = (problem.nodes(), problem.devices());
        if devices == 1 {
            return None;
        }
        let mut network = surroundings(problem, table_limit)?;
        let beside: Vec<u64> = (0..nodes)
            .flat_map(|node| network.own(node as u32).to_vec())
            .collect();
        for node in 0..nodes {
            for (device, own) in network.own_mut(node as u32).iter_mut().enumerate() {
                *own = add(*own, problem.cost(node, device));
            }
        }
        let mut around = beliefs(&network, nodes, devices, table_limit)?;
        for (value, beside) in around.iter_mut().zip(beside) {
            *value = add(add(*value, beside), network.constant);
        }
        Some(Self { devices, around })
    }

    /// The least value with a node on a device at this cost; `None` if links do not allow it.
    pub(crate) fn forced(&self, node: usize, device: usize, cost: u64) -> Option<u64> {
        let value = add(self.around[node * self.devices + device], cost);
        (value != FORBIDDEN).then_some(value)
    }
}

/// A network in which every device is a value of every node, without the node's own costs.
pub(super) fn surroundings(problem: &Problem, table_limit: u64) -> Option<Network> {
    let (nodes, devices) = (problem.nodes(), problem.devices());
    let mut bare = problem.clone();
    for node in 0..nodes {
        (0..devices).for_each(|device| bare.set_cost(node, device, 0));
    }
    let domains = vec![(0..devices).collect::<Domain>(); nodes];
    Network::new(&bare, &domains, table_limit)
}

/// Per node and device, the least sum of all tables around the node, without its own costs.
fn beliefs(network: &Network, nodes: usize, devices: usize, table_limit: u64) -> Option<Vec<u64>> {
    let order = order(network, table_limit);
    if !order.narrow {
        return None;
    }
    let steps = order.sequence.len();
    let first = |scope: &[u32]| scope.iter().map(|&v| order.position[v as usize] as usize).min();
    let mut given: Vec<Vec<usize>> = vec![Vec::new(); steps];
    for (index, factor) in network.factors.iter().enumerate() {
        given[first(&factor.scope).expect("invariant: scopes are not empty")].push(index);
    }
    // forward: the message of each step to a later one
    let cliques: Vec<Scope> = (0..steps)
        .map(|step| {
            let mut clique = order.scopes[step].clone();
            let variable = order.sequence[step];
            clique.insert(clique.partition_point(|&v| v < variable), variable);
            clique
        })
        .collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); steps];
    let mut sent: Vec<Table> = Vec::with_capacity(steps);
    // the sums of the factors of each step, used in both directions
    let mut own_tables: Vec<Vec<u64>> = Vec::with_capacity(steps);
    for step in 0..steps {
        let clique = &cliques[step];
        let mut sums = vec![0; size(network, clique)];
        for &index in &given[step] {
            let factor = &network.factors[index];
            add_onto(network, clique, &mut sums, &factor.scope, &factor.table);
        }
        own_tables.push(sums.clone());
        for &child in &children[step] {
            add_onto(
                network,
                clique,
                &mut sums,
                &sent[child].scope,
                &sent[child].values,
            );
        }
        let variable = order.sequence[step];
        add_onto(network, clique, &mut sums, &[variable], network.own(variable));
        let scope = order.scopes[step].clone();
        let values = least_over(network, clique, &sums, &scope);
        if let Some(parent) = first(&scope) {
            children[parent].push(step);
        }
        sent.push(Table { scope, values });
    }
    // components without a shared variable add up: each gets the minima of all the others
    let roots: Vec<usize> = (0..steps).filter(|&step| sent[step].scope.is_empty()).collect();
    let mut back: Vec<Option<Vec<u64>>> = vec![None; steps];
    let mut sum = 0;
    for &step in &roots {
        back[step] = Some(vec![sum]);
        sum = add(sum, sent[step].values[0]);
    }
    sum = 0;
    for &step in roots.iter().rev() {
        if let Some(others) = &mut back[step] {
            others[0] = add(others[0], sum);
        }
        sum = add(sum, sent[step].values[0]);
    }
    // backward: the messages of all other steps to a step
    let mut around = vec![FORBIDDEN; nodes * devices];
    for step in (0..steps).rev() {
        let (clique, variable) = (&cliques[step], order.sequence[step]);
        let from_above = back[step].take().expect("invariant: later steps have sent back");
        let mut sums = std::mem::take(&mut own_tables[step]);
        add_onto(network, clique, &mut sums, &order.scopes[step], &from_above);
        let family = &children[step];
        // the messages to a node, without its own costs
        if (variable as usize) < nodes {
            let mut all = sums.clone();
            for &child in family {
                add_onto(network, clique, &mut all, &sent[child].scope, &sent[child].values);
            }
            let least = least_over(network, clique, &all, &[variable]);
            around[variable as usize * devices..][..devices].copy_from_slice(&least);
        }
        add_onto(network, clique, &mut sums, &[variable], network.own(variable));
        // each child gets all messages except its own
        let mut earlier = Vec::with_capacity(family.len());
        for &child in family {
            earlier.push(sums.clone());
            add_onto(
                network,
                clique,
                &mut sums,
                &sent[child].scope,
                &sent[child].values,
            );
        }
        let mut later = vec![0; sums.len()];
        for (&child, earlier) in family.iter().zip(earlier).rev() {
            let rest: Vec<u64> = earlier.iter().zip(&later).map(|(&a, &b)| add(a, b)).collect();
            back[child] = Some(least_over(network, clique, &rest, &sent[child].scope));
            add_onto(
                network,
                clique,
                &mut later,
                &sent[child].scope,
                &sent[child].values,
            );
        }
    }
    Some(around)
}

/// The least of a clique's sums over all variables that are not in a scope.
fn least_over(network: &Network, clique: &[u32], sums: &[u64], scope: &[u32]) -> Vec<u64> {
    let mut least = vec![FORBIDDEN; size(network, scope)];
    walk(network, clique, scope, |entry, place| {
        least[place] = least[place].min(sums[entry]);
    });
    least
}
