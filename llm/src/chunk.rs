//! Chunks: the sizes in which a text is read, and in which sequences take a step together, and the sessions that run them.

/// Sizes of chunks, the largest first: a prompt is cut into as few of them as leave little of the last one unused.
pub(crate) const LADDER: [usize; 5] = [512, 128, 32, 8, 1];

/// Sequences that take a step together, the most first.
pub(crate) const STEPS: [usize; 5] = [16, 8, 4, 2, 1];

/// A session of chunks of one size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionKey {
    pub(crate) rows: usize,
    /// Whether it gives the logits of all tokens.
    pub(crate) all: bool,
    /// Whether its rows are tokens of as many sequences, not of one.
    pub(crate) is_step: bool,
    /// The one device that it runs on; else it is planned over all that the policy allows.
    pub(crate) device: Option<String>,
}

/// The size of the next chunk of a text of `left` tokens, which may be more than that.
pub(crate) fn rung(left: usize) -> usize {
    filled(&LADDER, left)
}

/// How many of so many sequences take the next step together, which may be more than there are.
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
    fn a_text_is_cut_into_few_chunks() {
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
