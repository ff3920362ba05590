//! Name patterns of scripts: `*` stands for any text.

/// Whether a name matches a pattern.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_stand_for_any_text() {
        assert!(matches("conv", "conv") && !matches("conv", "conv1"));
        assert!(matches("conv*", "conv1") && matches("*", "") && matches("*1", "conv1"));
        assert!(matches("a*b*c", "aXbYc") && !matches("a*b*c", "aXc"));
        assert!(!matches("ab*ba", "aba"));
    }
}
