//! `cargo xtask capi-deb`: Debian packages of the C library, by cargo-deb: the library, and what programs are compiled with.
//!
//! Invariants:
//! 1. The packages hold what `capi-install` lays out, for the prefix `/usr`.
//! 2. With `--check` they were installed by dpkg into a root of their own, and a program was compiled and run against them there.
//!
//! Not here: names, versions and descriptions of the packages (`bindings/c/Cargo.toml`).

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::capi_install::{self, Prefix};
use crate::python::call;
use crate::root::root;

/// The packages: cargo-deb's variants of the manifest, none for the first.
const VARIANTS: [Option<&str>; 2] = [None, Some("dev")];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Install the packages into a separate root (needs root rights), then compile and run an example against them
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let library = capi_install::library(false)?;
    let staged = root().join("target/deb/root");
    cleared(&staged)?;
    let prefix = Prefix {
        folder: staged.join("usr"),
        stated: PathBuf::from("/usr"),
    };
    capi_install::lay_out(&prefix, &[library], env!("CARGO_PKG_VERSION"))?;
    let made = root().join("target/debian");
    cleared(&made)?;
    for variant in VARIANTS {
        let mut deb = Command::new(env!("CARGO"));
        deb.args(["deb", "--package", "polychip-capi", "--no-build", "--output"])
            .arg(&made);
        if let Some(variant) = variant {
            deb.args(["--variant", variant]);
        }
        call(deb.current_dir(root()))
            .context("cargo-deb is missing: install it with `cargo install cargo-deb`")?;
    }
    let mut packages = Vec::new();
    for entry in fs::read_dir(&made).with_context(|| format!("reading {}", made.display()))? {
        let file = entry?.path();
        if file.extension() == Some(OsStr::new("deb")) {
            packages.push(file);
        }
    }
    packages.sort();
    ensure!(
        packages.len() == VARIANTS.len(),
        "built {} of {} packages",
        packages.len(),
        VARIANTS.len()
    );
    for package in &packages {
        let bytes = fs::metadata(package)
            .with_context(|| format!("reading {}", package.display()))?
            .len();
        eprintln!("made: {} ({:.1} MB)", package.display(), bytes as f64 / 1e6);
    }
    if options.check {
        check(&packages)?;
    }
    Ok(())
}

fn cleared(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("clearing {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))
}

/// Installs the packages into an empty root, and compiles and runs the demo against what is there.
fn check(packages: &[PathBuf]) -> Result<()> {
    let scratch = root().join("target/deb/installed");
    cleared(&scratch)?;
    let admin = scratch.join("var/lib/dpkg");
    for folder in ["info", "updates"] {
        fs::create_dir_all(admin.join(folder)).context("making dpkg's folders")?;
    }
    for file in ["status", "available"] {
        fs::write(admin.join(file), "").context("making dpkg's files")?;
    }
    let mut dpkg = Command::new("dpkg");
    // the root is empty: what the library depends on is the machine's
    dpkg.arg("--root")
        .arg(&scratch)
        .args(["--force-depends", "--install"]);
    call(dpkg.args(packages)).context("dpkg installs the packages")?;
    let program = scratch.join("label");
    let flags = Command::new("pkg-config")
        .args(["--define-variable=prefix=/usr", "--cflags", "--libs", "polychip"])
        .env("PKG_CONFIG_LIBDIR", scratch.join("usr/lib/pkgconfig"))
        .env("PKG_CONFIG_SYSROOT_DIR", &scratch)
        .output()
        .context("starting pkg-config")?;
    ensure!(
        flags.status.success(),
        "pkg-config does not find polychip in {}",
        scratch.display()
    );
    let flags = String::from_utf8(flags.stdout).context("what pkg-config says")?;
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Werror", "examples/c/label.c"]);
    compiler.args(flags.split_whitespace()).arg("-o").arg(&program);
    call(compiler.current_dir(root()))?;
    let mut run = Command::new(&program);
    run.args([
        "examples/shapes/shapes.onnx",
        "examples/shapes/star.ppm",
        "examples/shapes/labels.txt",
    ]);
    run.env("LD_LIBRARY_PATH", scratch.join("usr/lib"))
        .current_dir(root());
    call(&mut run)
}
