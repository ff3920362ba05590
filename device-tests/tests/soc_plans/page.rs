//! A system's page: what its chip takes of each model, and why it refuses the rest.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use polychip_device_tests::paths;

use crate::systems::System;

/// What was found of a model.
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) row: Row,
    /// Op and reason in the chip's words, and of how many nodes.
    pub(crate) refused: BTreeMap<String, usize>,
}

/// Nodes of a model, and the plan with all on the chip that it takes.
pub(crate) struct Row {
    pub(crate) nodes: usize,
    pub(crate) taken: usize,
    pub(crate) parts: usize,
    pub(crate) crossings: usize,
}

/// Holds the page against the committed one, or writes it.
pub(crate) fn check(system: &System, device: &str, sections: &[Section]) -> Result<()> {
    let path = file(system);
    let text = text(system, device, sections)?;
    if std::env::var_os("POLYCHIP_BLESS").is_some() {
        return std::fs::write(&path, text).with_context(|| path.display().to_string());
    }
    let committed = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    ensure!(
        committed == text,
        "{} says otherwise; POLYCHIP_BLESS=1 writes this:\n{text}",
        path.display()
    );
    Ok(())
}

fn file(system: &System) -> PathBuf {
    paths::root().join(format!("docs/vendors/plans/{}.md", system.file))
}

fn text(system: &System, device: &str, sections: &[Section]) -> Result<String> {
    let mut text = format!("# {}: what its NPU takes, and why not the rest\n\n", system.title);
    writeln!(
        text,
        "`{}:0` is {device:?}: an emulator of this repository stands for the vendor's library.\n\
         The CPU is the machine's own. Written by\n\
         `POLYCHIP_BLESS=1 cargo test -p polychip-device-tests --test soc_plans -- {}`. Parts and crossings are of the\n\
         plan that gives the NPU all that it takes; each plan ran, with the CPU's answers.\n",
        system.plugin, system.file
    )?;
    text.push_str("| model | nodes | of them on the NPU | parts | crossings |\n|---|---|---|---|---|\n");
    for Section { title, row, .. } in sections {
        let Row {
            nodes,
            taken,
            parts,
            crossings,
        } = row;
        writeln!(text, "| {title} | {nodes} | {taken} | {parts} | {crossings} |")?;
    }
    for Section { title, refused, .. } in sections {
        writeln!(text, "\n## {title}\n")?;
        if refused.is_empty() {
            text.push_str("Nothing is refused.\n");
            continue;
        }
        text.push_str("| op and reason | nodes |\n|---|---|\n");
        for (words, count) in refused {
            writeln!(text, "| {} | {count} |", words.replace('|', "\\|"))?;
        }
    }
    Ok(text)
}
