//! A job for a board.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::printable;

/// What is done with an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// The conformance suite judges a plugin.
    Conformance,
    /// Parts of a model are measured into the place's profile database.
    Profile,
    /// Runs of a model are timed from submit to outputs.
    Bench,
    /// A model runs for minutes while temperature, clock and rate are followed.
    Soak,
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Job::Conformance => "conformance",
            Job::Profile => "profile",
            Job::Bench => "bench",
            Job::Soak => "soak",
        })
    }
}

/// A model by its contents: two files with the same bytes are one model.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// Name that people read: the file's, without its ending.
    pub name: String,
    /// BLAKE3 of the file's bytes, 64 hex digits.
    pub blake3: String,
    /// Length of the file, in bytes.
    pub bytes: u64,
}

/// What the app asks for; items with different settings are not compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Threads of the CPU; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// The policy's name (`latency`, `energy`, `balanced`, `makespan`, `throughput`); absent for `latency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Precision that a device may compute in (`exact`, `reduced`); absent for `exact`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    /// Sizes of open dimensions, as `polychip bench --shape` takes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shapes: Vec<String>,
    /// Files with the values of inputs, sorted; other inputs get generated values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputFile>,
}

/// The value of an input, by the contents of its file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct InputFile {
    /// The model's input.
    pub input: String,
    /// Name of the file, for people.
    pub name: String,
    /// BLAKE3 of the file's bytes, 64 hex digits.
    pub blake3: String,
}

/// One thing to do: the key under which results of different runs are compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Item {
    /// What is done.
    pub job: Job,
    /// Of which model; absent for conformance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Plugins whose devices may take parts, by name, sorted; empty for all that the board has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<String>,
    /// As the app asks.
    #[serde(default)]
    pub settings: Settings,
}

impl fmt::Display for Item {
    /// `bench mobilenet_v2 on cpu+gpu, 2 threads`, in one line whatever the names hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.job)?;
        if let Some(model) = &self.model {
            write!(f, " {}", printable(&model.name))?;
        }
        if !self.plugins.is_empty() {
            write!(f, " on {}", printable(&self.plugins.join("+")))?;
        }
        match self.settings.threads {
            Some(1) => f.write_str(", 1 thread")?,
            Some(threads) => write!(f, ", {threads} threads")?,
            None => {}
        }
        if let Some(policy) = &self.settings.policy {
            write!(f, ", {}", printable(policy))?;
        }
        if let Some(precision) = &self.settings.precision {
            write!(f, ", {}", printable(precision))?;
        }
        for shape in &self.settings.shapes {
            write!(f, ", {}", printable(shape))?;
        }
        for file in &self.settings.inputs {
            write!(f, ", {}={}", printable(&file.input), printable(&file.name))?;
        }
        Ok(())
    }
}
