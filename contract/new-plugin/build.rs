//! Packs the templates, and the files of the workspace that a plugin outside this repository needs, into one
//! compressed archive. `src/archive.rs` reads it.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// Files of the workspace.
const OF_WORKSPACE: [&str; 2] = ["Cargo.toml", "rustfmt.toml"];

fn main() -> io::Result<()> {
    let package = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let root = package.join("../..");
    let out = Path::new(&variable("OUT_DIR")).join("templates.deflate");
    let mut archive = DeflateEncoder::new(fs::File::create(out)?, Compression::best());
    for name in OF_WORKSPACE {
        add(&mut archive, &format!("workspace/{name}"), &root.join(name))?;
    }
    let templates = package.join("templates");
    println!("cargo:rerun-if-changed={}", templates.display());
    let mut folders = vec![templates.clone()];
    while let Some(folder) = folders.pop() {
        let mut entries = fs::read_dir(&folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<Vec<PathBuf>>>()?;
        entries.sort();
        for path in entries {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let inside = path.strip_prefix(&templates).map_err(io::Error::other)?;
            let parts: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
            add(&mut archive, &parts.join("/"), &path)?;
        }
    }
    archive.finish()?.flush()
}

/// Adds a file: its name, its length, and its bytes.
fn add(archive: &mut impl io::Write, name: &str, path: &Path) -> io::Result<()> {
    println!("cargo:rerun-if-changed={}", path.display());
    // a checkout may have other line ends
    let text = fs::read_to_string(path)?.replace("\r\n", "\n");
    writeln!(archive, "{name} {}", text.len())?;
    archive.write_all(text.as_bytes())
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}
