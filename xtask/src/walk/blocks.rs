//! The `sh` blocks of a page, and the marks before them.
//!
//! A mark is an HTML comment on the line before a block. It leaves the block out, with the reason
//! (`<!-- walk: left out: WHY -->`), or gives values for the placeholders that readers replace
//! (`<!-- walk: MODEL.onnx=examples/shapes/shapes.onnx -->`).
//!
//! Invariant: a mark is an error if it cannot be read, precedes no `sh` block, or has a value that its block does not use.

use std::fmt;

use anyhow::{Context, Result, bail, ensure};

/// The start of a mark.
const MARK: &str = "<!-- walk:";

/// One block.
#[derive(Debug)]
pub(super) struct Block {
    /// Line of its opening fence, from 1.
    pub(super) line: usize,
    text: Vec<String>,
    pub(super) way: Way,
}

/// How a block is treated.
#[derive(Debug)]
pub(super) enum Way {
    /// It is run, with these values of its placeholders.
    Run(Vec<(String, String)>),
    /// It is left out, for this reason.
    LeftOut(String),
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::LeftOut(why) => write!(f, "left out: {why}"),
            Way::Run(values) if values.is_empty() => write!(f, "run"),
            Way::Run(values) => {
                let values: Vec<String> = values
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                write!(f, "run with {}", values.join(" "))
            }
        }
    }
}

impl Block {
    /// The script for `bash`.
    pub(super) fn script(&self) -> String {
        let mut script = self.text.join("\n");
        script.push('\n');
        if let Way::Run(values) = &self.way {
            for (name, value) in values {
                script = script.replace(name, value);
            }
        }
        script
    }

    /// The block's text at a line of the page.
    pub(super) fn command_at(&self, line: usize) -> &str {
        let at = line.checked_sub(self.line + 1);
        at.and_then(|at| self.text.get(at)).map_or("", |text| text.trim())
    }
}

/// All `sh` blocks of a page, in order.
pub(super) fn read(page: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut mark: Option<(usize, Way)> = None;
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let line_number = at + 1;
        let text = line.trim();
        if let Some(said) = text.strip_prefix(MARK) {
            let said = said
                .strip_suffix("-->")
                .with_context(|| format!("line {line_number}: the mark does not end in --> on its line"))?;
            mark = Some((
                line_number,
                way(said.trim()).with_context(|| format!("line {line_number}"))?,
            ));
        } else if let Some(language) = text.strip_prefix("```") {
            let indent = line.len() - line.trim_start().len();
            let mut body = Vec::new();
            loop {
                let (_, line) = lines
                    .next()
                    .with_context(|| format!("line {line_number}: the block does not end"))?;
                if line.trim() == "```" {
                    break;
                }
                let blank = line.len() - line.trim_start().len();
                body.push(line.get(indent.min(blank)..).unwrap_or_default().to_owned());
            }
            if language.trim() == "sh" {
                let (_, way) = mark.take().unwrap_or((0, Way::Run(Vec::new())));
                let block = Block {
                    line: line_number,
                    text: body,
                    way,
                };
                block.check()?;
                blocks.push(block);
            }
        } else if text.is_empty() {
            continue;
        }
        if let Some((marked, _)) = &mark
            && *marked != line_number
        {
            bail!("line {marked}: the mark stands before no `sh` block");
        }
    }
    if let Some((marked, _)) = mark {
        bail!("line {marked}: the mark stands before no `sh` block");
    }
    Ok(blocks)
}

impl Block {
    fn check(&self) -> Result<()> {
        if let Way::Run(values) = &self.way {
            let text = self.text.join("\n");
            for (name, _) in values {
                ensure!(
                    text.contains(name.as_str()),
                    "line {}: the block has no {name}, for which its mark has a value",
                    self.line
                );
            }
        }
        Ok(())
    }
}

fn way(said: &str) -> Result<Way> {
    if let Some(why) = said.strip_prefix("left out:") {
        ensure!(
            !why.trim().is_empty(),
            "the mark does not say why the block is left out"
        );
        return Ok(Way::LeftOut(why.trim().to_owned()));
    }
    let values = said
        .split_whitespace()
        .map(|word| match word.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => bail!("{word:?} in the mark: write `left out: WHY`, or NAME=VALUE"),
        })
        .collect::<Result<Vec<_>>>()?;
    ensure!(!values.is_empty(), "the mark says nothing");
    Ok(Way::Run(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Page\n\n```sh\nrun MODEL.onnx\n```\n\n<!-- walk: left out: it needs a board -->\n\n   ```sh\n   \
        a \\\n       b\n   ```\n\n```toml\n[a]\n```\n<!-- walk: MODEL=m.onnx OUT=o -->\n```sh\nrun MODEL -o OUT\n```\n";

    #[test]
    fn blocks_come_in_order_with_their_lines_and_marks() {
        let blocks = read(PAGE).unwrap();
        let lines: Vec<usize> = blocks.iter().map(|block| block.line).collect();
        assert_eq!(lines, [3, 9, 18]);
        assert_eq!(blocks[0].script(), "run MODEL.onnx\n");
        assert!(matches!(&blocks[1].way, Way::LeftOut(why) if why == "it needs a board"));
        assert_eq!(blocks[1].script(), "a \\\n    b\n");
        assert_eq!(blocks[2].script(), "run m.onnx -o o\n");
        assert_eq!(blocks[2].command_at(19), "run MODEL -o OUT");
    }

    #[test]
    fn mark_without_effect_is_an_error() {
        for (page, word) in [
            ("<!-- walk: left out: -->\n```sh\n```\n", "why"),
            ("<!-- walk: -->\n```sh\n```\n", "nothing"),
            ("<!-- walk: skip -->\n```sh\n```\n", "NAME=VALUE"),
            ("<!-- walk: A=b -->\ntext\n```sh\nA\n```\n", "before no"),
            ("<!-- walk: A=b -->\n", "before no"),
            ("<!-- walk: A=b -->\n```toml\nA\n```\n", "before no"),
            ("<!-- walk: A=b -->\n```sh\nB\n```\n", "no A"),
            ("<!-- walk: A=b\n```sh\nA\n```\n", "-->"),
            ("```sh\nA\n", "does not end"),
        ] {
            let error = format!("{:#}", read(page).unwrap_err());
            assert!(error.contains(word), "{page:?}: {error}");
        }
    }
}
