//! `cargo xtask capi-install`: the C library as a package lays it out, without cargo-c.
//!
//! Invariant: what is laid out is relocatable but for `polychip.pc`, which states the prefix; nothing else is written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::root::root;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Folder to create `include` and `lib` in, such as `/usr/local`
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
    /// Install the unoptimised library
    #[arg(long)]
    debug: bool,
    /// Also install the static library (some hundred megabytes)
    #[arg(long = "static")]
    with_static: bool,
}

/// Builds the library and lays it out.
pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(
        cfg!(target_os = "linux"),
        "this installs the Linux layout; on other systems build the library with cargo (--package polychip-capi) or cargo-c"
    );
    let prefix = std::path::absolute(&options.prefix).context("the prefix")?;
    let mut libraries = vec![library(options.debug)?];
    if options.with_static {
        libraries.push(build(options.debug, Some("staticlib"))?.join("libpolychip_capi.a"));
    }
    lay_out(&Prefix::at(&prefix), &libraries, env!("CARGO_PKG_VERSION"))?;
    eprintln!(
        "installed: {}; programs find it with PKG_CONFIG_PATH={}",
        prefix.join("lib/libpolychip.so").display(),
        prefix.join("lib/pkgconfig").display()
    );
    Ok(())
}

/// Where the library is laid out.
pub(crate) struct Prefix {
    /// The folder that `include` and `lib` are made in.
    pub(crate) folder: PathBuf,
    /// What `polychip.pc` states: the folder, or where its files will lie once they are installed.
    pub(crate) stated: PathBuf,
}

impl Prefix {
    /// A prefix whose files stay where they are laid out.
    pub(crate) fn at(folder: &Path) -> Prefix {
        Prefix {
            folder: folder.to_owned(),
            stated: folder.to_owned(),
        }
    }
}

/// Builds the library, and gives its file.
pub(crate) fn library(debug: bool) -> Result<PathBuf> {
    Ok(build(debug, None)?.join("libpolychip_capi.so"))
}

/// Builds the library, or another form of it; the folder that it lies in.
fn build(debug: bool, form: Option<&str>) -> Result<PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["rustc", "--package", "polychip-capi", "--lib"]);
    if !debug {
        command.arg("--release");
    }
    command.args(["--crate-type", form.unwrap_or("cdylib")]);
    ensure!(
        command.current_dir(root()).status()?.success(),
        "the library cannot be built"
    );
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join(if debug { "debug" } else { "release" }))
}

/// The version by which programs find the library again; bindings/c/build.rs writes the same into it.
fn soversion(version: &str) -> String {
    let mut parts = version.split('.');
    let (major, minor) = (parts.next().unwrap_or("0"), parts.next().unwrap_or("0"));
    match major {
        "0" => format!("0.{minor}"),
        major => major.to_owned(),
    }
}

/// Copies the header and the libraries, and writes what says where they are.
pub(crate) fn lay_out(prefix: &Prefix, libraries: &[PathBuf], version: &str) -> Result<()> {
    let source = root().join("bindings/c");
    let (include, lib) = (prefix.folder.join("include"), prefix.folder.join("lib"));
    let (pkgconfig, cmake) = (lib.join("pkgconfig"), lib.join("cmake/polychip"));
    for folder in [&include, &pkgconfig, &cmake] {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    copy(&source.join("include/polychip.h"), &include.join("polychip.h"))?;
    for library in libraries {
        match library.extension().and_then(|end| end.to_str()) {
            Some("a") => copy(library, &lib.join("libpolychip.a"))?,
            _ => {
                let whole = format!("libpolychip.so.{version}");
                copy(library, &lib.join(&whole))?;
                link(
                    &whole,
                    &lib.join(format!("libpolychip.so.{}", soversion(version))),
                )?;
                link(&whole, &lib.join("libpolychip.so"))?;
            }
        }
    }
    let mut parts = version.split('.');
    let (major, minor) = (parts.next().unwrap_or("0"), parts.next().unwrap_or("0"));
    let written = [
        ("polychip.pc.in", pkgconfig.join("polychip.pc")),
        ("polychip-config.cmake.in", cmake.join("polychip-config.cmake")),
        (
            "polychip-config-version.cmake.in",
            cmake.join("polychip-config-version.cmake"),
        ),
    ];
    for (template, file) in written {
        let template = source.join("install").join(template);
        let text =
            fs::read_to_string(&template).with_context(|| format!("reading {}", template.display()))?;
        let text = text
            .replace("@PREFIX@", &prefix.stated.to_string_lossy())
            .replace("@SOVERSION@", &soversion(version))
            .replace("@VERSION@", version)
            .replace("@MAJOR@", major)
            .replace("@MINOR@", minor);
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    // a program that has the old file open keeps it
    let _ = fs::remove_file(to);
    fs::copy(from, to).with_context(|| format!("copying {} to {}", from.display(), to.display()))?;
    Ok(())
}

#[cfg(unix)]
fn link(target: &str, at: &Path) -> Result<()> {
    let _ = fs::remove_file(at);
    std::os::unix::fs::symlink(target, at).with_context(|| format!("linking {}", at.display()))
}

/// A copy, where links need rights of their own.
#[cfg(not(unix))]
fn link(target: &str, at: &Path) -> Result<()> {
    copy(&at.with_file_name(target), at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_can_be_installed_twice_in_one_place() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("built.so");
        fs::write(&library, "library").unwrap();
        let prefix = folder.path().join("usr");
        for _ in 0..2 {
            lay_out(&Prefix::at(&prefix), std::slice::from_ref(&library), "0.1.2").unwrap();
        }
        let lib = prefix.join("lib");
        assert_eq!(fs::read_to_string(lib.join("libpolychip.so")).unwrap(), "library");
        assert_eq!(
            fs::read_to_string(lib.join("libpolychip.so.0.1")).unwrap(),
            "library"
        );
        assert!(prefix.join("include/polychip.h").is_file());
        let pc = fs::read_to_string(lib.join("pkgconfig/polychip.pc")).unwrap();
        assert!(pc.contains(&format!("prefix={}\n", prefix.display())) && pc.contains("Version: 0.1.2\n"));
        let elsewhere = Prefix {
            folder: prefix.clone(),
            stated: PathBuf::from("/usr"),
        };
        lay_out(&elsewhere, &[library], "0.1.2").unwrap();
        let pc = fs::read_to_string(lib.join("pkgconfig/polychip.pc")).unwrap();
        assert!(pc.starts_with("prefix=/usr\n"), "{pc}");
        for name in ["polychip-config.cmake", "polychip-config-version.cmake"] {
            let text = fs::read_to_string(lib.join("cmake/polychip").join(name)).unwrap();
            assert!(text.contains("0.1.2") && !text.contains('@'), "{text}");
        }
    }

    #[test]
    fn library_is_found_by_its_stable_name() {
        assert_eq!(soversion("0.1.2"), "0.1");
        assert_eq!(soversion("2.3.4"), "2");
    }
}
