//! The differences between plans as text.
//!
//! Invariants: every figure has its unit; figures of emulated devices are labelled; the headline is
//! the same everywhere (`PlanDiff::headline`).

use super::{Because, Compared, Figures, NodeName, PartName, PlanDiff, Source, Sources};
use crate::cost::{Cost, Provenance};
use crate::plan::label;
use crate::report::count;
use crate::unit::Energy;
use std::fmt::{self, Write as _};

/// Maximum number of listed nodes or parts.
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

impl Because {
    /// The reason as text, with product names of devices.
    #[must_use]
    pub fn words(&self, diff: &PlanDiff) -> String {
        let called = |device: &str| diff.label(device);
        match self {
            Self::Pins { before, after } => match (before, after) {
                (_, Some(to)) => format!("pinned to {}", called(to)),
                (Some(from), None) => format!("no longer pinned to {}", called(from)),
                (None, None) => "pins changed".to_owned(),
            },
            Self::Objective => "the objective changed".to_owned(),
            Self::DeviceRemoved { device } => format!("{} is no longer available", called(device)),
            Self::DeviceAdded { device } => format!("{} is newly available", called(device)),
            Self::SupportLost { device, words } => {
                format!("{} no longer supports it: {words}", called(device))
            }
            Self::SupportGained { device, words } => {
                format!("{} now supports it; before: {words}", called(device))
            }
            Self::Cost {
                device,
                before,
                after,
            } => format!("on {} {} → {}", called(device), cost(before), cost(after)),
            Self::Neighbours => "transfers, launches or nodes around it changed, it did not".to_owned(),
            Self::Unrecorded => "a plan does not record what devices offered".to_owned(),
        }
    }
}

impl PlanDiff {
    /// A device's label for people, from either plan.
    #[must_use]
    pub fn label(&self, device: &str) -> String {
        label(device, self.device_names.get(device).map(String::as_str))
    }

    /// The changes in one sentence: different provenance of costs if any, then comparable figures,
    /// then the number of moved nodes.
    #[must_use]
    pub fn headline(&self) -> String {
        let Sources {
            before,
            after,
            differ,
            compared,
        } = &self.sources;
        let moved = format!(
            "{} of {} moved",
            self.moved.len(),
            count(self.nodes as usize, "node")
        );
        match compared {
            Some(found) if !differ => {
                let from = format!(" ({})", self.label_of(found.after.provenance));
                format!("{moved}; {}", self.change(found, &from))
            }
            Some(found) => {
                let better = self.label_of(found.before.provenance.max(found.after.provenance));
                format!(
                    "the costs come from different sources, {} and {}; both plans by the better of them \
                     ({better}): {}; {moved}",
                    self.source("before", before),
                    self.source("now", after),
                    self.change(found, "")
                )
            }
            None => format!(
                "the costs come from different sources, {} and {}; nothing known of both plans is from one \
                 source, so their {} is not compared; {moved}",
                self.source("before", before),
                self.source("now", after),
                self.quantity
            ),
        }
    }

    /// Where the costs of a plan come from, with how many nodes where not all of them do.
    fn source(&self, when: &str, source: &Source) -> String {
        let some = if source.nodes == source.of {
            String::new()
        } else {
            format!(" for {} of {}", source.nodes, count(source.of as usize, "node"))
        };
        format!("{} {when}{some}", source.own.provenance.word())
    }

    fn label_of(&self, provenance: Provenance) -> String {
        let emulated = if self.before.emulated || self.after.emulated {
            ", emulated"
        } else {
            ""
        };
        format!("{}{emulated}", provenance.word())
    }

    /// What plans are compared by, before and now, `from` where, and the change of it.
    fn change(&self, found: &Compared, from: &str) -> String {
        let energy = |figures: &Figures| unknown(figures.energy);
        let time = format!("{} → {}", found.before.time, found.after.time);
        let energies = format!("{} → {}", energy(&found.before), energy(&found.after));
        let figures = match self.quantity.as_str() {
            "energy" => format!("predicted energy {energies}"),
            "time and energy" => format!("predicted time {time}, energy {energies}"),
            quantity => format!("predicted {quantity} {time}"),
        };
        match self.dearer_ppm {
            Some(ppm) => format!("{figures}{from}, {}", percent(ppm)),
            None => format!("{figures}{from}, change unknown"),
        }
    }
}

fn unknown(energy: Option<Energy>) -> String {
    energy.map_or_else(|| "unknown".to_owned(), |energy| energy.to_string())
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
        writeln!(out, "{}", self.headline())?;
        if !self.same_model {
            writeln!(
                out,
                "the model changed: {} added, {} removed",
                count(self.added.len(), "node"),
                self.removed.len()
            )?;
        }
        if let Some((before, after)) = &self.objective {
            writeln!(out, "objective: {before} → {after}")?;
        }
        for (devices, sign) in [(&self.devices_removed, '-'), (&self.devices_added, '+')] {
            for device in devices {
                writeln!(out, "device {sign} {}", self.label(device))?;
            }
        }
        for (device, before, after) in &self.devices_renamed {
            writeln!(out, "device {device} was {before}, is {after}")?;
        }
        let (before, after) = (&self.sources.before.own, &self.sources.after.own);
        let origin = |figures: &Figures| self.label_of(figures.provenance);
        writeln!(
            out,
            "predicted time: {} ({}) → {} ({})",
            before.time,
            origin(before),
            after.time,
            origin(after)
        )?;
        writeln!(
            out,
            "predicted energy: {} → {}",
            unknown(before.energy),
            unknown(after.energy)
        )?;
        list(&mut out, &self.moved, |node| {
            let reasons: Vec<String> = node.because.iter().map(|because| because.words(self)).collect();
            format!(
                "  {}: {} → {}: {}",
                name(node.node, &node.name, &node.op),
                self.label(&node.from),
                self.label(&node.to),
                reasons.join("; ")
            )
        });
        for (nodes, sign) in [(&self.removed, '-'), (&self.added, '+')] {
            list(&mut out, nodes, |node: &NodeName| {
                format!(
                    "  {sign} {} on {}",
                    name(node.node, &node.name, &node.op),
                    self.label(&node.device)
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
                format!(
                    "  {sign} {} {}, {}",
                    part.id,
                    self.label(&part.device),
                    count(part.nodes as usize, "node")
                )
            });
        }
        f.write_str(&out)
    }
}
