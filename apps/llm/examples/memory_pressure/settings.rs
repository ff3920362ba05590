//! The options of the command.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

/// Sessions beside the language model.
pub(crate) const SESSIONS: usize = 4;

/// The options.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) minutes: f64,
    /// Memory of the control group.
    pub(crate) group_mib: u64,
    /// The runtime's limit.
    pub(crate) limit_mib: u64,
    /// Weights of each session's model, and of the language model.
    pub(crate) session_mib: u64,
    pub(crate) language_mib: u64,
    pub(crate) folder: PathBuf,
    /// Whether this is the process in the group.
    pub(crate) is_inside: bool,
    /// The folder of the group, for the process in it.
    pub(crate) group: Option<PathBuf>,
}

impl Settings {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Settings> {
        let own = std::env::current_exe()?;
        let mut settings = Settings {
            minutes: 10.0,
            group_mib: 1024,
            limit_mib: 288,
            session_mib: 100,
            language_mib: 2048,
            folder: own.with_file_name("memory_pressure_models"),
            is_inside: false,
            group: None,
        };
        let mut words = words;
        while let Some(name) = words.next() {
            let value = words.next().with_context(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--minutes" => settings.minutes = value.parse()?,
                "--group-mib" => settings.group_mib = value.parse()?,
                "--limit-mib" => settings.limit_mib = value.parse()?,
                "--session-mib" => settings.session_mib = value.parse()?,
                "--language-mib" => settings.language_mib = value.parse()?,
                "--folder" => settings.folder = value.into(),
                // for the process that is started in the group
                "--inside" => settings.is_inside = value == "yes",
                "--group" => settings.group = Some(value.into()),
                _ => bail!("{name} is not an option"),
            }
        }
        Ok(settings)
    }

    /// The same options as words.
    pub(crate) fn words(&self) -> Vec<String> {
        let pairs = [
            ("--minutes", self.minutes.to_string()),
            ("--group-mib", self.group_mib.to_string()),
            ("--limit-mib", self.limit_mib.to_string()),
            ("--session-mib", self.session_mib.to_string()),
            ("--language-mib", self.language_mib.to_string()),
            ("--folder", self.folder.display().to_string()),
        ];
        pairs
            .into_iter()
            .flat_map(|(name, value)| [name.to_owned(), value])
            .collect()
    }

    pub(crate) fn session_model(&self, index: usize) -> PathBuf {
        self.folder
            .join(format!("session{index}-{}.onnx", self.session_mib))
    }

    pub(crate) fn language_model(&self) -> PathBuf {
        self.folder.join(format!("language-{}.gguf", self.language_mib))
    }

    /// The language model's answers outside the group.
    pub(crate) fn answers(&self) -> PathBuf {
        self.folder
            .join(format!("language-{}.answers", self.language_mib))
    }
}
