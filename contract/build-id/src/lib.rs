//! The build id of a plugin, which its build script computes from its sources, so nobody maintains
//! it by hand.
//!
//! A plugin's `build.rs` calls [`emit`]; `polychip_sdk::build_id!` then returns the id. The id
//! covers:
//!
//! 1. the manifest, the build script and everything under `src` of the plugin and of each crate
//!    that it depends on by a path, directly or indirectly;
//! 2. the locked versions of the registry crates that it depends on, directly or indirectly;
//! 3. the workspace's manifest, which states how each crate is optimised and with which features;
//! 4. the compiler, its flags, the target and the profile, because each of them changes the
//!    program.
//!
//! Invariants:
//! 1. The same sources yield the same id, wherever they are and in whatever order folders list
//!    them.
//! 2. It only reads files: no network, no cargo, no clock.
//!
//! Allowed dependencies: none, because those of a build script are compiled separately. Manifests
//! are therefore read line by line, in the form that this workspace writes: one dependency a line,
//! or a table of its own.

#![forbid(unsafe_code)]

mod hash;
mod lock;
mod manifest;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use hash::Hash;

/// What of the build changes the program, as cargo tells build scripts.
const BUILD: &[&str] = &[
    "TARGET",
    "OPT_LEVEL",
    "PROFILE",
    "CARGO_CFG_DEBUG_ASSERTIONS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_CFG_TARGET_FEATURE",
];

/// Hashes the sources of the package whose build script calls this, and passes the id to its
/// compilation as `POLYCHIP_BUILD_ID`. Cargo reruns the script if one of them changes.
///
/// # Panics
/// A manifest or source cannot be read: a plugin must have an id.
#[allow(clippy::print_stdout, reason = "this is how a build script speaks to cargo")]
pub fn emit() {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("a build script calls this"));
    let sources =
        Sources::of(&package).unwrap_or_else(|error| panic!("build id of {}: {error}", package.display()));
    let mut hash = Hash::new();
    sources.add(&mut hash);
    for name in BUILD {
        println!("cargo::rerun-if-env-changed={name}");
        hash.text(name);
        hash.text(&env::var(name).unwrap_or_default());
    }
    for (name, value) in env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_FEATURE_") || name.starts_with("CARGO_PROFILE_") {
            hash.text(&name);
            hash.text(&value.to_string_lossy());
        }
    }
    hash.text(&compiler());
    for path in sources.watched() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    println!("cargo::rustc-env=POLYCHIP_BUILD_ID={}", hash.finish());
}

/// The compiler in its own words, with its commit.
fn compiler() -> String {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("-vV").output();
    said.map_or_else(
        |_| String::new(),
        |said| String::from_utf8_lossy(&said.stdout).into_owned(),
    )
}

/// What a package is made of.
struct Sources {
    /// Packages by name, with their folders.
    packages: BTreeMap<String, PathBuf>,
    /// Contents by package and path inside it, so that the id does not depend on where a package lies.
    files: BTreeMap<(String, String), Vec<u8>>,
    /// Names and versions of the crates from registries.
    locked: BTreeSet<String>,
    /// The workspace's manifest and its lock.
    shared: Vec<PathBuf>,
}

impl Sources {
    fn of(package: &Path) -> io::Result<Sources> {
        let workspace = manifest::workspace_of(package)?;
        let mut sources = Sources {
            packages: BTreeMap::new(),
            files: BTreeMap::new(),
            locked: BTreeSet::new(),
            shared: Vec::new(),
        };
        let mut open = vec![package.to_owned()];
        while let Some(folder) = open.pop() {
            let text = fs::read_to_string(folder.join("Cargo.toml"))?;
            let name = manifest::name(&text).unwrap_or_default().to_owned();
            if sources.packages.insert(name.clone(), folder.clone()).is_some() {
                continue;
            }
            for file in ["Cargo.toml", "build.rs"] {
                if let Ok(bytes) = fs::read(folder.join(file)) {
                    sources.files.insert((name.clone(), file.to_owned()), bytes);
                }
            }
            sources.add_folder(&name, &folder, "src")?;
            for (dependency, path) in manifest::dependencies(&text) {
                let below = match path {
                    Some(path) => Some(folder.join(path)),
                    None => workspace.path_of(dependency),
                };
                open.extend(below);
            }
        }
        if let Some(root) = &workspace.root {
            let lock = root.join("Cargo.lock");
            if let Ok(text) = fs::read_to_string(&lock) {
                let ours = sources.packages.keys().map(String::as_str).collect();
                sources.locked = lock::versions(&text, &ours);
                sources.shared.push(lock);
            }
            let manifest = root.join("Cargo.toml");
            let bytes = fs::read(&manifest)?;
            let name = (String::new(), "Cargo.toml".to_owned());
            sources.files.insert(name, bytes);
            sources.shared.push(manifest);
        }
        Ok(sources)
    }

    fn add_folder(&mut self, package: &str, folder: &Path, inside: &str) -> io::Result<()> {
        let Ok(entries) = fs::read_dir(folder.join(inside)) else {
            return Ok(());
        };
        for entry in entries {
            let entry = entry?;
            let inside = format!("{inside}/{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                self.add_folder(package, folder, &inside)?;
            } else {
                let bytes = fs::read(entry.path())?;
                self.files.insert((package.to_owned(), inside), bytes);
            }
        }
        Ok(())
    }

    fn add(&self, hash: &mut Hash) {
        for ((package, path), bytes) in &self.files {
            hash.text(package);
            hash.text(path);
            hash.bytes(bytes);
        }
        for version in &self.locked {
            hash.text(version);
        }
    }

    /// Files and folders whose change calls for another id.
    fn watched(&self) -> Vec<PathBuf> {
        let mut all = self.shared.clone();
        for folder in self.packages.values() {
            let names = ["Cargo.toml", "build.rs", "src"].into_iter();
            all.extend(names.map(|name| folder.join(name)).filter(|path| path.exists()));
        }
        all
    }
}

#[cfg(test)]
mod tests;
