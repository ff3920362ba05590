//! Names and texts of others in lines of text.

use std::borrow::Cow;

/// Text for one line of a terminal or a log: control characters, other ends of lines and marks that change the direction
/// of text are written as escapes (`\n`, `\u{1b}`). A model's name, a board's answer and a device's reason are written
/// by others, and could otherwise forge lines of a log.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if is_escaped(letter) {
            escaped.extend(letter.escape_default());
        } else {
            escaped.push(letter);
        }
    }
    Cow::Owned(escaped)
}

fn is_escaped(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_forges_lines_is_escaped() {
        assert_eq!(printable("größer → 40 °C\\n"), "größer → 40 °C\\n");
        assert_eq!(
            printable("a\nb\r\u{1b}[2Kc\u{85}\u{2028}\u{202e}d"),
            r"a\nb\r\u{1b}[2Kc\u{85}\u{2028}\u{202e}d"
        );
    }
}
