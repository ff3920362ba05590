//! Merges parts of one device if the quotient graph stays acyclic and the cost falls.
//!
//! Invariants: nodes never change their device, so only launches are saved (or measured parts
//! used); the resulting parts can run one after the other; all edges point forward in
//! `Quotient::order`, so that a path between two parts is sought only among the parts between them;
//! work is bounded by a count of visits. Deliberately not here: which device a node runs on
//! (`solve`).
//!
//! Own code: no graph of petgraph's merges vertices in place while it keeps an order and counts its
//! visits.

use std::collections::BTreeSet;

/// Nodes visited while looking for paths, over one whole call.
const VISITS: usize = 4_000_000;

/// How many earlier parts of its device a part is tried with.
const CANDIDATES: usize = 32;

/// Groups nodes into parts: first maximal runs of one device, then merged while `gain` reports
/// that the merged part costs less than its two parts. Parts are in topological order; nodes of a
/// part ascend.
pub(crate) fn parts(
    placement: &[usize],
    edges: &[(usize, usize)],
    merging: bool,
    gain: impl Fn(usize, &[usize], &[usize]) -> bool,
) -> Vec<Vec<usize>> {
    let mut quotient = Quotient::of_runs(placement, edges);
    if merging {
        quotient.merge(placement, gain);
    }
    quotient.in_order()
}

struct Quotient {
    /// Nodes of each part; empty once merged into another.
    nodes: Vec<Vec<usize>>,
    after: Vec<BTreeSet<usize>>,
    before: Vec<BTreeSet<usize>>,
    /// All parts, each after all that it depends on; those that were merged into another stand anywhere.
    order: Vec<usize>,
    /// Place of each part in `order`.
    place: Vec<usize>,
    /// Parts that were seen in the search of this number.
    seen: Vec<u32>,
    search: u32,
    visits: usize,
}

impl Quotient {
    fn of_runs(placement: &[usize], edges: &[(usize, usize)]) -> Self {
        let mut nodes: Vec<Vec<usize>> = Vec::new();
        let mut part_of = Vec::with_capacity(placement.len());
        for node in 0..placement.len() {
            if node == 0 || placement[node] != placement[node - 1] {
                nodes.push(Vec::new());
            }
            part_of.push(nodes.len() - 1);
            nodes.last_mut().expect("invariant: a run was opened").push(node);
        }
        let mut after = vec![BTreeSet::new(); nodes.len()];
        let mut before = vec![BTreeSet::new(); nodes.len()];
        for &(from, to) in edges {
            let (from, to) = (part_of[from], part_of[to]);
            if from != to {
                after[from].insert(to);
                before[to].insert(from);
            }
        }
        // nodes are given in an order in which they can run, so their runs are too
        let order: Vec<usize> = (0..nodes.len()).collect();
        Self {
            place: order.clone(),
            seen: vec![0; order.len()],
            order,
            nodes,
            after,
            before,
            search: 0,
            visits: VISITS,
        }
    }

    fn merge(&mut self, placement: &[usize], gain: impl Fn(usize, &[usize], &[usize]) -> bool) {
        for late in 1..self.nodes.len() {
            let device = placement[self.nodes[late][0]];
            let mut tried = 0;
            for early in (0..late).rev() {
                if self.nodes[early].is_empty() || placement[self.nodes[early][0]] != device {
                    continue;
                }
                tried += 1;
                if tried > CANDIDATES {
                    break;
                }
                if gain(device, &self.nodes[early], &self.nodes[late]) && !self.detour(early, late) {
                    self.join(early, late);
                    break;
                }
            }
        }
    }

    /// Whether a path leads between two parts through a third; yes once the visits are used up. Where not, `seen` holds
    /// what the first of the two leads to that stands before the other.
    fn detour(&mut self, a: usize, b: usize) -> bool {
        let (first, last) = self.ordered(a, b);
        let end = self.place[last];
        self.search += 1;
        let mut stack = vec![first];
        while let Some(part) = stack.pop() {
            for &next in &self.after[part] {
                if next == last && part != first {
                    return true;
                }
                if self.place[next] >= end || self.seen[next] == self.search {
                    continue;
                }
                if self.visits == 0 {
                    return true;
                }
                self.visits -= 1;
                self.seen[next] = self.search;
                stack.push(next);
            }
        }
        false
    }

    /// Two parts in the order in which they stand.
    fn ordered(&self, a: usize, b: usize) -> (usize, usize) {
        if self.place[a] < self.place[b] {
            (a, b)
        } else {
            (b, a)
        }
    }

