//! A comparison as Markdown for a pull request comment.
//!
//! Invariant: model names and device texts are escaped.

use std::fmt::Write as _;

use super::text::{LISTED, of_side};
use super::{Comparison, Row, Verdict};

/// Rows of one table; more are counted. A comment of GitHub holds 65,536 characters.
const ROWS: usize = 50;

impl Comparison {
    /// The summary for a pull request.
    #[must_use]
    pub fn markdown(&self) -> String {
        let regressions: Vec<&Row> = self.regressions().collect();
        let title = match regressions.len() {
            0 => "no regression".to_owned(),
            1 => "1 regression".to_owned(),
            many => format!("{many} regressions"),
        };
        let mut text = format!("### Device farm: {title}\n\n{}\n\n", self.counts());
        if self.same_build {
            text.push_str("Both sides are the same build: any finding is due to chance.\n\n");
        }
        section(&mut text, "Regressions", &regressions);
        let mut rest = Vec::new();
        for verdict in LISTED {
            let rows = self.with(verdict);
            rest.extend(rows.filter(|row| !regressions.iter().any(|known| std::ptr::eq(*known, *row))));
        }
        let suspicious: Vec<&Row> = self.rows.iter().filter(|row| row.suspicious).collect();
        section(&mut text, "Suspicious: measure again, alternating", &suspicious);
        section(&mut text, "Other changes", &rest);
        let troubles = self.troubles();
        if !troubles.is_empty() {
            text.push_str("#### Not measured\n\n");
            for trouble in troubles.iter().take(ROWS) {
                let _ = writeln!(text, "- {}", escaped(trouble));
            }
            more(&mut text, troubles.len());
            text.push('\n');
        }
        let unchanged = self.rows.iter();
        let unchanged: Vec<&Row> = unchanged
            .filter(|row| row.verdict == Verdict::Same || (row.verdict == Verdict::Unsure && !row.suspicious))
            .collect();
        if !unchanged.is_empty() {
            let _ = write!(
                text,
                "<details><summary>{} without a finding</summary>\n\n",
                unchanged.len()
            );
            table(&mut text, &unchanged);
            text.push_str("</details>\n\n");
        }
        let _ = writeln!(
            text,
            "BASE: {}. NEW: {}. {}",
            escaped(&of_side(&self.base)),
            escaped(&of_side(&self.new)),
            self.method()
        );
        text
    }
}

fn section(text: &mut String, title: &str, rows: &[&Row]) {
    if !rows.is_empty() {
        let _ = write!(text, "#### {title}\n\n");
        table(text, rows);
    }
}

fn table(text: &mut String, rows: &[&Row]) {
    text.push_str(
        "| item | board | verdict | median | change [95 %] | pairs | why |\n|---|---|---|---|---|---|---|\n",
    );
    for row in rows.iter().take(ROWS) {
        let again = row.again();
        let why: Vec<&str> = row
            .notes
            .iter()
            .chain(&row.left_out)
            .chain(&again)
            .map(String::as_str)
            .collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            escaped(&row.item),
            escaped(&row.on()),
            row.verdict.word(),
            row.medians().unwrap_or_default(),
            row.changed().unwrap_or_default(),
            row.rounds,
            escaped(&why.join("; "))
        );
    }
    more(text, rows.len());
    text.push('\n');
}

fn more(text: &mut String, all: usize) {
    if all > ROWS {
        let _ = writeln!(text, "\n{} more.", all - ROWS);
    }
}

/// Text as text: what Markdown, its tables and HTML would read as markup is escaped, control characters are spaces.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            letter if letter.is_control() => escaped.push(' '),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            // a name after it would be told of the pull request
            '@' => escaped.push_str("&#64;"),
            '|' | '`' | '*' | '[' | ']' | '\\' | '~' | '#' => {
                escaped.push('\\');
                escaped.push(letter);
            }
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        let name = "a|b <img src=x>\n# @team `c` [d](e)";
        assert_eq!(
            escaped(name),
            "a\\|b &lt;img src=x&gt; \\# &#64;team \\`c\\` \\[d\\](e)"
        );
    }
}
