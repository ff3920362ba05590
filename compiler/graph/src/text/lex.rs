//! Tokens of the text form.
//!
//! Invariants:
//! 1. Every token knows its line. `#` starts a comment that ends with the line.
//! 2. `quote` and the quoted token undo each other.

use crate::Error;

/// One token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    /// A word: letters, digits, `_`, `.`, and `-` or `+` in numbers.
    Word(String),
    /// A quoted text.
    Text(String),
    /// One of `{}()[]=:,?` or `->`.
    Mark(&'static str),
    /// The end.
    End,
}

impl Token {
    /// How messages show it.
    pub(super) fn show(&self) -> String {
        match self {
            Token::Word(word) => format!("`{word}`"),
            Token::Text(text) => quote(text),
            Token::Mark(mark) => format!("`{mark}`"),
            Token::End => "the end".to_owned(),
        }
    }
}

/// A text in quotes.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => quoted.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether a text is a word that needs no quotes where a name may stand.
pub(super) fn is_word(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

const MARKS: [&str; 12] = ["->", "..", "{", "}", "(", ")", "[", "]", "=", ":", ",", "?"];

/// The tokens with their lines.
pub(super) fn lex(text: &str) -> Result<Vec<(usize, Token)>, Error> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '\n' {
            line += 1;
        }
        if c.is_whitespace() {
            rest = &rest[c.len_utf8()..];
        } else if c == '#' {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if c == '"' {
            let (text, after) = quoted(&rest[1..], line)?;
            tokens.push((line, Token::Text(text)));
            rest = after;
        } else if let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(**mark)) {
            tokens.push((line, Token::Mark(mark)));
            rest = &rest[mark.len()..];
        } else if c.is_ascii_alphanumeric() || "_-+".contains(c) {
            let (word, after) = rest.split_at(word_end(rest));
            tokens.push((line, Token::Word(word.to_owned())));
            rest = after;
        } else {
            return Err(Error::text(line, format!("unexpected character {c:?}")));
        }
    }
    tokens.push((line, Token::End));
    Ok(tokens)
}

/// Where a word or number ends: signs stand at its start or behind an exponent's `e` only.
fn word_end(text: &str) -> usize {
    let mut before = None;
    for (at, c) in text.char_indices() {
        let sign = matches!(c, '-' | '+') && (at == 0 || matches!(before, Some('e' | 'E')));
        if !(c.is_ascii_alphanumeric() || c == '_' || c == '.' || sign) {
            return at;
        }
        before = Some(c);
    }
    text.len()
}

/// The text up to the closing quote, and what follows.
fn quoted(rest: &str, line: usize) -> Result<(String, &str), Error> {
    let mut text = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((text, &rest[at + 1..])),
            '\n' => break,
            '\\' => match chars.next() {
                Some((_, '"')) => text.push('"'),
                Some((_, '\\')) => text.push('\\'),
                Some((_, 'n')) => text.push('\n'),
                Some((start, 'u')) => {
                    let bad = || Error::text(line, "a \\u{…} names no character");
                    let inner = rest[start + 1..].strip_prefix('{').ok_or_else(bad)?;
                    let end = inner.find('}').ok_or_else(bad)?;
                    let code = u32::from_str_radix(&inner[..end], 16).map_err(|_| bad())?;
                    text.push(char::from_u32(code).ok_or_else(bad)?);
                    // brace, digits, brace
                    for _ in 0..end + 2 {
                        chars.next();
                    }
                }
                _ => return Err(Error::text(line, "an unknown escape in a text")),
            },
            c => text.push(c),
        }
    }
    Err(Error::text(line, "a text has no closing quote"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_undo() {
        for text in ["", "a b", "\"\\\n\t\u{7f}", "größe 寸", "\0"] {
            let tokens = lex(&quote(text)).unwrap();
            assert_eq!(tokens, [(1, Token::Text(text.to_owned())), (1, Token::End)]);
        }
    }

    #[test]
    fn errors_know_their_line() {
        for (text, message) in [
            ("a\n\"b", "line 2: a text has no closing quote"),
            ("\n\n%", "line 3: unexpected character '%'"),
            ("\"\\q\"", "line 1: an unknown escape in a text"),
            ("\"\\u{d800}\"", "line 1: a \\u{…} names no character"),
        ] {
            assert_eq!(lex(text).unwrap_err().to_string(), message);
        }
        let tokens = lex("a->b[1, -2.5e-3] # c\n..").unwrap();
        let shown: Vec<String> = tokens.iter().map(|(_, token)| token.show()).collect();
        assert_eq!(
            shown,
            [
                "`a`",
                "`->`",
                "`b`",
                "`[`",
                "`1`",
                "`,`",
                "`-2.5e-3`",
                "`]`",
                "`..`",
                "the end"
            ]
        );
    }
}
