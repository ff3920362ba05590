//! Finds the nodes of a part that a device refuses: the smallest run that it refuses as one part.
//!
//! Invariants:
//! 1. The device refused exactly the run that is found, independent of its answers for other runs.
//! 2. At most `2·⌈log2 n⌉ + 2` attempts, in an order that depends only on the answers.
//!
//! Not here: the attempts themselves (`replan`).

use std::ops::Range;

/// The smallest run of `0..nodes` that is refused, given that the whole is. `hint` is a node that the
/// device named. For a device that refuses every run which holds a refused one, no smaller run is
/// refused; for any other, none that the search has tried.
///
/// # Errors
/// What an attempt failed of otherwise.
pub(crate) fn smallest_refused<E>(
    nodes: usize,
    hint: Option<usize>,
    mut refuses: impl FnMut(Range<usize>) -> Result<bool, E>,
) -> Result<Range<usize>, E> {
    if let Some(node) = hint.filter(|node| *node < nodes && nodes > 1)
        && refuses(node..node + 1)?
    {
        return Ok(node..node + 1);
    }
    // the shortest prefix that is refused; `fine` nodes are not
    let (mut fine, mut end) = (0, nodes);
    while end - fine > 1 {
        let middle = fine + (end - fine) / 2;
        if refuses(0..middle)? {
            end = middle;
        } else {
            fine = middle;
        }
    }
    // from there back, the latest start that is refused
    let (mut start, mut fine) = (0, end);
    while fine - start > 1 {
        let middle = start + (fine - start) / 2;
        if refuses(middle..end)? {
            start = middle;
        } else {
            fine = middle;
        }
    }
    Ok(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The run that is found where a part is refused by `refused`, and the attempts.
    fn search(
        nodes: usize,
        hint: Option<usize>,
        refused: impl Fn(&Range<usize>) -> bool,
    ) -> (Range<usize>, u32) {
        let mut attempts = 0;
        let found = smallest_refused(nodes, hint, |run| {
            attempts += 1;
            assert!(!run.is_empty() && run.end <= nodes);
            Ok::<_, ()>(refused(&run))
        });
        (found.unwrap(), attempts)
    }

    #[test]
    fn single_bad_node_is_found_anywhere() {
        for nodes in 1..70usize {
            for bad in 0..nodes {
                let (found, attempts) = search(nodes, None, |run| run.contains(&bad));
                assert_eq!(found, bad..bad + 1);
                assert!(
                    attempts <= 2 * nodes.next_power_of_two().ilog2(),
                    "{attempts} for {nodes}"
                );
                let (found, attempts) = search(nodes, Some(bad), |run| run.contains(&bad));
                assert_eq!(found, bad..bad + 1);
                assert!(attempts <= 1);
            }
        }
    }

    #[test]
    fn jointly_refused_nodes_are_found_together() {
        for (first, last) in [(0, 1), (3, 9), (0, 39), (20, 21)] {
            let together = |run: &Range<usize>| run.contains(&first) && run.contains(&last);
            assert_eq!(search(40, None, together).0, first..last + 1);
            // a hint that is wrong costs one attempt
            let (found, attempts) = search(40, Some(first), together);
            assert_eq!(found, first..last + 1);
            assert!(attempts <= 2 * 6 + 2, "{attempts}");
        }
    }

    #[test]
    fn first_of_two_bad_nodes_is_found() {
        let (found, _) = search(64, None, |run| run.contains(&50) || run.contains(&7));
        assert_eq!(found, 7..8);
    }

    #[test]
    fn oversized_part_is_cut_at_its_limit() {
        let (found, _) = search(100, None, |run| run.len() > 60);
        assert_eq!(found, 0..61);
        assert_eq!(
            search(100, None, |_| false).0,
            0..100,
            "nothing smaller was refused"
        );
    }
}
