//! Greedy elimination orders: by the smallest table, or by the fewest new neighbours.
//!
//! Invariants: a step's scope holds exactly the later variables that share a table with the step's
//! variable at that time; the order depends only on the scopes.

use super::network::{Network, Scope};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// An elimination order with the scope of each step.
pub(super) struct Order {
    /// Variables in elimination order.
    pub(super) sequence: Vec<u32>,
    /// Per step, the other variables of the table, ascending.
    pub(super) scopes: Vec<Scope>,
    /// Place of each variable in the sequence; `u32::MAX` for variables of one value.
    pub(super) position: Vec<u32>,
    /// Whether every step stays within the limit. Otherwise the variables from the first step that
    /// does not (or is not easy, if only easy steps are wanted) are appended from the last node to
    /// the first, without scopes.
    pub(super) narrow: bool,
}

/// Maximum entries of all tables together, as a multiple of the limit of one table.
pub(super) const TOTAL: u64 = 8;

/// Entries per variable below which an order is good enough.
pub(super) const FEW: u64 = 256;

/// Entries per variable below which elimination is faster than reparametrisation.
const VERY_FEW: u64 = 64;

/// Size of an easy table, in entries.
const EASY: u64 = 128;

/// A variable with more neighbours than this makes a table beyond any limit: its missing pairs are not counted.
const MOST_NEIGHBOURS: usize = 20;

/// The greedy criterion; among equals, the first variable.
#[derive(Clone, Copy, PartialEq)]
enum Rule {
    /// The smallest table.
    Weight,
    /// The least new pairs of neighbours, weighted by the logarithms of their numbers of values.
    Fill,
}

/// An elimination order. It is narrow if no step needs more than `table_limit` entries and all
/// steps together at most [`TOTAL`] times that. By the smallest table or, if that needs many
/// entries, by the fewest new pairs if those need fewer.
pub(super) fn order(network: &Network, table_limit: u64) -> Order {
    let total = table_limit.saturating_mul(TOTAL);
    let (by_weight, entries) = greedy(network, [table_limit, total], u64::MAX, Rule::Weight);
    if by_weight.narrow && entries <= FEW * by_weight.sequence.len() as u64 {
        return by_weight;
    }
    let (by_fill, filled) = greedy(network, [table_limit, total], u64::MAX, Rule::Fill);
    if by_fill.narrow && (!by_weight.narrow || filled < entries) {
        by_fill
    } else {
        by_weight
    }
}

/// An order by the smallest table: narrow if all tables together have very few entries, otherwise
/// of the easy variables.
pub(super) fn light(network: &Network, table_limit: u64) -> Order {
    let few = VERY_FEW * u64::from(network.variables());
    let easy = EASY.min(table_limit);
    greedy(network, [table_limit, few], easy, Rule::Weight).0
}

/// The same for a network that is solved many times: the search may take longer, and tables may
/// have more entries.
pub(super) fn light_for_many(network: &Network, table_limit: u64) -> Order {
    let order = light(network, table_limit);
    if order.narrow {
        return order;
    }
    let some = 4 * FEW * u64::from(network.variables());
    let (better, _) = greedy(network, [table_limit, some], u64::MAX, Rule::Fill);
    if better.narrow { better } else { order }
}

/// An order by the smallest table, if all tables together have at most this many entries.
pub(super) fn within(network: &Network, table_limit: u64, most: u64) -> Option<Order> {
    let (order, _) = greedy(network, [table_limit, most], u64::MAX, Rule::Weight);
    order.narrow.then_some(order)
}

/// An order of the variables that can be eliminated while no table exceeds this many entries.
#[cfg(test)]
pub(super) fn easy(network: &Network, most: u64) -> Order {
    let all = greedy(network, [most, u64::MAX], u64::MAX, Rule::Weight);
    all.0
}

impl Order {
    /// The entries of all tables; none where the order is not narrow.
    pub(super) fn entries(&self, network: &Network) -> Option<u64> {
        let table = |(scope, &v): (&Scope, &u32)| weigh(network, scope, v);
        self.narrow
            .then(|| self.scopes.iter().zip(&self.sequence).map(table).sum())
    }
}

/// A variable's place in the queue: the rule's score, then the entries of its table.
type Score = (u64, u64);

/// Variables by score, and among equal scores by their numbers. There are few distinct scores, so nearly all comparisons
/// are of numbers.
#[derive(Default)]
struct Queue(BTreeMap<Score, BinaryHeap<Reverse<u32>>>);

impl Queue {
    fn push(&mut self, score: Score, variable: u32) {
        self.0.entry(score).or_default().push(Reverse(variable));
    }

