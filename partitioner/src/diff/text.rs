//! A difference of plans for people.
//!
//! Invariants: every figure has its unit; figures of emulated devices say so.

use super::{Because, NodeName, PartName, PlanDiff};
use crate::cost::Cost;
use crate::plan::Totals;
use std::fmt::{self, Write as _};

/// So many nodes or parts of a list are written out.
const SHOWN: usize = 200;

/// Millionths as per cent, with a sign.
pub(super) fn percent(ppm: i64) -> String {
    let sign = if ppm < 0 { '-' } else { '+' };
    let size = ppm.unsigned_abs();
    format!("{sign}{}.{:02} %", size / 10_000, size % 10_000 / 100)
}

fn cost(cost: &Cost) -> String {
    let emulated = if cost.emulated { ", emulated" } else { "" };
    match cost.energy {
        Some(energy) => format!("{}, {energy} ({}{emulated})", cost.time, cost.provenance.word()),
        None => format!("{} ({}{emulated})", cost.time, cost.provenance.word()),
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pins { before, after } => match (before, after) {
                (_, Some(to)) => write!(f, "pinned to {to}"),
                (Some(from), None) => write!(f, "no longer pinned to {from}"),
                (None, None) => f.write_str("pins changed"),
            },
            Self::Objective => f.write_str("the objective changed"),
            Self::DeviceRemoved { device } => write!(f, "{device} is not among the devices any more"),
            Self::DeviceAdded { device } => write!(f, "{device} is new among the devices"),
            Self::SupportLost { device, words } => write!(f, "{device} does not take it any more: {words}"),
            Self::SupportGained { device, words } => write!(f, "{device} takes it now, before: {words}"),
            Self::Cost {
                device,
                before,
                after,
            } => write!(f, "on {device} {} → {}", cost(before), cost(after)),
            Self::Neighbours => f.write_str("transfers, launches or nodes around it changed, it did not"),
            Self::Unrecorded => f.write_str("a plan does not record what devices offered"),
        }
    }
}

/// The name of a node, or its number where it has none.
fn name(node: u32, name: &str, op: &str) -> String {
    match (name, op) {
        ("", "") => format!("node {node}"),
        ("", op) => format!("node {node} ({op})"),
        (name, op) => format!("{name} ({op})"),
    }
}

fn list<T>(out: &mut String, items: &[T], line: impl Fn(&T) -> String) {
    for item in items.iter().take(SHOWN) {
        out.push_str(&line(item));
        out.push('\n');
    }
    if items.len() > SHOWN {
        let _ = writeln!(out, "  and {} more", items.len() - SHOWN);
    }
}

impl fmt::Display for PlanDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        writeln!(out, "{} of {} nodes moved", self.moved.len(), self.nodes)?;
        if !self.same_model {
            writeln!(
                out,
                "the model changed: {} nodes added, {} removed",
                self.added.len(),
                self.removed.len()
            )?;
        }
        if let Some((before, after)) = &self.objective {
            writeln!(out, "objective: {before} → {after}")?;
        }
        for (devices, sign) in [(&self.devices_removed, '-'), (&self.devices_added, '+')] {
            for device in devices {
                writeln!(out, "device {sign} {device}")?;
            }
        }
        let energy = |totals: &Totals| {
            totals
                .energy
                .map_or_else(|| "unknown".to_owned(), |energy| energy.to_string())
        };
        let emulated = match self.before.emulated || self.after.emulated {
            true => ", emulated",
            false => "",
        };
        writeln!(
            out,
            "predicted time: {} → {}{emulated}\npredicted energy: {} → {}{emulated}",
            self.before.time,
            self.after.time,
            energy(&self.before),
            energy(&self.after)
        )?;
        match self.dearer_ppm {
            Some(ppm) => writeln!(out, "objective: {}", percent(ppm))?,
            None => writeln!(out, "objective: change unknown")?,
        }
        list(&mut out, &self.moved, |node| {
            let reasons: Vec<String> = node.because.iter().map(ToString::to_string).collect();
            format!(
                "  {}: {} → {}: {}",
                name(node.node, &node.name, &node.op),
                node.from,
                node.to,
                reasons.join("; ")
            )
        });
        for (nodes, sign) in [(&self.removed, '-'), (&self.added, '+')] {
            list(&mut out, nodes, |node: &NodeName| {
                format!(
                    "  {sign} {} on {}",
                    name(node.node, &node.name, &node.op),
                    node.device
                )
            });
        }
        writeln!(
            out,
            "parts: {} kept, {} removed, {} added",
            self.parts_kept,
            self.parts_removed.len(),
            self.parts_added.len()
        )?;
        for (parts, sign) in [(&self.parts_removed, '-'), (&self.parts_added, '+')] {
            list(&mut out, parts, |part: &PartName| {
                format!("  {sign} {} {}, {} nodes", part.id, part.device, part.nodes)
            });
        }
        f.write_str(&out)
    }
}
