//! The contents of a farm run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Board, Build, InventoryEntry, Item, Outcome, State};

/// Version of the form. A reader refuses a higher one by name; new optional fields do not raise it.
pub const FORMAT: u32 = 1;

/// One item, done once, on one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Version of the form ([`FORMAT`]).
    pub format: u32,
    /// The run that it belongs to ([`RunHeader::id`]).
    pub run: String,
    /// What was done.
    pub item: Item,
    /// Where.
    pub place: InventoryEntry,
    /// The board's description of itself.
    pub board: Board,
    /// With what.
    pub build: Build,
    /// 1 for the first try on any place.
    pub attempt: u32,
    /// When it began: seconds since 1970 in UTC, by the host's clock.
    pub started_s: u64,
    /// How long it took with its preparation, in milliseconds.
    pub took_ms: u64,
    /// State of the board before.
    pub before: State,
    /// State of the board after.
    pub after: State,
    /// How it ended.
    pub outcome: Outcome,
}

/// What was asked of a farm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunHeader {
    /// Version of the form ([`FORMAT`]).
    pub format: u32,
    /// Name of the run: unique among those that are compared.
    pub id: String,
    /// When it began: seconds since 1970 in UTC.
    pub started_s: u64,
    /// Commit under test, if the driver was given one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Places that were to take part.
    pub places: Vec<InventoryEntry>,
    /// Items that were to be done, each with the names of the places that may do it.
    pub items: Vec<Wanted>,
    /// Items that were not measured again, because nothing that they depend on has changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchanged: Vec<Unchanged>,
    /// Programs and libraries that were sent to each place, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub equipment: BTreeMap<String, Equipment>,
}

/// An item that an earlier run measured with the same programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unchanged {
    /// The item, and the places that may do it.
    #[serde(flatten)]
    pub wanted: Wanted,
    /// The run that measured it.
    pub run: String,
}

/// What is sent to a place beside models: with all of it the same, an item need not be measured again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Equipment {
    /// BLAKE3 of the runner.
    pub runner: String,
    /// BLAKE3 of the conformance suite; absent where none was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conform: Option<String>,
    /// BLAKE3 of the plugin libraries, by the name of their files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub plugins: BTreeMap<String, String>,
    /// Names of the variables of the runner's environment, sorted; their values may be secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
}

/// An item with the places that may do it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Wanted {
    /// What is to be done.
    pub item: Item,
    /// Names of the places, any one of which may do it.
    pub places: Vec<String>,
}
