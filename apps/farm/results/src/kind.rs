//! Board types: the scope of a figure.

use std::collections::BTreeMap;
use std::fmt;

use polychip_farm_record::Record;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A board type: boards of one kind are expected to take the same time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Kind {
    /// The inventory's tag `kind`, else its tag `soc`, else the SoC as the board reports it; where it does not, the
    /// board's name, else its CPU's, else its instruction set.
    pub name: String,
    /// The board is emulated or simulated: times say nothing of a chip.
    pub emulated: bool,
}

/// The kinds of the boards that some records are of. What a driver records of a board that it does not reach says nothing of
/// the board: it counts to the kind that the place had otherwise.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kinds(BTreeMap<String, Kind>);

impl Kinds {
    /// The kinds that these records tell.
    pub(crate) fn of<'a>(records: impl Iterator<Item = &'a Record>) -> Kinds {
        let told = records.filter_map(|record| Some((record.place.name.clone(), Kind::told(record)?)));
        Kinds(told.collect())
    }

    /// The board type that a record is of; where nothing tells it, the place is one of its own.
    pub(crate) fn kind(&self, record: &Record) -> Kind {
        let known = || self.0.get(&record.place.name).cloned();
        Kind::told(record).or_else(known).unwrap_or_else(|| Kind {
            name: tagged(record).unwrap_or(&record.place.name).to_owned(),
            emulated: record.board.emulated,
        })
    }
}

/// The kind that the inventory names: who keeps the boards knows better than a virtual machine or a board whose SoC
/// gives no name.
fn tagged(record: &Record) -> Option<&str> {
    let value = |key: &str| {
        let mut tags = record.place.tags.iter();
        tags.find_map(|tag| tag.strip_prefix(key)?.strip_prefix('='))
    };
    let names = [value("kind"), value("soc")];
    names
        .into_iter()
        .flatten()
        .map(str::trim)
        .find(|name| !name.is_empty())
}

impl Kind {
    /// The board type that a record was made on, where the board said anything.
    fn told(record: &Record) -> Option<Kind> {
        let board = &record.board;
        let names = [&board.soc, &board.model, &board.cpu].into_iter().flatten();
        let mut names = names.chain([&board.arch]).map(|name| name.trim());
        let name = names.find(|name| !name.is_empty())?;
        Some(Kind {
            name: tagged(record).unwrap_or(name).to_owned(),
            emulated: board.emulated || record.place.transport == "simulated",
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.emulated {
            f.write_str(" (emulated)")?;
        }
        Ok(())
    }
}
