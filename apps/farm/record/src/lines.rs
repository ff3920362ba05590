//! A file of records, one per line.

use crate::record::{FORMAT, Record};

/// Records of a file, and what of it was no record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines {
    /// In the order of the file.
    pub records: Vec<Record>,
    /// Bytes of a last line that was cut off: what was being written when the writer died.
    pub torn_bytes: usize,
}

/// A file that holds something else than records.
#[derive(Debug, thiserror::Error)]
pub enum LinesError {
    /// A whole line is no text.
    #[error("not UTF-8 text: {0}")]
    NotText(#[from] std::str::Utf8Error),
    /// Only a last line may be cut off.
    #[error("line {line} is not a farm record: {source}")]
    NotARecord {
        /// Counted from 1.
        line: usize,
        /// What the reader says.
        source: serde_json::Error,
    },
    /// Written by a newer version.
    #[error("line {line} is a record of format {format}; this version reads formats up to {FORMAT}")]
    Newer {
        /// Counted from 1.
        line: usize,
        /// Its format.
        format: u64,
    },
}

/// Reads a file of records: its bytes, because a cut may leave half of a letter.
///
/// # Errors
///
/// A line that is no record, unless it is the last and has no end of line; a record of a newer format.
pub fn read_lines(bytes: impl AsRef<[u8]>) -> Result<Lines, LinesError> {
    let bytes = bytes.as_ref();
    let whole = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let mut lines = Lines {
        torn_bytes: bytes.len() - whole,
        ..Lines::default()
    };
    for (index, whole) in std::str::from_utf8(&bytes[..whole])?.lines().enumerate() {
        if whole.is_empty() {
            continue;
        }
        let at = index + 1;
        let not_a_record = |source| LinesError::NotARecord { line: at, source };
        let value: serde_json::Value = serde_json::from_str(whole).map_err(not_a_record)?;
        // a newer form may lack fields that this one needs: its number is read first
        if let Some(format) = value.get("format").and_then(serde_json::Value::as_u64)
            && format > u64::from(FORMAT)
        {
            return Err(LinesError::Newer { line: at, format });
        }
        lines
            .records
            .push(serde_json::from_value(value).map_err(not_a_record)?);
    }
    Ok(lines)
}

impl Record {
    /// The record as a line with its end.
    ///
    /// # Panics
    ///
    /// Never: a record has no map with keys that are not text.
    #[must_use]
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("a record is always JSON") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Board, Build, Failure, InventoryEntry, Item, Job, Outcome, Settings, State};

    fn record(attempt: u32) -> Record {
        Record {
            format: FORMAT,
            run: "r1".into(),
            item: Item {
                job: Job::Bench,
                model: None,
                plugins: vec!["cpu".into()],
                settings: Settings {
                    threads: Some(2),
                    ..Settings::default()
                },
            },
            place: InventoryEntry {
                name: "desk".into(),
                transport: "local".into(),
                tags: Vec::new(),
            },
            board: Board::default(),
            build: Build {
                version: "0.1.0".into(),
                commit: None,
                runner: "0".repeat(64),
            },
            attempt,
            started_s: 1,
            took_ms: 2,
            before: State::default(),
            after: State::default(),
            outcome: Outcome::Failed(Failure {
                reason: "killed at 40 °C".into(),
                board: true,
                exit_code: None,
            }),
        }
    }

    #[test]
    fn truncated_last_line_loses_only_itself() {
        let whole = (record(1).to_line() + &record(2).to_line()).into_bytes();
        for end in 0..=whole.len() {
            let lines = read_lines(&whole[..end]).unwrap();
            let kept = whole[..end].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(lines.records.len(), kept, "cut at {end}");
            assert_eq!(
                lines.torn_bytes == 0,
                end == 0 || whole[..end].ends_with(b"\n"),
                "cut at {end}"
            );
        }
    }

    #[test]
    fn invalid_record_is_reported_by_line() {
        let text = record(1).to_line() + "{}\n" + &record(2).to_line();
        assert!(read_lines(&text).unwrap_err().to_string().starts_with("line 2 "));
        let newer = record(1).to_line().replace("\"format\":1", "\"format\":9");
        assert!(read_lines(&newer).unwrap_err().to_string().contains("format 9"));
    }
}
