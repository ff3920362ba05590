//! The nodes that are fused together: as few sets as the nodes between them allow.
//!
//! Invariants:
//! 1. A set is convex: no path between two of its nodes leads through a node outside, and no two
//!    sets wait for each other.
//! 2. Values that are not tensors (a sequence, an optional) cross no edge of a set: their nodes are
//!    in one set, or in none.
//! 3. If the runtime does not pass a fused node the values that only bodies read, no set needs
//!    them.
//!
//! The depth of a node is the largest number of transitions from an unclaimed to a claimed node on
//! any path to it. Depth never decreases along a path, and increases on a path that leaves claimed
//! nodes and returns. Nodes of equal depth are therefore a convex set.

/// A node, by numbers of the values that it touches. Nodes stand behind those that they read of.
#[derive(Debug, Clone, Default)]
pub(crate) struct Touches {
    pub(crate) reads: Vec<usize>,
    /// Non-constant values of the graph that its bodies read.
    pub(crate) captures: Vec<usize>,
    pub(crate) writes: Vec<usize>,
}

impl Touches {
    fn all_reads(&self) -> impl Iterator<Item = usize> + '_ {
        self.reads.iter().chain(&self.captures).copied()
    }
}

/// A value of the graph.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) is_tensor: bool,
    /// Something outside of the nodes gives or takes it: the graph's inputs and outputs, bodies' surroundings.
    pub(crate) is_outer: bool,
}

/// The sets of claimed nodes, each in the order of the nodes. `claimed` loses the nodes that no set can have.
pub(crate) fn sets(
    nodes: &[Touches],
    values: &[Kind],
    claimed: &mut [bool],
    hands_captures: bool,
) -> Vec<Vec<usize>> {
    loop {
        let depths = depths(nodes, values.len(), claimed);
        let mut stuck = stuck(nodes, values, claimed, &depths);
        if !hands_captures {
            stuck.extend(starved(nodes, claimed, &depths));
        }
        if stuck.is_empty() {
            return gathered(claimed, &depths);
        }
        for node in stuck {
            claimed[node] = false;
        }
    }
}

fn depths(nodes: &[Touches], values: usize, claimed: &[bool]) -> Vec<usize> {
    // by value: depth of its writer, and whether that is claimed
    let mut written: Vec<Option<(usize, bool)>> = vec![None; values];
    let mut depths = Vec::with_capacity(nodes.len());
    for (node, is_claimed) in nodes.iter().zip(claimed) {
        let before = node.all_reads().filter_map(|value| written[value]);
        let depth = before
            .map(|(depth, writer)| depth + usize::from(*is_claimed && !writer))
            .max()
            .unwrap_or(0);
        for value in &node.writes {
            written[*value] = Some((depth, *is_claimed));
        }
        depths.push(depth);
    }
    depths
}

/// Claimed nodes that touch what is no tensor and cannot stay within their set.
fn stuck(nodes: &[Touches], values: &[Kind], claimed: &[bool], depths: &[usize]) -> Vec<usize> {
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); values.len()];
    for (index, node) in nodes.iter().enumerate() {
        for value in node.all_reads().chain(node.writes.iter().copied()) {
            if !values[value].is_tensor {
                users[value].push(index);
            }
        }
    }
    let mut stuck = Vec::new();
    for (kind, users) in values.iter().zip(&users) {
        let within = users.windows(2).all(|pair| depths[pair[0]] == depths[pair[1]])
            && users.iter().all(|user| claimed[*user])
            && !kind.is_outer;
        if !within {
            stuck.extend(users.iter().filter(|user| claimed[**user]));
        }
    }
    stuck
}

/// Claimed nodes whose bodies read what no node of their set reads itself or writes.
fn starved(nodes: &[Touches], claimed: &[bool], depths: &[usize]) -> Vec<usize> {
    let is_there = |node: usize, value: &usize| {
        let others = nodes.iter().zip(claimed).zip(depths);
        let mut of_set = others.filter(|((_, is_claimed), depth)| **is_claimed && **depth == depths[node]);
        of_set.any(|((other, _), _)| other.reads.contains(value) || other.writes.contains(value))
    };
    let claimed = (0..nodes.len()).filter(|node| claimed[*node]);
    let starved = claimed.filter(|node| nodes[*node].captures.iter().any(|value| !is_there(*node, value)));
    starved.collect()
}

