//! The files of a plugin, made from a template.

use crate::archive;

/// What a new plugin shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Template {
    /// Computes on the host, with kernels of its own: the shortest plugin
    Basic,
    /// Drives a shared library: loading, device memory, compiler, sensors, reset
    Driver,
}

/// A file of the plugin, by its path in the plugin's folder, and its template.
type File = (&'static str, &'static str);

/// Files of every plugin.
const SHARED: &[File] = &[
    ("Cargo.toml", "shared/Cargo.toml.in"),
    ("build.rs", "shared/build.rs"),
    ("src/part.rs", "shared/part.rs"),
    ("cdylib/Cargo.toml", "shared/cdylib.toml.in"),
    ("cdylib/src/lib.rs", "shared/cdylib.rs"),
];

/// Further files of [`Template::Basic`].
const BASIC: &[File] = &[
    ("src/lib.rs", "basic/lib.rs"),
    ("src/plugin.rs", "basic/plugin.rs"),
    ("src/caps.rs", "basic/caps.rs"),
    ("src/lower.rs", "basic/lower.rs"),
    ("src/exec.rs", "basic/exec.rs"),
    ("src/buffer.rs", "basic/buffer.rs"),
    ("src/telemetry.rs", "basic/telemetry.rs"),
    ("tests/host.rs", "basic/host_test.rs"),
];

/// Further files of [`Template::Driver`].
const DRIVER: &[File] = &[
    ("src/lib.rs", "driver/lib.rs"),
    ("src/plugin.rs", "driver/plugin.rs"),
    ("src/caps.rs", "driver/caps.rs"),
    ("src/lower.rs", "driver/lower.rs"),
    ("src/exec.rs", "driver/exec.rs"),
    ("src/buffer.rs", "driver/buffer.rs"),
    ("src/telemetry.rs", "driver/telemetry.rs"),
    ("src/shared.rs", "driver/shared.rs"),
    ("src/driver.rs", "driver/driver.rs"),
    ("src/driver/api.rs", "driver/api.rs"),
    ("src/driver/graph.rs", "driver/graph.rs"),
    ("src/driver/session.rs", "driver/session.rs"),
    ("driver/xyz_driver.h", "driver/driver/driver.h"),
    ("driver/xyz_driver.c", "driver/driver/driver.c"),
    ("tests/host.rs", "driver/host_test.rs"),
];

impl Template {
    /// All files of a plugin with this name: path in the plugin's folder, and text.
    pub(crate) fn files(self, name: &str) -> Vec<(String, String)> {
        let own = match self {
            Template::Basic => BASIC,
            Template::Driver => DRIVER,
        };
        let fill = |(path, template): &File| {
            let text = self.selected(archive::text(template));
            (filled(path, name), filled(&text, name))
        };
        SHARED.iter().chain(own).map(fill).collect()
    }

    /// What the plugin computes, for messages.
    #[must_use]
    pub fn summary(self) -> &'static str {
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

/// A template with the name in it.
fn filled(template: &str, name: &str) -> String {
    template
        .replace("xyz", name)
        .replace("Xyz", &type_name(name))
        .replace("XYZ", &name.to_ascii_uppercase())
}

/// `my_npu` as `MyNpu`.
fn type_name(name: &str) -> String {
    name.split('_')
        .flat_map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            [first.to_ascii_uppercase(), rest.to_owned()]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_name_the_plugin_and_keep_no_placeholder() {
        for template in [Template::Basic, Template::Driver] {
            let files = template.files("my_npu");
            for (path, text) in &files {
                assert!(
                    !path.contains("xyz") && !text.to_lowercase().contains("xyz"),
                    "{path}"
                );
                assert!(!text.contains("#basic ") && !text.contains("#driver "), "{path}");
                assert!(!text.is_empty(), "{path}");
            }
            let plugin = files.iter().find(|(path, _)| path == "src/plugin.rs");
            assert!(plugin.is_some_and(|(_, text)| text.contains("pub struct MyNpuPlugin")));
        }
    }
}
