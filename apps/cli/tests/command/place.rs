//! A model in a folder of its own, where plans, locks and profiles may be written beside it, on devices of a script.

use std::path::Path;

use crate::tool::{Done, null_plugin, polychip_with};

pub(crate) struct Place {
    folder: tempfile::TempDir,
    plugins: tempfile::TempDir,
    /// The model's path.
    pub(crate) model: String,
}

impl Place {
    /// A folder with the model that `write` puts there.
    pub(crate) fn new(write: impl FnOnce(&Path) -> String) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let model = write(folder.path());
        Place {
            folder,
            plugins: null_plugin(),
            model,
        }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Runs a command on the model with devices of a script.
    pub(crate) fn with(&self, script: &str, command: &str, more: &[&str]) -> Done {
        let file = self.path("script.toml");
        std::fs::write(&file, script).unwrap();
        let plugins = self.plugins.path().display().to_string();
        let mut arguments = vec![command, &self.model, "--plugins", &plugins];
        arguments.extend(more);
        polychip_with(&[("POLYCHIP_NULL_SCRIPT", &file)], &arguments)
    }
}
