//! The order in which variables are eliminated: always the one with the smallest table, then the first.
//!
//! Invariants: in a narrow order a step's scope holds exactly the variables, eliminated later, that
//! share a table with the step's variable at that time; the order depends on the scopes alone.

use super::network::Network;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An elimination order with the scope of each step.
pub(super) struct Order {
    /// Variables in the order they go.
    pub(super) sequence: Vec<u32>,
    /// Per step, the other variables of the table, ascending.
    pub(super) scopes: Vec<Vec<u32>>,
    /// Place of each variable in the sequence; `u32::MAX` for variables of one value.
    pub(super) position: Vec<u32>,
    /// Every step stays within the limit. Otherwise the variables from the first step that does not
    /// are appended from the last node to the first, and have no scopes.
    pub(super) narrow: bool,
}

/// The min-weight order, narrow where no step needs more than `table_limit` entries and all steps
/// together no more than eight times that.
pub(super) fn order(network: &Network, table_limit: u64) -> Order {
    let count = network.variables() as usize;
    let mut neighbours: Vec<Vec<u32>> = vec![Vec::new(); count];
    for factor in &network.factors {
        for &a in &factor.scope {
            neighbours[a as usize].extend(factor.scope.iter().copied().filter(|&b| b != a));
        }
    }
    for list in &mut neighbours {
        list.sort_unstable();
        list.dedup();
    }
    let weigh = |list: &[u32], v: u32| {
        list.iter().fold(network.count(v) as u64, |w, &u| {
            w.saturating_mul(network.count(u) as u64)
        })
    };
    let mut weights = vec![0u64; count];
    let mut heap = BinaryHeap::with_capacity(count);
    for v in (0..count as u32).filter(|&v| network.count(v) > 1) {
        weights[v as usize] = weigh(&neighbours[v as usize], v);
        heap.push(Reverse((weights[v as usize], v)));
    }
    let mut order = Order {
        sequence: Vec::with_capacity(heap.len()),
        scopes: Vec::with_capacity(heap.len()),
        position: vec![u32::MAX; count],
        narrow: true,
    };
    let mut total = 0u64;
    let mut merged = Vec::new();
    while let Some(Reverse((weight, v))) = heap.pop() {
        if weight != weights[v as usize] || order.position[v as usize] != u32::MAX {
            continue;
        }
        total = total.saturating_add(weight);
        if weight > table_limit || total > table_limit.saturating_mul(8) {
            order.narrow = false;
            break;
        }
        order.position[v as usize] = order.sequence.len() as u32;
        order.sequence.push(v);
        let scope = std::mem::take(&mut neighbours[v as usize]);
        for &u in &scope {
            unite(&neighbours[u as usize], &scope, u, v, &mut merged);
            std::mem::swap(&mut neighbours[u as usize], &mut merged);
            let weight = weigh(&neighbours[u as usize], u);
            if weight != weights[u as usize] {
                weights[u as usize] = weight;
                heap.push(Reverse((weight, u)));
            }
        }
        order.scopes.push(scope);
    }
    if !order.narrow {
        let mut rest: Vec<u32> = (0..count as u32)
            .filter(|&v| network.count(v) > 1 && order.position[v as usize] == u32::MAX)
            .collect();
        rest.sort_by_key(|&v| (Reverse(network.anchor(v)), v));
        for v in rest {
            order.position[v as usize] = order.sequence.len() as u32;
            order.sequence.push(v);
        }
    }
    order
}

/// The union of two ascending lists without two members.
fn unite(a: &[u32], b: &[u32], without: u32, and: u32, out: &mut Vec<u32>) {
    out.clear();
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let next = match (a.get(i), b.get(j)) {
            (Some(&x), Some(&y)) => x.min(y),
            (Some(&x), None) | (None, Some(&x)) => x,
            (None, None) => break,
        };
        i += usize::from(a.get(i) == Some(&next));
        j += usize::from(b.get(j) == Some(&next));
        if next != without && next != and {
            out.push(next);
        }
    }
}
