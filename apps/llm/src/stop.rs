//! Stop strings: ends an answer at given texts, also where they arrive in pieces.
//!
//! Invariants:
//! 1. The way the text is cut into pieces does not change what is returned or where it stops.
//! 2. No byte of a stop string is returned. Text that only begins like one is returned as soon as
//!    it differs.

/// A stop string that ended an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Index of the stop string.
    pub index: usize,
}

/// Watches a text for stop strings.
///
/// ```
/// use polychip_llm::StopStrings;
///
/// let mut stop = StopStrings::new(["User:"]);
/// assert_eq!(stop.push("Paris. U"), ("Paris. ".to_owned(), None));
/// let (text, stopped) = stop.push("ser: thanks");
/// assert_eq!((text.as_str(), stopped.map(|stopped| stopped.index)), ("", Some(0)));
/// ```
#[derive(Clone, Debug)]
pub struct StopStrings {
    stops: Vec<String>,
    /// A possible beginning of a stop string.
    held: String,
    stopped: Option<Stopped>,
}

impl StopStrings {
    /// Stops at the first of `stops` to be complete; ignores empty ones.
    #[must_use]
    pub fn new<T: Into<String>>(stops: impl IntoIterator<Item = T>) -> StopStrings {
        StopStrings {
            stops: stops.into_iter().map(Into::into).collect(),
            held: String::new(),
            stopped: None,
        }
    }

    /// Adds a piece of text. Returns the text that certainly belongs to the answer, and the stop
    /// string that occurred, if any. Returns nothing more after a stop.
    #[must_use]
    pub fn push(&mut self, piece: &str) -> (String, Option<Stopped>) {
        if self.stopped.is_some() {
            return (String::new(), self.stopped);
        }
        self.held.push_str(piece);
        if let Some((start, index)) = self.first_whole() {
            self.held.truncate(start);
            self.stopped = Some(Stopped { index });
            return (std::mem::take(&mut self.held), self.stopped);
        }
        let rest = self.held.split_off(self.held.len() - self.begun());
        (std::mem::replace(&mut self.held, rest), None)
    }

    /// Ends the text and returns what was held back.
    #[must_use]
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Start and index of the stop string that ends first, the longest of several.
    fn first_whole(&self) -> Option<(usize, usize)> {
        let found = self.stops.iter().enumerate().filter(|(_, stop)| !stop.is_empty());
        found
            .filter_map(|(index, stop)| {
                let start = self.held.find(stop.as_str())?;
                Some((start + stop.len(), start, index))
            })
            .min()
            .map(|(_, start, index)| (start, index))
    }

    /// Number of trailing bytes that begin a stop string.
    fn begun(&self) -> usize {
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        let most = longest.saturating_sub(1).min(self.held.len());
        let starts = (self.held.len() - most..self.held.len()).filter(|at| self.held.is_char_boundary(*at));
        starts
            .map(|at| &self.held[at..])
            .find(|tail| self.stops.iter().any(|stop| stop.starts_with(tail)))
            .map_or(0, str::len)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Result without pieces: the stop string that ends first decides.
    fn expected(text: &str, stops: &[String]) -> (String, Option<usize>) {
        for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
            let whole = stops.iter().enumerate();
            let whole = whole.filter(|(_, stop)| !stop.is_empty() && text[..end].ends_with(stop.as_str()));
            if let Some((index, stop)) = whole.min_by_key(|(index, stop)| (end - stop.len(), *index)) {
                return (text[..end - stop.len()].to_owned(), Some(index));
            }
        }
        (text.to_owned(), None)
    }

    #[test]
    fn earliest_stop_string_wins() {
        let mut stop = StopStrings::new(["abcd", "bc", ""]);
        let (text, stopped) = stop.push("xabcd");
        assert_eq!((text.as_str(), stopped), ("xa", Some(Stopped { index: 1 })));
        assert_eq!(stop.push("more").0, "");
        assert_eq!(stop.finish(), "");
    }

    #[test]
    fn partial_stop_string_is_emitted_at_the_end() {
        let mut stop = StopStrings::new(["<end>"]);
        assert_eq!(stop.push("a <e").0, "a ");
        assert_eq!(stop.push("g").0, "<eg");
        assert_eq!(stop.push("<en").0, "");
        assert_eq!(stop.finish(), "<en");
    }

    proptest! {
        #[test]
        fn piece_boundaries_do_not_matter(
            text in "[abé]{0,30}",
            stops in prop::collection::vec("[abé]{0,4}", 0..4),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.retain(|cut| text.is_char_boundary(*cut));
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let mut stop = StopStrings::new(stops.clone());
            let mut given = String::new();
            let mut stopped = None;
            for pair in cuts.windows(2) {
                let (piece, now) = stop.push(&text[pair[0]..pair[1]]);
                given += &piece;
                stopped = stopped.or(now);
            }
            given += &stop.finish();
            let (text, index) = expected(&text, &stops);
            prop_assert_eq!((given, stopped.map(|stopped| stopped.index)), (text, index));
        }
    }
}
