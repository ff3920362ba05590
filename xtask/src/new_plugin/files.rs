//! Files of a plugin, made from templates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// What a new plugin shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Template {
    /// Computes on the host, with kernels of its own: the shortest plugin
    Basic,
    /// Drives a shared library: loading, device memory, compiler, sensors, reset
    Driver,
}

/// A file of the plugin, by its path in the plugin's folder, and its template.
type File = (&'static str, &'static str);

/// Files of every plugin.
const SHARED: &[File] = &[
    ("Cargo.toml", include_str!("../../templates/shared/Cargo.toml.in")),
    ("build.rs", include_str!("../../templates/shared/build.rs")),
    ("src/part.rs", include_str!("../../templates/shared/part.rs")),
    (
        "cdylib/Cargo.toml",
        include_str!("../../templates/shared/cdylib.toml.in"),
    ),
    (
        "cdylib/src/lib.rs",
        include_str!("../../templates/shared/cdylib.rs"),
    ),
];

/// Further files of [`Template::Basic`].
const BASIC: &[File] = &[
    ("src/lib.rs", include_str!("../../templates/basic/lib.rs")),
    ("src/plugin.rs", include_str!("../../templates/basic/plugin.rs")),
    ("src/caps.rs", include_str!("../../templates/basic/caps.rs")),
    ("src/lower.rs", include_str!("../../templates/basic/lower.rs")),
    ("src/exec.rs", include_str!("../../templates/basic/exec.rs")),
    ("src/buffer.rs", include_str!("../../templates/basic/buffer.rs")),
    (
        "src/telemetry.rs",
        include_str!("../../templates/basic/telemetry.rs"),
    ),
    (
        "tests/host.rs",
        include_str!("../../templates/basic/host_test.rs"),
    ),
];

/// Further files of [`Template::Driver`].
const DRIVER: &[File] = &[
    ("src/lib.rs", include_str!("../../templates/driver/lib.rs")),
    ("src/plugin.rs", include_str!("../../templates/driver/plugin.rs")),
    ("src/caps.rs", include_str!("../../templates/driver/caps.rs")),
    ("src/lower.rs", include_str!("../../templates/driver/lower.rs")),
    ("src/exec.rs", include_str!("../../templates/driver/exec.rs")),
    ("src/buffer.rs", include_str!("../../templates/driver/buffer.rs")),
    (
        "src/telemetry.rs",
        include_str!("../../templates/driver/telemetry.rs"),
    ),
    ("src/shared.rs", include_str!("../../templates/driver/shared.rs")),
    ("src/driver.rs", include_str!("../../templates/driver/driver.rs")),
    ("src/driver/api.rs", include_str!("../../templates/driver/api.rs")),
    (
        "src/driver/graph.rs",
        include_str!("../../templates/driver/graph.rs"),
    ),
    (
        "src/driver/session.rs",
        include_str!("../../templates/driver/session.rs"),
    ),
    (
        "driver/xyz_driver.h",
        include_str!("../../templates/driver/driver/driver.h"),
    ),
    (
        "driver/xyz_driver.c",
        include_str!("../../templates/driver/driver/driver.c"),
    ),
    (
        "tests/host.rs",
        include_str!("../../templates/driver/host_test.rs"),
    ),
];

impl Template {
    /// All files of a plugin with this name.
    pub(super) fn files(self, name: &str) -> Vec<(String, String)> {
        let own = match self {
            Template::Basic => BASIC,
            Template::Driver => DRIVER,
        };
        let fill = |(path, text): &File| (filled(path, name), filled(&self.selected(text), name));
        SHARED.iter().chain(own).map(fill).collect()
    }

    /// What the plugin computes, for messages.
    pub(super) fn summary(self) -> &'static str {
        match self {
            Template::Basic => "a plugin that computes Identity, Relu and Add on f32",
            Template::Driver => {
                "a plugin that drives the library of its folder driver: Identity, Relu, Add and MaxPool on f32"
            }
        }
    }

    /// A text without the lines of the other template: these begin with `#basic ` or `#driver `.
    fn selected(self, text: &str) -> String {
        let (own, other) = match self {
            Template::Basic => ("#basic ", "#driver "),
            Template::Driver => ("#driver ", "#basic "),
        };
        let lines = text.lines().filter(|line| !line.starts_with(other));
        let lines = lines.map(|line| line.strip_prefix(own).unwrap_or(line));
        lines.flat_map(|line| [line, "\n"]).collect()
    }
}

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
pub(super) fn write(plugins: &Path, name: &str, template: Template) -> Result<PathBuf> {
    let folder = plugins.join(name);
    fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
    let written = template.files(name).iter().try_for_each(|(file, text)| {
        let path = folder.join(file);
        let parent = path.parent().expect("invariant: a file lies in a folder");
        fs::create_dir_all(parent)?;
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    });
    if written.is_err() {
        fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    written.map(|()| folder)
}

/// A template with the name in it.
fn filled(template: &str, name: &str) -> String {
    template
        .replace("xyz", name)
        .replace("Xyz", &type_name(name))
        .replace("XYZ", &name.to_ascii_uppercase())
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
