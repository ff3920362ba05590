//! What `farm run --dry-run` shows: items, files to send, and an estimate of the time.

use std::collections::BTreeMap;
use std::fmt;

use polychip_farm::Equipped;
use polychip_farm_record::{Effort, RunHeader};
use polychip_farm_results::Earlier;
use schemars::JsonSchema;
use serde::Serialize;

use super::models::Models;
use super::nightly::estimate;

/// Output of `farm run --dry-run --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DryRun {
    /// Items that would be measured, each with the boards that may do it.
    items: Vec<DryItem>,
    /// Items that need not be measured again.
    unchanged: u64,
    /// Bytes of all files that a board may need, by board; what it already has is not sent again.
    bytes_by_board: BTreeMap<String, u64>,
    /// Longest wait before each item until its board is ready, in seconds; not part of `estimated_s`.
    longest_wait_s: u32,
    /// About how long the items take, in seconds, without those in `unknown`.
    estimated_s: u64,
    /// Items whose time is not known: no given run measured them.
    unknown: usize,
}

/// An item that would be measured.
#[derive(Debug, Serialize, JsonSchema)]
struct DryItem {
    /// What would be done.
    item: String,
    /// Boards, any of which may do it.
    boards: Vec<String>,
}

impl DryRun {
    pub(super) fn of(
        header: &RunHeader,
        boards: &[Equipped],
        models: &Models,
        earlier: &Earlier,
        effort: &Effort,
    ) -> DryRun {
        let mut bytes_by_board = BTreeMap::new();
        for board in boards {
            let name = &board.member.place.name;
            let mut needed: BTreeMap<&str, u64> = BTreeMap::new();
            for blob in [&board.runner]
                .into_iter()
                .chain(&board.plugins)
                .chain(&board.conform)
            {
                needed.insert(&blob.blake3, blob.bytes);
            }
            for wanted in header.items.iter().filter(|wanted| wanted.places.contains(name)) {
                let model = wanted.item.model.iter().map(|model| &model.blake3);
                let inputs = wanted.item.settings.inputs.iter().map(|file| &file.blake3);
                for blob in model.chain(inputs).filter_map(|blake3| models.files.get(blake3)) {
                    needed.insert(&blob.blake3, blob.bytes);
                }
            }
            bytes_by_board.insert(name.clone(), needed.values().sum());
        }
        let (estimated, unknown) = estimate(earlier, &header.items, effort);
        let items = header.items.iter().map(|wanted| DryItem {
            item: wanted.item.to_string(),
            boards: wanted.places.clone(),
        });
        DryRun {
            items: items.collect(),
            unchanged: header.unchanged.len() as u64,
            bytes_by_board,
            longest_wait_s: boards
                .iter()
                .map(|board| board.member.limits.patience_s)
                .max()
                .unwrap_or(0),
            estimated_s: estimated.as_secs(),
            unknown,
        }
    }
}

impl fmt::Display for DryRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for one in &self.items {
            writeln!(f, "{} on {}", one.item, one.boards.join(" or "))?;
        }
        for (board, bytes) in &self.bytes_by_board {
            let size = polychip_partitioner::report::size(*bytes);
            writeln!(f, "board {board} needs files of {size}, less what it has")?;
        }
        let minutes = self.estimated_s.div_ceil(60);
        write!(
            f,
            "{}, {} unchanged; about {minutes} min",
            polychip_partitioner::report::count(self.items.len(), "item"),
            self.unchanged
        )?;
        match self.unknown {
            0 => {}
            1 => f.write_str(" and the time of one item that no run of --unchanged-since measured")?,
            unknown => write!(
                f,
                " and the time of {unknown} items that no run of --unchanged-since measured"
            )?,
        }
        if self.longest_wait_s > 0 && !self.items.is_empty() {
            write!(
                f,
                "; a board that is not ready is waited for before each item, at most {} s",
                self.longest_wait_s
            )?;
        }
        Ok(())
    }
}
