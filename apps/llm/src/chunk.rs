//! Chunk sizes for reading text, step sizes for batches, and the keys of the sessions that run
//! them.

use crate::build::Logits;

/// Chunk sizes in tokens, the largest first: a prompt is cut into as few of them as leave little of
/// the last one unused.
pub(crate) const LADDER: [usize; 5] = [512, 128, 32, 8, 1];

/// Numbers of sequences that step together, the largest first.
pub(crate) const STEPS: [usize; 5] = [16, 8, 4, 2, 1];

/// Identifies a session of chunks of one size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionKey {
    pub(crate) rows: usize,
    /// What it outputs of its tokens.
    pub(crate) logits: Logits,
    /// Whether its rows are tokens of as many sequences, not of one.
    pub(crate) is_step: bool,
    /// The only device that it runs on; `None` to plan over all that the policy allows.
    pub(crate) device: Option<String>,
}

/// The size of the next chunk of a text of `left` tokens; may exceed `left`.
pub(crate) fn rung(left: usize) -> usize {
    filled(&LADDER, left)
}

/// The number of sequences in the next step, of `left`; may exceed `left`.
pub(crate) fn together(left: usize) -> usize {
    filled(&STEPS, left)
}

fn filled(ladder: &[usize], left: usize) -> usize {
    // a rung that would be filled by three quarters takes less time than the smaller ones would
    let fills = |rows: &&usize| left * 4 >= **rows * 3;
    ladder.iter().find(fills).copied().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_split_into_few_chunks() {
        let cut = |mut left: usize| {
            let mut rungs = Vec::new();
            while left > 0 {
                rungs.push(rung(left));
                left = left.saturating_sub(rungs[rungs.len() - 1]);
            }
            rungs
        };
        assert_eq!(cut(1), [1]);
        assert_eq!(cut(7), [8]);
        assert_eq!(cut(30), [32]);
        assert_eq!(cut(130), [128, 1, 1]);
        assert_eq!(cut(1000), [512, 512]);
    }
}
