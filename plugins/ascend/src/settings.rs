//! The plugin's configuration.
//!
//! Invariant: an invalid value is an error that names it and the accepted ones; none is ignored.

use std::path::PathBuf;
use std::time::Duration;

use polychip_sdk::{Error, HostServices, Result};

/// The settings.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) lib_dir: Option<PathBuf>,
    /// The compiler; looked for where it is left out.
    pub(crate) atc: Option<PathBuf>,
    /// Release of the toolkit, where nobody shall look for it.
    pub(crate) cann: Option<String>,
    /// The chip's name, where the library does not say it.
    pub(crate) soc_version: Option<String>,
    /// Time limit of one compilation.
    pub(crate) patience: Duration,
    /// Whether f32 may be computed in 16-bit floats.
    pub(crate) reduced: bool,
    /// How the compiler picks types, in its words.
    pub(crate) precision_mode: &'static str,
}

/// What the compiler knows of that a 16-bit core computes: all in 16 bits, or what it can.
const MODES: [&str; 3] = ["force_fp16", "allow_fp32_to_fp16", "allow_mix_precision"];
/// A compilation that takes longer than a day is lost.
const LONGEST_S: u64 = 24 * 3600;

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    /// The first invalid setting.
    pub(crate) fn of(host: &HostServices) -> Result<Settings> {
        let text = |key: &str| {
            let value = host.configuration(key)?;
            Some(value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let one_of = |key: &str, known: &[&'static str]| match text(key) {
            None => Ok(known[0]),
            Some(value) => known.iter().copied().find(|&name| name == value).ok_or_else(|| {
                let known = known.join(", ");
                Error::bad_argument(format!("configuration {key} is {value:?}, none of {known}"))
            }),
        };
        let name = |key: &str| match text(key) {
            Some(value) if !is_word(&value) => Err(Error::bad_argument(format!(
                "configuration {key} is {value:?}: letters, digits, '.', '-' and '_' are taken"
            ))),
            value => Ok(value),
        };
        let seconds = text("timeout_s").unwrap_or_else(|| "600".to_owned());
        let patience = seconds
            .parse()
            .ok()
            .filter(|&number| number <= LONGEST_S)
            .map(Duration::from_secs);
        Ok(Settings {
            lib_dir: text("lib_dir").map(PathBuf::from),
            atc: text("atc").map(PathBuf::from),
            cann: name("cann")?,
            soc_version: name("soc_version")?,
            patience: patience.ok_or_else(|| {
                let what = format!("configuration timeout_s is {seconds:?}, no number up to {LONGEST_S}");
                Error::bad_argument(what)
            })?,
            reduced: one_of("precision", &["exact", "reduced"])? == "reduced",
            precision_mode: one_of("precision_mode", &MODES)?,
        })
    }
}

/// Whether a text may stand in a command line and in a blob's key.
pub(crate) fn is_word(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    (1..=64).contains(&text.len()) && text.chars().all(plain)
}
