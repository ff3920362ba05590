//! Expected costs of parts: the vendor's compiler's cycles if it has seen the node, else a
//! roofline.
//!
//! The compiler counts cycles for products and convolutions, and bytes for all layers. The estimate
//! is cycles at the chip's clock and bytes at its memory's rate, times the calibration factor of
//! boards (`chip`). Nothing here was measured, and the host reports so beside each figure. Compiler
//! results are stored in the host's store, per node and per part, keyed by content.
//!
//! Not here: spans of runs (`polychip_sdk::Run`; the chip's own time is the runtime's). The runtime
//! has no sensors.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use polychip_lowering::vendor_compiler::{self, Hash};
use polychip_sdk::onnx::{self, Options, Weights};
use polychip_sdk::{Cost, ErrorKind, GraphView, LogLevel, NodeView, Result};

use crate::caps;
use crate::shared::Shared;
use crate::toolkit::READ;
use crate::toolkit::table::Row;

/// How far two nets were off the one number that was fitted to them, and then some.
const OF_TABLE_PERMILLE: u32 = 300;
/// A roofline forgets all but arithmetic and traffic.
const OF_ROOFLINE_PERMILLE: u32 = 700;
/// Bytes of a real on the chip.
const ELEMENT: u64 = 2;
/// A line of the store: hash in hex, blank, number.
const HEX: usize = 64;
/// The store holds the costs of this many nodes and parts; new ones are not kept beyond that.
const MOST_COSTS: usize = 100_000;

/// Identity of a node, independent of its position.
fn node_hash(graph: &GraphView<'_>, node: &NodeView<'_>) -> Result<Hash> {
    let options = Options {
        weights: Weights::Placeholder(1024),
        decompose: &vendor_compiler::decompose,
        ..Options::default()
    };
    let model = onnx::write_node(graph, node, &options)?;
    Ok(*blake3::hash(&model.bytes).as_bytes())
}

fn key(shared: &Shared) -> String {
    format!("costs {}", shared.made_by)
}

/// Does something with the costs that are kept.
fn with<T>(shared: &Shared, act: impl FnOnce(&mut BTreeMap<Hash, u64>) -> T) -> T {
    let mut costs = shared.costs.lock().unwrap_or_else(PoisonError::into_inner);
    let costs = costs.get_or_insert_with(|| {
        let stored = shared.host.store_read(&key(shared)).ok().flatten();
        parse(&stored.unwrap_or_default())
    });
    act(costs)
}

/// Keeps the compiler table's figures for a part and its nodes.
pub(crate) fn keep(shared: &Shared, graph: &GraphView<'_>, part: &Hash, rows: &[Row]) {
    let mut found: Vec<(Hash, u64)> = Vec::new();
    let mut whole = 0u64;
    for row in rows {
        let ns = match row.cycles {
            0 => shared.chip.work_ns(0, row.kilobytes.saturating_mul(1024)),
            cycles => shared.chip.cycles_ns(cycles),
        };
        whole = whole.saturating_add(ns);
        let node = row
            .node()
            .map(|node| node as usize)
            .filter(|&node| node < graph.node_count());
        if let Some(node) = node.filter(|_| ns > 0)
            && let Ok(hash) = node_hash(graph, &graph.node(node))
        {
            found.push((hash, ns));
        }
    }
    if whole == 0 {
        return;
    }
    found.push((*part, whole));
    let stored = with(shared, |costs| {
        let before = costs.len();
        let room = MOST_COSTS.saturating_sub(before);
        costs.extend(found.into_iter().take(room));
        (costs.len() != before).then(|| print(costs))
    });
    if let Some(stored) = stored
        && let Err(error) = shared.host.store_write(&key(shared), &stored)
        && error.kind() != ErrorKind::Unsupported
    {
        let words = format!("costs of the compiler's are not kept: {error}");
        shared.host.log(LogLevel::Warn, &words);
    }
}

/// Cost of the listed nodes as one part.
pub(crate) fn estimate(shared: &Shared, graph: &GraphView<'_>, nodes: &[u32]) -> Result<Cost> {
    let emulated = shared.driver.library().is_emulated();
    let cost = |ns: u64, error_permille: u32| Cost {
        time_ns: Some(ns),
        error_permille: Some(error_permille),
        emulated,
        ..Cost::default()
    };
    if nodes.len() > 1
        && nodes.len() == graph.node_count()
        && let Ok(part) = vendor_compiler::hash(graph, READ)
        && let Some(ns) = with(shared, |costs| costs.get(&part).copied())
    {
        return Ok(cost(ns, OF_TABLE_PERMILLE));
    }
    let (mut sum, mut all_known) = (0u64, true);
    for &node in nodes {
        let node = graph.node(node as usize);
        caps::RULES.promised(graph, &node)?;
        let hash = node_hash(graph, &node)?;
        let known = with(shared, |costs| costs.get(&hash).copied());
        all_known &= known.is_some();
        sum = sum.saturating_add(known.unwrap_or_else(|| roofline(shared, graph, &node)));
    }
    let error = if all_known {
        OF_TABLE_PERMILLE
    } else {
        OF_ROOFLINE_PERMILLE
    };
    Ok(cost(sum, error))
}

fn roofline(shared: &Shared, graph: &GraphView<'_>, node: &NodeView<'_>) -> u64 {
    let work = vendor_compiler::work(graph, node, ELEMENT);
    // two products of bytes in the place of one of 16 bits
    let macs = if caps::is_quantised(graph, node) {
        work.macs / 2
    } else {
        work.macs
    };
    shared.chip.work_ns(macs, work.bytes)
}

fn print(costs: &BTreeMap<Hash, u64>) -> Vec<u8> {
    let line = |(hash, ns): (&Hash, &u64)| format!("{} {ns}\n", blake3::Hash::from_bytes(*hash).to_hex());
    costs.iter().map(line).collect::<String>().into_bytes()
}

/// Costs of lines that are understood; others are forgotten.
fn parse(bytes: &[u8]) -> BTreeMap<Hash, u64> {
    let line = |line: &[u8]| {
        let (hash, rest) = line.split_at_checked(HEX)?;
        let hash = blake3::Hash::from_hex(hash).ok()?;
        let ns = std::str::from_utf8(rest).ok()?.trim().parse().ok()?;
        Some((*hash.as_bytes(), ns))
    };
    let lines = bytes.split(|&byte| byte == b'\n').filter_map(line);
    lines.take(MOST_COSTS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_stored_as_lines_and_torn_lines_dropped() {
        let costs: BTreeMap<Hash, u64> = [(*blake3::hash(b"a").as_bytes(), 7), ([9; 32], u64::MAX)].into();
        let mut bytes = print(&costs);
        assert_eq!(parse(&bytes), costs);
        bytes.extend(b"0badc0de 1\nrubbish\n\xff\xff\n");
        bytes.extend(format!("{} -1\n", "0".repeat(64)).bytes());
        assert_eq!(parse(&bytes), costs);
    }
}
