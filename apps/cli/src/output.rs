//! Standard output, kept for what the person asked for.
//!
//! Invariant: once taken, descriptor 1 points at standard error, so what a vendor's library prints does
//! not mix with the answer.

use std::fs::File;
use std::io::{self, Write};

use anyhow::Context as _;
use serde::Serialize;

/// Where answers go.
#[derive(Debug)]
pub(crate) struct Output {
    #[cfg(unix)]
    file: File,
    #[cfg(not(unix))]
    file: io::Stdout,
}

impl Output {
    /// Keeps a copy of standard output, and points descriptor 1 at standard error.
    #[cfg(unix)]
    pub(crate) fn take() -> anyhow::Result<Output> {
        use std::os::fd::AsFd as _;
        let kept = io::stdout()
            .as_fd()
            .try_clone_to_owned()
            .context("standard output")?;
        rustix::stdio::dup2_stdout(io::stderr())
            .map_err(io::Error::from)
            .context("standard error")?;
        Ok(Output {
            file: File::from(kept),
        })
    }

    /// Standard output as it is.
    #[cfg(not(unix))]
    pub(crate) fn take() -> anyhow::Result<Output> {
        Ok(Output { file: io::stdout() })
    }

    /// Standard output as it was, where it is a terminal: to draw there.
    #[cfg(unix)]
    pub(crate) fn terminal(&self) -> anyhow::Result<Option<File>> {
        use std::io::IsTerminal as _;
        let is_terminal = self.file.is_terminal();
        let copy = is_terminal.then(|| self.file.try_clone()).transpose();
        copy.context("standard output")
    }

    /// As above.
    #[cfg(not(unix))]
    pub(crate) fn terminal(&self) -> anyhow::Result<Option<io::Stdout>> {
        use std::io::IsTerminal as _;
        Ok(self.file.is_terminal().then(io::stdout))
    }

    /// Writes text, with a newline where it has none.
    pub(crate) fn text(&mut self, text: &str) -> anyhow::Result<()> {
        self.file.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            self.file.write_all(b"\n")?;
        }
        Ok(self.file.flush()?)
    }

    /// Writes a piece of a text as it is, at once.
    pub(crate) fn piece(&mut self, text: &str) -> anyhow::Result<()> {
        self.file.write_all(text.as_bytes())?;
        Ok(self.file.flush()?)
    }

    /// Writes a value as JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        // a plan of many nodes and devices may take hundreds of megabytes of text
        let mut writer = io::BufWriter::with_capacity(1 << 16, &mut self.file);
        serde_json::to_writer_pretty(&mut writer, value).map_err(io::Error::from)?;
        writer.write_all(b"\n")?;
        Ok(writer.flush()?)
    }

    /// Writes a value as JSON in one line.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        self.text(&serde_json::to_string(value)?)
    }
}
