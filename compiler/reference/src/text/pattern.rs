//! Regular expressions as RE2 reads them, which ONNX asks for, said as the `regex` crate reads them.
//!
//! Invariants:
//! 1. Classes of letters (`\d`, `\w`, `\s`, `\b`) are those of ASCII, as RE2's are; the crate's are Unicode's.
//! 2. What the crate's classes have beyond RE2's (sets in sets, `&&`, `~~`) is literal.
//! 3. What neither reads is an error with the crate's words, never another match.

use regex::{Regex, RegexBuilder};

/// Most bytes of a compiled pattern: a pattern of the model must not exhaust memory.
const MOST_BYTES: usize = 1 << 22;

/// The pattern that matches whole texts.
pub(super) fn whole(pattern: &str) -> Result<Regex, String> {
    let anchored = format!(r"\A(?:{})\z", translated(pattern));
    RegexBuilder::new(&anchored)
        .size_limit(MOST_BYTES)
        .build()
        .map_err(|error| format!("pattern {pattern:?} is not read: {error}"))
}

fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some('Q') => quoted(&mut rest, &mut out),
                Some(letter) => escaped(letter, in_class, &mut out),
                None => out.push('\\'),
            },
            '[' if in_class => match rest.peek() {
                Some(':') => {
                    // a class by name, as [:alpha:]
                    out.push('[');
                    for c in rest.by_ref() {
                        out.push(c);
                        if c == ']' {
                            break;
                        }
                    }
                }
                _ => out.push_str(r"\["),
            },
            '[' => {
                in_class = true;
                out.push('[');
                if rest.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                // a bracket that comes first is one of the class
                if rest.next_if_eq(&']').is_some() {
                    out.push_str(r"\]");
                }
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// What stands between `\Q` and `\E` stands for itself.
fn quoted(rest: &mut impl Iterator<Item = char>, out: &mut String) {
    let mut text: String = rest.collect();
    let behind = match text.find(r"\E") {
        Some(end) => {
            let behind = text.split_off(end + 2);
            text.truncate(end);
            behind
        }
        None => String::new(),
    };
    out.push_str(&regex::escape(&text));
    out.push_str(&translated(&behind));
}

fn escaped(letter: char, in_class: bool, out: &mut String) {
    let set = match letter {
        'd' | 'D' => "0-9",
        'w' | 'W' => "0-9A-Za-z_",
        's' | 'S' => r"\t\n\f\r ",
        'b' | 'B' if !in_class => {
            out.push_str(&format!(r"(?-u:\{letter})"));
            return;
        }
        other => {
            out.push('\\');
            out.push(other);
            return;
        }
    };
    match (letter.is_ascii_uppercase(), in_class) {
        (true, _) => out.push_str(&format!("[^{set}]")),
        (false, true) => out.push_str(set),
        (false, false) => out.push_str(&format!("[{set}]")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        whole(pattern).unwrap().is_match(text)
    }

    #[test]
    fn a_text_matches_as_a_whole() {
        assert!(matches("a|ab", "ab"));
        assert!(!matches("a|b", "ab"));
        assert!(!matches("a", "a\n"));
        assert!(matches("", ""));
        assert!(matches(
            r"(\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$)",
            "account@gmail.com"
        ));
    }

    #[test]
    fn classes_are_those_of_ascii() {
        assert!(matches(r"\d+[\w]\s\bx", "12_ x") && !matches(r"\d", "٣"));
        assert!(!matches(r"\w", "é") && matches(r"\W", "é") && matches(r"[^\W]", "e"));
        assert!(matches(".", "é"));
    }

    #[test]
    fn classes_have_no_sets_in_them() {
        assert!(matches("[[a]", "[") && matches("[a&&b]", "&") && matches("[[:alpha:]1]+", "b1"));
        assert!(matches("[]a]", "]") && !matches("[^]]", "]"));
        assert!(matches(r"\Qa.b\E+", "a.bb") && !matches(r"\Qa.b\E", "axb"));
    }

    #[test]
    fn what_is_no_pattern_is_an_error() {
        assert!(whole("(").unwrap_err().contains("is not read"));
        assert!(whole("(?=a)").is_err());
        assert!(whole("((a{99}){99}){99}").is_err());
    }
}
