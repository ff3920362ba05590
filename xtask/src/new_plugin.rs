//! `cargo xtask new-plugin NAME`: creates a working plugin in this tree, or with `--out` in a workspace of its own, as
//! `polychip new-plugin` does.
//!
//! Not here: the templates and what is written (`polychip-new-plugin`).

use std::path::PathBuf;

use anyhow::{Result, ensure};
use cargo_metadata::MetadataCommand;
use polychip_new_plugin::{Polychip, Template, check_name, format, packages, workspace, write};

use crate::root::root;

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

/// Writes the plugin and prints what to do next.
pub(crate) fn run(options: &Options) -> Result<()> {
    let name = options.name.as_str();
    let [plugin, wrapper] = packages(name);
    check_name(name)?;
    if let Some(out) = &options.out {
        let from = if options.published {
            Polychip::Published
        } else {
            Polychip::Repository(root())
        };
        let folder = workspace(out, name, options.template, from)?;
        tidied(format(&folder, name), name);
        eprintln!(
            "{}: a workspace with {}\n\
             there, test it:  cargo test --package {plugin}\n\
             there, build it: cargo build --package {wrapper}   # target/debug/libpolychip_plugin_{name}.so\n\
             load it:         polychip devices --plugins {}\n\
             then:            docs/adding-a-plugin.md",
            folder.display(),
            options.template.summary(),
            folder.join("target/debug").display()
        );
        return Ok(());
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
    tidied(format(tree, name), name);
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

fn tidied(is_formatted: bool, name: &str) {
    if !is_formatted {
        eprintln!("cargo fmt could not run; format plugins/{name} by hand");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_name_is_refused() {
        // the first is a plugin, the others are named as one would be
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
    }
}
