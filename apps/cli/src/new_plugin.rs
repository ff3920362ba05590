//! `polychip new-plugin`: a working plugin for a chip, in a workspace of its own.
//!
//! Not here: the templates and what is written (`polychip-new-plugin`).

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};

use polychip_new_plugin::{Polychip, Template, format, packages, workspace};

use crate::exit::{usage, warn};
use crate::output::Output;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The new folder is a Cargo workspace with one plugin. It builds and passes its own tests and the conformance suite as it is;
replace its parts by calls of your driver. Build it with Rust (https://rustup.rs).")]
pub(crate) struct Arguments {
    /// Name of the plugin, after the SDK that it loads: lower-case letters, digits and _
    name: String,
    /// What to start from
    #[arg(long, value_enum, default_value_t = Template::Basic)]
    template: Template,
    /// New folder to write to; default: the plugin's name, in the current folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Depend on the crates in this clone of Polychip's repository, instead of on published packages
    #[arg(long, value_name = "DIR")]
    repository: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let name = &arguments.name;
    let folder = arguments.out.clone().unwrap_or_else(|| PathBuf::from(name));
    let from = match &arguments.repository {
        Some(clone) => Polychip::Repository(clone),
        None => Polychip::Published,
    };
    let written = workspace(&folder, name, arguments.template, from);
    // what can fail is the folder or the name, which the command line states
    let written = written.map_err(|error| usage(format!("{error:#}")))?;
    if !format(&written, name) {
        warn("cargo fmt could not run, so the new files are not formatted");
    }
    out.text(&next_steps(arguments, &folder))
}

/// What was written, and the commands that use it.
fn next_steps(arguments: &Arguments, folder: &Path) -> String {
    let name = &arguments.name;
    let [plugin, library] = packages(name);
    let (at, manifest) = (folder.display(), folder.join("Cargo.toml"));
    let manifest = manifest.display();
    let built = folder.join("target").join("debug");
    let built = built.display();
    let packages = match &arguments.repository {
        Some(clone) => format!("from the clone {}", clone.display()),
        None => format!(
            "{} from the package registry; `--repository DIR` takes them from a clone instead",
            env!("CARGO_PKG_VERSION")
        ),
    };
    let mut text = format!(
        "{at}: a workspace with {}\n\
         Polychip's crates: {packages}\n\n",
        arguments.template.summary()
    );
    let mut more = String::new();
    if arguments.template == Template::Driver {
        let driver = format!("{DLL_PREFIX}{name}_driver{DLL_SUFFIX}");
        let driver = folder.join(driver);
        let source = folder.join("plugins").join(name).join("driver");
        let source = source.join(format!("{name}_driver.c"));
        text.push_str(&format!(
            "build the driver: cc -std=c11 -O2 -shared -fPIC -o {} {}\n",
            driver.display(),
            source.display()
        ));
        more = format!(" --set {name}.lib_dir={at}");
    }
    text.push_str(&format!(
        "build the plugin: cargo build --manifest-path {manifest} --package {library}\n\
         list its devices: polychip devices --plugins {built}{more}\n\
         run its tests:    cargo test --manifest-path {manifest} --package {plugin}\n\
         what to replace:  docs/adding-a-plugin.md, docs/tutorials/vendor.md\n"
    ));
    text
}
