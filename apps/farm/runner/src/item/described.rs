//! A session's plan and its refusals.

use std::collections::BTreeMap;

use polychip::{Model, Policy, Runtime, Session};
use polychip_farm_record::{Measured, PlannedPart, RefusedOps};

/// Everything of a measurement that the session and its devices say of themselves.
pub(super) fn of(
    runtime: &Runtime,
    model: &Model,
    policy: &Policy,
    session: &Session,
) -> anyhow::Result<Measured> {
    let report = session.report();
    let plan = report.parts.iter().map(|part| PlannedPart {
        id: part.id.clone(),
        device: part.device.clone(),
        nodes: part.nodes as u64,
        ns: part.measured_ns.unwrap_or(part.predicted_ns),
        provenance: match part.measured_ns {
            Some(_) => "measured".to_owned(),
            None => part.provenance.to_owned(),
        },
    });
    Ok(Measured {
        plan: plan.collect(),
        predicted_ns: Some(report.predicted_ns),
        refused: refused(runtime, model, policy)?,
        emulated: report.emulated,
        peak_bytes: peak_bytes(),
        ..Measured::default()
    })
}

/// What each device refuses of the model, by op and reason.
fn refused(runtime: &Runtime, model: &Model, policy: &Policy) -> anyhow::Result<Vec<RefusedOps>> {
    let support = runtime.support(model, policy)?;
    let labels: Vec<String> = support.graph().nodes().map(|(_, node)| node.label()).collect();
    let mut found = Vec::new();
    for target in support.targets() {
        let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (label, refusal) in labels.iter().zip(&target.refusals) {
            if let Some(refusal) = refusal {
                *counts.entry((label, &refusal.words)).or_default() += 1;
            }
        }
        found.extend(counts.into_iter().map(|((op, reason), nodes)| RefusedOps {
            device: target.name.clone(),
            op: op.to_owned(),
            nodes,
            reason: reason.to_owned(),
        }));
    }
    Ok(found)
}

/// Most memory that this process ever had resident: "VmHWM" of Linux.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}