fn gathered(claimed: &[bool], depths: &[usize]) -> Vec<Vec<usize>> {
    let mut sets: std::collections::BTreeMap<usize, Vec<usize>> = std::collections::BTreeMap::new();
    for (node, (is_claimed, depth)) in claimed.iter().zip(depths).enumerate() {
        if *is_claimed {
            sets.entry(*depth).or_default().push(node);
        }
    }
    sets.into_values().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TENSOR: Kind = Kind {
        is_tensor: true,
        is_outer: false,
    };

    /// Nodes that each write one value, numbered as they are, and read these.
    fn graph(reads: &[&[usize]]) -> Vec<Touches> {
        let node = |(index, reads): (usize, &&[usize])| Touches {
            reads: reads.to_vec(),
            captures: Vec::new(),
            writes: vec![index],
        };
        reads.iter().enumerate().map(node).collect()
    }

    #[test]
    fn fusible_nodes_form_one_set_and_separated_ones_two() {
        let diamond = graph(&[&[], &[0], &[0], &[1, 2]]);
        let values = [TENSOR; 4];
        assert_eq!(sets(&diamond, &values, &mut [true; 4], true), [vec![0, 1, 2, 3]]);
        // 2 lies between 0 and 3: 3 waits for it, 1 does not
        let mut claimed = [true, true, false, true];
        assert_eq!(sets(&diamond, &values, &mut claimed, true), [vec![0, 1], vec![3]]);
        assert_eq!(
            sets(&diamond, &values, &mut [false; 4], true),
            Vec::<Vec<usize>>::new()
        );
    }

    #[test]
    fn non_tensors_stay_within_a_set_or_are_not_claimed() {
        let chain = graph(&[&[], &[0], &[1], &[2]]);
        let mut values = [TENSOR; 4];
        values[1].is_tensor = false;
        assert_eq!(sets(&chain, &values, &mut [true; 4], true), [vec![0, 1, 2, 3]]);
        // its reader is not claimed, so its writer is not either
        let mut claimed = [true, true, false, true];
        assert_eq!(sets(&chain, &values, &mut claimed, true), [vec![0], vec![3]]);
        assert_eq!(claimed, [true, false, false, true]);
        values[1].is_outer = true;
        let mut claimed = [true; 4];
        assert_eq!(sets(&chain, &values, &mut claimed, true), [vec![0], vec![3]]);
    }

    #[test]
    fn body_sees_what_nodes_of_its_set_read_or_write() {
        let mut nodes = graph(&[&[], &[0], &[1]]);
        nodes[2].captures = vec![0];
        let mut claimed = [true; 3];
        assert_eq!(sets(&nodes, &[TENSOR; 3], &mut claimed, false), [vec![0, 1, 2]]);
        let mut claimed = [false, true, true];
        assert_eq!(sets(&nodes, &[TENSOR; 3], &mut claimed, false), [vec![1, 2]]);
        nodes[1].reads.clear();
        let mut claimed = [false, true, true];
        assert_eq!(sets(&nodes, &[TENSOR; 3], &mut claimed, false), [vec![1]]);
        let mut claimed = [false, true, true];
        assert_eq!(sets(&nodes, &[TENSOR; 3], &mut claimed, true), [vec![1], vec![2]]);
    }

    proptest! {
        #[test]
        fn sets_are_convex_and_do_not_wait_for_each_other(
            edges in prop::collection::vec((0usize..14, 0usize..14), 0..40),
            claimed in prop::collection::vec(any::<bool>(), 14),
            odd in prop::collection::vec(prop::bool::weighted(0.1), 14),
        ) {
            let mut nodes = graph(&[&[] as &[usize]; 14]);
            for (from, to) in edges {
                if from < to {
                    nodes[to].reads.push(from);
                }
            }
            let values: Vec<Kind> = odd.iter().map(|odd| Kind { is_tensor: !odd, is_outer: false }).collect();
            let mut left = claimed.clone();
            let sets = sets(&nodes, &values, &mut left, true);
            // whatever is claimed still is in one set, and nothing else is
            let mut of = vec![None; nodes.len()];
            for (number, set) in sets.iter().enumerate() {
                for node in set {
                    prop_assert!(left[*node] && claimed[*node] && of[*node].replace(number).is_none());
                }
            }
            prop_assert!(left.iter().zip(&of).all(|(left, of)| *left == of.is_some()));
            // fused, the nodes still have an order: no two groups reach each other
            let group = |node: usize| of[node].map_or(100 + node, |set| set);
            let mut reach = vec![[false; 128]; 128];
            for (to, node) in nodes.iter().enumerate() {
                for from in &node.reads {
                    let (from, to) = (group(*from), group(to));
                    if from != to {
                        reach[from][to] = true;
                    }
                }
            }
            for middle in 0..128 {
                for from in 0..128 {
                    for to in 0..128 {
                        reach[from][to] |= reach[from][middle] && reach[middle][to];
                    }
                }
            }
            prop_assert!((0..128).all(|at| !reach[at][at]));
            // what is no tensor crosses no edge
            for (to, node) in nodes.iter().enumerate() {
                for from in node.reads.iter().filter(|from| odd[**from]) {
                    prop_assert!(group(*from) == group(to) || (of[*from].is_none() && of[to].is_none()));
                }
            }
        }
    }
}
