//! State of a board at the start or end of a measurement.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a figure depends on beside its settings. What no sensor says is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct State {
    /// Temperatures by the type of their zone, in millidegrees Celsius.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub temperatures_mc: BTreeMap<String, i64>,
    /// Clocks by device or cluster, in kilohertz.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clocks_khz: BTreeMap<String, u64>,
    /// Highest clocks allowed now, by device or cluster, in kilohertz; below the hardware's highest: throttled.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allowed_khz: BTreeMap<String, u64>,
    /// What sets the clock, by device or cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub governors: BTreeMap<String, String>,
    /// Share of the processors that other programs used, in thousandths: before a measurement over the last second, after it
    /// while it went on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_by_others_millis: Option<u32>,
    /// Charge of the battery, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub battery_percent: Option<u8>,
    /// On mains or charging.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charging: Option<bool>,
    /// A clock is held below what the hardware can, or a cooling device is active; absent where nothing says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<bool>,
}
