//! The profile as plain records, and as JSON.
//!
//! Invariant: contradictory records are refused when they are read.
//!
//! Not here: rows in and out of the database (`exchange`), differences between two profiles
//! (`diff`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cadence::Cadence;
use crate::conditions::Conditions;
use crate::error::{Error, Result};
use crate::hex::unhex;
use crate::statistics::Measured;

/// Version of the JSON file. Version 1 said nothing of the sensors of energies, version 2 nothing of cadences.
pub(crate) const VERSION: u32 = 3;
/// What the file says it is.
pub(crate) const FORMAT: &str = "polychip profile";

/// A profile database as a file of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileFile {
    /// `polychip profile`.
    pub format: String,
    /// Version of this format.
    pub version: u32,
    /// Measured parts, by device, fingerprint and operating point.
    pub parts: Vec<PartRecord>,
    /// Contents of measured parts.
    pub contents: Vec<ContentRecord>,
    /// Costs of transfers and launches.
    pub links: Vec<LinkRecord>,
    /// Runs of nodes that devices refused to compile.
    pub refusals: Vec<RefusalRecord>,
    /// The plugins' own values.
    pub plugin_values: Vec<ValueRecord>,
}

/// A part on a device at an operating point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartRecord {
    /// Identity of the device: plugin, build, device, driver.
    pub device: String,
    /// Structure of the part, 64 hexadecimal digits.
    pub fingerprint: String,
    /// The policy's settings for the device; empty for the defaults.
    pub operating_point: String,
    /// Whether the figures are an emulated device's.
    pub emulated: bool,
    /// Measurements by origin, oldest first.
    pub batches: Vec<BatchRecord>,
}

/// Measurements made together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRecord {
    /// When they were recorded, in microseconds since 1970; 0 if unknown.
    pub recorded_us: u64,
    /// Version of the measuring library.
    pub build: String,
    /// State of the machine.
    pub conditions: String,
    /// File of first import; empty if measured into this file.
    pub source: String,
    /// Digest of the recorded values, 64 hexadecimal digits.
    pub digest: String,
    /// Times in nanoseconds, in order of measurement.
    pub times_ns: Vec<u64>,
    /// Energies in microjoules, one per time; empty if the device measures none.
    pub energies_uj: Vec<Option<u64>>,
    /// Sensor of the energies; empty if there are none or it is unknown.
    #[serde(default)]
    pub sensor: String,
    /// Interval in microjoules of the single energy, if measured.
    #[serde(default)]
    pub energy_interval_uj: Option<[u64; 2]>,
}

impl BatchRecord {
    /// How its runs followed each other; those of older versions, which state nothing, back to back.
    pub(crate) fn cadence(&self) -> Cadence {
        Conditions::read(&self.conditions).cadence.unwrap_or_default()
    }

    /// As what is chosen among.
    pub(crate) fn measured(&self) -> Measured {
        Measured {
            conditions: Conditions::read(&self.conditions),
            recorded_us: self.recorded_us,
            times_ns: self.times_ns.clone(),
            energies_uj: self.energies_uj.iter().copied().flatten().collect(),
            sensor: self.sensor.clone(),
            energy_interval_uj: self.energy_interval_uj,
        }
    }
}

/// The content of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContentRecord {
    /// Structure of the part, 64 hexadecimal digits.
    pub fingerprint: String,
    /// Its fusion groups, as JSON in a string.
    #[serde(rename = "pieces")]
    pub content: String,
}

/// The cost of a transfer, or of a launch if both devices are equal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkRecord {
    /// Identity of the device that writes.
    pub from: String,
    /// Identity of the device that reads.
    pub to: String,
    /// Size of the tensor.
    pub bytes: u64,
    /// Median time in nanoseconds.
    pub time_ns: u64,
    /// Energy in nanojoules above idle power; none if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_nj: Option<u64>,
    /// When it was recorded, in microseconds since 1970; 0 if unknown.
    pub recorded_us: u64,
    /// Version of the measuring library.
    pub build: String,
    /// File of first import; empty if measured into this file.
    pub source: String,
}

/// A run of nodes that a device refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RefusalRecord {
    /// Identity of the device.
    pub device: String,
    /// Structure of the run, 64 hexadecimal digits.
    pub fingerprint: String,
    /// Number of nodes.
    pub nodes: u64,
    /// The vendor's message.
    pub words: String,
}

/// A value of a plugin's own store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ValueRecord {
    /// Name of the plugin.
    pub plugin: String,
    /// Its key.
    pub key: String,
    /// The bytes in hexadecimal digits.
    pub value: String,
}

/// The rows that an import added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Merged {
    /// Batches of measurements.
    pub batches: u64,
    /// Batches that existed already.
    pub known: u64,
    /// Measurements.
    pub measurements: u64,
    /// Links that were new or newer.
    pub links: u64,
    /// Refused runs.
    pub refusals: u64,
    /// Values of plugins.
    pub plugin_values: u64,
}

impl ProfileFile {
    /// Parses a profile file.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] if the text is not a profile file, has another version or
    /// contradicts itself.
    pub fn from_json(text: &str) -> Result<ProfileFile> {
        let file: ProfileFile =
            serde_json::from_str(text).map_err(|error| Error::json("not a profile in JSON", error))?;
        file.check()?;
        Ok(file)
    }

    /// Refuses records that contradict themselves.
    pub(crate) fn check(&self) -> Result<()> {
        let bad = |words: String| Err(Error::bad(words));
        if self.format != FORMAT || !(1..=VERSION).contains(&self.version) {
            return bad(format!(
                "the file has format {:?} version {}; this build reads {FORMAT:?} versions 1 to {VERSION}",
                self.format, self.version
            ));
        }
        let parts = self.parts.iter().map(|part| &part.fingerprint);
        let contents = self.contents.iter().map(|content| &content.fingerprint);
        let refusals = self.refusals.iter().map(|refusal| &refusal.fingerprint);
        let batches = || self.parts.iter().flat_map(|part| &part.batches);
        let digests = batches().map(|batch| &batch.digest);
        for text in parts.chain(contents).chain(refusals).chain(digests) {
            if unhex(text).is_none_or(|bytes| bytes.len() != 32) {
                return bad(format!("{text:?} is not 64 hexadecimal digits"));
            }
        }
        for batch in batches() {
            let (times, energies) = (batch.times_ns.len(), batch.energies_uj.len());
            if times == 0 || (energies != 0 && energies != times) {
                return bad(format!("a batch of {times} times and {energies} energies"));
            }
        }
        for value in &self.plugin_values {
            if unhex(&value.value).is_none() {
                return bad(format!(
                    "value {:?} of plugin {} is not in hexadecimal digits",
                    value.key, value.plugin
                ));
            }
        }
        Ok(())
    }
}
