//! Input of a runner: one line of standard input per item.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{InventoryEntry, Item};

/// An item, with all that a runner needs to do it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Assignment {
    /// Version of the form ([`FORMAT`](crate::FORMAT)).
    pub format: u32,
    /// The run that it belongs to ([`RunHeader::id`](crate::RunHeader::id)).
    pub run: String,
    /// Where the runner is, as the inventory says.
    pub place: InventoryEntry,
    /// What is to be done.
    pub item: Item,
    /// 1 for the first try on any place.
    pub attempt: u32,
    /// The model's file on the board.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Files with the values of inputs on the board, by input.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// Plugin libraries on the board.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<PluginFile>,
    /// The conformance suite's program on the board; absent where none was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conform: Option<String>,
    /// How much is measured.
    #[serde(default)]
    pub effort: Effort,
    /// When it is measured.
    #[serde(default)]
    pub limits: Limits,
    /// Whether the inventory lists the board as emulated.
    #[serde(default)]
    pub emulated: bool,
    /// Whether the host reads [`Waiting`]; a runner that does not know it waits in silence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reports_waiting: bool,
}

/// A plugin library on a board.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct PluginFile {
    /// Name of the file, by which the runtime knows it for a plugin: `libpolychip_plugin_gpu.so`.
    pub name: String,
    /// Where its bytes lie on the board.
    pub path: String,
}

/// How much is measured of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Effort {
    /// Runs before the first that counts.
    pub warmup: u32,
    /// Runs that count, of a benchmark.
    pub iters: u32,
    /// Longest time of a profile, and the time of a soak, in seconds.
    pub seconds: u32,
    /// An item that takes longer, in seconds, is ended as failed.
    pub time_limit_s: u32,
}

impl Default for Effort {
    fn default() -> Self {
        Effort {
            warmup: 5,
            iters: 50,
            seconds: 60,
            time_limit_s: 1800,
        }
    }
}

/// What a runner prints when it begins to wait for its board, if the item asks for it ([`Assignment::reports_waiting`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The item that waits.
    pub item: Item,
    /// Why the board may not be measured on.
    pub waiting: String,
}

/// What must hold before something is measured. A limit whose sensor is not there does not bind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Lowest start temperature, in millidegrees Celsius: a colder board is warmed by nothing, and the item skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coldest_mc: Option<i64>,
    /// Highest start temperature, in millidegrees Celsius: the runner waits until the hottest sensor is below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hottest_mc: Option<i64>,
    /// Longest wait for a board to cool down, to be throttled no more and to be left alone by others, in seconds.
    pub patience_s: u32,
    /// Highest share of the processors that other programs may use, in thousandths.
    pub load_by_others_millis: u32,
    /// Measure on a throttled board all the same.
    pub throttled: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            coldest_mc: None,
            hottest_mc: None,
            patience_s: 600,
            load_by_others_millis: 100,
            throttled: false,
        }
    }
}
