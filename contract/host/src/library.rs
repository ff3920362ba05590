//! Opening plugin libraries: candidate files, and the reason for each refusal.
//!
//! Invariants:
//! 1. Only files named as a plugin are opened, and only from the folders that the app passed.
//! 2. An opened library is never closed.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use libloading::Library;
use polychip_abi as abi;

use crate::{elf_file, table};

/// Libraries of a folder, each sorted by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidates {
    /// Those named as a plugin.
    pub(crate) plugins: Vec<PathBuf>,
    /// Those that somebody may take for a plugin, but that are named otherwise, with the right name.
    pub(crate) misnamed: Vec<(PathBuf, String)>,
}

/// The name that a library needs to be loaded as a plugin: what `name` has in front and behind is
/// kept where it is not part of a plugin's name.
fn right_name(name: &str) -> String {
    let stem = name.split('.').next().unwrap_or(name);
    let plain = stem.to_lowercase().replace(['-', ' '], "_");
    let plain = plain.strip_prefix("lib").unwrap_or(&plain);
    let parts = plain
        .split('_')
        .filter(|part| !part.is_empty() && !matches!(*part, "polychip" | "plugin" | "plugins"));
    let short = parts.collect::<Vec<_>>().join("_");
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let short = if short.is_empty() { "NAME" } else { &short };
    format!("{prefix}polychip_plugin_{short}{suffix}")
}

/// The libraries of `folder` that are named as a plugin, and those that may be meant to be.
pub(crate) fn candidates(folder: &Path) -> std::io::Result<Candidates> {
    let (prefix, suffix) = (
        format!("{}polychip_plugin_", std::env::consts::DLL_PREFIX),
        std::env::consts::DLL_SUFFIX,
    );
    let mut found = Candidates::default();
    let mut others = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_plugin = name.to_str().is_some_and(|name| {
            name.strip_prefix(&prefix)
                .and_then(|rest| rest.strip_suffix(suffix))
                .is_some_and(|middle| !middle.is_empty())
        });
        if is_plugin {
            found.plugins.push(entry.path());
        } else if let Some(name) = name.to_str().filter(|name| is_library(name)) {
            others.push((entry.path(), name.to_owned()));
        }
    }
    let is_alone = found.plugins.is_empty() && others.len() <= FEW;
    let misnamed = others
        .into_iter()
        .filter(|(_, name)| is_alone || name.to_lowercase().contains("plugin"))
        .map(|(path, name)| (path, right_name(&name)));
    found.misnamed = misnamed.collect();
    found.plugins.sort();
    found.misnamed.sort();
    Ok(found)
}

/// In a folder without a plugin and with at most so many libraries, each may be meant to be one.
const FEW: usize = 4;

/// Whether a file is named as a shared library, also with a version behind.
fn is_library(name: &str) -> bool {
    let suffix = std::env::consts::DLL_SUFFIX;
    name.ends_with(suffix) || name.contains(&format!("{suffix}."))
}

/// Opened libraries. They stay reachable, so leak checkers do not report them.
static OPEN: Mutex<Vec<&'static Library>> = Mutex::new(Vec::new());

/// Opens a library and reads its table. For `polychip-plugin-host`; everyone else uses
/// [`Host`](crate::Host).
///
/// # Errors
/// The reason for which the library is refused.
pub fn open(path: &Path) -> std::result::Result<abi::polychip_plugin_table, String> {
    let mut head = [0u8; 20];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    match read {
        Ok(()) => check_format(&head)?,
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => check_format(&[])?,
        Err(error) => return Err(format!("cannot be read: {error}")),
    }
    if cfg!(not(any(target_vendor = "apple", windows))) {
        elf_file::check_complete(path)?;
    }
    let library = bound(path).map_err(|error| words(path, &error))?;
    // A library with threads or thread-local destructors must not be unloaded.
    let library: &'static Library = Box::leak(Box::new(library));
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).push(library);
    // SAFETY: the symbol of this name has this type, by the contract.
    let query = unsafe { library.get::<abi::polychip_plugin_query_fn>(abi::QUERY_SYMBOL) }
        .map_err(|_| format!("it has no symbol {}: it is not a plugin", abi::QUERY_SYMBOL))?;
    // SAFETY: the export is pure and takes any two numbers.
    let found = unsafe { query(abi::POLYCHIP_ABI_MAJOR, abi::POLYCHIP_ABI_MINOR) };
    // SAFETY: the export returns null or a static table, by the contract.
    unsafe { table::read(found) }
}

