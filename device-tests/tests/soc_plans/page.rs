//! A system's page: the nodes of each model that its chip supports, and the reasons for refusals.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use polychip_device_tests::paths;

use crate::systems::System;

/// Results for one model.
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) row: Row,
    /// Number of nodes by op and refusal reason.
    pub(crate) refused: BTreeMap<String, usize>,
}

/// Nodes of a model, and the plan with every supported node on the chip.
pub(crate) struct Row {
    pub(crate) nodes: usize,
    pub(crate) taken: usize,
    pub(crate) parts: usize,
    pub(crate) crossings: usize,
}

/// Compares the page with the committed one, or writes it.
pub(crate) fn check(system: &System, device: &str, sections: &[Section]) -> Result<()> {
    let path = file(system);
    let text = text(system, device, sections)?;
    if std::env::var_os("POLYCHIP_BLESS").is_some() {
        return std::fs::write(&path, text).with_context(|| path.display().to_string());
    }
    let committed = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    ensure!(
        committed == text,
        "{} is out of date; POLYCHIP_BLESS=1 writes this:\n{text}",
        path.display()
    );
    Ok(())
}

fn file(system: &System) -> PathBuf {
    paths::root().join(format!("docs/vendors/plans/{}.md", system.file))
}

fn text(system: &System, device: &str, sections: &[Section]) -> Result<String> {
    let mut text = format!("# {}: supported nodes and refusals\n\n", system.title);
    writeln!(
        text,
        "`{}:0` is {device:?}: our emulator replaces the vendor's library. The CPU is the test machine's own.\n\
         Parts and crossings belong to the plan with every supported node on the NPU. Each plan ran, and its outputs\n\
         matched the CPU's. Written by\n\
         `POLYCHIP_BLESS=1 cargo test -p polychip-device-tests --test soc_plans -- {}`.\n",
        system.plugin, system.file
    )?;
    text.push_str("| model | nodes | on the NPU | parts | crossings |\n|---|---|---|---|---|\n");
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
            text.push_str("No node is refused.\n");
            continue;
        }
        text.push_str("| op and refusal reason | nodes |\n|---|---|\n");
        for (words, count) in refused {
            writeln!(text, "| {} | {count} |", words.replace('|', "\\|"))?;
        }
    }
    Ok(text)
}
