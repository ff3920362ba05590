//! Lines per crate: size is a reviewed quantity.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Result;
use cargo_metadata::MetadataCommand;

use crate::root::{files, root};

/// Prints lines of Rust per crate: all, and those outside test files and test modules.
#[allow(clippy::print_stdout, reason = "the table is what the command is for")]
pub(crate) fn run() -> Result<()> {
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .exec()?;
    let mut folders: Vec<String> = metadata
        .packages
        .iter()
        .filter_map(|package| package.manifest_path.parent())
        .filter_map(|path| path.strip_prefix(root()).ok())
        .map(|path| path.to_string())
        .collect();
    folders.sort_by_key(|folder| std::cmp::Reverse(folder.len()));
    let mut lines: BTreeMap<String, (usize, usize, usize)> = BTreeMap::new();
    for file in files("rs")? {
        let folder = folders
            .iter()
            .find(|folder| file.starts_with(folder))
            .cloned()
            .unwrap_or_else(|| "(no crate)".into());
        let text = fs::read_to_string(root().join(&file))?;
        let all = text.lines().count();
        let is_test = file.components().any(|part| {
            let part = part.as_os_str();
            part == "tests" || part == "benches" || part == "examples"
        }) || file.file_name().is_some_and(|name| name == "tests.rs");
        let product = if is_test {
            0
        } else {
            text.lines().take_while(|line| *line != "#[cfg(test)]").count()
        };
        let entry = lines.entry(folder).or_default();
        *entry = (entry.0 + 1, entry.1 + all, entry.2 + product);
    }
    println!(
        "{:<24} {:>6} {:>8} {:>14}",
        "crate", "files", "lines", "without tests"
    );
    let mut total = (0, 0, 0);
    for (folder, (count, all, product)) in &lines {
        println!("{folder:<24} {count:>6} {all:>8} {product:>14}");
        total = (total.0 + count, total.1 + all, total.2 + product);
    }
    println!("{:<24} {:>6} {:>8} {:>14}", "all", total.0, total.1, total.2);
    Ok(())
}