    fn pop(&mut self) -> Option<(Score, u32)> {
        let mut first = self.0.first_entry()?;
        let score = *first.key();
        let Reverse(variable) = first.get_mut().pop()?;
        if first.get().is_empty() {
            first.remove();
        }
        Some((score, variable))
    }
}

/// The entries of a table over a variable and its neighbours.
fn weigh(network: &Network, list: &[u32], v: u32) -> u64 {
    list.iter().fold(network.count(v) as u64, |w, &u| {
        w.saturating_mul(network.count(u) as u64)
    })
}

/// An order by one rule, and the entries of its tables; `limits` are those of one table and of all. Where they do not
/// hold, only the steps are kept before the first table of more than `easy` entries.
fn greedy(network: &Network, [table_limit, total_limit]: [u64; 2], easy: u64, rule: Rule) -> (Order, u64) {
    let count = network.variables() as usize;
    let mut neighbours: Vec<Scope> = vec![Scope::new(); count];
    for factor in &network.factors {
        for &a in &factor.scope {
            neighbours[a as usize].extend(factor.scope.iter().copied().filter(|&b| b != a));
        }
    }
    for list in &mut neighbours {
        list.sort_unstable();
        list.dedup();
    }
    // seven times the binary logarithm, in whole numbers: the same on every host
    let logarithm = |v: u32| u64::from((network.count(v) as u128).pow(7).ilog2());
    let score = |neighbours: &[Scope], v: u32| {
        let list = &neighbours[v as usize];
        let weight = weigh(network, list, v);
        if rule == Rule::Weight {
            return (weight, weight);
        }
        if list.len() > MOST_NEIGHBOURS {
            return (u64::MAX, weight);
        }
        let mut fill = 0;
        for (at, &a) in list.iter().enumerate() {
            for &b in &list[at + 1..] {
                if neighbours[a as usize].binary_search(&b).is_err() {
                    fill += logarithm(a) * logarithm(b);
                }
            }
        }
        (fill, weight)
    };
    let mut scores = vec![(0, 0); count];
    let mut queue = Queue::default();
    for v in (0..count as u32).filter(|&v| network.count(v) > 1) {
        scores[v as usize] = score(&neighbours, v);
        queue.push(scores[v as usize], v);
    }
    let mut order = Order {
        sequence: Vec::with_capacity(count),
        scopes: Vec::with_capacity(count),
        position: vec![u32::MAX; count],
        narrow: true,
    };
    let (mut total, mut easy_steps) = (0u64, None);
    let (mut merged, mut changed) = (Scope::new(), Vec::new());
    while let Some((key, v)) = queue.pop() {
        if key != scores[v as usize] || order.position[v as usize] != u32::MAX {
            continue;
        }
        total = total.saturating_add(key.1);
        if key.1 > table_limit || total > total_limit {
            order.narrow = false;
            break;
        }
        if key.1 > easy {
            easy_steps = easy_steps.or(Some(order.sequence.len()));
        }
        order.position[v as usize] = order.sequence.len() as u32;
        order.sequence.push(v);
        let scope = std::mem::take(&mut neighbours[v as usize]);
        for &u in &scope {
            unite(&neighbours[u as usize], &scope, u, v, &mut merged);
            std::mem::swap(&mut neighbours[u as usize], &mut merged);
        }
        changed.clear();
        changed.extend_from_slice(&scope);
        if rule == Rule::Fill {
            for &u in &scope {
                changed.extend_from_slice(&neighbours[u as usize]);
            }
            changed.sort_unstable();
            changed.dedup();
        }
        for &u in &changed {
            let key = score(&neighbours, u);
            if key != scores[u as usize] {
                scores[u as usize] = key;
                queue.push(key, u);
            }
        }
        order.scopes.push(scope);
    }
    if !order.narrow {
        let kept = easy_steps.unwrap_or(order.scopes.len());
        order.scopes.truncate(kept);
        for v in order.sequence.drain(kept..) {
            order.position[v as usize] = u32::MAX;
        }
        let mut rest: Vec<u32> = (0..count as u32)
            .filter(|&v| network.count(v) > 1 && order.position[v as usize] == u32::MAX)
            .collect();
        rest.sort_by_key(|&v| (Reverse(network.anchor(v)), v));
        for v in rest {
            order.position[v as usize] = order.sequence.len() as u32;
            order.sequence.push(v);
        }
    }
    (order, total)
}

/// The union of two ascending lists without two members.
fn unite(a: &[u32], b: &[u32], without: u32, and: u32, out: &mut Scope) {
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
