//! The manifest and the content of a bundle.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::BundleError;
use crate::record::{FORMAT, ProfileFile, VERSION};

/// All devices.
const ALL: u32 = 1_000;

/// The description of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The chip family that it was measured on, as the farm names it.
    pub family: String,
    /// Version number: higher for each new bundle of the family, starting at 1.
    pub version: u64,
    /// Time of the newest measurement: seconds since 1970 in UTC.
    pub measured_s: u64,
    /// Share of devices that the rollout includes, in thousandths.
    pub share_permille: u32,
    /// BLAKE3 of the content, 64 hexadecimal digits.
    pub content_blake3: String,
}

/// The content of a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// Costs of parts, transfers and refusals. The plugins' own values are excluded, because they
    /// belong to one machine.
    pub profile: ProfileFile,
    /// The fastest measured plan for each model and setting.
    pub plans: Vec<BestPlan>,
}

/// The fastest measured plan for a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BestPlan {
    /// Name of the model.
    pub model: String,
    /// BLAKE3 of the model's file.
    pub model_blake3: String,
    /// The app's settings as text; empty for the defaults.
    pub settings: String,
    /// Plugins of the devices used.
    pub plugins: Vec<String>,
    /// Its parts in their order.
    pub parts: Vec<PlanPart>,
    /// Median time of a run, in nanoseconds.
    pub median_ns: u64,
    /// Energy of a run, in nanojoules, if known.
    pub energy_nj: Option<u64>,
    /// Provenance of the energy; empty without one.
    pub energy_provenance: String,
    /// The change of the run time under heat, if measured.
    pub sustained: Option<Sustained>,
    /// Whether figures are of emulated boards or devices.
    pub emulated: bool,
    /// Sources of the figures: runs, places and builds.
    pub sources: Vec<String>,
}

/// A part of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanPart {
    /// Device.
    pub device: String,
    /// Nodes of the graph.
    pub nodes: u64,
    /// Time, in nanoseconds.
    pub ns: u64,
    /// Provenance of the time.
    pub provenance: String,
}

/// Run times over minutes without a pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sustained {
    /// Duration, in milliseconds.
    pub lasted_ms: u64,
    /// Median of the first window, in nanoseconds.
    pub first_ns: u64,
    /// Median of the last window, in nanoseconds.
    pub last_ns: u64,
    /// Highest temperature, in millidegrees Celsius; absent without a sensor.
    pub hottest_mc: Option<i64>,
}

impl Default for Content {
    /// Nothing.
    fn default() -> Content {
        Content {
            profile: ProfileFile {
                format: FORMAT.to_owned(),
                version: VERSION,
                parts: Vec::new(),
                contents: Vec::new(),
                links: Vec::new(),
                refusals: Vec::new(),
                plugin_values: Vec::new(),
            },
            plans: Vec::new(),
        }
    }
}

impl Manifest {
    /// A manifest for a family's version, for all devices, without a measurement time.
    #[must_use]
    pub fn new(family: &str, version: u64) -> Manifest {
        Manifest {
            family: family.to_owned(),
            version,
            measured_s: 0,
            share_permille: ALL,
            content_blake3: String::new(),
        }
    }

    /// Refuses what cannot be.
    pub(super) fn check(&self) -> Result<(), BundleError> {
        // a database of SQLite counts up to here
        let most = i64::MAX as u64;
        if self.family.trim().is_empty() || self.version == 0 || self.version > most {
            return Err(BundleError::contents(format!(
                "family {:?}, version {}: a bundle needs a family and a version of at least 1",
                self.family, self.version
            )));
        }
        if self.share_permille > ALL {
            return Err(BundleError::contents(format!(
                "a share of {} of {ALL} devices",
                self.share_permille
            )));
        }
        Ok(())
    }

    /// Whether the rollout includes an installation. One without a name is included only at the
    /// full share.
    #[must_use]
    pub fn is_for(&self, installation: Option<&str>) -> bool {
        let Some(name) = installation else {
            return self.share_permille == ALL;
        };
        let mut hash = blake3::Hasher::new_derive_key("polychip bundle rollout 1");
        // a length, so that no other pair of texts is the same bytes
        hash.update(&(self.family.len() as u64).to_le_bytes());
        hash.update(self.family.as_bytes()).update(name.as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hash.finalize().as_bytes()[..8]);
        u64::from_le_bytes(first) % u64::from(ALL) < u64::from(self.share_permille)
    }
}