/// Opens a library and binds all its symbols now: one that is missing is an error here, and does not
/// end the program in the call that needs it.
#[cfg(unix)]
fn bound(path: &Path) -> std::result::Result<Library, libloading::Error> {
    use libloading::os::unix;
    // SAFETY: opening a library runs its initialisers. The app named the folder that it lies in and
    // thereby trusts it, as it would a library that it links.
    unsafe { unix::Library::open(Some(path), unix::RTLD_NOW | unix::RTLD_LOCAL) }.map(Library::from)
}

/// Opens a library. The system binds all its symbols.
#[cfg(not(unix))]
fn bound(path: &Path) -> std::result::Result<Library, libloading::Error> {
    // SAFETY: as on other systems.
    unsafe { Library::new(path) }
}

/// Refuses files that are not libraries for this system. Loaders report less.
fn check_format(head: &[u8]) -> std::result::Result<(), String> {
    if cfg!(any(target_vendor = "apple", windows)) {
        return Ok(());
    }
    if head.len() < 20 || head[..4] != *b"\x7fELF" {
        return Err("it is not a shared library for this system (ELF)".into());
    }
    let little = head[5] == 1;
    let machine = [head[18], head[19]];
    let machine = if little {
        u16::from_le_bytes(machine)
    } else {
        u16::from_be_bytes(machine)
    };
    let bits = if head[4] == 2 { 64 } else { 32 };
    // `e_machine` of the ELF specification; an unlisted target leaves the question to the loader
    let here = match std::env::consts::ARCH {
        "x86" => 3,
        "arm" => 40,
        "x86_64" => 62,
        "aarch64" => 183,
        "riscv32" | "riscv64" => 243,
        "loongarch64" => 258,
        _ => machine,
    };
    if machine == here && bits == usize::BITS && little == cfg!(target_endian = "little") {
        return Ok(());
    }
    let name = match machine {
        3 => "x86".to_owned(),
        40 => "arm".to_owned(),
        62 => "x86_64".to_owned(),
        183 => "aarch64".to_owned(),
        243 => "riscv".to_owned(),
        258 => "loongarch".to_owned(),
        other => format!("ELF machine {other}"),
    };
    Err(format!(
        "it is built for {name}, {bits} bits; this program runs on {}, {} bits",
        std::env::consts::ARCH,
        usize::BITS
    ))
}

fn words(path: &Path, error: &libloading::Error) -> String {
    let mut text = error.to_string();
    if let Some(source) = std::error::Error::source(error) {
        text = source.to_string();
    }
    // the loader repeats the path; the refusal names it already
    text.trim_start_matches(&*path.display().to_string())
        .trim_start_matches(": ")
        .to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn misnamed_libraries_are_listed_with_the_right_name() {
        let folder = tempfile::tempdir().unwrap();
        let names = |files: &[&str]| {
            for file in files {
                std::fs::write(folder.path().join(file), "").unwrap();
            }
            let found = super::candidates(folder.path()).unwrap();
            let right = found.misnamed.into_iter().map(|(_, right)| right);
            (found.plugins.len(), right.collect::<Vec<_>>())
        };
        assert_eq!(
            names(&["liblumen.so", "notes.txt"]),
            (0, vec!["libpolychip_plugin_lumen.so".to_owned()])
        );
        // beside a plugin, only what is named like one
        let (plugins, right) = names(&[
            "libpolychip_plugin_a.so",
            "polychip-plugin-b.so",
            "libpolychip_plugin_c.so.1",
        ]);
        assert_eq!(plugins, 1);
        assert_eq!(right, ["libpolychip_plugin_c.so", "libpolychip_plugin_b.so"]);
    }

    #[test]
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_os = "linux"))]
    fn header_reveals_format_and_processor() {
        let (here, other, name) = if cfg!(target_arch = "x86_64") {
            (62, 183, "aarch64")
        } else {
            (183, 62, "x86_64")
        };
        let mut elf = [0u8; 20];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[18] = here;
        assert_eq!(super::check_format(&elf), Ok(()));
        elf[18] = other;
        assert_eq!(
            super::check_format(&elf).unwrap_err(),
            format!(
                "it is built for {name}, 64 bits; this program runs on {}, 64 bits",
                std::env::consts::ARCH
            )
        );
        assert!(super::check_format(b"hello").unwrap_err().contains("ELF"));
    }
}