    /// Moves the nodes of `early` into `late`, whose number the two then have, so that parts further on are tried with
    /// them first. There is no detour between them, as the last search has found.
    fn join(&mut self, early: usize, late: usize) {
        let (first, last) = self.ordered(early, late);
        let (start, end) = (self.place[first], self.place[last]);
        // what the first one leads to goes behind the two, all else that stands between goes before
        let mut behind = Vec::new();
        let mut next = start + 1;
        for at in start..=end {
            let part = self.order[at];
            if part == early || part == late {
                continue;
            }
            if self.seen[part] == self.search {
                behind.push(part)
            } else {
                self.order[next] = part;
                next += 1;
            }
        }
        self.order[start] = early;
        for part in std::iter::once(late).chain(behind) {
            self.order[next] = part;
            next += 1;
        }
        for at in start..=end {
            self.place[self.order[at]] = at;
        }
        let mut nodes = std::mem::take(&mut self.nodes[early]);
        nodes.append(&mut self.nodes[late]);
        nodes.sort_unstable();
        self.nodes[late] = nodes;
        for next in std::mem::take(&mut self.after[early]) {
            self.before[next].remove(&early);
            if next != late {
                self.before[next].insert(late);
                self.after[late].insert(next);
            }
        }
        for previous in std::mem::take(&mut self.before[early]) {
            self.after[previous].remove(&early);
            if previous != late {
                self.after[previous].insert(late);
                self.before[late].insert(previous);
            }
        }
        self.after[late].remove(&late);
        self.before[late].remove(&late);
    }

    /// The parts, each after all that it depends on; among those that are ready, the one with the
    /// first node goes first.
    fn in_order(mut self) -> Vec<Vec<usize>> {
        let mut waiting: Vec<usize> = self.before.iter().map(BTreeSet::len).collect();
        let mut ready: BTreeSet<(usize, usize)> = BTreeSet::new();
        for (part, nodes) in self.nodes.iter().enumerate() {
            if let (Some(&first), 0) = (nodes.first(), waiting[part]) {
                ready.insert((first, part));
            }
        }
        let mut order = Vec::new();
        while let Some((_, part)) = ready.pop_first() {
            for &next in &self.after[part] {
                waiting[next] -= 1;
                if waiting[next] == 0 {
                    ready.insert((self.nodes[next][0], next));
                }
            }
            order.push(std::mem::take(&mut self.nodes[part]));
        }
        debug_assert!(
            self.nodes.iter().all(Vec::is_empty),
            "merging keeps the quotient acyclic"
        );
        order
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    #[test]
    fn only_convex_runs_merge() {
        // 0 → 1 → 2 on devices 0, 1, 0: merging 0 and 2 would make a circle
        assert_eq!(
            parts(&[0, 1, 0], &[(0, 1), (1, 2)], true, |_, _, _| true),
            [vec![0], vec![1], vec![2]]
        );
        // without 1 → 2 they merge
        assert_eq!(
            parts(&[0, 1, 0], &[(0, 1), (0, 2)], true, |_, _, _| true),
            [vec![0, 2], vec![1]]
        );
        assert_eq!(parts(&[0, 1, 0], &[], false, |_, _, _| true).len(), 3);
        assert_eq!(parts(&[0, 1, 0], &[], true, |_, _, _| false).len(), 3);
        assert!(parts(&[], &[], true, |_, _, _| true).is_empty());
    }

    /// The same merging with a search over all parts, in both directions.
    fn plainly(placement: &[usize], edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
        let mut quotient = Quotient::of_runs(placement, edges);
        for late in 1..quotient.nodes.len() {
            for early in (0..late).rev() {
                if quotient.nodes[early].is_empty()
                    || placement[quotient.nodes[early][0]] != placement[quotient.nodes[late][0]]
                {
                    continue;
                }
                let leads = |from: usize, to: usize| {
                    let mut stack: Vec<usize> = quotient.after[from].iter().copied().collect();
                    stack.retain(|&part| part != to);
                    while let Some(part) = stack.pop() {
                        if part == to {
                            return true;
                        }
                        stack.extend(&quotient.after[part]);
                    }
                    false
                };
                if !leads(early, late) && !leads(late, early) {
                    // the order of parts is what this one does without
                    quotient.place = (0..quotient.nodes.len()).collect();
                    quotient.order = quotient.place.clone();
                    quotient.join(early, late);
                    break;
                }
            }
        }
        quotient.in_order()
    }

    #[test]
    fn path_search_stays_between_the_parts() {
        let mut numbers = ChaCha8Rng::seed_from_u64(7);
        let mut random = |below: u64| (numbers.next_u64() % below) as usize;
        let mut merged = 0;
        for _ in 0..300 {
            let nodes = 2 + random(14);
            let placement: Vec<usize> = (0..nodes).map(|_| random(3)).collect();
            let edges: Vec<(usize, usize)> = (0..random(20))
                .map(|_| (random(nodes as u64), random(nodes as u64)))
                .filter(|(from, to)| from < to)
                .collect();
            let found = parts(&placement, &edges, true, |_, _, _| true);
            assert_eq!(found, plainly(&placement, &edges), "{placement:?} {edges:?}");
            let runs = parts(&placement, &edges, false, |_, _, _| true).len();
            merged += usize::from(found.len() < runs);
        }
        assert!(merged > 100, "{merged} graphs had parts to merge");
    }

    #[test]
    fn reordering_merge_keeps_dependencies() {
        // 1 (device 1) feeds 2 (device 0); 0 and 2 merge and must then run after 1
        assert_eq!(
            parts(&[0, 1, 0], &[(1, 2)], true, |_, _, _| true),
            [vec![1], vec![0, 2]]
        );
        // now 0 feeds 3 on device 1: 1 and 3 may not merge after 0 and 2 have
        let merged = parts(&[0, 1, 0, 1], &[(1, 2), (0, 3)], true, |_, _, _| true);
        assert_eq!(merged, [vec![1], vec![0, 2], vec![3]]);
    }
}
