//! `cargo xtask new-plugin NAME`: creates a working plugin as a starting point, in this tree, or with `--out` in its
//! own folder.
//!
//! Invariants:
//! 1. A plugin is one folder: the workspace takes members by pattern and `tidy` derives its edges, so no other
//!    file changes. Outside it is the same folder in a workspace of its own (`outside`), so that it can move in.
//! 2. Nothing is overwritten: a taken name is refused, and a failed attempt leaves no folder.
//! 3. The templates (`xtask/templates`) are the plugin `xyz`; its name in them is the only placeholder.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use cargo_metadata::MetadataCommand;

use crate::root::root;
use files::{Template, format, packages, write};

mod files;
mod outside;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Name of the plugin, after the SDK that it loads: lower-case letters, digits and _
    name: String,
    /// What to start from
    #[arg(long, value_enum, default_value_t = Template::Basic)]
    template: Template,
    /// Tree to write the plugin into; default: this one
    #[arg(long, value_name = "FOLDER")]
    tree: Option<PathBuf>,
    /// New folder outside this tree, created as a workspace with the plugin and built against this tree
    #[arg(long, value_name = "DIR", conflicts_with = "tree")]
    out: Option<PathBuf>,
    /// Depend on published packages by version, instead of on this tree by path
    #[arg(long, requires = "out")]
    published: bool,
}

/// Longest name.
const MOST_LETTERS: usize = 32;

/// Writes the plugin and prints what to do next.
pub(crate) fn run(options: &Options) -> Result<()> {
    let name = options.name.as_str();
    check_name(name)?;
    if let Some(out) = &options.out {
        return outside::write(out, name, options.template, options.published);
    }
    let tree = options.tree.as_deref().unwrap_or(root());
    let metadata = MetadataCommand::new()
        .manifest_path(tree.join("Cargo.toml"))
        .no_deps()
        .exec()?;
    for package in packages(name) {
        ensure!(
            metadata.packages.iter().all(|taken| *taken.name != package),
            "the name {name} is taken: the workspace has a package {package}"
        );
    }
    let folder = write(&tree.join("plugins"), name, options.template)?;
    format(tree, name);
    let [plugin, wrapper] = packages(name);
    eprintln!(
        "{}: {}\n\
         test it:  cargo test --package {plugin}\n\
         load it:  cargo build --package {wrapper} && \
         cargo run --package polychip-cli -- devices --plugins target/debug\n\
         then:     docs/adding-a-plugin.md",
        folder.display(),
        options.template.summary()
    );
    Ok(())
}

fn check_name(name: &str) -> Result<()> {
    let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    ensure!(
        name.bytes().all(letters) && name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase()),
        "plugin name {name:?}: lower-case letters, digits and _ only, a letter first"
    );
    ensure!(
        !name.starts_with("plugin_"),
        "plugin name {name}: polychip_plugin_… is reserved for plugin libraries"
    );
    ensure!(
        name.len() <= MOST_LETTERS,
        "plugin name {name}: {} letters; the limit is {MOST_LETTERS}",
        name.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::files::type_name;
    use super::*;

    #[test]
    fn invalid_crate_names_are_refused() {
        for name in ["npu", "my_npu2", "x"] {
            check_name(name).unwrap();
        }
        for name in [
            "",
            "2x",
            "plugin_cpu",
            "_x",
            "NPU",
            "a-b",
            "a/b",
            "..",
            "ü",
            &"x".repeat(33),
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
        assert_eq!(type_name("my_npu2"), "MyNpu2");
    }

    #[test]
    fn taken_name_is_refused_without_changes() {
        for name in ["cpu", "graph", "abi"] {
            let error = run(&Options {
                name: name.into(),
                template: Template::Basic,
                tree: None,
                out: None,
                published: false,
            })
            .unwrap_err()
            .to_string();
            assert!(error.contains("taken"), "{error}");
        }
        let plugins = tempfile::tempdir().unwrap();
        let folder = write(plugins.path(), "npu", Template::Basic).unwrap();
        fs::write(folder.join("src/caps.rs"), "mine").unwrap();
        assert!(write(plugins.path(), "npu", Template::Driver).is_err());
        assert_eq!(fs::read_to_string(folder.join("src/caps.rs")).unwrap(), "mine");
    }
}
