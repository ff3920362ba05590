//! The one emulated system: its chip, its faults, and the folder of compiled models.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;

use polychip_emulator_chip::fault::Faults;
use polychip_emulator_chip::table::Chip;

/// Environment variable with fault rules that apply from the start.
const FAULTS_VARIABLE: &str = "POLYCHIP_COREML_FAULTS";

/// Environment variable: a folder for copies of all compiled packages, which coremltools then
/// checks.
const KEEP_VARIABLE: &str = "POLYCHIP_COREML_KEEP";

/// Calls at which faults can be injected. `plan` with an op reports that only the CPU computes it.
/// `backing` returns outputs in memory of the system instead of the client's.
static RULES: Faults = Faults::new(&["compile", "load", "predict", "plan", "backing", "devices"]);

/// Counts restarts of the chip: models loaded before one fail.
pub(crate) static RESTARTS: AtomicU64 = AtomicU64::new(0);

static CHIP: LazyLock<Chip> = LazyLock::new(|| {
    Chip::parse(include_str!("../chips/a17_pro.toml")).expect("invariant: the table is checked by a test")
});

/// Copies a compiled package to the folder of [`KEEP_VARIABLE`], if it is set. Equal packages are
/// copied once.
pub(crate) fn keep(package: &Path) -> std::io::Result<()> {
    let Some(folder) = std::env::var_os(KEEP_VARIABLE).filter(|folder| !folder.is_empty()) else {
        return Ok(());
    };
    let data = "Data/com.apple.CoreML";
    let files = [
        "Manifest.json",
        &format!("{data}/model.mlmodel"),
        &format!("{data}/weights/weight.bin"),
    ];
    let files = files.map(|file| (file.to_owned(), std::fs::read(package.join(file)).ok()));
    let mut hasher = DefaultHasher::new();
    for (_, bytes) in &files {
        hasher.write(bytes.as_deref().unwrap_or_default());
    }
    let to = PathBuf::from(folder).join(format!("{:016x}.mlpackage", hasher.finish()));
    if to.exists() {
        return Ok(());
    }
    for (name, bytes) in &files {
        let file = to.join(name);
        std::fs::create_dir_all(file.parent().unwrap_or(&to))?;
        if let Some(bytes) = bytes {
            std::fs::write(file, bytes)?;
        }
    }
    Ok(())
}

/// The rules in force.
pub(crate) fn faults() -> &'static Faults {
    static START: LazyLock<()> = LazyLock::new(|| RULES.set_from(FAULTS_VARIABLE));
    LazyLock::force(&START);
    &RULES
}

/// The chip.
pub(crate) fn chip() -> &'static Chip {
    &CHIP
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_table_of_the_chip_is_whole() {
        assert_eq!(super::chip().name, "Apple A17 Pro");
    }
}
