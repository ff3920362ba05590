//! Estimates of plugins that cannot be true are not used.
//!
//! Invariants:
//! 1. A node whose estimate is refused has the cost of the device's rates, as without an estimate.
//! 2. Each call that refuses estimates warns once, with a node, its value and the limit.

use polychip_graph::Graph;
use polychip_host::{Cost, Device};
use polychip_profile::work;

/// Longest believable time of one node or launch, in nanoseconds: an hour.
const MOST_NS: u64 = 3_600_000_000_000;
/// Most believable energy of one node, in microjoules: a megajoule.
const MOST_UJ: u64 = 1_000_000_000_000;
/// Most believable power of a device, in milliwatts: a megawatt.
const MOST_MW: u64 = 1_000_000_000;

/// Bytes that no device moves in less than a nanosecond.
const LARGE_BYTES: u64 = 1 << 20;

/// Removes the estimates that cannot be true. `offered` holds the node of each estimate.
pub(super) fn check(graph: &Graph, device: &Device, offered: &[u32], estimates: &mut [Option<Cost>]) {
    let works: Vec<u64> = graph
        .nodes()
        .map(|(_, node)| work::of_node(graph, node).bytes)
        .collect();
    let moved = offered.iter().filter_map(|place| works.get(*place as usize));
    let is_large = moved.fold(0u64, |sum, bytes| sum.saturating_add(*bytes)) >= LARGE_BYTES;
    let Some(refused) = refuse(estimates, is_large) else {
        return;
    };
    let Refused { at, count, words } = refused;
    let node = offered
        .get(at)
        .and_then(|place| graph.nodes().nth(*place as usize))
        .map_or_else(String::new, |(_, node)| graph.describe(node));
    tracing::warn!(
        "{}: plugin {} estimates {words}, for node {node}; {count} estimate{} of it {} not used, and costs are \
         computed from the device's rates",
        device.name(),
        device.plugin().name,
        if count == 1 { "" } else { "s" },
        if count == 1 { "is" } else { "are" },
    );
}

/// Estimates that were refused.
#[derive(Debug, PartialEq, Eq)]
struct Refused {
    /// The first one.
    at: usize,
    count: usize,
    /// What is wrong with it.
    words: String,
}

/// `is_large`: the nodes move so much that they take time on any device.
fn refuse(estimates: &mut [Option<Cost>], is_large: bool) -> Option<Refused> {
    let mut first: Option<(usize, String)> = None;
    let mut count = 0;
    for (at, estimate) in estimates.iter_mut().enumerate() {
        if let Some(words) = estimate.as_ref().and_then(impossible) {
            *estimate = None;
            count += 1;
            first.get_or_insert((at, words));
        }
    }
    let times = || estimates.iter().flatten().filter_map(|cost| cost.time_ns);
    // a reshaped tensor may take no time, but not everything does
    if is_large && first.is_none() && times().count() > 1 && times().all(|time| time == 0) {
        count = estimates
            .iter()
            .flatten()
            .filter(|cost| cost.time_ns.is_some())
            .count();
        let at = estimates.iter().position(Option::is_some).unwrap_or(0);
        first = Some((at, format!("a time of 0 ns for each of {count} nodes")));
        estimates.fill(None);
    }
    let (at, words) = first?;
    Some(Refused { at, count, words })
}

/// Why an estimate cannot be true.
fn impossible(cost: &Cost) -> Option<String> {
    let figures = [
        ("a time", "ns", cost.time_ns, MOST_NS, "1 h"),
        ("a launch", "ns", cost.launch_ns, MOST_NS, "1 h"),
        ("an energy", "µJ", cost.energy_uj, MOST_UJ, "1 MJ"),
        ("a power", "mW", cost.power_mw, MOST_MW, "1 MW"),
    ];
    figures.into_iter().find_map(|(what, unit, value, most, limit)| {
        let value = value.filter(|value| *value > most)?;
        Some(format!(
            "{what} of {value} {unit}, above the limit of {limit}{}",
            hint(value)
        ))
    })
}

/// What a careless conversion of a floating-point number looks like.
fn hint(value: u64) -> String {
    if value == u64::MAX {
        return " (the largest number: an overflow?)".to_owned();
    }
    if f64::from_bits(value).is_nan() && value >> 52 == 0x7FF {
        return " (the bits of a NaN)".to_owned();
    }
    match value.cast_signed() {
        negative if negative < 0 => format!(" ({negative} as a signed number)"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(ns: u64) -> Option<Cost> {
        Some(Cost {
            time_ns: Some(ns),
            ..Cost::default()
        })
    }

    #[test]
    fn impossible_estimates_are_removed_and_named() {
        for (value, words) in [
            (u64::MAX, "overflow"),
            ((-5i64).cast_unsigned(), "-5 as a signed number"),
            (f64::NAN.to_bits(), "the bits of a NaN"),
            (MOST_NS + 1, "above the limit of 1 h"),
        ] {
            let mut estimates = [time(1000), None, time(value), time(value)];
            let refused = refuse(&mut estimates, false).unwrap();
            assert_eq!((refused.at, refused.count), (2, 2));
            assert!(refused.words.contains(words), "{}", refused.words);
            assert_eq!(estimates, [time(1000), None, None, None]);
        }
        let mut zeros = [time(0), time(0)];
        assert_eq!(refuse(&mut zeros, false), None);
        assert!(
            refuse(&mut zeros, true)
                .unwrap()
                .words
                .contains("0 ns for each of 2 nodes")
        );
        assert_eq!(zeros, [None, None]);
        let mut right = [time(0), time(5), None];
        assert_eq!(refuse(&mut right, true), None);
        assert_eq!(right, [time(0), time(5), None]);
    }
}
