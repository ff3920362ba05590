//! The plugin's configuration.
//!
//! Invariant: an invalid value is an error that names it and the accepted ones; none is ignored.

use std::path::PathBuf;
use std::time::Duration;

use polychip_sdk::{Error, HostServices, Result};

/// How tensors of 16-bit floats and the weights are quantised: by the toolkit, with data that a person gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Quantise {
    /// Widths of weights and activations, in the toolkit's words.
    pub(crate) dtype: String,
    /// How scales are found, in the toolkit's words.
    pub(crate) algorithm: String,
    /// The toolkit's list of inputs.
    pub(crate) dataset: PathBuf,
}

/// Owner of CPU cache maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caches {
    /// The runtime at each run, and the host's accesses too.
    Run,
    /// The host's accesses alone: nobody else touches the memory of ports.
    Access,
}

/// The settings.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) lib_dir: Option<PathBuf>,
    /// The target by name; found on the board where it is left out.
    pub(crate) target: Option<String>,
    /// The Python that has the toolkit.
    pub(crate) python: String,
    /// A program in its place.
    pub(crate) compiler: Option<PathBuf>,
    /// The toolkit's version, where nobody shall ask for it.
    pub(crate) toolkit: Option<String>,
    /// Time limit of one compilation.
    pub(crate) patience: Duration,
    pub(crate) quantise: Option<Quantise>,
    pub(crate) optimization_level: u32,
    /// Whether f32 may be computed in 16-bit floats.
    pub(crate) reduced: bool,
    pub(crate) single_core_mode: bool,
    /// Lanes wanted; as many as cores where left out.
    pub(crate) lanes: Option<usize>,
    pub(crate) caches: Caches,
    /// Whether runs say how long each layer took.
    pub(crate) times: bool,
}

/// What the toolkit knows, as noted of release 2.5.0.
const DTYPES: [&str; 4] = ["w8a8", "w8a16", "w16a16i_dfp", "w4a16"];
const ALGORITHMS: [&str; 4] = ["normal", "mmse", "kl_divergence", "gdq"];
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
            let value = value.trim();
            (!value.is_empty()).then(|| value.to_owned())
        };
        let one_of = |key: &str, default: &'static str, known: &[&str]| -> Result<String> {
            match text(key) {
                None => Ok(default.to_owned()),
                Some(value) if known.contains(&&*value) => Ok(value),
                Some(value) => Err(Error::bad_argument(format!(
                    "configuration {key} is {value:?}, none of {}",
                    known.join(", ")
                ))),
            }
        };
        let number = |key: &str, default: u64, most: u64| -> Result<u64> {
            let Some(value) = text(key) else {
                return Ok(default);
            };
            let found = value.parse().ok().filter(|&number| number <= most);
            found.ok_or_else(|| {
                Error::bad_argument(format!(
                    "configuration {key} is {value:?}, no number up to {most}"
                ))
            })
        };
        let yes = |key: &str| Ok::<_, Error>(one_of(key, "no", &["yes", "no"])? == "yes");
        let reduced = one_of("precision", "exact", &["exact", "reduced"])? == "reduced";
        let quantise = match text("quantized_dtype") {
            None => None,
            Some(_) => {
                let dtype = one_of("quantized_dtype", "", &DTYPES)?;
                if !reduced {
                    return Err(Error::bad_argument(format!(
                        "configuration quantized_dtype={dtype} changes what is computed: it needs precision=reduced"
                    )));
                }
                let dataset = text("dataset").ok_or_else(|| {
                    Error::bad_argument(format!(
                        "configuration quantized_dtype={dtype} needs dataset, the toolkit's list of inputs to find scales with"
                    ))
                })?;
                Some(Quantise {
                    dtype,
                    algorithm: one_of("quantized_algorithm", "normal", &ALGORITHMS)?,
                    dataset: dataset.into(),
                })
            }
        };
        let from_environment = || std::env::var("RKNN_PYTHON").ok().filter(|path| !path.is_empty());
        Ok(Settings {
            lib_dir: text("lib_dir").map(PathBuf::from),
            target: text("target_platform"),
            python: text("python")
                .or_else(from_environment)
                .unwrap_or_else(|| "python3".to_owned()),
            compiler: text("compiler").map(PathBuf::from),
            toolkit: text("toolkit"),
            patience: Duration::from_secs(number("timeout_s", 600, LONGEST_S)?),
            quantise,
            optimization_level: number("optimization_level", 3, 3)? as u32,
            reduced,
            single_core_mode: yes("single_core_mode")?,
            lanes: match number("lanes", 0, 16)? {
                0 => None,
                lanes => Some(lanes as usize),
            },
            caches: match &*one_of("caches", "run", &["run", "access"])? {
                "access" => Caches::Access,
                _ => Caches::Run,
            },
            times: yes("times")?,
        })
    }

    /// Everything that affects the toolkit's result, as text.
    pub(crate) fn of_compiler(&self) -> String {
        let quantise = match &self.quantise {
            None => "f16".to_owned(),
            Some(Quantise {
                dtype,
                algorithm,
                dataset,
            }) => format!("{dtype}/{algorithm}/{}", dataset.display()),
        };
        let cores = if self.single_core_mode { "one" } else { "any" };
        format!("{quantise} level {} cores {cores}", self.optimization_level)
    }
}
