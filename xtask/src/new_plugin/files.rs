//! Files of a plugin, made from templates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// Files of a plugin and their templates.
pub(super) const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../../templates/plugin/Cargo.toml.in")),
    ("build.rs", include_str!("../../templates/plugin/build.rs")),
    ("src/lib.rs", include_str!("../../templates/plugin/lib.rs")),
    ("src/plugin.rs", include_str!("../../templates/plugin/plugin.rs")),
    ("src/caps.rs", include_str!("../../templates/plugin/caps.rs")),
    ("src/lower.rs", include_str!("../../templates/plugin/lower.rs")),
    ("src/exec.rs", include_str!("../../templates/plugin/exec.rs")),
    ("src/buffer.rs", include_str!("../../templates/plugin/buffer.rs")),
    (
        "src/telemetry.rs",
        include_str!("../../templates/plugin/telemetry.rs"),
    ),
    (
        "tests/host.rs",
        include_str!("../../templates/plugin/host_test.rs"),
    ),
    (
        "cdylib/Cargo.toml",
        include_str!("../../templates/plugin/cdylib.toml.in"),
    ),
    (
        "cdylib/src/lib.rs",
        include_str!("../../templates/plugin/cdylib.rs"),
    ),
];

/// The shape of lines depends on the name; without rustfmt the code is only less tidy.
pub(super) fn format(tree: &Path, name: &str) {
    let [plugin, wrapper] = packages(name);
    let formatted = Command::new(env!("CARGO"))
        .args(["fmt", "--package", &plugin, "--package", &wrapper])
        .current_dir(tree)
        .status();
    if !formatted.is_ok_and(|status| status.success()) {
        eprintln!("cargo fmt could not run; format plugins/{name} by hand");
    }
}

/// The packages of a plugin: itself, and its library.
pub(super) fn packages(name: &str) -> [String; 2] {
    [format!("polychip-{name}"), format!("polychip-plugin-{name}")]
}

/// Writes the files of a plugin into a new folder of `plugins`.
pub(super) fn write(plugins: &Path, name: &str) -> Result<PathBuf> {
    let folder = plugins.join(name);
    fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
    let written = FILES.iter().try_for_each(|(file, template)| {
        let path = folder.join(file);
        let parent = path.parent().expect("invariant: a file lies in a folder");
        fs::create_dir_all(parent)?;
        fs::write(&path, filled(template, name)).with_context(|| format!("writing {}", path.display()))
    });
    if written.is_err() {
        fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    written.map(|()| folder)
}

/// A template with the name in it.
pub(super) fn filled(template: &str, name: &str) -> String {
    template.replace("xyz", name).replace("Xyz", &type_name(name))
}

/// `my_npu` as `MyNpu`.
pub(super) fn type_name(name: &str) -> String {
    name.split('_')
        .flat_map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            [first.to_ascii_uppercase(), rest.to_owned()]
        })
        .collect()
}
