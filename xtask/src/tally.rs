//! How many tests a check ran, how many were skipped, and for want of what: read from what the harnesses print.
//!
//! Invariant: a test that is listed as ignored without a need is counted as left out, never as run.
//! Not here: the words themselves (`device-tests/test-requirements`).

use std::collections::BTreeMap;
use std::fmt;

/// What stands before the need's name in the report of a skipped test.
const MARK: &str = "skipped, needs ";

/// Counts of one check.
#[derive(Default, PartialEq, Debug)]
pub(crate) struct Tally {
    ran: usize,
    /// Ignored, or skipped in the middle of a test.
    skipped: usize,
    /// By need: how many, and what one of them said.
    needs: BTreeMap<String, (usize, String)>,
}

impl Tally {
    /// Reads the output of a check.
    pub(crate) fn of(text: &str) -> Tally {
        let mut tally = Tally::default();
        for line in text.lines() {
            if let Some(counts) = line.trim_start().strip_prefix("test result: ") {
                tally.ran += count(counts, " passed") + count(counts, " failed");
                tally.skipped += count(counts, " ignored");
            } else if line.trim_start().starts_with("Summary [")
                && let Some((before, _)) = line.split_once(" tests run: ")
            {
                let words = before.rsplit(' ').next();
                tally.ran += words.and_then(|word| word.parse::<usize>().ok()).unwrap_or(0);
            }
            tally.need(line);
        }
        tally
    }

    /// Counts a line that says that a test was skipped.
    fn need(&mut self, line: &str) {
        let Some((before, said)) = line.split_once(MARK) else {
            return;
        };
        let listed = line.ends_with(" ... ignored");
        // a unit test says it at the start of a line, and the compiler's harness counts it as passed
        let alone = before.trim().is_empty();
        if !listed && !alone {
            return;
        }
        let Some((name, why)) = said.split_once(": ") else {
            return;
        };
        if alone {
            self.ran = self.ran.saturating_sub(1);
            self.skipped += 1;
        }
        let why = why.strip_suffix(") ... ignored").unwrap_or(why);
        let entry = self
            .needs
            .entry(name.to_owned())
            .or_insert_with(|| (0, why.to_owned()));
        entry.0 += 1;
    }

    /// Tests that ran, whatever came of them.
    pub(crate) fn ran(&self) -> usize {
        self.ran
    }

    /// Tests that were skipped.
    pub(crate) fn skipped(&self) -> usize {
        self.skipped
    }

    /// Whether no tests were counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.ran == 0 && self.skipped == 0
    }

    /// Whether there were tests and none ran.
    pub(crate) fn is_all_skipped(&self) -> bool {
        self.ran == 0 && self.skipped > 0
    }
}

/// The number before a word, as `3` in `ok. 3 passed; 0 failed`.
fn count(text: &str, word: &str) -> usize {
    let before = text.split(word).next().filter(|before| before.len() < text.len());
    let number = before.and_then(|before| before.rsplit(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tests ran", self.ran)?;
        if self.skipped == 0 {
            return Ok(());
        }
        write!(f, ", {} skipped", self.skipped)?;
        let known: usize = self.needs.values().map(|(count, _)| count).sum();
        let mut words: Vec<String> = self
            .needs
            .iter()
            .map(|(name, (count, why))| format!("{count} need {name}, {}", short(why)))
            .collect();
        if known < self.skipped {
            words.push(format!("{} left out", self.skipped - known));
        }
        write!(f, " ({})", words.join("; "))
    }
}

/// The start of words that may go on for long.
fn short(words: &str) -> String {
    const MOST: usize = 90;
    if words.chars().count() <= MOST {
        return words.to_owned();
    }
    words.chars().take(MOST).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_harnesses_are_counted_with_missing_needs() {
        let text = "\
            test host/a ... ok\n\
            test b (skipped, needs vulkan: no GPU) ... ignored\n\
            test c (skipped, needs vulkan: no GPU (really)) ... ignored\n\
            test d (left out: nobody can) ... ignored\n\
            test result: ok. 1 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.02s\n\
            \u{20}    Summary [   0.354s] 9 tests run: 8 passed, 1 failed, 15 skipped\n\
            \u{20}   skipped, needs models: not there\n";
        let tally = Tally::of(text);
        assert_eq!((tally.ran, tally.skipped), (9, 4));
        assert_eq!(
            tally.to_string(),
            "9 tests ran, 4 skipped (1 need models, not there; 2 need vulkan, no GPU; 1 left out)"
        );
        assert!(!tally.is_all_skipped());
    }

    #[test]
    fn a_suite_without_its_driver_ran_nothing() {
        let text = "test suite (skipped, needs opencl: no library) ... ignored\n\
            test result: ok. 0 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n";
        assert!(Tally::of(text).is_all_skipped());
        assert!(Tally::of("   Compiling a v0.1.0\n").is_empty());
    }
}
